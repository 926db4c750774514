"""A partial aggregate below a join, with its states as columns that pass through the join: the rows of plain Spark.

Such plans are rarely the cheapest over few rows. The tests run the first few of them among all plans in order of cost."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.generated_queries import FAMILIES, machines, write_tables
from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.errors import Source
from unshuffle.optimizer import Options, PlannedQuery, optimize, optimize_ranked
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.spark.execution import executed_plan_diff
from unshuffle.spark.lowering.lowering import lowering
from unshuffle.target import Target
from unshuffle.verify import verify

pytestmark = pytest.mark.spark
PLANS = 1_000  # among which such plans are looked for
GENERATED = 600 if "UNSHUFFLE_SOAK" in os.environ else 30
CALLS = """
    sum(t.b) as s, count(t.b) as n, count(t.d) filter (where t.b > 1) as some, min(t.b) as low, max(t.d) as high, sum(t.d) as ds,
    bool_or(t.b > 3) as any, every(t.b < 5) as all
"""
QUERIES = {
    "by a key of the other input": f"select v.g, {CALLS} from t join v on t.a = v.id group by v.g",
    "by a key of its own": f"select t.s, {CALLS} from t join u on t.a = u.f group by t.s",
    "that several rows meet": f"select u.w, {CALLS} from t join u on t.a = u.f group by u.w",
    "of nothing": f"select u.w, {CALLS} from t join u on t.a = u.f and t.b > 100 group by u.w",
    "of an empty table": "select v.g, sum(none.h) as s, count(none.j) as n from none join v on none.i = v.id group by v.g",
    "totals": f"select {CALLS} from t join u on t.a = u.f",
    "totals of nothing": f"select {CALLS} from t join u on t.a = u.f and u.e > 100",
    "where a condition compares more": f"select u.w, {CALLS} from t join u on t.a = u.f and t.s < u.w group by u.w",
    "of the right input": "select t.s, sum(u.e) as s, count(u.e) as n from t join u on t.a = u.f group by t.s",
}
NEVER = {
    "an average, which has two partial states": "select u.w, avg(t.b) as a from t join u on t.a = u.f group by u.w",
    "a join that keeps all rows": "select u.w, sum(t.b) as s from t left join u on t.a = u.f group by u.w",
    "distinct values": "select u.w, sum(distinct t.b) as s from t join u on t.a = u.f group by u.w",
    "zeros that have a sign": "select t.x, sum(t.b) as s from t join u on t.a = u.f group by t.x",
    "a sum that may overflow": (
        "select u.w, sum(cast(t.d as decimal(38, 2))) as s from t join u on t.a = u.f group by u.w"
    ),
    "a condition that changes": "select u.w, sum(t.b) as s from t join u on t.a = u.f and t.b > rand() group by u.w",
    "texts, which are sorted": "select u.w, min(t.s) as s from t join u on t.a = u.f group by u.w",
}


@dataclass(frozen=True, slots=True)
class Sides:
    plain: SparkSession
    ours: Session


@pytest.fixture(scope="module")
def sides(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    folder = tmp_path_factory.mktemp("partial_states") / "tables"
    write_tables(folder)
    plain = spark.newSession()
    for table in folder.iterdir():
        plain.createDataFrame(pq.read_table(table)).createOrReplaceTempView(table.stem)
    ours = spark.newSession()
    ours.conf.set(
        "spark.sql.shuffle.partitions", "2"
    )  # under a join, Spark would use its own number if that were larger
    return Sides(plain, Session(ours, tables=folder, effort="full"))


def below_a_join(optimized: PlannedQuery) -> bool:
    return any(_has_partial_states(side) for root in optimized.roots for join in _joins(root) for side in join.inputs)


def _joins(root: PhysicalPlan) -> Iterator[PhysicalPlan]:
    return (
        node
        for node in root.walk()
        if isinstance(node.operator, physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin)
    )


def _has_partial_states(side: PhysicalPlan) -> bool:
    while isinstance(side.operator, physical.Exchange | physical.LocalSort):
        (side,) = side.inputs
    return getattr(side.operator, "phase", None) == "partial"


def plans(session: Session, query: str, machine: Machine) -> Iterator[PlannedQuery]:
    script = session.pipeline.bind(query)
    for optimized in optimize_ranked(script, PLANS, Options(Target(machine, is_managed=False))):
        if below_a_join(optimized):
            verify(optimized)
            yield optimized


@pytest.mark.parametrize("name", QUERIES)
def test_rows(sides: Sides, name: str) -> None:
    """At least one machine has such plans among the cheapest."""
    assert sum(check(sides, QUERIES[name], machine, most=2) for machine in machines(partition_bytes=1e6)[1:3])


@pytest.mark.parametrize("seed", range(GENERATED))
def test_rows_of_generated_queries(sides: Sides, seed: int) -> None:
    draw = random.Random(seed)
    check(sides, generated(draw), draw.choice(machines(partition_bytes=1e6)[:4]), most=1)


def check(sides: Sides, query: str, machine: Machine, most: int) -> int:
    """Runs at most `most` of the plans, and returns how many there were."""
    seen, plain = 0, sides.plain.sql(query)
    expected = Counter(map(tuple, plain.collect()))
    for optimized in islice(plans(sides.ours, query, machine), most):
        seen += 1
        plan = optimized.outputs[0][1]
        with lowering(sides.ours.spark, optimized) as lowered:
            frame = lowered.output(plan, [column.name for column in plan.columns])
            planned = executed_plan_diff.as_planned(optimized, lowered.spark_exchanges)
            assert not executed_plan_diff.differences(planned, executed_plan_diff.of_frame(frame)), query
        assert frame.dtypes == plain.dtypes, query
        assert Counter(map(tuple, frame.collect())) == expected, query
    return seen


def generated(draw: random.Random) -> str:
    """Aggregates of one table over a join with another table or with itself."""
    near, far = draw.choice(["t", "u", "v"]), draw.choice(["t", "u", "v", "none"])

    def column(table: str, name: str, *families: str) -> str:
        return f"{name}.{draw.choice(FAMILIES[table][draw.choice(families)])}"

    family = draw.choice(["number", "number", "text", "amount"])
    condition = f"{column(near, 'x', family)} = {column(far, 'y', family)}"
    if draw.random() < 0.3:
        condition += f" and {column(near, 'x', 'number')} < {column(far, 'y', 'number')} + 1"
    keys = [column(near, "x", "text", "number") for _ in range(draw.choice([0, 0, 1]))]
    keys += [column(far, "y", "text", "number", "amount") for _ in range(draw.choice([0, 1, 1, 2]))]
    functions = ["sum", "count", "min", "max", "bit_xor", "bit_or"]
    calls = [f"{draw.choice(functions)}({column(near, 'x', 'number')})" for _ in range(draw.choice([1, 2]))]
    calls += draw.sample(["count(*)", f"sum({column(near, 'x', 'amount')})", f"max({column(near, 'x', 'amount')})"], 2)
    named = [f"{each} as c{place}" for place, each in enumerate([*dict.fromkeys(keys), *calls])]
    grouping = f" group by {', '.join(dict.fromkeys(keys))}" if keys else ""
    sides = f"{near} as x join {far} as y" if draw.random() < 0.5 else f"{far} as y join {near} as x"
    return f"select {', '.join(named)} from {sides} on {condition}{grouping}"


@pytest.mark.parametrize("name", NEVER)
def test_never(sides: Sides, name: str) -> None:
    script = sides.ours.pipeline.bind_source(Source("test.scope", NEVER[name]), None, is_script=True)
    assert not optimize(script).trace.rules["partial_aggregate_below_join"]
