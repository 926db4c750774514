"""A DataFrame of ours runs under settings of its own, and belongs to the user's session in everything else."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle import Session
from unshuffle.spark.execution.session_settings import session_of_query

pytestmark = pytest.mark.spark

ADAPTIVE = "AdaptiveSparkPlan"


@pytest.fixture
def visits(spark: SparkSession, tmp_path: Path) -> DataFrame:
    path = str(tmp_path / "visits.parquet")
    spark.range(2000).selectExpr("id % 300 as user", "id % 7 as day", "id as bytes").write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture
def faster(spark: SparkSession, visits: DataFrame) -> Iterator[DataFrame]:
    yield Session(spark, effort="full").optimize(busiest(visits))
    for view in ("busiest", "derived"):
        spark.catalog.dropTempView(view)


def busiest(visits: DataFrame) -> DataFrame:
    daily = visits.groupBy("user", "day").agg(F.sum("bytes").alias("bytes"))
    peaks = daily.groupBy("user").agg(F.max("bytes").alias("peak"))
    return daily.join(peaks, "user").where("bytes = peak").groupBy("day").count()


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def rows(frame: DataFrame) -> list[Any]:
    return sorted(frame.collect())


def test_it_runs_without_adaptive_execution(spark: SparkSession, visits: DataFrame, faster: DataFrame) -> None:
    before = dict(spark.sparkContext.getConf().getAll()), spark.conf.getAll
    assert ADAPTIVE in plan_of(busiest(visits))
    assert ADAPTIVE not in plan_of(faster)
    assert rows(faster) == rows(busiest(visits))
    assert (dict(spark.sparkContext.getConf().getAll()), spark.conf.getAll) == before
    assert faster.sparkSession is spark


def test_explain_says_so(spark: SparkSession, visits: DataFrame) -> None:
    text = Session(spark).explain(busiest(visits))
    assert "the DataFrame, and no other, runs with spark.sql.adaptive.enabled=false" in text


def test_what_is_derived_runs_under_the_users_settings(spark: SparkSession, faster: DataFrame) -> None:
    derived = faster.groupBy("count").agg(F.max("day"))
    assert ADAPTIVE in plan_of(derived)
    assert sum(row[0] for row in faster.select("count").collect()) == sum(row["count"] for row in faster.collect())
    joined = spark.range(7).withColumnRenamed("id", "day").join(faster, "day")
    assert joined.count() == faster.count()


def test_what_is_registered_is_in_the_users_session(spark: SparkSession, faster: DataFrame, tmp_path: Path) -> None:
    faster.createOrReplaceTempView("busiest")
    assert spark.table("busiest").count() == faster.count()
    faster.where("day > 2").createTempView("derived")
    assert rows(spark.table("derived")) == rows(faster.where("day > 2"))
    faster.write.parquet(str(tmp_path / "out"))
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == rows(faster)


def test_it_can_be_cached_and_observed(spark: SparkSession, faster: DataFrame) -> None:
    expected = rows(faster)
    faster.persist()
    try:
        assert faster.count() == len(expected)
        assert faster.storageLevel.useMemory
        assert rows(faster) == expected
    finally:
        faster.unpersist()
    observation = Observation()
    faster.observe(observation, F.count(F.lit(1)).alias("n")).collect()
    assert observation.get["n"] == len(expected)


def test_settings_of_the_user_reach_it_later(spark: SparkSession, visits: DataFrame) -> None:
    faster = Session(spark, effort="full").optimize(busiest(visits))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        conf = faster._jdf.sparkSession().sessionState().conf()
        assert conf.sessionLocalTimeZone() == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_other_threads_keep_the_users_settings(spark: SparkSession, visits: DataFrame) -> None:
    session, plans = Session(spark, effort="full"), []

    def plain() -> None:
        plans.extend(plan_of(busiest(visits)) for _ in range(5))

    other = threading.Thread(target=plain)
    other.start()
    for _ in range(5):
        assert ADAPTIVE not in plan_of(session.optimize(busiest(visits)))
    other.join()
    assert len(plans) == 5
    assert all(ADAPTIVE in plan for plan in plans)


def test_sessions_go_with_their_dataframes(spark: SparkSession, visits: DataFrame) -> None:
    """A thread that Spark starts meanwhile may keep the session that was active then, as it may keep any."""
    reference = spark._jvm.java.lang.ref.WeakReference  # type: ignore[union-attr]
    session = Session(spark, effort="full")
    kept = [reference(session.optimize(busiest(visits))._jdf.sparkSession()) for _ in range(12)]
    session.optimize(visits)  # a session keeps its last query
    for _ in range(20):
        gc.collect()
        spark._jvm.System.gc()  # type: ignore[union-attr]
        time.sleep(0.1)  # Python tells the JVM of its objects that are gone a little later
        if sum(not each.refersTo(None) for each in kept) <= 2:
            break
    assert sum(not each.refersTo(None) for each in kept) <= 2


@pytest.mark.parametrize("settings", [{}, {"spark.sql.adaptive.enabled": False}])
def test_what_is_set_in_a_managed_session_stays_there(spark: SparkSession, settings: dict[str, bool]) -> None:
    """Writers of outputs set some, and a plan may need none itself."""
    before, own = spark.conf.getAll, session_of_query(spark, settings, is_managed=True)
    own.conf.set("spark.sql.shuffle.partitions", "17")
    assert ", 17)" in plan_of(own.range(100).repartition("id"))
    assert spark.conf.getAll == before
    assert own.conf.get("spark.sql.adaptive.enabled") == str(settings.get("spark.sql.adaptive.enabled", True)).lower()
