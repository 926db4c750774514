"""Plans run under settings that suit them, and only while they run: a piece of the files for each core, and no second look
for groups that are too many to be found at the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.described import Described, parse
from pyspark.sql import DataFrame, SparkSession

from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Optimized, Options, optimize
from unshuffle.spark.as_made import PIECES, SMALL_TABLE, gains_by_small_table
from unshuffle.spark.session import temporarily

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
    yield Session(spark)
    spark.catalog.dropTempView("large")


def pieces(frame: DataFrame) -> int:
    return int(frame._jdf.queryExecution().executedPlan().execute().getNumPartitions())


def planned_pieces(session: Session) -> int:
    return session._options().machine.file_pieces(400e6)


QUERY = "select id from large where id > 10"


def test_each_core_reads_a_piece_of_large_files(session: Session, spark: SparkSession) -> None:
    assert pieces(spark.sql(QUERY)) > 2
    with session._planned(session._bind_what(QUERY, None)) as (frame,):
        assert pieces(spark.sql(QUERY)) == 2 == planned_pieces(session)
        assert frame.count() == 89
    assert pieces(spark.sql(QUERY)) > 2


def test_what_the_user_has_set_stays(session: Session, spark: SparkSession) -> None:
    with (
        temporarily(spark, **{PIECES: 100_000_000, SMALL_TABLE: True}),
        session._planned(session._bind_what(QUERY, None)),
    ):
        assert pieces(spark.sql(QUERY)) == 4 == planned_pieces(session)
        assert spark.conf.get(SMALL_TABLE) == "true"


def test_a_frame_for_the_user_is_planned_for_the_users_settings(session: Session, spark: SparkSession) -> None:
    most = int(spark._jsparkSession.sessionState().conf().filesMaxPartitionBytes())
    assert session._options(keeps=False).machine.file_piece_bytes == most < Machine().file_piece_bytes


@pytest.mark.parametrize(("key", "gains"), [("name", False), ("number", False), ("kind", True)])
def test_many_groups_are_not_looked_for_twice(tmp_path: Path, key: str, gains: bool) -> None:
    assert gains_by_small_table(planned(tmp_path, f"select {key}, sum(v) as s from t group by {key}")) == gains


def test_the_rows_of_all_aggregates_decide(tmp_path: Path) -> None:
    fewer = "select name, sum(v) as s from fewer group by name"
    more = "select kind, sum(v) as s from t group by kind"
    assert not gains_by_small_table(planned(tmp_path, fewer))
    assert gains_by_small_table(planned(tmp_path, f"{fewer} union all {more}"))


def test_a_plan_without_partial_aggregates_changes_nothing(session: Session, spark: SparkSession) -> None:
    with session._planned(session._bind_what(QUERY, None)):
        assert not spark._jsparkSession.sessionState().conf().contains(SMALL_TABLE)


def planned(tmp_path: Path, query: str) -> Optimized:
    bound = Described(tmp_path / "tables", parse(TABLE)).bind(query, "query", is_script=False)
    return optimize(bound, Options(Machine(cores=8)))
