"""One session in many threads, and for a long time: nothing that a query needs for a moment is seen by other threads, and
nothing of it stays."""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark import accumulators, cloudpickle
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql import session as pyspark_session
from pyspark.sql.conf import RuntimeConfig

from tests.support.load.footprint import temporary_views
from unshuffle import Session
from unshuffle.declarations import declarations
from unshuffle.errors import Source
from unshuffle.plan.logical import UserClass
from unshuffle.properties import RangeFunction
from unshuffle.properties.layouts.partition_functions import RangeKey
from unshuffle.spark.execution import session_settings
from unshuffle.spark.execution.metrics import measure
from unshuffle.spark.execution.session_settings import in_own_session, isolated_session
from unshuffle.spark.io import files
from unshuffle.spark.session import without_error_log
from unshuffle.spark.shims.executed_plan import executed_plan
from unshuffle.spark.shims.narrow_repartition import narrow_repartition
from unshuffle.spark.shims.plan_bridge import SORT_AGGREGATED
from unshuffle.spark.shims.plan_steps import Step, Steps
from unshuffle.spark.shims.range_number import range_number
from unshuffle.spark.udf import user_operators

pytestmark = pytest.mark.spark

SCRIPT = """
#DECLARE t string;
#DECLARE out string;
rows = EXTRACT id:long, k:long FROM "@t" USING Parquet();
counts = SELECT k, COUNT(*) AS n FROM rows GROUP BY k;
OUTPUT counts TO "@out/counts.txt" USING lines_of_mine.Lines() OVERWRITE;
"""
CLASSES = """
from unshuffle import Outputter

class Lines(Outputter):
    def format_row(self, row):
        return f"{row['k']} {row['n']}\\n"
"""


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shared")
    spark.range(40).selectExpr("id", "id % 3 as k").coalesce(1).write.parquet(str(made / "t.parquet"))
    (made / "count.scope").write_text(SCRIPT)
    (made / "lines_of_mine.py").write_text(CLASSES)
    return made


def run_script(session: Session, folder: Path, out: Path) -> None:
    session.run(folder / "count.scope", {"t": str(folder / "t.parquet"), "out": str(out)})


@pytest.fixture
def clones(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[SparkSession]]:
    """The clones of sessions that are made during a test."""
    made: list[weakref.ref[SparkSession]] = []
    usual = session_settings._python_session

    def recorded(spark: SparkSession, java: Any) -> SparkSession:
        session = usual(spark, java)
        made.append(weakref.ref(session))
        return session

    monkeypatch.setattr(session_settings, "_python_session", recorded)
    return made


def alive(sessions: list[weakref.ref[SparkSession]]) -> int:
    gc.collect()
    return sum(each() is not None for each in sessions)


# ------------------------------------------------------------------------------------------------------- nothing stays


def test_the_session_of_a_run_is_released(
    spark: SparkSession, folder: Path, tmp_path: Path, clones: list[weakref.ref[SparkSession]]
) -> None:
    session = Session(spark, effort="full")
    for _ in range(3):
        run_script(session, folder, tmp_path)
    assert len(clones) >= 3
    assert alive(clones) <= 1  # of the last query, for `fallbacks`


def test_boundaries_of_ranges_keep_no_session_alive(
    spark: SparkSession, clones: list[weakref.ref[SparkSession]]
) -> None:
    function = RangeFunction((RangeKey(pa.int64()),), ((7,), (123_457,)))
    own, active = isolated_session(spark, {}), SparkSession.getActiveSession()
    assert own.range(3).select(range_number(own, [F.col("id")], function)).count() == 3
    assert SparkSession.getActiveSession() is active
    del own
    assert alive(clones) == 0


def test_accumulators_of_a_users_outputter_are_released(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    session = Session(spark, effort="full")
    run_script(session, folder, tmp_path)
    before = len(accumulators._accumulatorRegistry)
    run_script(session, folder, tmp_path)
    assert len(accumulators._accumulatorRegistry) == before


def test_metrics_take_as_long_whatever_ran_before(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    usual, calls = client.send_command, []

    def counted(*arguments: Any, **named: Any) -> Any:
        if not arguments[0].startswith(MEMORY_COMMAND_NAME):  # those of objects that Python has collected
            calls.append(arguments[0])
        return usual(*arguments, **named)

    def commands() -> int:
        calls.clear()
        with measure(spark):
            spark.range(5).groupBy("id").count().collect()
        return len(calls)

    monkeypatch.setattr(client, "send_command", counted)
    commands()
    few = commands()
    for _ in range(40):
        spark.range(1).collect()
    assert commands() <= few + 10


# ------------------------------------------------------------------------------------- nothing is seen by other threads


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> list[str]:
    """The settings of the user's session that are changed during a test."""
    keys: list[str] = []

    def recording(usual: Callable[..., None]) -> Callable[..., None]:
        def record(conf: RuntimeConfig, key: str, *value: Any) -> None:
            if conf._jconf.equals(spark.conf._jconf):
                keys.append(key)
            usual(conf, key, *value)

        return record

    for name in ("set", "unset"):
        monkeypatch.setattr(RuntimeConfig, name, recording(getattr(RuntimeConfig, name)))
    spark.conf.set("spark.sql.planned.test", "x")
    spark.conf.unset("spark.sql.planned.test")
    assert keys == ["spark.sql.planned.test"] * 2
    keys.clear()
    return keys


def test_groups_are_formed_from_sorted_rows_without_a_setting(spark: SparkSession, changed: list[str]) -> None:
    def grouped(*aggregates: Any) -> DataFrame:
        return spark.range(500).selectExpr("id", "id % 150 as k").groupBy("k").agg(*aggregates)

    several = [F.sort_array(F.collect_list("id")).alias("ids"), F.count_distinct("id").alias("n")]
    for frame in (grouped(several[0]), grouped(*several)):
        ours = Steps(spark).frame(Step("SELECT * FROM grouped", {"grouped": frame}, then=SORT_AGGREGATED))
        operators = "\n".join(executed_plan(ours))
        assert "SortAggregate" in operators
        assert "ObjectHashAggregate" not in operators
        assert "ObjectHashAggregate" in "\n".join(executed_plan(frame))
        assert sorted(ours.collect()) == sorted(frame.collect())
    assert changed == []


def test_partitions_are_merged_in_place_without_a_setting(spark: SparkSession, changed: list[str]) -> None:
    frame = spark.range(60).repartition(4, "id")
    merged = narrow_repartition(frame, [[0, 1], [2, 3]], "p")
    assert merged.count() == 60
    assert merged.sparkSession is spark
    assert changed == []


def test_a_stream_of_an_observed_frame_is_written_without_a_setting(
    spark: SparkSession, tmp_path: Path, changed: list[str]
) -> None:
    session, active = Session(spark, effort="full"), SparkSession.getActiveSession()
    for number in range(2):
        observation = Observation()
        frame = spark.range(30).observe(observation, F.count(F.lit(1)).alias("rows"))
        session.write_stream(frame, tmp_path / f"{number}.ss", clustered_by="id", partitions=2)
        assert observation.get == {"rows": 30}
        assert SparkSession.getActiveSession() is active
    assert changed == []


def test_a_frame_observed_in_its_own_session_is_observed_there_too(spark: SparkSession) -> None:
    first, second = Observation(), Observation()
    frame = spark.range(30).observe(first, F.count(F.lit(1)).alias("rows"))
    in_own_session(frame).collect()
    spark.range(7).observe(second, F.count(F.lit(1)).alias("rows")).collect()
    assert (first.get, second.get) == ({"rows": 30}, {"rows": 7})


def test_no_other_thread_gets_the_session_of_a_plan(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's constructor of a session binds `RDD.toDF` to it, for all threads."""
    bound: list[SparkSession] = []
    monkeypatch.setattr(pyspark_session, "_monkey_patch_RDD", bound.append)
    own = isolated_session(spark, {"spark.sql.shuffle.partitions": 3})
    assert bound == []
    assert own.conf.get("spark.sql.shuffle.partitions") == "3" != spark.conf.get("spark.sql.shuffle.partitions")
    own.range(3).createOrReplaceTempView("of_its_own")
    assert own.catalog.tableExists("of_its_own")
    assert own.createDataFrame([(1,)], "a int").sparkSession is own
    assert not spark.catalog.tableExists("of_its_own")


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Iterator[list[str]]:
    """The views that are made in the user's session during a test."""
    made: list[str] = []
    kind = type(spark.range(1))

    def recording(usual: Callable[..., None]) -> Callable[..., None]:
        def record(frame: DataFrame, name: str) -> None:
            if frame.sparkSession is spark:
                made.append(name)
            usual(frame, name)

        return record

    for name in ("createOrReplaceTempView", "createTempView"):
        monkeypatch.setattr(kind, name, recording(getattr(kind, name)))
    before = temporary_views(spark)
    yield made
    assert temporary_views(spark) == before


def test_a_part_that_spark_runs_makes_no_view(spark: SparkSession, folder: Path, views: list[str]) -> None:
    session = Session(spark, tables=folder, effort="full")
    (folder / "pivot.scope").write_text(
        """rows = EXTRACT id:long, k:long FROM "PLACE/t.parquet" USING Parquet();
           wide = SELECT * FROM (SELECT k FROM rows) PIVOT (count(*) FOR k IN (0, 1));
           OUTPUT wide TO "PLACE/wide.parquet" OVERWRITE;""".replace("PLACE", str(folder))
    )
    script = session.pipeline.bind_file(folder / "pivot.scope")
    assert [tuple(row) for row in session.pipeline.baseline(script).frames[0].collect()] == [(14, 13)]
    assert views == []


def test_checking_a_declaration_makes_no_view(spark: SparkSession, folder: Path, views: list[str]) -> None:
    usual = spark.read.parquet(str(folder / "t.parquet")).where("id >= 0")
    usual.createOrReplaceTempView("declared_on")
    views.clear()
    try:
        session = Session(spark, effort="full")
        session.declare_key("declared_on", "id", check="trust")
        counter = session.pipeline.constraint_counter()
        rowset = session.pipeline.bind_table("declared_on")
        for constraint, is_key in (
            (declarations.DeclaredKey(("id",)), True),
            (declarations.DeclaredKey(("k",)), False),
        ):
            declared = declarations.DeclaredConstraint("declared_on", rowset, constraint)
            assert (counter.counterexamples(declared) is None) == is_key
        assert views == []
    finally:
        spark.catalog.dropTempView("declared_on")


def test_an_error_is_hidden_from_the_log_of_its_own_thread_only() -> None:
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    record = logging.LogRecord("test", logging.ERROR, "", 0, "failed", None, None)
    with ThreadPoolExecutor(1) as other:
        ours, theirs = without_error_log(), without_error_log()
        ours.__enter__()
        other.submit(theirs.__enter__).result()
        assert not logger.filter(record)
        ours.__exit__(None, None, None)
        assert logger.filter(record)
        assert not other.submit(_is_logged, logger).result()
        other.submit(theirs.__exit__, None, None, None).result()
        assert other.submit(_is_logged, logger).result()
    assert not logger.disabled


def _is_logged(logger: logging.Logger) -> bool:
    return bool(logger.filter(logging.LogRecord("test", logging.ERROR, "", 0, "failed", None, None)))


# ------------------------------------------------------------------------------------------------ threads do not collide


def test_a_plan_of_files_that_is_dropped_at_once_is_still_returned(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when other threads read many other files at the same time."""
    monkeypatch.setattr(files, "_CACHE_SIZE", 0)
    session = Session(spark, tables=folder, effort="full")
    assert session.sql("select count(*) as n from t").collect()[0].n == 40
    assert session.fallbacks == ()


def test_code_is_pickled_in_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which modules are pickled by value is registered for all threads, and unregistered at the end."""
    running: list[int] = []
    most: list[int] = []
    usual = cloudpickle.dumps

    def slow(*arguments: Any) -> bytes:
        running.append(1)
        most.append(len(running))
        time.sleep(0.05)
        running.pop()
        return bytes(usual(*arguments))

    monkeypatch.setattr(cloudpickle, "dumps", slow)
    use = UserClass("json", "JSONEncoder", (), (), (), Source("x", "x").span(0, 1))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: user_operators.pickled(len, use), range(8)))
    assert max(most) == 1


def test_two_threads_declare_at_once(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, usual = Session(spark, effort="full"), declarations.replace
    table = folder / "t.parquet"
    session.declare_key(table, "id")
    others: list[threading.Thread] = []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        if not others and "is_trusted" in named:
            others.append(threading.Thread(target=session.declare_dependency, args=(table, "id", "k")))
            others[0].start()
            others[0].join(1.0)  # time enough, unless it waits for this thread
        return usual(*arguments, **named)

    monkeypatch.setattr(declarations, "replace", interrupted)
    session.declare_key(table, "id", "k")
    others[0].join()
    assert len(session.pipeline.declarations._on_tables) == 3


def test_declared_again_a_constraint_keeps_its_place(spark: SparkSession, folder: Path) -> None:
    """What `explain` lists must not depend on another thread that declares the same."""
    session, table = Session(spark, effort="full"), folder / "t.parquet"
    session.declare_key(table, "id")
    session.declare_dependency(table, "id", "k")
    before = list(session.pipeline.declarations._on_tables)
    session.declare_key(table, "id")
    assert session.pipeline.declarations._on_tables == before
    session.declare_key(table, "id", check="trust")
    assert [each.is_trusted for each in session.pipeline.declarations._on_tables] == [True, False]
