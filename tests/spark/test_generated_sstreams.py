"""Generated queries over structured streams in random layouts: the rows of plain Spark, read and partitioned as planned.

Streams are hash- or range-partitioned, on one or two columns, in either direction, into one or many partitions, some of
them empty. Boundaries are NULLs, existing values and missing values."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.generated_queries import FAMILIES, Query, write_tables
from tests.support.spark_differential import MACHINES, Sides, in_two_sessions, problems
from unshuffle import Session
from unshuffle.optimizer import Options, optimize
from unshuffle.partitions import KeyColumn, KeyOrder
from unshuffle.plan import physical
from unshuffle.properties import Partitioned
from unshuffle.target import Target

pytestmark = pytest.mark.spark
LAYOUTS = 60 if "UNSHUFFLE_SOAK" in os.environ else 4
QUERIES = 100 if "UNSHUFFLE_SOAK" in os.environ else 25


def layout(draw: random.Random, table: str, rows: pa.Table) -> dict[str, Any]:
    """The layout to store a stream in. Ranges of two columns have boundaries at whole rows and at values of the first
    column."""
    columns = [c for family in FAMILIES[table].values() for c in family]
    by = draw.sample(columns, draw.choice([1, 1, 2]))
    # Spark merges in ascending order only.
    names = [f"{name} desc" if draw.random() < 0.15 else name for name in by]
    more = [name for name in columns if name not in by]
    sorted_by = draw.choice([names, names, [*names, draw.choice(more)], [draw.choice(more)]])
    if draw.random() < 0.5:
        return {"clustered_by": names, "sorted_by": sorted_by, "partitions": draw.choice([1, 2, 4, 6, 9])}
    keys = [KeyColumn(rows.schema.field(n.split()[0]).type, n.endswith("desc"), not n.endswith("desc")) for n in names]
    values = [tuple(row[name] for name in by) for row in rows.select(by).to_pylist()]
    cuts = [draw.choice(values)[: draw.choice([1, len(by)])] for _ in range(draw.choice([0, 2, 3, 5]) if values else 0)]
    places = {KeyOrder(keys).row(cut): cut for cut in cuts}
    return {
        "clustered_by": names,
        "sorted_by": sorted_by,
        "ranged": True,
        "boundaries": [cut for _, cut in sorted(places.items())],
    }


@pytest.fixture(scope="module", params=range(LAYOUTS))
def sides(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sides]:
    draw = random.Random(request.param)
    tables, streams = tmp_path_factory.mktemp("tables"), tmp_path_factory.mktemp("streams")
    write_tables(tables)
    plain, ours = in_two_sessions(spark)
    for table in sorted(tables.iterdir()):
        rows = pq.read_table(table)
        plain.createDataFrame(rows).createOrReplaceTempView(table.stem)
        Session(ours, effort="full").write_stream(
            str(table), streams / f"{table.stem}.ss", **layout(draw, table.stem, rows)
        )
    yield Sides(plain, Session(ours, tables=streams, effort="full"))
    for table in tables.iterdir():
        plain.catalog.dropTempView(table.stem)


@pytest.mark.parametrize("seed", range(QUERIES))
def test_rows_and_layouts(sides: Sides, seed: int) -> None:
    wrong = list(problems(sides, seed, Query(seed).text()))
    assert not wrong, "\n\n".join(wrong)


def test_plans_read_streams_without_exchanges(sides: Sides) -> None:
    """Otherwise the tests above would not show much."""
    scripts = [sides.ours.pipeline.bind(Query(seed).text()) for seed in range(QUERIES)]
    plans = [optimize(each, Options(Target(m, is_managed=False))) for each in scripts for m in MACHINES[:2]]
    scans = [n.operator for p in plans for r in p.roots for n in r.walk() if isinstance(n.operator, physical.FileScan)]
    assert sum(isinstance(scan.layout.partitioning, Partitioned) for scan in scans) >= 8


WORDS = [
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "abd",
    "abé",
    "b",
    "é",
    "éa",
    "éaz",
    "日",
    "日本",
    "日本語",
    "😀",
    "😀a",
    "😀ab",
    "zz",
    None,
]


def test_ranges_read_by_string_prefix(spark: SparkSession, tmp_path: Path) -> None:
    """String ranges are read as ranges of a prefix, in any characters: with boundaries inside a common prefix, before a
    longer one, and at NULL."""
    plain, ours = in_two_sessions(spark)
    rows = [(word, n % 3, n) for n, word in enumerate(WORDS * 7)]
    frame = plain.createDataFrame(rows, "w string, k int, v bigint")
    frame.createOrReplaceTempView("t")
    cuts = [("a",), ("abcd",), ("abd",), ("éa",), ("日本語",), ("😀a",)]
    Session(ours, effort="full").write_stream(
        ours.createDataFrame(rows, frame.schema), tmp_path / "t.ss", clustered_by=["w"], ranged=True, boundaries=cuts
    )
    sides = Sides(plain, Session(ours, tables=tmp_path, effort="full"))
    in_place = 0
    for length in (1, 2, 3):
        query = f"select left(w, {length}) as p, count(*) n, percentile(v, 0.5) m from t group by left(w, {length})"
        for seed in range(4):
            assert list(problems(sides, seed, query)) == []
        for machine in MACHINES:
            optimized = optimize(sides.ours.pipeline.bind(query), Options(Target(machine, is_managed=False)))
            nodes = [node.operator for node in optimized.outputs[0][1].walk()]
            by_ranges = any(
                isinstance(n, physical.FileScan) and isinstance(n.layout.partitioning, Partitioned) for n in nodes
            )
            in_place += by_ranges and not any(isinstance(n, physical.Exchange) for n in nodes)
    assert in_place >= 3
    plain.catalog.dropTempView("t")


def test_partition_pruning(spark: SparkSession, tmp_path: Path) -> None:
    """A predicate on the first columns of the order skips partitions."""
    session = Session(spark, effort="full")
    rows = spark.range(1000).selectExpr("id % 50 as a", "id as b")
    session.write_stream(
        rows, tmp_path / "t.ss", clustered_by=["a", "b"], ranged=True, boundaries=[(10,), (20,), (30,)]
    )
    session = Session(spark, tables=tmp_path, effort="full")
    query = "select b from t where a = 15 and b > 100"
    plan = optimize(session.pipeline.bind(query), Options()).outputs[0][1]
    (scan,) = [node.operator for node in plan.walk() if isinstance(node.operator, physical.FileScan)]
    assert scan.scan.read_share is not None
    assert scan.scan.read_share < 0.5  # one of four partitions
    assert session.sql(query).count() == 18
