"""What a DataFrame brings along and we leave to Spark: relations that are no files, and operators that we do not
understand. The operators come back as DataFrames whose columns are named by `Column.spark_name`.

An operator is run over other inputs than it was made for. Its expressions name its old inputs' columns by Catalyst's
numbers, so they are rewritten to the new ones. To give the new columns the old numbers would be less work, and wrong:
one number would then mean two things in one plan, and Catalyst infers filters from what it believes of a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from unshuffle.algebra.logical import Foreign, Scan, TableScan
from unshuffle.algebra.sql import quote
from unshuffle.catalog.schema import Column
from unshuffle.spark.columns import frame_of, jvm, scala_map

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """What a `Foreign` operator keeps for us: Catalyst's operator, perhaps with others of its kind below it; where in that
    tree each input stands; and which columns of ours that input yields, in Catalyst's order."""

    operator: Any
    inputs: tuple[tuple[Path, tuple[Column, ...]], ...]


def table(spark: SparkSession, node: TableScan) -> DataFrame:
    """A table by its name, or the relation that a DataFrame was made from."""
    return spark.table(".".join(map(quote, node.name))) if node.relation is None else frame_of(spark, node.relation)


def scan(spark: SparkSession, node: Scan) -> DataFrame:
    """The files of a DataFrame as it reads them: its options, its schema, the files it found when it was made."""
    return frame_of(spark, node.files.relation)


def foreign(spark: SparkSession, node: Foreign, inputs: Sequence[DataFrame]) -> DataFrame:
    """An operator of a DataFrame over these inputs, which have at least the columns it was made for."""
    code: OperatorCode = node.operator
    given: dict[Path, Any] = {}
    for (path, columns), frame in zip(code.inputs, inputs, strict=True):
        given[path] = _input(spark, frame, columns)
    made = _rebuilt(spark, code.operator, (), given)
    return frame_of(spark, made).toDF(*(column.spark_name for column in node.columns))


def dressed(frame: DataFrame, original: DataFrame) -> DataFrame:
    """The frame with its columns named like those of another, and described like them: metadata belong to a schema and not
    to a plan."""
    fields = original.schema.fields
    numbered = frame.toDF(*(f"c{place}" for place in range(len(fields))))
    return numbered.select(
        *(
            col(f"c{place}").alias(each.name, metadata=each.metadata)
            if each.metadata
            else col(f"c{place}").alias(each.name)
            for place, each in enumerate(fields)
        )
    )


def _input(spark: SparkSession, frame: DataFrame, columns: Sequence[Column]) -> Any:
    """An operator's input: its columns in their order, under the names that a user's function knows them by."""
    once = list(dict.fromkeys(columns))
    chosen = frame.select(*(col(quote(column.spark_name)).alias(column.name) for column in once))
    plan = chosen._jdf.queryExecution().analyzed()
    if len(once) == len(columns):
        return plan
    # A column that was there twice must be one column twice: Spark finds a group's keys among its values that way.
    output = plan.output()
    listed = jvm(spark).PythonUtils.toSeq([output.apply(once.index(column)) for column in columns])
    return jvm(spark).org.apache.spark.sql.catalyst.plans.logical.Project(listed, plan)


def _rebuilt(spark: SparkSession, operator: Any, path: Path, given: dict[Path, Any]) -> Any:
    """The operator over what is given below it, reading the columns of that."""
    if path in given:
        return given[path]
    if not any(each[: len(path)] == path for each in given):
        return operator
    old = operator.children()
    new = [_rebuilt(spark, old.apply(place), (*path, place), given) for place in range(old.length())]
    pairs = []
    for place, child in enumerate(new):
        before, after = old.apply(place).output(), child.output()
        pairs += [(before.apply(i), after.apply(i)) for i in range(before.length())]
    catalyst = jvm(spark).org.apache.spark.sql.catalyst
    attributes = getattr(getattr(catalyst.expressions, "AttributeMap$"), "MODULE$").apply(scala_map(spark, pairs))
    children = jvm(spark).PythonUtils.toSeq(new)
    return operator.withNewChildren(children).rewriteAttrs(attributes)
