"""Metrics that a user observes (`DataFrame.observe`), when another session than the user's runs the plan.

A session reports the metrics of its own queries to the observations that were registered with it. A session that shares the
user's registry reports to the user's observations.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from unshuffle.spark.shims.gateway import java_session, jvm


def share_observations(spark: SparkSession, other: SparkSession) -> None:
    """From now on, `other` reports to the observations of `spark`."""
    manager = jvm(spark).java.lang.Class.forName("org.apache.spark.sql.classic.ObservationManager")
    registry = manager.getDeclaredField("observations")
    registry.setAccessible(True)
    users, others = (java_session(each).observationManager() for each in (spark, other))
    registry.set(others, registry.get(users))
