"""The settings of a Spark session: those that planning depends on, and a session of its own for a plan with settings."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unshuffle.spark.shims.catalyst import analyzed_plan, frame_of
from unshuffle.spark.shims.gateway import java_session
from unshuffle.spark.shims.observations import share_observations
from unshuffle.spark.shims.query_session import hand_over, query_session
from unshuffle.spark.shims.session_conf import session_conf
from unshuffle.target import (
    ADAPTIVE,
    BYPASS_MERGE_THRESHOLD,
    MAX_PARTITION_BYTES,
    TWO_LEVEL_MAP,
    SessionSettings,
    Settings,
)

# What PySpark's sessions of one context have in common. Everything else that a session keeps is its own, and made lazily.
_SHARED = ("_sc", "_jsc", "_jvm", "_profiler_collector")


def settings_of(spark: SparkSession) -> SessionSettings:
    """The settings in force that planning depends on."""
    return settings_and_cores(spark)[0]


def settings_and_cores(spark: SparkSession) -> tuple[SessionSettings, int]:
    """The same, and the number of tasks that run at once."""
    conf = session_conf(spark, (MAX_PARTITION_BYTES, TWO_LEVEL_MAP), (BYPASS_MERGE_THRESHOLD,))
    threshold = conf.of_context.get(BYPASS_MERGE_THRESHOLD)
    settings = SessionSettings(
        conf.shuffle_partitions,
        conf.max_partition_bytes,
        None if threshold is None else int(threshold),
        conf.prunes_dynamically,
        conf.set_by_user,
        conf.auto_broadcast_bytes,
    )
    return settings, conf.cores


def divides_partitions(spark: SparkSession) -> bool:
    """Whether a session divides the partitions of a join that are too large."""
    names = (ADAPTIVE, "spark.sql.adaptive.skewJoin.enabled")
    return all(str(spark.conf.get(name)).lower() == "true" for name in names)


def isolated_session(spark: SparkSession, settings: Settings) -> SparkSession:
    """A clone of a session: its settings, temporary views, functions and cached data, but what is set or registered from now
    on stays apart. So a plan runs under settings of its own, and no other thread sees them."""
    clone = _python_session(spark, java_session(spark).cloneSession())
    for key, value in settings.items():
        clone.conf.set(key, value)
    return clone


def session_of_query(spark: SparkSession, settings: Settings, is_managed: bool) -> SparkSession:
    """The user's session under settings of a plan. It shares everything else with the user's, so a DataFrame of it can be
    handed to the user (`handed_over`). A managed query keeps it to itself, with what is set while its outputs are written."""
    if not settings and not is_managed:
        return spark
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}
    return _python_session(spark, query_session(spark, texts, is_managed))


def handed_over(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """A DataFrame of a `session_of_query`, as one of the user's session. It runs under the settings of its plan, and what the
    user derives from it runs under the user's."""
    if frame.sparkSession is spark:
        return frame
    hand_over(spark, java_session(frame.sparkSession))
    return DataFrame(frame._jdf, spark)


def is_observed(frame: DataFrame) -> bool:
    """Whether the user observes the frame (`DataFrame.observe`)."""
    return "CollectMetrics" in analyzed_plan(frame).toString()


def in_own_session(frame: DataFrame) -> DataFrame:
    """The same rows in a session of their own, so that settings can be changed for them alone. If the user observes the frame
    (`DataFrame.observe`), its metrics are reported as ever."""
    plan, own = analyzed_plan(frame), isolated_session(frame.sparkSession, {})
    if is_observed(frame):
        share_observations(frame.sparkSession, own)
    return frame_of(own, plan)


def _python_session(spark: SparkSession, java: Any) -> SparkSession:
    """PySpark's session of one of Spark's. The constructor of `SparkSession` would bind `RDD.toDF` to the new session, for
    every thread; a copy of the user's session with another Java object binds nothing."""
    clone = SparkSession.__new__(SparkSession)
    clone.__dict__.update((name, value) for name, value in vars(spark).items() if name in _SHARED)
    clone._jsparkSession = java
    return clone
