"""The settings of a Spark session: those that planning depends on, and a session of its own for a plan with settings."""

from __future__ import annotations

from threading import Lock
from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from unshuffle.spark.shims.catalyst import analyzed_plan, frame_of
from unshuffle.spark.shims.gateway import java_session
from unshuffle.target import (
    BYPASS_MERGE_THRESHOLD,
    MAX_PARTITION_BYTES,
    TWO_LEVEL_MAP,
    SessionSettings,
    Settings,
)

_CREATING = Lock()


def settings_of(spark: SparkSession) -> SessionSettings:
    """The settings in force that planning depends on."""
    conf = java_session(spark).sessionState().conf()
    # `SparkContext.getConf` would copy every setting, with one JVM call each.
    threshold = spark.sparkContext._conf.get(BYPASS_MERGE_THRESHOLD)
    return SessionSettings(
        int(conf.numShufflePartitions()),
        int(conf.filesMaxPartitionBytes()),
        None if threshold is None else int(threshold),
        frozenset(key for key in (MAX_PARTITION_BYTES, TWO_LEVEL_MAP) if conf.contains(key)),
    )


def isolated_session(spark: SparkSession, settings: Settings) -> SparkSession:
    """A clone of a session: its settings, temporary views, functions and cached data, but what is set or registered from now
    on stays apart. So a plan runs under settings of its own, and no other thread sees them."""
    clone = _python_session(spark, java_session(spark).cloneSession())
    for key, value in settings.items():
        clone.conf.set(key, value)
    return clone


def in_own_session(frame: DataFrame) -> DataFrame:
    """The same rows in a session of their own, so that settings can be changed for them alone. A frame that the user observes
    (`DataFrame.observe`) stays where it is: its metrics are reported to its session only."""
    plan = analyzed_plan(frame)
    if "CollectMetrics" in plan.toString():
        return frame
    return frame_of(isolated_session(frame.sparkSession, {}), plan)


def _python_session(spark: SparkSession, java: Any) -> SparkSession:
    """PySpark binds `RDD.toDF` to the session that was created last. The binding that the user had is put back."""
    with _CREATING:
        bound = RDD.__dict__["toDF"]
        try:
            return SparkSession(spark.sparkContext, java)
        finally:
            RDD.toDF = bound  # type: ignore[method-assign]
