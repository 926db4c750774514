"""A Spark session as the binder's environment: tables, functions, and the schema of queries that only Spark understands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType as SparkType

from unshuffle.catalog.schema import ColumnNumbers, DataType
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.declarations import BoundScript, Declarations
from unshuffle.language.bind.environment import Field
from unshuffle.plan.logical import Output, Plan, Scan, Script, TableScan
from unshuffle.plan.sql import quote
from unshuffle.spark.execution.failures import explain_failure
from unshuffle.spark.lowering.baseline import baseline
from unshuffle.spark.reader.dataframe import logical_plan
from unshuffle.spark.reader.file_relations import table_name
from unshuffle.spark.session import why_plain


class SparkEnvironment:
    """The tables and functions of a Spark session."""

    def __init__(self, spark: SparkSession, catalog: str | Path | None = None) -> None:
        self._spark = spark
        self._catalog = catalog

    def table(self, name: Sequence[str], numbers: ColumnNumbers, declarations: Declarations) -> BoundScript | None:
        frame = self._table(name)
        if frame is None:
            return None
        if self._can_be_read(frame):
            return logical_plan(frame, self._catalog, declarations, numbers)
        return BoundScript(Script((Output(_by_name(name, frame, numbers), None),)))

    def declarable(self, name: Sequence[str], numbers: ColumnNumbers) -> Scan | TableScan | None:
        frame = self._table(name)
        if frame is None:
            return None
        if not self._can_be_read(frame):
            return _by_name(name, frame, numbers)
        plan = logical_plan(frame, self._catalog, numbers=numbers).script.outputs[0].plan
        return plan if isinstance(plan, Scan) else _by_name(table_name(frame) or name, frame, numbers)

    def _can_be_read(self, frame: DataFrame) -> bool:
        return why_plain(self._spark) is None and not frame.isStreaming

    def _table(self, name: Sequence[str]) -> DataFrame | None:
        quoted = ".".join(map(quote, name))
        try:
            return self._spark.table(quoted) if self._spark.catalog.tableExists(quoted) else None
        except PySparkException:
            return None

    def has_function(self, name: str) -> bool:
        return self._spark.catalog.functionExists(name)

    def describe(self, sql: str, inputs: Sequence[tuple[str, Plan]]) -> list[Field]:
        spark = self._spark
        with baseline(spark) as plain:
            try:
                schema = plain.query(plain.foreign(sql, inputs)).schema
            except PySparkException as error:
                raise explain_failure(error, {}) from None
        return [_field(f.name, f.dataType, f.nullable) for f in schema.fields]


def _by_name(name: Sequence[str], frame: DataFrame, numbers: ColumnNumbers) -> TableScan:
    fields = (_field(f.name, f.dataType, f.nullable) for f in frame.schema.fields)
    return TableScan(tuple(name), tuple(numbers.new(*field) for field in fields))


def _field(name: str, type: SparkType, nullable: bool) -> Field:
    return name, arrow_type(type), nullable


def arrow_type(type: SparkType) -> DataType:
    """Our type for one of Spark's; None if there is none."""
    try:
        return from_spark_name(type.simpleString())
    except ValueError:
        return None
