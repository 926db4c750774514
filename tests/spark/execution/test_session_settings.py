"""Plans run under settings that suit them, and only while they run: file splits for each core, and no two-level aggregate
map where there are many groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options, optimize
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.spark.session import temporarily
from unshuffle.target import MAX_PARTITION_BYTES, TWO_LEVEL_MAP, Target, gains_by_two_level_map
from workloads.described import Described, parse

pytestmark = pytest.mark.spark

TABLE = """
t  rows=100000000
    name string width=32 distinct=1000000
    number bigint distinct=1000000
    kind string width=8 distinct=1000
    v bigint distinct=1000000
fewer  rows=10000000
    name string width=32 distinct=1000000
    v bigint distinct=1000000
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 400 MB, nearly all of it a hole between its rows and its footer."""
    path = tmp_path_factory.mktemp("large") / "rows.parquet"
    pq.write_table(pa.table({"id": list(range(100))}), path)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    with path.open("r+b") as file:
        file.seek(400_000_000 - footer)
        file.write(whole[-footer:])
    return path


@pytest.fixture
def session(spark: SparkSession, large: Path) -> Iterator[Session]:
    spark.read.parquet(str(large)).createOrReplaceTempView("large")
    yield Session(spark, effort="full")
    spark.catalog.dropTempView("large")


def pieces(frame: DataFrame) -> int:
    return int(frame._jdf.queryExecution().executedPlan().execute().getNumPartitions())


def planned_pieces(session: Session) -> int:
    return session.pipeline.target().machine.file_pieces(400e6)


QUERY = "select id from large where id > 10"


def test_each_core_reads_a_piece_of_large_files(session: Session, spark: SparkSession) -> None:
    assert pieces(spark.sql(QUERY)) > 2
    with session.pipeline.executing(session.pipeline.bind(QUERY)) as execution:
        (frame,) = execution.frames
        assert pieces(frame) == 2 == planned_pieces(session)
        assert pieces(spark.sql(QUERY)) > 2  # the user's session keeps its settings while the plan runs
        assert frame.count() == 89


def test_settings_of_the_user_are_respected(session: Session, spark: SparkSession) -> None:
    with (
        temporarily(spark, **{MAX_PARTITION_BYTES: 100_000_000, TWO_LEVEL_MAP: True}),
        session.pipeline.executing(session.pipeline.bind(QUERY)) as execution,
    ):
        (frame,) = execution.frames
        assert pieces(execution.spark.sql(QUERY)) == 4 == planned_pieces(session)
        assert frame.count() == 89
        assert execution.spark.conf.get(TWO_LEVEL_MAP) == "true"


def test_a_dataframe_is_planned_for_settings_of_its_own(session: Session, spark: SparkSession) -> None:
    most = int(spark._jsparkSession.sessionState().conf().filesMaxPartitionBytes())
    assert session.pipeline.target(is_managed=False).machine.file_piece_bytes == Machine().file_piece_bytes > most
    with temporarily(spark, **{MAX_PARTITION_BYTES: 100_000_000}):
        assert session.pipeline.target(is_managed=False).machine.file_piece_bytes == 100_000_000
    assert pieces(session.sql(QUERY)) == planned_pieces(session) < pieces(spark.sql(QUERY))


@pytest.mark.parametrize(("key", "gains"), [("name", False), ("number", False), ("kind", True)])
def test_many_groups_disable_the_two_level_map(tmp_path: Path, key: str, gains: bool) -> None:
    assert gains_by_two_level_map(nodes(tmp_path, f"select {key}, sum(v) as s from t group by {key}")) == gains


def test_the_rows_of_all_aggregates_decide_about_the_two_level_map(tmp_path: Path) -> None:
    fewer = "select name, sum(v) as s from fewer group by name"
    more = "select kind, sum(v) as s from t group by kind"
    assert not gains_by_two_level_map(nodes(tmp_path, fewer))
    assert gains_by_two_level_map(nodes(tmp_path, f"{fewer} union all {more}"))


def test_a_plan_without_partial_aggregates_keeps_the_two_level_map(session: Session) -> None:
    with session.pipeline.executing(session.pipeline.bind(QUERY)) as execution:
        assert not execution.spark._jsparkSession.sessionState().conf().contains(TWO_LEVEL_MAP)


def nodes(tmp_path: Path, query: str) -> list[PhysicalPlan]:
    bound = Described(tmp_path / "tables", parse(TABLE)).bind(query, "query", is_script=False)
    planned = optimize(bound, Options(Target(Machine(cores=8))))
    return [node for root in planned.roots for node in root.walk()]
