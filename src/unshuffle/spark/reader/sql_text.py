"""SQL text as Spark's own parser and analyzer read it.

Names, types, nullability, collations, padding and every setting that changes what a text means are then Spark's by
construction. What Spark does not know by itself, tables of `--tables` and structured streams, are views of a clone of the
session: the user's session never sees them.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit

from unshuffle.catalog.schema import DataType
from unshuffle.errors import SqlProblem
from unshuffle.plan.expressions import Value
from unshuffle.plan.logical import Scan, TableScan
from unshuffle.plan.sql import literal, quote
from unshuffle.spark.execution.failures import explain_failure
from unshuffle.spark.execution.session_settings import isolated_session
from unshuffle.spark.io import files
from unshuffle.spark.reader import relations
from unshuffle.spark.session import without_error_log
from unshuffle.spark.shims.catalyst import analyzed_plan, frame_of


def read_sql(
    spark: SparkSession, text: str, views: Mapping[str, Scan | TableScan], arguments: Mapping[str, Column]
) -> DataFrame:
    """A query as a DataFrame of `spark`. A command is run. Raises `SqlProblem` if Spark rejects the text."""
    try:
        with without_error_log():  # the user gets our message
            return _read(spark, text, views, arguments)
    except PySparkException as error:
        problem = explain_failure(error, {})
        raise SqlProblem(problem.message, hint=problem.hint) from error


def _read(
    spark: SparkSession, text: str, views: Mapping[str, Scan | TableScan], arguments: Mapping[str, Column]
) -> DataFrame:
    if not views:
        return _sql(spark, text, arguments)
    session = isolated_session(spark, {})
    for name, table in views.items():
        frame_of(session, analyzed_plan(_rows(spark, table))).createOrReplaceTempView(quote(name))
    return frame_of(spark, analyzed_plan(_sql(session, text, arguments)))


def _rows(spark: SparkSession, table: Scan | TableScan) -> DataFrame:
    if isinstance(table, TableScan):
        return relations.table(spark, table)
    return files.read(spark, table).select(*(col(quote(column.name)) for column in table.columns))


def _sql(spark: SparkSession, text: str, arguments: Mapping[str, Column]) -> DataFrame:
    return spark.sql(text, args=dict(arguments)) if arguments else spark.sql(text)


def argument(value: Value, type: DataType) -> Column:
    """A value as an argument of `SparkSession.sql`: a literal of its type."""
    return lit(value) if value is None or type == pa.string() else expr(literal(value, type))


def is_command(frame: DataFrame) -> bool:
    """Whether a text was a command, which has run already."""
    name: str = analyzed_plan(frame).nodeName()
    return name == "CommandResult"
