"""PySpark's active session, which is the user's and stays so.

`SparkSession.createDataFrame` makes its session the active one: in PySpark for all threads, in the JVM for this one. A
session of our own must never become what `SparkSession.getActiveSession()` returns.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from unshuffle.spark.shims.gateway import java_class


def arrow_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of a table as a DataFrame of the session that is active, or of this one if there is none."""
    active = SparkSession._activeSession
    if active is None or active.sparkContext is not spark.sparkContext:
        active = spark
    sessions = java_class(spark, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    try:
        return active.createDataFrame(table)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
