"""What `measure` counts is what Spark's executed plans show."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": -1}


def left(spark: SparkSession) -> DataFrame:
    return spark.range(5000).selectExpr("id", "id % 97 as k")


def right(spark: SparkSession) -> DataFrame:
    return spark.range(200).selectExpr("id as k", "id % 3 as g")


def reused(spark: SparkSession) -> DataFrame:
    counts = left(spark).groupBy("k").count()
    return counts.join(counts.withColumnRenamed("count", "again"), "k")


QUERIES: dict[str, tuple[Callable[[Any], Any], dict[str, Any], int]] = {
    # Spark counts whole milliseconds of a task, so a scan has more rows.
    "scan": (lambda s: s.range(5_000_000).where("id % 4999 = hash(id) % 4999"), {}, 0),
    "aggregate": (lambda s: left(s).groupBy("k").count(), {}, 1),
    "join": (lambda s: left(s).join(right(s), "k"), NO_BROADCAST, 2),
    "broadcast join": (lambda s: left(s).join(right(s), "k"), {}, 0),
    "not adaptive": (lambda s: left(s).join(right(s), "k"), NO_BROADCAST | {"spark.sql.adaptive.enabled": False}, 2),
    "union": (lambda s: left(s).groupBy("k").count().union(right(s).groupBy("g").count()), {}, 2),
    "reused exchange": (reused, NO_BROADCAST, 1),
    "subquery": (lambda s: s.sql("select max(id) from range(9) where id < (select avg(id) from range(9))"), {}, 2),
    "sort": (lambda s: left(s).orderBy("k"), {}, 1),
}


@pytest.mark.parametrize("name", QUERIES)
def test_exchanges_are_those_of_the_final_plan(spark: SparkSession, name: str) -> None:
    from unshuffle.spark.execution.metrics import measure
    from unshuffle.spark.session import temporarily

    make, settings, expected = QUERIES[name]
    with temporarily(spark, **settings):
        frame = make(spark)
        with measure(spark) as measured:
            frame.collect()
        plan = frame._jdf.queryExecution().executedPlan().toString().partition("== Initial Plan ==")[0]
    shown = len(re.findall(r"[+:]- Exchange ", plan))
    assert measured.exchanges == expected
    if name != "subquery":  # its plan is printed at every use
        assert shown == expected, plan
    assert (measured.shuffle_bytes > 0) == (expected > 0)
    assert measured.seconds > 0
    assert measured.task_seconds > 0
    assert measured.cpu_seconds > 0
    assert measured.cpu_seconds > 0
    assert measured.spill_bytes == 0


def test_writes_and_several_jobs_add_up(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.execution.metrics import measure

    frame = left(spark).groupBy("k").count()
    with measure(spark) as measured:
        frame.write.parquet(str(tmp_path / "out"))
        frame.collect()
    assert measured.exchanges == 2


def test_other_work_does_not_count(spark: SparkSession) -> None:
    from unshuffle.spark.execution.metrics import measure

    frame = left(spark).groupBy("k").count()
    frame.collect()
    with measure(spark) as measured:
        other = Thread(target=lambda: left(spark).groupBy("id").count().collect())
        other.start()
        other.join()
        spark.range(3).collect()
    frame.collect()
    assert (measured.exchanges, measured.shuffle_bytes) == (0, 0)
    with measure(spark) as nothing:
        pass
    assert (nothing.exchanges, nothing.task_seconds) == (0, 0)


def test_work_that_fails_is_measured_too(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    from unshuffle.spark.execution.metrics import measure

    failing = left(spark).groupBy("k").count().selectExpr("raise_error(cast(k as string))")
    with suppress(PySparkException), measure(spark) as measured:
        failing.collect()
    assert measured.exchanges == 1


def test_an_exchange_inside_an_rdd_is_seen(spark: SparkSession) -> None:
    from unshuffle.spark.execution.metrics import measure

    hidden = spark.createDataFrame(left(spark).repartition(3, "k").rdd, "id long, k long")
    with measure(spark) as measured:
        hidden.collect()
    # Before 4.3, Spark runs the stages of an adaptive plan when the RDD is made.
    assert measured.exchanges == (0 if spark.version.startswith(("4.1", "4.2")) else 1)


@pytest.mark.usefixtures("compiled")
def test_peak_memory_is_the_maximum_over_tasks(spark: SparkSession) -> None:
    from unshuffle.spark.execution.metrics import measure

    def peak(frame: DataFrame | None) -> int:
        with measure(spark) as measured:
            if frame is not None:
                frame.write.format("noop").mode("overwrite").save()
        return measured.peak_memory_bytes

    def sorted_in(tasks: int) -> DataFrame:
        return spark.range(400_000).repartition(tasks).sortWithinPartitions("id")

    assert peak(None) == 0
    assert peak(spark.range(1000).selectExpr("sum(id)")) == 0  # one group needs no hash table
    whole, quarter = peak(sorted_in(1)), peak(sorted_in(4))
    assert 400_000 * 16 < whole < spark._jvm.Runtime.getRuntime().maxMemory()  # all rows, at least 16 bytes each
    assert 100_000 * 16 < quarter < whole  # the maximum over tasks, not the sum


def test_the_longest_task_is_a_multiple_of_the_average(spark: SparkSession) -> None:
    from unshuffle.spark.execution.metrics import measure
    from unshuffle.spark.shims.gateway import items_of

    def slept(number: int, rows: Any) -> Any:
        time.sleep(0.2 * (number + 1))
        return rows

    context = spark.sparkContext
    context.addJobTag("longest")
    with measure(spark) as measured:
        context.parallelize(range(3), 3).mapPartitionsWithIndex(slept).count()
    context.removeJobTag("longest")
    store = context._jsc.sc().statusStore()
    (job,) = context._jsc.sc().statusTracker().getJobIdsForTag("longest")
    (stage,) = items_of(store.job(job).stageIds())
    tasks = items_of(store.taskList(stage, 0, 10))
    times = [task.taskMetrics().get().executorRunTime() for task in tasks]
    assert measured.longest_task == pytest.approx(max(times) * 3 / sum(times))
    assert measured.longest_task > 1
