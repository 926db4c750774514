"""What a Spark session tells the binder: its tables and functions, and the schema of a query that only it understands."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType as SparkType

from unshuffle.algebra.logical import Plan
from unshuffle.algebra.sql import quote
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import from_spark_name
from unshuffle.language.environment import Field
from unshuffle.spark.failures import explain_failure
from unshuffle.spark.straight import translation


class SparkEnvironment:
    """Answers from a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def table(self, name: Sequence[str]) -> list[Field] | None:
        spark = self._spark
        quoted = ".".join(map(quote, name))
        try:
            if not spark.catalog.tableExists(quoted):
                return None
            return [_field(f.name, f.dataType, f.nullable) for f in spark.table(quoted).schema.fields]
        except PySparkException:
            return None

    def has_function(self, name: str) -> bool:
        return self._spark.catalog.functionExists(name)

    def describe(self, sql: str, inputs: Sequence[tuple[str, Plan]]) -> list[Field]:
        spark = self._spark
        with translation(spark) as straight:
            try:
                schema = straight.query(straight.foreign(sql, inputs)).schema
            except PySparkException as error:
                raise explain_failure(error, {}) from None
        return [_field(f.name, f.dataType, f.nullable) for f in schema.fields]


def _field(name: str, type: SparkType, nullable: bool) -> Field:
    return name, arrow_type(type), nullable


def arrow_type(type: SparkType) -> DataType:
    """Our type for one of Spark's; None for one that we have no name for."""
    try:
        return from_spark_name(type.simpleString())
    except ValueError:
        return None
