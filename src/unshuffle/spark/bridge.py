"""Physical plans of our own inside Spark's: the internals that running a plan needs. (Reading DataFrames is catalyst's.)

One thing cannot be said with DataFrames: that an aggregate finds what it can in each partition, that its findings then go
where we choose, and that they are put together there. Spark plans an aggregate as two operators and decides on the exchange
between them when the plan is prepared. Here the two are taken from the plan before that (`sparkPlan`), our exchange is put
between them, and the whole stands in a logical plan as what adaptive execution calls a query stage: a leaf with a physical
plan of its own. Spark checks it as it does its own plans, and would add an exchange if one were missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.algebra.sql import quote
from unshuffle.errors import InternalError
from unshuffle.spark.columns import frame_of, java_class, jvm
from unshuffle.spark.session import temporarily


@dataclass(frozen=True, slots=True)
class SendToOne:
    """All rows into one partition."""


@dataclass(frozen=True, slots=True)
class SendByHash:
    columns: tuple[str, ...]
    partitions: int
    numbered: bool = False  # is the one column the number of the partition?


@dataclass(frozen=True, slots=True)
class SendByRange:
    """By ranges of some columns: name, descending, NULLs first."""

    keys: tuple[tuple[str, bool, bool], ...]
    partitions: int


Sending = SendToOne | SendByHash | SendByRange


def exchanged_between_halves(grouped: DataFrame, sending: Sending, fragments: Sequence[int] = ()) -> DataFrame:
    """A GROUP BY whose halves have this exchange between them. The columns that it sends by are grouping keys.

    Before that, what the first half finds is gathered in so many `fragments`, one after another, and combined in each."""
    spark = grouped.sparkSession
    execution = grouped._jdf.queryExecution()
    if _would_not_end(spark, execution.sparkPlan()):
        return grouped
    final, above = _aggregate_of(execution)
    partial = _only_child(final)
    if not partial.nodeName().endswith("Aggregate"):
        raise InternalError(f"Spark plans this aggregate in one step: {final.nodeName()} over {partial.nodeName()}")
    below = partial
    for number in fragments:
        below = _combined(spark, final, partial, _gathered(spark, below, number))
    plan = final.withNewChildren(sequence(spark, [_exchange(spark, below, sending)]))
    return _standing_in(spark, execution.optimizedPlan(), _under(spark, above, plan))


def grouped_where_they_lie(grouped: DataFrame) -> DataFrame:
    """A GROUP BY of each partition by itself: groups are there once for each partition that has rows of them."""
    spark = grouped.sparkSession
    execution = grouped._jdf.queryExecution()
    if _would_not_end(spark, execution.sparkPlan()):
        return grouped  # groups that are whole are as right
    final, above = _aggregate_of(execution)
    plan = _aggregate(spark, final, final.aggregateExpressions(), final.resultExpressions(), _only_child(final))
    return _standing_in(spark, execution.optimizedPlan(), _under(spark, above, plan))


def _aggregate_of(execution: Any) -> tuple[Any, list[Any]]:
    """The uppermost aggregate of a plan, and what stands above it."""
    found, above = execution.sparkPlan(), []
    while not found.nodeName().endswith("Aggregate"):
        above.append(found)
        found = _only_child(found)
    return found, above


def _under(spark: SparkSession, above: Sequence[Any], plan: Any) -> Any:
    for operator in reversed(above):
        plan = operator.withNewChildren(sequence(spark, [plan]))
    return plan


# The column with the number of the partition that a finding comes from.
FRAGMENT = "_fragment"


def _gathered(spark: SparkSession, plan: Any, fragments: int) -> Any:
    """Whole partitions in so many fragments: by the number of the partition, of which Spark takes the remainder. It is the
    first of the columns: Spark finds states by their place, counted from the end or from `initialInputBufferOffset`."""
    java = jvm(spark)
    catalyst, execution = java.org.apache.spark.sql.catalyst.expressions, java.org.apache.spark.sql.execution
    none, empty = singleton(java.scala, "None"), sequence(spark, [])
    identity = singleton(catalyst, "NamedExpression").newExprId()
    number = catalyst.Alias(catalyst.SparkPartitionID(), FRAGMENT, identity, empty, none, empty)
    output = plan.output()
    listed = [number, *(output.apply(i) for i in range(output.size()))]
    numbered = execution.ProjectExec(sequence(spark, listed), plan)
    return _exchange(spark, numbered, SendByHash((FRAGMENT,), fragments, numbered=True))


def _combined(spark: SparkSession, final: Any, partial: Any, below: Any) -> Any:
    """Findings of equal keys as one: the final half of an aggregate, but that it yields what it was given, states. Spark
    has this for aggregates of distinct values, and leaves its place in the plan to us."""
    java = jvm(spark)
    none = singleton(java.scala, "None")
    merging = singleton(java.org.apache.spark.sql.catalyst.expressions.aggregate, "PartialMerge")
    calls = final.aggregateExpressions()
    merged = [
        call.copy(call.aggregateFunction(), merging, call.isDistinct(), none, call.resultId())
        for call in (calls.apply(i) for i in range(calls.size()))
    ]
    after_fragment = 1
    return _aggregate(spark, final, sequence(spark, merged), partial.resultExpressions(), below, after_fragment)


def _aggregate(spark: SparkSession, final: Any, calls: Any, made: Any, below: Any, more_columns: int = 0) -> Any:
    """One like the final half of an aggregate, that requires no distribution of its input."""
    none = singleton(jvm(spark).scala, "None")
    results = [calls.apply(i).resultAttribute() for i in range(calls.size())]
    return java_class(spark, final.getClass().getName())(
        none,
        False,
        none,
        final.groupingExpressions(),
        calls,
        sequence(spark, results),
        final.initialInputBufferOffset() + more_columns,
        made,
        below,
    )


def planned(frame: DataFrame) -> DataFrame:
    """The same rows, by the physical plan that Spark has for them now: no optimization looks into it again."""
    execution = frame._jdf.queryExecution()
    if _would_not_end(frame.sparkSession, execution.sparkPlan()):
        return frame
    return _standing_in(frame.sparkSession, execution.optimizedPlan(), execution.sparkPlan())


def streamed(frame: DataFrame) -> DataFrame:
    """The same rows, with groups found one after another in sorted rows. Where states are objects of any width, Spark would
    keep groups in a hash table, and sort what is left when it has 128 of them, whatever order rows come in."""
    with temporarily(frame.sparkSession, **{"spark.sql.execution.useObjectHashAggregateExec": False}):
        return planned(frame)


def _would_not_end(spark: SparkSession, physical: Any) -> bool:
    """Adaptive execution plans a leaf of ours anew after each stage. It knows the stages of it again, but not a scan of
    cached data, nor anything where exchanges are not to be reused, and would wait for a new stage each time. Spark's own
    exchange is as right."""
    if spark.conf.get("spark.sql.adaptive.enabled") != "true":
        return False
    return spark.conf.get("spark.sql.exchange.reuse") != "true" or "InMemoryRelation" in physical.toString()


def _standing_in(spark: SparkSession, logical: Any, physical: Any) -> DataFrame:
    stage = java_class(spark, "org.apache.spark.sql.execution.adaptive.LogicalQueryStage")(logical, physical)
    frame = frame_of(spark, stage)
    # Spark renames the columns of an operator that stands in a plan twice, and knows how to do that of a projection.
    return frame.select(*(F.col(quote(name)).alias(name) for name in frame.columns))


def _exchange(spark: SparkSession, child: Any, sending: Sending) -> Any:
    sql = jvm(spark).org.apache.spark.sql
    physical, catalyst = sql.execution.exchange, sql.catalyst
    output = child.output()
    attributes = {output.apply(i).name(): output.apply(i) for i in range(output.size())}
    match sending:
        case SendToOne():
            partitioning = singleton(catalyst.plans.physical, "SinglePartition")
        case SendByHash((number,), partitions, numbered=True):
            number_of = catalyst.expressions.DirectShufflePartitionID(attributes[number])
            partitioning = catalyst.plans.physical.ShufflePartitionIdPassThrough(number_of, partitions)
        case SendByHash(columns, partitions):
            by = sequence(spark, [attributes[name] for name in columns])
            partitioning = catalyst.plans.physical.HashPartitioning(by, partitions)
        case SendByRange(keys, partitions):
            orders = [sort_order(spark, attributes[name], *direction) for name, *direction in keys]
            partitioning = catalyst.plans.physical.RangePartitioning(sequence(spark, orders), partitions)
    origin = singleton(physical, "REPARTITION_BY_NUM")
    rest = [singleton(jvm(spark).scala, "None"), False]
    return constructed(physical.ShuffleExchangeExec, [partitioning, child, origin], rest)


def sort_order(spark: SparkSession, expression: Any, descending: bool, nulls_first: bool) -> Any:
    expressions = jvm(spark).org.apache.spark.sql.catalyst.expressions
    return expressions.SortOrder(
        expression,
        singleton(expressions, "Descending" if descending else "Ascending"),
        singleton(expressions, "NullsFirst" if nulls_first else "NullsLast"),
        sequence(spark, []),
    )


def constructed(java_class: Any, given: Sequence[Any], rest: Sequence[Any]) -> Any:
    """A Spark class made with as many of its later arguments as this version has."""
    for count in range(len(rest), -1, -1):
        try:
            return java_class(*given, *rest[:count])
        except Exception as error:
            if "does not exist" not in str(error):
                raise
    raise InternalError(f"no constructor of {java_class._fqn} fits")


def _only_child(plan: Any) -> Any:
    children = plan.children()
    if children.size() != 1:
        raise InternalError(f"{plan.nodeName()} stands where an aggregate was expected")
    return children.apply(0)


def sequence(spark: SparkSession, items: Sequence[Any]) -> Any:
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(list(items))


def singleton(package: Any, name: str) -> Any:
    return getattr(getattr(package, name + "$"), "MODULE$")
