"""Aggregation trees on Spark: the rows of plain Spark, and the planned exchanges.

The machines allow four connections, so that ten small files need a tree, and connections are expensive, so that the tree is
chosen."""

from __future__ import annotations

import decimal
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.spark.execution import executed_plan_diff
from unshuffle.spark.lowering.lowering import lowering
from unshuffle.target import Target
from unshuffle.verify import verify

pytestmark = pytest.mark.spark
PIECES = 10
# Only reading files in one stream, connecting and sorting cost anything.
EXPENSIVE = {"scan_row": 1e-3, "connection": 1e-3, "sort_row": 1e-4}
TREES = Machine(cores=8, fan_in=4, stage=1e-9, task=1e-9, block=1e-12, file_piece_bytes=1500.0, **EXPENSIVE)
CALLS = """
    count(*) as n, count(v) as c, sum(i) as s, sum(d) as ds, avg(d) as da, avg(i) as ia, min(i) as low, max(d) as high,
    sum(i) filter (where i > 2) as some, bool_or(i > 3) as any, var_pop(v) as var, max_by(i, i) as by
"""
KEYS = ["k", "k, f", "x", "i % 3"]


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("trees")
    for name, rows in (("t", 12), ("none", 0)):
        (folder / f"{name}.parquet").mkdir()
        for piece in range(PIECES):
            pq.write_table(_piece(piece, rows), folder / f"{name}.parquet" / f"{piece}.parquet")
    ours = spark.newSession()
    # One task per file, as on the machine of the plan.
    ours.conf.set("spark.sql.files.maxPartitionBytes", "1500")
    ours.conf.set("spark.sql.files.openCostInBytes", "1500")
    for name in ("t", "none"):
        ours.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(f"plain_{name}")
    return Session(ours, tables=folder, effort="full")


def _piece(piece: int, rows: int) -> pa.Table:
    """NULL keys, zeros of both signs, NaN, and groups that are in one partition only."""
    numbers = range(rows)
    return pa.table(
        {
            "k": pa.array([None if (n + piece) % 5 == 0 else (n + piece) % 4 for n in numbers], pa.int32()),
            "f": pa.array([("é", None, "a")[n % 3] for n in numbers], pa.string()),
            "x": pa.array([(0.0, -0.0, float("nan"), None, float(piece))[n % 5] for n in numbers], pa.float64()),
            "i": pa.array([None if n == piece else n % 7 for n in numbers], pa.int64()),
            "d": pa.array([None if n == 3 else decimal.Decimal(n + piece) / 4 for n in numbers], pa.decimal128(10, 2)),
            "v": pa.array([float(n) if n % 4 else None for n in numbers], pa.float64()),
        }
    )


def planned(session: Session, query: str, machine: Machine = TREES) -> PlannedQuery:
    optimized = optimize(session.pipeline.bind(query), Options(Target(machine, is_managed=False)))
    verify(optimized)
    return optimized


def levels(optimized: PlannedQuery) -> int:
    nodes = (node.operator for root in optimized.roots for node in root.walk())
    return sum(getattr(operator, "phase", None) == "combining" for operator in nodes)


def rows_of(session: Session, optimized: PlannedQuery) -> Counter[tuple[object, ...]]:
    """The rows of a plan. Spark must run it with the planned exchanges."""
    plan = optimized.outputs[0][1]
    with lowering(session.spark, optimized) as lowered:
        frame = lowered.output(plan, [column.name for column in plan.columns])
        found = executed_plan_diff.differences(
            executed_plan_diff.as_planned(optimized, lowered.spark_exchanges), executed_plan_diff.of_frame(frame)
        )
    assert not found
    return counted(frame.collect())


def counted(rows) -> Counter[tuple[object, ...]]:  # type: ignore[no-untyped-def]
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if value != value else round(value, 9) + 0.0
    return value


def plain(session: Session, query: str) -> Counter[tuple[object, ...]]:
    return counted(session.spark.sql(query.replace("from ", "from plain_").replace("plain_g ", "g ")).collect())


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("table", ["t", "none"])
def test_groups(session: Session, keys: str, table: str) -> None:
    query = f"select {keys.replace('i % 3', 'i % 3 as m')}, {CALLS} from {table} group by {keys}"
    optimized = planned(session, query)
    assert table == "none" or levels(optimized) == 1
    assert rows_of(session, optimized) == plain(session, query)


@pytest.mark.parametrize("where", ["", "where i > 1", "where i + 0 > 100"])
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_global_aggregates_return_one_row_for_empty_input(session: Session, where: str, adaptive: str) -> None:
    session.spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    query = f"select {CALLS} from t {where}"
    optimized = planned(session, query)
    assert levels(optimized) == 1
    found = rows_of(session, optimized)
    session.spark.conf.unset("spark.sql.adaptive.enabled")
    assert found == plain(session, query)
    assert found.total() == 1


def test_in_order(session: Session) -> None:
    query = f"select k, {CALLS} from t group by k order by k"
    optimized = planned(session, query)
    assert levels(optimized) == 1
    assert rows_of(session, optimized) == plain(session, query)


def test_several_levels(session: Session) -> None:
    query = "select k, sum(i) as s, count(*) as n from t group by k"
    optimized = planned(session, query, replace(TREES, fan_in=2))
    assert levels(optimized) == 3  # seven, four and two fragments
    assert rows_of(session, optimized) == plain(session, query)


def test_distinct_rows(session: Session) -> None:
    query = "select distinct k, f from t"
    optimized = planned(session, query)
    assert levels(optimized) == 1
    assert rows_of(session, optimized) == plain(session, query)


def test_a_tree_below_a_join_and_twice_in_a_plan(session: Session) -> None:
    query = """
        with g as (select k, sum(i) as s from t group by k)
        select one.k, one.s, other.s as o from g one join g other on one.k = other.k
    """
    optimized = planned(session, query)
    assert rows_of(session, optimized) == plain(session, query)
