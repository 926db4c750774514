"""Running a DataFrame: counting its rows on the way, consuming them, showing the first ones."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.catalog.schema import Column
from unshuffle.plan.logical import Files, FileTarget, Format, Output, Scan
from unshuffle.spark.io import files
from unshuffle.spark.reader.environment import arrow_type

SHOWN_ROWS = 20


def counted(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """The same rows, and a function that returns their number once they have been computed."""
    observation = Observation()
    return frame.observe(observation, F.count(F.lit(1)).alias("rows")), lambda: int(observation.get["rows"])


def consume(frame: DataFrame) -> None:
    """Computes every row and discards it."""
    frame.write.format("noop").mode("overwrite").save()


def first_rows(spark: SparkSession, frame: DataFrame, output: Output) -> list[Row]:
    """The first rows of a result: read back from the file where its format allows, else computed."""
    if output.target is None:
        return frame.take(SHOWN_ROWS)
    if not isinstance(output.target, FileTarget) or not isinstance(output.target.format, Format):
        return []
    fields = enumerate(frame.schema.fields)
    columns = tuple(Column(i, field.name, arrow_type(field.dataType)) for i, field in fields)
    written = Scan(output.target.path, Files((output.target.path,), output.target.format), columns)
    return files.read(spark, written).take(SHOWN_ROWS)
