"""Conditions on the columns of a hash select partitions, and every row that satisfies them is in one of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.storing import VALUES, by, store
from unshuffle import Session
from unshuffle.cardinality.part_statistics import statistics_of_parts
from unshuffle.catalog.schema import Column
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan.bucket_elimination import parts_in_buckets
from unshuffle.plan.expressions import Call, Expression, Literal, Ref
from unshuffle.plan.logical import Scan
from unshuffle.plan.physical import FileScan, Filter, PhysicalPlan
from unshuffle.plan.stored_reads import needed_partitions, needed_paths
from unshuffle.sstream import LayoutRequest, open_stream
from unshuffle.sstream.murmur import partition_numbers

BOOL = pa.bool_()
PARTITIONS = 8


def scan_of(folder: Path, name: str) -> Scan:
    with Session(tables=folder) as session:
        (scan,) = [
            node for node in session.pipeline.bind(f"select * from {name}").operators() if isinstance(node, Scan)
        ]
    return scan


def nodes(optimized: PlannedQuery) -> list[PhysicalPlan]:
    return [node for root in optimized.roots for node in root.walk()]


def scans_of(optimized: PlannedQuery) -> list[Scan]:
    return [node.operator.scan for node in nodes(optimized) if isinstance(node.operator, FileScan)]


def call(name: str, column: Column, *values: Any) -> Expression:
    return Call(name, (Ref(column), *(Literal(value, column.type) for value in values)), BOOL)


def stored_partitions(scan: Scan, conditions: list[Expression]) -> set[int] | None:
    found = parts_in_buckets(scan, conditions)
    if found is None or scan.bounds is None:
        return None
    return {int(scan.bounds.parts[part].path.rsplit("p=", 1)[1].partition("/")[0]) for part in found}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_any_type_is_found_in_its_partition(name: str, tmp_path: Path) -> None:
    type, values = VALUES[name]
    rows = pa.table({"k": pa.array(values, type), "n": list(range(len(values)))})
    store(tmp_path / "x.ss", rows, LayoutRequest(by("k"), partitions=PARTITIONS))
    scan = scan_of(tmp_path, "x")
    k = scan.columns[0]
    numbers = partition_numbers([rows["k"].combine_chunks()], PARTITIONS)
    for value, number in zip(values, numbers, strict=True):
        assert stored_partitions(scan, [call("<=>", k, value)]) == {number}
        assert stored_partitions(scan, [call("=", k, value)]) == (set() if value is None else {number})
    every = {number for value, number in zip(values, numbers, strict=True) if value is not None}
    assert stored_partitions(scan, [call("in", k, *values)]) == every
    null = Call("isnull", (Ref(k),), BOOL)
    assert stored_partitions(scan, [null]) == {n for v, n in zip(values, numbers, strict=True) if v is None}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    keys = [(a, b) for a in (None, *range(6)) for b in (None, *range(6)) for _ in range(2)]
    rows = pa.table({"a": [a for a, _ in keys], "b": [b for _, b in keys], "n": list(range(len(keys)))})
    store(folder / "x.ss", rows, LayoutRequest(by("a", "b"), partitions=PARTITIONS))
    store(folder / "y.ss", rows, LayoutRequest(by("a"), by("a", "b"), partitions=PARTITIONS), row_group=4)
    return folder


constants = st.none() | st.integers(-1, 6)
comparisons = st.tuples(
    st.sampled_from(["=", "<=>", "in", "<", ">"]), st.integers(0, 1), st.lists(constants, min_size=1)
)


def is_met(name: str, value: int | None, found: list[int | None]) -> bool:
    first = found[0]
    if name == "<=>":
        return value == first
    if value is None or (first is None and name != "in"):
        return False
    if name == "in":
        return value in found
    assert first is not None
    return value == first if name == "=" else value < first if name == "<" else value > first


@pytest.mark.parametrize("name", ["x", "y"])
@given(conditions=st.lists(comparisons, max_size=4))
@settings(deadline=None)
def test_no_row_that_satisfies_the_conditions_is_left_out(
    pairs: Path, name: str, conditions: list[tuple[str, int, list[int | None]]]
) -> None:
    scan = scan_of(pairs, name)
    written = [call(op, scan.columns[at], *(found if op == "in" else found[:1])) for op, at, found in conditions]
    found = stored_partitions(scan, written)
    if found is None:
        return
    stream = open_stream(str(pairs / f"{name}.ss"))
    for number, partition in enumerate(stream.manifest.partitions):
        rows = [row for file in partition.files for row in pq.read_table(stream.path_of(file)).to_pylist()]
        if any(all(is_met(op, row["ab"[at]], values) for op, at, values in conditions) for row in rows):
            assert number in found


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("select * from y where a = 5", 1),
        ("select * from y where a in (1, 2, 3) and n > 0", 3),
        ("select * from y where a = 1 or (a = 2 and b > 3)", 2),
        ("select b, count(*) from y where a = 5 group by b", 1),
        ("select * from x where a = 5 and b = 2", 1),
        ("select * from x where (a = 5 and b = 2) or (a = 1 and b is null)", 2),
    ],
)
def test_a_plan_reads_the_partitions_of_the_values(pairs: Path, query: str, read: int) -> None:
    with Session(tables=pairs) as session:
        optimized = optimize(session.pipeline.bind(query), Options())
        explained = session.explain(query)
    scans = scans_of(optimized)
    assert [len(needed_partitions(scan)) for scan in scans] == [read]
    assert len(needed_paths(scans[0])) == read
    assert f"reads {read} of 8 stored partitions" in str(explained)


@pytest.mark.parametrize(
    "query", ["select * from x where a = 5", "select * from y where a > 4", "select * from y where b = 1"]
)
def test_other_conditions_leave_out_no_bucket(pairs: Path, query: str) -> None:
    with Session(tables=pairs) as session:
        optimized = optimize(session.pipeline.bind(query), Options())
    (scan,) = scans_of(optimized)
    (predicate,) = [node.operator.predicate for node in nodes(optimized) if isinstance(node.operator, Filter)]
    assert parts_in_buckets(scan, [predicate]) is None


def test_buckets_and_the_sort_order_leave_out_more_together(pairs: Path) -> None:
    """y is sorted by (a, b) in row groups of four rows: of the 14 rows with a = 5, two have b = 4."""
    with Session(tables=pairs) as session:
        optimized = optimize(session.pipeline.bind("select * from y where a = 5 and b = 4"), Options())
    (scan,) = scans_of(optimized)
    assert scan.bounds is not None
    assert scan.needed is not None
    assert len(needed_partitions(scan)) == 1
    assert sum(scan.bounds.rows[part] for part in scan.needed) <= 8


def test_a_value_has_all_its_rows_in_its_partition(tmp_path: Path) -> None:
    """Estimates count the rows of the partitions that are read, where each value is more frequent than in the table."""
    rows = pa.table({"a": [i % 50 for i in range(1000)]})
    store(tmp_path / "x.ss", rows, LayoutRequest(by("a"), partitions=PARTITIONS))
    with Session(tables=tmp_path) as session:
        optimized = optimize(session.pipeline.bind("select * from x where a = 5"), Options())
        (scan,) = scans_of(optimized)
        assert scan.statistics is not None
        of_parts = statistics_of_parts(scan, scan.statistics)
        distinct = dict(of_parts.columns)[scan.columns[0]].distinct
    filtered = [node.size.rows for node in nodes(optimized) if isinstance(node.operator, Filter)]
    assert filtered == [pytest.approx(20)]
    assert distinct == pytest.approx(of_parts.rows / 20)
