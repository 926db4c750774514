"""Catalyst's logical plans and expressions: parsing, transforming, and turning them into DataFrames and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

from unshuffle.frozen import dataclass
from unshuffle.spark.shims.gateway import (
    java_class,
    java_session,
    scala_map,
    scala_object,
    sequence,
)
from unshuffle.spark.shims.plan_tree import FoundNode, JavaNode

_CATALYST = "org.apache.spark.sql.catalyst"
_LOGICAL = f"{_CATALYST}.plans.logical"
_EXPRESSION_UTILS = "org.apache.spark.sql.classic.ExpressionUtils"

Replacements = Iterable[tuple[Any, Any]]  # pairs of what is replaced and its replacement

# ------------------------------------------------------------------------------------------------------------- parsing


def parse_plan(spark: SparkSession, text: str) -> Any:
    return _parser(spark).parsePlan(text)


def parse_expression(spark: SparkSession, text: str) -> Any:
    return _parser(spark).parseExpression(text)


def _parser(spark: SparkSession) -> Any:
    return java_session(spark).sessionState().sqlParser()


# ---------------------------------------------------------------------------------------------------------- DataFrames


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """A DataFrame of one of Catalyst's logical plans."""
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(java_session(spark), plan), spark)


def query_execution(frame: DataFrame) -> Any:
    """A DataFrame's plans, from the analyzed to the executed one."""
    return frame._jdf.queryExecution()


def analyzed_plan(frame: DataFrame) -> Any:
    return query_execution(frame).analyzed()


# --------------------------------------------------------------------------------------------------------------- plans


def bound_to(spark: SparkSession, relation: Any) -> Any:
    """A relation as one of this session: a scan of files takes its settings, such as the size of a piece, from the session
    that its relation was made in."""
    if relation.getClass().getSimpleName() != "LogicalRelation":
        return relation
    source, session = relation.relation(), java_session(spark)
    if source.getClass().getSimpleName() != "HadoopFsRelation" or source.sparkSession().equals(session):
        return relation
    fields = [source.productElement(i) for i in range(source.productArity())]
    others = [relation.productElement(i) for i in range(1, relation.productArity())]
    return relation.copy(source.copy(*fields, session), *others)


def replace_plan_expressions(spark: SparkSession, plan: Any, replacements: Replacements) -> Any:
    """The plan with some of its expressions replaced, those of its subqueries included."""
    return plan.transformAllExpressionsWithSubqueries(scala_map(spark, replacements))


def project(spark: SparkSession, attributes: Sequence[Any], plan: Any) -> Any:
    """A projection, which may list an attribute twice."""
    return java_class(spark, f"{_LOGICAL}.Project")(sequence(spark, attributes), plan)


def output_as_projection(spark: SparkSession, plan: Any) -> Any:
    """A projection to all attributes of a plan, over no table: one tree that holds them all."""
    return java_class(spark, f"{_LOGICAL}.Project")(plan.output(), _one_row(spark))


def with_children(spark: SparkSession, operator: Any, old: Any, new: Sequence[Any]) -> Any:
    """The operator over new children, with its expressions rewritten to their attributes, position by position."""
    pairs = []
    for position, child in enumerate(new):
        before, after = old.apply(position).output(), child.output()
        pairs += [(before.apply(i), after.apply(i)) for i in range(before.length())]
    attributes = scala_object(spark, f"{_CATALYST}.expressions.AttributeMap").apply(scala_map(spark, pairs))
    return operator.withNewChildren(sequence(spark, new)).rewriteAttrs(attributes)


def with_cached_data(spark: SparkSession, plan: Any) -> Any:
    """The plan over the data that the user has cached, as Spark itself would run it."""
    cache = java_session(spark).sharedState().cacheManager()
    if cache.isEmpty():
        return plan
    try:
        return cache.useCachedData(plan, getattr(cache, "useCachedData$default$2")())
    except Py4JError:  # before Spark 4.3
        return cache.useCachedData(plan)


def inline_ctes(spark: SparkSession, plan: Any) -> Any:
    """The plan with each common table expression copied to where it is used."""
    inline = java_class(spark, f"{_CATALYST}.optimizer.InlineCTE")
    try:
        return inline(True, False, False).apply(plan)
    except Py4JError:  # before Spark 4.3
        return inline(True, False).apply(plan)


# --------------------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class OpaqueCode:
    """The code of an `Opaque` expression: Catalyst's expression, and the parts of it that the arguments replace."""

    expression: JavaNode | FoundNode
    holes: tuple[JavaNode | FoundNode, ...]

    def over(self, spark: SparkSession, arguments: Sequence[Any]) -> Any:
        """Catalyst's expression with these arguments."""
        pairs = [(hole.jvm, argument) for hole, argument in zip(self.holes, arguments, strict=True)]
        return replace_expressions(spark, self.expression.jvm, pairs)


def replace_expressions(spark: SparkSession, expression: Any, replacements: Sequence[tuple[Any, Any]]) -> Any:
    """The expression with some of its parts replaced."""
    return expression.transform(scala_map(spark, replacements)) if replacements else expression


def column_of(spark: SparkSession, expression: Any) -> SparkColumn:
    """A PySpark column of one of Catalyst's expressions."""
    return ClassicColumn(java_class(spark, _EXPRESSION_UTILS).column(expression))


def expression_of(spark: SparkSession, column: SparkColumn) -> Any:
    return java_class(spark, _EXPRESSION_UTILS).expression(column._jc)


def python_function(spark: SparkSession, function: Any, arguments: Sequence[Any]) -> Any:
    """A call of one of PySpark's user-defined functions, as one of Catalyst's expressions."""
    call = function._unwrapped._judf.builder(sequence(spark, arguments))
    return call.toAggregateExpression() if call.getClass().getSimpleName() == "PythonUDAF" else call


def with_nullability(spark: SparkSession, column: SparkColumn, nullable: bool) -> SparkColumn:
    """The column, declared to be nullable, or to have no NULLs, whatever Spark would infer."""
    tag = java_class(spark, f"{_CATALYST}.expressions.{'KnownNullable' if nullable else 'KnownNotNull'}")
    return column_of(spark, tag(expression_of(spark, column)))


def sort_order(spark: SparkSession, expression: Any, descending: bool, nulls_first: bool) -> Any:
    expressions = f"{_CATALYST}.expressions"
    return java_class(spark, f"{expressions}.SortOrder")(
        expression,
        scala_object(spark, f"{expressions}.{'Descending' if descending else 'Ascending'}"),
        scala_object(spark, f"{expressions}.{'NullsFirst' if nulls_first else 'NullsLast'}"),
        sequence(spark, []),
    )


def keeps_objects(spark: SparkSession, function: Any) -> bool:
    """Is the state of an aggregate function an object, and not a few columns?"""
    typed = java_class(spark, "java.lang.Class").forName(f"{_CATALYST}.expressions.aggregate.TypedImperativeAggregate")
    return bool(typed.isInstance(function))


def constant_folded(spark: SparkSession, expression: Any) -> Any:
    """A constant expression after Spark's constant folding: a literal, if Spark can evaluate it now."""
    filter_ = java_class(spark, f"{_LOGICAL}.Filter")(expression, _one_row(spark))
    return scala_object(spark, f"{_CATALYST}.optimizer.ConstantFolding").apply(filter_).condition()


def _one_row(spark: SparkSession) -> Any:
    return java_class(spark, f"{_LOGICAL}.OneRowRelation")()
