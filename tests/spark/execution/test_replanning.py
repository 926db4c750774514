"""Plans that are replaced while they run: the same rows, written once, nothing left behind, and no other job touched."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.machines import plan_for
from tests.support.planted_estimates import planted
from unshuffle import NotOptimizedWarning, Session
from unshuffle.constants import THRESHOLDS
from unshuffle.cost.machine import Machine
from unshuffle.plan.logical import Filter, Join
from unshuffle.spark.execution.compare import same_rows
from unshuffle.spark.execution.run import Execution, consume
from unshuffle.spark.session import temporarily
from unshuffle.sstream import open_stream
from workloads import tpch

pytestmark = pytest.mark.spark

# Starting a stage costs little beside the few rows of a test, so there are exchanges to observe.
PARALLEL = Machine(
    cores=2, stage=1e-5, task=1e-6, block=1e-12, connection=1e-12, broadcast_bytes=2e5, file_piece_bytes=1e3
)
# So few rows are looked at, and any plan is replaced in which an estimate was off, even if it is nearly done.
EAGER = replace(
    THRESHOLDS, replan_error=20.0, replan_rows=20, replan_gain=0.0, replan_seconds=0.0, replan_skew_bytes=1.0
)

# The rows below the aggregate are misjudged. The nested-loop join above its exchange takes seconds: there is time to plan.
SLOW = """
    SELECT count(*) AS pairs, max(x.v + y.v) AS most
    FROM (SELECT k, sum(v) AS v FROM t WHERE w < 1500 GROUP BY k) AS x
    JOIN (SELECT k, v FROM t WHERE w >= 0) AS y ON x.v * y.v >= 0 AND x.k < y.k
"""


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("optimizer", "pipeline", "spark.execution.replanning"):
        monkeypatch.setattr(f"unshuffle.{module}.THRESHOLDS", EAGER)


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replanning")
    rows = spark.range(1500).selectExpr("id as k", "id % 7 as v", "id as w")
    rows.repartition(4).write.parquet(str(folder / "t.parquet"))
    return folder


@pytest.fixture
def session(spark: SparkSession, table: Path) -> Session:
    session = Session(spark, tables=table)
    plan_for(session, PARALLEL)
    return session


@pytest.fixture
def script(table: Path, tmp_path: Path) -> Path:
    script = tmp_path / "slow.scope"
    script.write_text(
        f"""
        t = EXTRACT k:long, v:long, w:long FROM "{table}/t.parquet" USING Parquet();
        first = SELECT v, count(*) AS n FROM t GROUP BY v;
        OUTPUT first TO "{tmp_path}/out/first.parquet" USING Parquet();
        slow = {SLOW};
        OUTPUT slow TO "{tmp_path}/out/slow.parquet" USING Parquet();
        """
    )
    return script


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_replaced_plan_writes_its_outputs_once(session: Session, script: Path, tmp_path: Path, eager: None) -> None:
    """The output that was complete when the plan was replaced is written again, and what was staged is gone. A job of another
    thread in the same session goes on."""
    spark = session.spark
    other = spark.range(0, 1_000_000, 1, 2).where("sha2(cast(id as string), 256) like 'none%'")
    with ThreadPoolExecutor() as pool, planted(Filter, 0.001):
        beside = pool.submit(other.count)
        run = session.run(script)
        assert beside.result() == 0
    assert len(run.replanned) == 1
    assert "the exchange of (k, v) had" in run.replanned[0]
    assert "2 were estimated" in run.replanned[0]
    assert run.fallbacks == ()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["first.parquet", "slow.parquet"]
    assert spark.read.parquet(f"{tmp_path}/out/first.parquet").count() == 7
    assert [result.rows for result in run.results] == [7, 1]
    (found,) = spark.read.parquet(f"{tmp_path}/out/slow.parquet").collect()
    assert found["pairs"] == 1500 * 1499 // 2
    assert not [name for name in files(tmp_path / "out") if "unshuffle" in name or "_temporary" in name]


def test_right_estimates_are_left_alone(session: Session, script: Path, eager: None) -> None:
    run = session.run(script)
    assert run.replanned == ()


def test_a_stream_is_written_once(session: Session, tmp_path: Path, eager: None) -> None:
    query = tmp_path / "slow.sql"
    query.write_text(SLOW)
    with planted(Filter, 0.001):
        stream = session.write_stream(query, tmp_path / "stream", clustered_by="pairs", partitions=2)
    assert stream.manifest.rows == 1
    assert open_stream(str(tmp_path / "stream")).version == 1
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == ["stream"]


def test_compare_tells_of_plans_that_were_replaced(session: Session, tmp_path: Path, eager: None) -> None:
    query = tmp_path / "slow.sql"
    query.write_text(SLOW)
    with planted(Filter, 0.001):
        comparison = session.compare(query, runs=1)
    assert comparison.same_rows
    assert comparison.replanned


def test_a_broadcast_that_fails_is_planned_without(session: Session, tmp_path: Path) -> None:
    """The estimate is right, but Spark refuses a table of this size."""
    query = tmp_path / "joined.sql"
    query.write_text("SELECT count(*) AS n FROM t AS x JOIN t AS y ON x.k = y.v")
    plan_for(session, replace(PARALLEL, send_row=1e-3, receive_row=1e-3, network_byte=1e-12, broadcast_bytes=1e9))
    with temporarily(session.spark, **{"spark.sql.maxBroadcastTableSize": "100b"}):
        run = session.run(query)
    assert run.results[0].first == ((1500,),)
    assert run.replanned[0].endswith("a table was too large for a broadcast")


# Three of five rows have one value, which nobody knows: so few rows are not looked at. Its pairs take a second.
SKEWED = """
    SELECT max(abs(x.w * y.w - x.w)) AS most
    FROM (SELECT if(k % 5 < 3, 7, k) AS k, w FROM t WHERE w >= 0) AS x
    JOIN (SELECT if(k % 5 < 3, 7, k) AS k, w FROM t WHERE w < 2000) AS y ON x.k = y.k
"""
NO_BROADCASTS = replace(PARALLEL, cores=8, broadcast_bytes=1.0)


def test_a_join_on_a_heavy_value_is_left_to_adaptive_execution(session: Session, tmp_path: Path, eager: None) -> None:
    """Its partition is found to be too large when it has been written, and no other plan avoids it."""
    query = tmp_path / "skewed.sql"
    query.write_text(SKEWED)
    plan_for(session, NO_BROADCASTS)
    with temporarily(session.spark, **{"spark.sql.adaptive.enabled": "true"}):
        run = session.run(query)
    expected = session.pipeline.baseline(session.pipeline.bind(query)).frames[0].collect()
    assert run.results[0].first == (tuple(expected[0]),)
    assert "left to Spark's adaptive execution" in run.replanned[0]
    assert "had a partition with" in run.replanned[0]
    assert run.fallbacks == ()


def test_without_adaptive_execution_a_heavy_value_stays(session: Session, tmp_path: Path, eager: None) -> None:
    query = tmp_path / "skewed.sql"
    query.write_text(SKEWED)
    plan_for(session, NO_BROADCASTS)
    with temporarily(session.spark, **{"spark.sql.adaptive.enabled": "false"}):
        run = session.run(query)
    assert not any("adaptive" in each for each in run.replanned)


def test_a_fault_in_planning_again_is_told(
    session: Session, tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan that is running goes on."""

    def broken(*_: object) -> None:
        raise TypeError("planted")

    monkeypatch.setattr("unshuffle.optimizer.Planning.again", broken)
    query = tmp_path / "slow.sql"
    query.write_text(SLOW)
    with planted(Filter, 0.001), pytest.warns(NotOptimizedWarning, match="planted"):
        run = session.run(query)
    assert run.replanned == ()
    assert run.results[0].first[0][0] == 1500 * 1499 // 2


@pytest.fixture
def tpch_session(spark: SparkSession, tpch_data: Path) -> Session:
    session = Session(spark, tables=tpch_data)
    plan_for(session, PARALLEL)
    return session


def test_wrong_estimates_give_the_same_rows(tpch_session: Session, eager: None) -> None:
    """A hundredfold error of one estimate, both ways: whether the plan is replaced in time or not, its rows are right."""
    session, replaced = tpch_session, 0
    queries = tpch.queries()
    for number in (3, 5, 9, 10, 18, 21):
        script = session.pipeline.bind(queries[number])
        plain = session.pipeline.baseline(script).frames[0]
        for factor in (0.01, 100.0):
            with planted(Join, factor):
                same, count = session.pipeline.running(script, _compared_with(plain))
            assert same, (number, factor)
            replaced += count
    assert replaced > 0


def _compared_with(plain: DataFrame) -> Callable[[Execution], tuple[bool, int]]:
    def action(execution: Execution) -> tuple[bool, int]:
        consume(execution)
        (frame,) = execution.frames
        return same_rows(plain, frame), len(execution.replaced)

    return action
