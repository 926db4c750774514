"""Parts of a DataFrame that Spark runs: relations that are not files, and foreign operators.

A foreign operator becomes a DataFrame whose columns are named by `Column.spark_name`. It runs over other inputs than it was
made for. Its expressions refer to the columns of its old inputs by Catalyst's ids, so they are rewritten to the new ones.
Giving the new columns the old ids would be simpler, and wrong: one id would mean two things in one plan, and Catalyst
infers filters from what it knows of an id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from unshuffle.catalog.schema import Column
from unshuffle.errors import InternalError
from unshuffle.frozen import dataclass
from unshuffle.plan.logical import Foreign, Scan, TableScan
from unshuffle.plan.sql import quote
from unshuffle.spark.shims.catalyst import (
    analyzed_plan,
    bound_to,
    frame_of,
    project,
    with_children,
    with_nullability,
)
from unshuffle.spark.shims.gateway import items_of
from unshuffle.spark.shims.java_plans import with_schema

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """The code of a `Foreign` operator: Catalyst's operator, perhaps over further foreign ones; and for each input its path
    in that tree and the columns it must provide, in Catalyst's order."""

    operator: Any
    inputs: tuple[tuple[Path, tuple[Column, ...]], ...]


def table(spark: SparkSession, node: TableScan) -> DataFrame:
    """A table by its name, or the relation that a DataFrame was made from."""
    if node.relation is None:
        return spark.table(".".join(map(quote, node.name)))
    return frame_of(spark, bound_to(spark, node.relation))


def scan(spark: SparkSession, node: Scan) -> DataFrame:
    """The files of a DataFrame, with its options and schema, and as listed when it was made."""
    return frame_of(spark, bound_to(spark, node.files.relation.jvm))


def foreign(spark: SparkSession, node: Foreign, inputs: Sequence[DataFrame]) -> DataFrame:
    """A foreign operator over these inputs, which have at least the columns it was made for."""
    code: OperatorCode = node.operator
    new_inputs: dict[Path, Any] = {}
    for (path, columns), frame in zip(code.inputs, inputs, strict=True):
        new_inputs[path] = _input(spark, frame, columns)
    plan = _rebuilt(spark, code.operator, (), new_inputs)
    return frame_of(spark, plan).toDF(*(column.spark_name for column in node.columns))


def with_schema_of(frame: DataFrame, original: DataFrame) -> DataFrame:
    """The frame with the schema of another: column names, nullability and metadata. A plan of ours may prove more about NULLs
    than Spark does, or less. Raises `OtherType` if the types differ, which can only be in the nullability inside them."""
    if frame.schema == original.schema:
        return frame
    if [each.dataType for each in frame.schema.fields] == [each.dataType for each in original.schema.fields]:
        return with_schema(frame, original.schema)
    fields = original.schema.fields
    numbered = frame.toDF(*(f"c{i}" for i in range(len(fields))))
    columns = []
    for ours, wanted in zip(numbered.schema.fields, fields, strict=True):
        column = col(ours.name)
        if ours.dataType != wanted.dataType and _bare(ours.dataType) == _bare(wanted.dataType):
            column = column.cast(wanted.dataType)  # the metadata of a field inside, such as that it was a CHAR(5)
        elif ours.dataType != wanted.dataType:
            if _is_empty(
                frame
            ):  # a relation of no rows has the types of its columns, but not the nullability inside them
                return frame.sparkSession.createDataFrame([], original.schema)
            raise OtherType(f"column {wanted.name!r} would be {ours.dataType.json()}, not {wanted.dataType.json()}")
        if ours.nullable != wanted.nullable:
            column = with_nullability(frame.sparkSession, column, wanted.nullable)
        columns.append(
            column.alias(wanted.name, metadata=wanted.metadata) if wanted.metadata else column.alias(wanted.name)
        )
    return numbered.select(*columns)


def _bare(type_: DataType) -> DataType:
    """The type without the metadata of its fields."""
    match type_:
        case StructType(fields=fields):
            return StructType([StructField(each.name, _bare(each.dataType), each.nullable) for each in fields])
        case ArrayType(elementType=element, containsNull=nullable):
            return ArrayType(_bare(element), nullable)
        case MapType(keyType=key, valueType=value, valueContainsNull=nullable):
            return MapType(_bare(key), _bare(value), nullable)
        case _:
            return type_


def _is_empty(frame: DataFrame) -> bool:
    """Whether Spark's optimizer knows that there are no rows."""
    most = frame._jdf.queryExecution().optimizedPlan().maxRows()
    return bool(most.isDefined() and most.get() == 0)


class OtherType(InternalError):
    """A plan of ours has another type than the user's DataFrame."""


def _input(spark: SparkSession, frame: DataFrame, columns: Sequence[Column]) -> Any:
    """An input of a foreign operator: its columns in order, under the user's names."""
    once = list(dict.fromkeys(columns))
    chosen = frame.select(*(col(quote(column.spark_name)).alias(column.name) for column in once))
    plan = analyzed_plan(chosen)
    if len(once) == len(columns):
        return plan
    # A column that the operator was given twice must be the same attribute twice: Spark looks up a group's keys by it.
    output = dict(zip(once, items_of(plan.output()), strict=True))
    return project(spark, [output[column] for column in columns], plan)


def _rebuilt(spark: SparkSession, operator: Any, path: Path, inputs: dict[Path, Any]) -> Any:
    """The operator at a path, over the new inputs below it."""
    if path in inputs:
        return inputs[path]
    if not any(each[: len(path)] == path for each in inputs):
        return operator
    old = operator.children()
    new = [_rebuilt(spark, old.apply(i), (*path, i), inputs) for i in range(old.length())]
    return with_children(spark, operator, old, new)
