"""Aggregates pushed through joins, and semi-joins rewritten as joins, on Spark: the rows of plain Spark, signs of zeros
included. Each test also checks whether the rule fired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.rule_differential import quick
from unshuffle import Session
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan import physical
from unshuffle.spark.lowering.lowering import lowering
from unshuffle.target import Target
from unshuffle.verify import verify

pytestmark = pytest.mark.spark

# Equal as double, different as bigint.
LARGE = 9007199254740992
# Hash tables and sorts are expensive here, so the small input is the build side.
EXPENSIVE_TABLES = Machine(cores=2, stage=1e-9, task=1e-9, build_row=1.0, sort_row=1.0, compare=1.0)
# Groups are expensive here, so a join that reduces the rows comes first.
EXPENSIVE_GROUPS = Machine(cores=2, stage=1e-9, task=1e-9, hash_group_row=1.0, new_group=1.0, sort_row=1.0, compare=1.0)
# The output of joins is expensive here, so what reduces it comes first.
EXPENSIVE_JOINS = Machine(cores=2, stage=1e-9, task=1e-9, joined_row=1.0, probe_row=1.0, merge_row=1.0)


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("through_joins")
    few = {
        "id": pa.array([LARGE, LARGE + 1, 3, 4, None], pa.int64()),
        "k": pa.array([1, 1, 2, None, 3], pa.int32()),
        "s": ["same", "same", "é", "", None],
        "x": [0.0, -0.0, float("nan"), -0.0, 1.0],
    }
    many = {
        "d": [float(LARGE), float(LARGE), 3.0, None] * 20,
        "i": pa.array([LARGE, LARGE + 1, 3, 4, None] * 16, pa.int64()),
        "e": pa.array([1, 2, None, 7] * 20, pa.int32()),
        "v": pa.array(range(80), pa.int32()),
    }
    twice = pa.concat_tables([pa.table(few), pa.table(few)])
    for name, table in (("few", pa.table(few)), ("many", pa.table(many)), ("twice", twice)):
        pq.write_table(table, folder / f"{name}.parquet")
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    made = Session(spark, tables=Path(folder), effort="full")
    made.declare_key("few", "id")
    with quick(spark):
        yield made
    for name in ("few", "many", "twice"):
        spark.catalog.dropTempView(name)


def planned(session: Session, query: str, machine: Machine) -> PlannedQuery:
    """The plan, after a check that its rows are those of plain Spark."""
    optimized = optimize(session.pipeline.bind(query), Options(Target(machine, is_managed=False)))
    verify(optimized)
    ((output, plan),) = optimized.outputs
    with lowering(session.spark, optimized) as lowered:
        frame = lowered.output(plan, [c.name for c in output.plan.columns])
    # As text: a zero keeps its sign, and all NaNs are equal.
    plain, ours = (Counter(map(str, each.collect())) for each in (session.spark.sql(query), frame))
    assert ours == plain
    return optimized


def semi_joins(optimized: PlannedQuery) -> int:
    nodes = (node.operator for node in optimized.outputs[0][1].walk())
    joins = (
        each for each in nodes if isinstance(each, physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin)
    )
    return sum(join.kind is JoinKind.SEMI for join in joins)


BELOW = "select {0}, sum(v) as n from many join few on {0} = id group by {0}"
ABOVE = "select {0}, n, s from (select {0}, sum(v) as n from many group by {0}) join few on {0} = id where k < 3"


@pytest.mark.parametrize(
    ("rule", "query", "machine"),
    [("aggregate_below_join", BELOW, EXPENSIVE_JOINS), ("aggregate_above_join", ABOVE, EXPENSIVE_GROUPS)],
)
def test_a_key_compared_as_floating_point_is_not_unique(
    session: Session, rule: str, query: str, machine: Machine
) -> None:
    assert planned(session, query.format("i"), machine).trace.rules[rule] > 0
    assert planned(session, query.format("d"), machine).trace.rules[rule] == 0


JOINED = "many join twice as a on e = a.k join twice as b on a.s = b.s"
ABOVE_JOINS = [
    f"select i, n, s from (select i, sum(v) as n from {JOINED} group by i) join few on i = id where k < 3",
    # The equalities below and above form one class, in which one input has two columns.
    f"select x.i, n from (select i, a.id, sum(v) as n from {JOINED} group by i, a.id) x join few on i = few.id and x.id = few.id",
    f"select i, n, s from (select i, sum(v) as n from {JOINED} and a.id > v group by i) join few on i = id where k < 3",
]


@pytest.mark.parametrize("query", ABOVE_JOINS)
def test_a_join_pushed_below_a_group_by_takes_part_in_join_reordering(session: Session, query: str) -> None:
    optimized = planned(session, query, EXPENSIVE_GROUPS)
    assert optimized.trace.rules["aggregate_above_join"] > 0
    (grouped,) = [
        n
        for n in optimized.outputs[0][1].walk()
        if isinstance(n.operator, physical.HashAggregate | physical.SortAggregate)
    ]
    joins = [
        n
        for n in grouped.walk()
        if isinstance(n.operator, physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin)
    ]
    assert len(joins) == 3


SEMI = [
    "select id, s from few where exists (select 1 from many where e = k)",
    "select s from few where exists (select 1 from many where e = k and i <> id)",  # duplicates are kept
    "select id, s from few where k in (select e from many)",
    "select id, k from few where exists (select 1 from many where e <=> k)",
    "select id, k from few where exists (select 1 from many where e <=> k and v > k)",
    "select s from few where exists (select 1 from many where d = id)",  # as doubles
    "select s from few where exists (select 1 from many where i <=> id)",
]
# GROUP BY drops the sign of a zero.
ZEROS = [
    ("semi_join_as_join", "select id, x from few where exists (select 1 from many where i = id)", EXPENSIVE_TABLES),
    (
        "aggregate_above_join",
        ABOVE.format("i").replace("n, s", "n, x").replace("k < 3", "k < 3 or s = ''"),
        EXPENSIVE_GROUPS,
    ),
    (
        "aggregate_below_join",
        BELOW.format("i").replace("by i", "by i, x").replace("select i", "select x"),
        EXPENSIVE_JOINS,
    ),
]


@pytest.mark.parametrize(("rule", "query", "machine"), ZEROS)
def test_a_zero_keeps_its_sign(session: Session, rule: str, query: str, machine: Machine) -> None:
    assert planned(session, query, machine).trace.rules[rule] == 0


@pytest.mark.parametrize("query", SEMI)
def test_semi_joins_of_few_rows_are_joins(session: Session, query: str) -> None:
    optimized = planned(session, query, EXPENSIVE_TABLES)
    assert optimized.trace.rules["semi_join_as_join"] > 0
    assert semi_joins(optimized) == 0


@pytest.mark.parametrize("query", SEMI)
def test_semi_joins_without_a_key_are_not_rewritten(session: Session, query: str) -> None:
    optimized = planned(session, query.replace("from few", "from twice"), EXPENSIVE_TABLES)
    assert optimized.trace.rules["semi_join_as_join"] == 0
    assert semi_joins(optimized) == 1
