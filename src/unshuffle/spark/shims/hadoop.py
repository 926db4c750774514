"""Hadoop's file systems, with the settings of a Spark session."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from unshuffle.spark.shims.gateway import java_session, jvm


def hadoop(spark: SparkSession) -> Any:
    """The package `org.apache.hadoop`."""
    return jvm(spark).org.apache.hadoop


def hadoop_configuration(spark: SparkSession) -> Any:
    return java_session(spark).sessionState().newHadoopConf()
