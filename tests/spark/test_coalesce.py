"""A user's `coalesce(1)` below other operators makes one partition without a shuffle, as in plain Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle import Session
from unshuffle.spark.session import temporarily

pytestmark = pytest.mark.spark


def shuffles(frame: DataFrame) -> int:
    return frame._jdf.queryExecution().executedPlan().toString().count("Exchange ")


@pytest.mark.parametrize("merge", ["coalesce", "repartition"])
def test_one_partition_is_grouped_in_place(spark: SparkSession, tmp_path: Path, merge: str) -> None:
    spark.range(2000).selectExpr("id", "id % 7 as k").repartition(4).write.parquet(str(tmp_path / "t"))
    rows = spark.read.parquet(str(tmp_path / "t")).where("id > 3").select("k", (F.col("id") * 2).alias("v"))
    frame = getattr(rows, merge)(1).groupBy("k").agg(F.sum("v").alias("s"), F.first("k").alias("f"))
    with temporarily(spark, **{"spark.sql.adaptive.enabled": "false"}):
        session = Session(spark, effort="full")
        found = session.optimize(frame)
        assert shuffles(found) <= shuffles(frame)
        assert sorted(found.collect()) == sorted(frame.collect())
