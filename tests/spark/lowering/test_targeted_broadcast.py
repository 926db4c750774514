"""Joins of a range-partitioned stream with a targeted broadcast: the rows of plain Spark, copies in the planned partitions,
and no exchange of the stream."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.claimed_layouts import broken, can_be_checked, collected, with_places
from tests.support.generated_queries import FAMILIES, Query, write_tables
from tests.support.spark_differential import MACHINES, _counted, in_two_sessions
from unshuffle import Session
from unshuffle.errors import InternalError
from unshuffle.explain.render.physical import physical_tree
from unshuffle.explain.render.text import text as in_words
from unshuffle.implement.spark_ordering import is_sorted_as_planned
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.partitions import KeyColumn, KeyOrder
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalOperator, PhysicalPlan
from unshuffle.properties import Partitioned, PrefixPartitioned, Replicated, TargetedBroadcast
from unshuffle.spark.execution import executed_plan_diff
from unshuffle.spark.lowering.lowering import lowering
from unshuffle.target import Target
from unshuffle.verify import verify

pytestmark = pytest.mark.spark
LAYOUTS, QUERIES_OF_EACH = (40, 300) if "UNSHUFFLE_SOAK" in os.environ else (1, 60)

# `a` spans three ranges, `c` begins one, `d` fills one and parts of two others, and one range is empty.
PAIRS = (
    *((None, None), (None, 7), ("a", None), ("a", 0), ("a", 1), ("a", 2), ("a", 2), ("a", 5), ("b", 1), ("b", 1)),
    *(("c", 0), ("c", 3), ("d", 1), ("d", 2), ("d", 9), ("f", 4), ("f", 4)),
)
BIG = [(d, h, v) for v, (d, h) in enumerate(PAIRS)]
BOUNDARIES = [("a", 1), ("a", 2), ("c",), ("d", 1), ("d", 9), ("e", 0), ("e", 5)]
# NULL keys, duplicates, and domains between ranges, before the first, after the last and in empty ranges.
SMALL = [
    (None, 1),
    (None, 2),
    ("a", 1),
    ("a", 2),
    ("a", 2),
    ("b", 0),
    ("d", 4),
    ("e", 5),
    ("A", 6),
    ("z", 7),
    ("cc", 8),
]


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a domain, and the boundaries of the stream."""

    type: pa.DataType
    value: Callable[[str], Any]
    clustered_by: tuple[str, str] = ("d", "h")

    def of(self, domain: str | None) -> Any:
        return None if domain is None else self.value(domain)

    def boundaries(self) -> list[tuple[Any, ...]]:
        cuts = [(self.of(cut[0]), *cut[1:]) for cut in BOUNDARIES]
        return cuts[::-1] if self.clustered_by[0].endswith("desc") else cuts


KINDS = {
    "text": Kind(pa.string(), str),
    "bigint": Kind(pa.int64(), lambda text: 100 * ord(text[0]) + len(text)),
    "descending": Kind(pa.string(), str, ("d desc", "h desc")),
}

QUERIES = {
    "inner": "select b.d, b.h, b.v, s.n from b join s on b.d = s.d",
    "inner, the other way": "select b.d, b.h, b.v, s.n from s join b on b.d = s.d",
    "left": "select b.d, b.h, b.v, s.d as e, s.n from b left join s on b.d = s.d",
    "right": "select b.d, b.h, b.v, s.d as e, s.n from s right join b on b.d = s.d",
    "semi": "select b.d, b.h, b.v from b left semi join s on b.d = s.d",
    "anti": "select b.d, b.h, b.v from b left anti join s on b.d = s.d",
    "with a condition": "select b.d, b.h, b.v, s.n from b left join s on b.d = s.d and s.n < b.h",
    "NULLs that meet": "select b.d, b.h, b.v, s.n from b join s on b.d <=> s.d",
    "grouped": "select b.d, b.h, count(*) as c, sum(s.n) as n from b join s on b.d = s.d group by b.d, b.h",
    "a column that is not read": "select b.d, b.v, s.n from b left join s on b.d = s.d where b.v <> 3",
    "two of them, and not read": "select b.d, b.v, s.n, t.n as m from b join s on b.d = s.d left join s t on b.d = t.d",
    "no rows": "select b.d, b.h, b.v, s.n from b left join (select * from s where n < 0) s on b.d = s.d",
}


def only_targeted(operator: PhysicalOperator, inputs: Sequence[PhysicalPlan]) -> bool:
    """So few rows would normally be broadcast. Here only targeted broadcasts are allowed."""
    if isinstance(operator, physical.Exchange) and isinstance(getattr(operator.how, "scheme", None), Replicated):
        return False
    if isinstance(operator, physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin):
        return any(isinstance(each.delivered.partitioning, TargetedBroadcast) for each in inputs)
    return is_sorted_as_planned(operator, inputs)


@dataclass(frozen=True, slots=True)
class Sides:
    plain: SparkSession
    ours: Session


@pytest.fixture(scope="module", params=KINDS)
def sides(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sides]:
    kind, tables = KINDS[request.param], tmp_path_factory.mktemp("tables")
    plain, ours = in_two_sessions(spark)
    big, small = (
        pa.table(
            {
                name: pa.array(values, type_)
                for name, values, type_ in zip(names, zip(*rows, strict=True), types, strict=True)
            }
        )
        for names, rows, types in (
            ("dhv", [(kind.of(d), h, v) for d, h, v in BIG], (kind.type, pa.int32(), pa.int64())),
            ("dn", [(kind.of(d), n) for d, n in SMALL], (kind.type, pa.int64())),
        )
    )
    clustered = list(kind.clustered_by)
    Session(ours, effort="full").write_stream(
        ours.createDataFrame(big), tables / "b.ss", clustered_by=clustered, ranged=True, boundaries=kind.boundaries()
    )
    pq.write_table(small, tables / "s.parquet")
    for name, rows in (("b", big), ("s", small)):
        plain.createDataFrame(rows).createOrReplaceTempView(name)
    yield Sides(plain, Session(ours, tables=tables, effort="full"))
    for name in ("b", "s"):
        plain.catalog.dropTempView(name)


def planned(session: Session, query: str | Path) -> PlannedQuery:
    options = Options(Target(MACHINES[0], is_managed=False), accepts=only_targeted)
    optimized = optimize(session.pipeline.bind(query), options)
    verify(optimized)
    return optimized


@pytest.mark.parametrize("name", QUERIES)
def test_rows_copies_and_exchanges(sides: Sides, name: str) -> None:
    optimized = planned(sides.ours, QUERIES[name])
    plan = optimized.outputs[0][1]
    joins = [node for node in plan.walk() if node.alternative.startswith("targeted")]
    moves = [node.operator for node in plan.walk() if isinstance(node.operator, physical.Exchange)]
    assert len(moves) == len(joins) == QUERIES[name].count("join")
    for join in joins:
        assert any(isinstance(each.delivered.partitioning, Partitioned | PrefixPartitioned) for each in join.inputs)
    text = assert_as_planned(sides, QUERIES[name], optimized, adaptive=len(name) % 2 == 0)
    assert "Broadcast" not in text
    assert "ShuffledHashJoin" in text


def assert_as_planned(sides: Sides, query: str, optimized: PlannedQuery, adaptive: bool) -> str:
    """Checks rows, layouts, exchanges and sorts against the plan. Returns Spark's plan as text."""
    # Without adaptive execution, Spark would reuse an exchange that occurs twice.
    for setting in ("spark.sql.adaptive.enabled", "spark.sql.exchange.reuse"):
        sides.ours.spark.conf.set(setting, str(adaptive).lower())
    expected = _counted(tuple(row) for row in sides.plain.sql(query).collect())
    plan = optimized.outputs[0][1]
    pruned = [node for node in plan.walk() if node.alternative.startswith("targeted")]
    inputs = [each for join in pruned for each in join.inputs]
    nodes = [node for node in can_be_checked(plan) if any(node is each for each in (*pruned, *inputs))]
    assert any(isinstance(node.delivered.partitioning, TargetedBroadcast) for node in nodes)
    with lowering(sides.ours.spark, optimized) as lowered:
        frames = {id(node): with_places(lowered, node) for node in (plan, *nodes)}
    text: str = frames[id(plan)]._jdf.queryExecution().executedPlan().toString()
    executed = executed_plan_diff.of_text(text.splitlines())
    shown = f"{query}\n{in_words(physical_tree(optimized))}"
    as_planned = executed_plan_diff.as_planned(optimized, lowered.spark_exchanges)
    differences = executed_plan_diff.differences(as_planned, executed)
    if any(isinstance(node.operator, physical.FileScan) and node.operator.scan.needed == () for node in plan.walk()):
        # Spark knows that the scan has no rows, and plans no exchange for them.
        differences = [each for each in differences if not each.startswith("Spark left out")]
    assert differences == [], shown
    assert _counted(collected(frames[id(plan)], plan).rows) == expected, shown
    for node in nodes:
        assert broken(node, collected(frames[id(node)], node)) is None, f"{shown}\n{node.operator}"
    return text


KEEP = """
from unshuffle.operators import Processor

class Keep(Processor):
    def process(self, batch):
        yield batch
"""
SCRIPT = """
p = PROCESS b PRODUCE d, h, v READONLY d, h USING keeping.Keep();
r = SELECT p.d, p.h, p.v, s.n FROM p LEFT JOIN s ON p.d == s.d;
OUTPUT r TO "nowhere.parquet";
"""


def test_rows_without_a_partition_number(sides: Sides, tmp_path: Path) -> None:
    """The output of user code is in the planned partitions, but carries no partition number."""
    (tmp_path / "keeping.py").write_text(KEEP)
    (tmp_path / "script.scope").write_text(SCRIPT)
    optimized = planned(sides.ours, tmp_path / "script.scope")
    plan = optimized.outputs[0][1]
    (join,) = [node for node in plan.walk() if node.alternative.startswith("targeted")]
    assert isinstance(join.inputs[0].delivered.partitioning, Partitioned)
    assert any(isinstance(node.operator, physical.RunProcess) for node in join.inputs[0].walk())
    expected = _counted(tuple(row) for row in sides.plain.sql(QUERIES["left"].replace("s.d as e, ", "")).collect())
    with lowering(sides.ours.spark, optimized) as lowered:
        frame = with_places(lowered, plan)
    assert _counted(collected(frame, plan).rows) == expected


@pytest.mark.parametrize("seed", range(LAYOUTS))
def test_generated_queries(spark: SparkSession, tmp_path: Path, seed: int, report: list[str]) -> None:
    """Queries in which every join can use a targeted broadcast, over streams in ranges of two columns."""
    draw = random.Random(seed)
    tables, streams = tmp_path / "tables", tmp_path / "streams"
    write_tables(tables)
    plain, ours = in_two_sessions(spark)
    for table in sorted(tables.iterdir()):
        rows = pq.read_table(table)
        plain.createDataFrame(rows).createOrReplaceTempView(table.stem)
        by = [draw.choice(FAMILIES[table.stem]["number"])]
        by.append(draw.choice([c for family in FAMILIES[table.stem].values() for c in family if c not in by]))
        Session(ours, effort="full").write_stream(
            str(table), streams / f"{table.stem}.ss", clustered_by=by, ranged=True, boundaries=cuts(draw, by, rows)
        )
    sides, ran = Sides(plain, Session(ours, tables=streams, effort="full")), 0
    for number in range(QUERIES_OF_EACH):
        query = Query(number).text()
        try:
            optimized = planned(sides.ours, query)
        except InternalError as problem:
            if "no plan delivers" not in str(problem):
                raise
            continue  # some join cannot use a targeted broadcast
        if any(node.alternative.startswith("targeted") for node in optimized.outputs[0][1].walk()):
            assert_as_planned(sides, query, optimized, adaptive=number % 4 == 0)
            ran += 1
    report.append(f"generated queries whose joins bring rows only to where matches can be: {ran}")
    for table in tables.iterdir():
        plain.catalog.dropTempView(table.stem)


def cuts(draw: random.Random, by: list[str], rows: pa.Table) -> list[tuple[Any, ...]]:
    values = [tuple(row.values()) for row in rows.select(by).to_pylist()]
    order = KeyOrder([KeyColumn(rows.schema.field(name).type) for name in by])
    chosen = [draw.choice(values)[: draw.choice([1, 2, 2])] for _ in range(6 if values else 0)]
    return [cut for _, cut in sorted({order.row(cut): cut for cut in chosen}.items())]
