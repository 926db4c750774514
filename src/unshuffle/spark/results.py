"""Running a DataFrame for its effect: counting rows as they pass, running it without keeping them, showing the first."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.algebra.logical import Files, Format, Output, Scan, Target
from unshuffle.catalog.schema import Column
from unshuffle.spark import files
from unshuffle.spark.environment import arrow_type

SHOWN_ROWS = 20


def counted(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """The same rows, and a function that tells, once they have been written, how many there were."""
    observation = Observation()
    return frame.observe(observation, F.count(F.lit(1)).alias("rows")), lambda: int(observation.get["rows"])


def consume(frame: DataFrame) -> None:
    """Computes every row and drops it."""
    frame.write.format("noop").mode("overwrite").save()


def first_rows(spark: SparkSession, frame: DataFrame, output: Output) -> list[Row]:
    """The first rows of a result: of what was written where we can read it back, else computed."""
    if output.target is None:
        return frame.take(SHOWN_ROWS)
    if not isinstance(output.target, Target) or not isinstance(output.target.format, Format):
        return []
    fields = enumerate(frame.schema.fields)
    columns = tuple(Column(i, field.name, arrow_type(field.dataType)) for i, field in fields)
    written = Scan(output.target.path, Files((output.target.path,), output.target.format), columns)
    return files.read(spark, written).take(SHOWN_ROWS)
