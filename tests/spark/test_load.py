"""A short slice of `tools/load.py`: a few threads use one session, every result is right, and the session stays as small as
`tests/support/load/bounds.py` says."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.load import bounds
from tests.support.load.driver import Load, watched
from tests.support.load.footprint import Footprint, footprint, settings
from tests.support.load.operations import World, WrongResult, check, world
from unshuffle import Session

pytestmark = pytest.mark.spark

THREADS = 3
OPERATIONS = 18


def test_threads_share_a_session(spark: SparkSession, tmp_path: Path) -> None:
    with world(spark, tmp_path / "world", numbers=[1]) as made:
        load, before = Load(made, THREADS, seed=1), settings(spark)
        load.each_once()
        first = footprint(spark, [tmp_path])
        with watched(spark, load):
            load.run(lambda begun: begun < OPERATIONS)
        assert not load.problems, "\n".join(load.problems)
        assert settings(spark) == before
        assert not bounds.counts_exceeded(first, footprint(spark, [tmp_path]), THREADS)


def test_what_a_load_would_leave_behind_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    before = footprint(spark, [tmp_path])
    assert not bounds.counts_exceeded(before, before, THREADS)
    spark.range(3).createOrReplaceTempView("left_behind")
    cached = spark.range(7).cache()
    kept = [spark._jsparkSession.cloneSession() for _ in range(2 * (bounds.POOL_SESSIONS + THREADS))]
    for number in range(bounds.FILES + 1):
        (tmp_path / f"{number}.tmp").touch()
    try:
        found = bounds.counts_exceeded(before, footprint(spark, [tmp_path]), THREADS)
        assert {each.split()[0] for each in found} == {"views", "cached", "sessions", "files"}
    finally:
        spark.catalog.dropTempView("left_behind")
        cached.unpersist()
        kept.clear()


def test_memory_that_grows_with_every_operation_is_noticed() -> None:
    before = Footprint(100.0, 1, 100.0, 1000, *[0] * 12)
    after = Footprint(113.0, 1, 100.0, 1000, *[0] * 12)
    assert not bounds.memory_exceeded(before, after, 2000)
    assert [each.split()[0] for each in bounds.memory_exceeded(before, after, 1000)] == ["heap_mb"]


def test_a_changed_setting_or_a_wrong_row_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(WrongResult, match="some rows"):
        check("some rows", [(1,)], [(2,)])
    load, until = Load(World(Session(spark, effort="full"), tmp_path), 1, seed=1), time.monotonic() + 60
    with watched(spark, load):
        spark.conf.set("spark.sql.planned.test", "x")
        while not load.problems and time.monotonic() < until:
            time.sleep(0.01)
        spark.conf.unset("spark.sql.planned.test")
    assert any("spark.sql.planned.test" in each for each in load.problems)
