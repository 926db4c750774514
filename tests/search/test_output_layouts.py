"""OUTPUT TO SSTREAM without a number of partitions: rows that lie right stay where they are, in as many partitions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.storing import by, store
from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.errors import Source
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan.physical import Exchange
from unshuffle.properties import HashFunction, Partitioned, RangeFunction
from unshuffle.sstream import LayoutRequest
from unshuffle.target import Target
from unshuffle.verify import verify

ROWS = 60_000


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    numbers = [i * 7919 % ROWS for i in range(ROWS)]
    rows = pa.table({"a": numbers, "b": [i % 50 for i in numbers], "c": [f"text {i}" for i in numbers]})
    store(folder / "hashed.ss", rows, LayoutRequest(by("a"), partitions=6))
    store(folder / "ranged.ss", rows, LayoutRequest(by("a"), boundaries=tuple((i * 10_000,) for i in range(1, 6))))
    pq.write_table(rows, folder / "plain.parquet")
    return folder


def planned(folder: Path, query: str, output: str, machine: Machine | None = None) -> PlannedQuery:
    text = f'r = {query};\nOUTPUT r TO SSTREAM "{folder}/made.ss" {output};'
    with Session(tables=folder) as session:
        script = session.pipeline.bind_source(Source("made.scope", text), None, is_script=True)
    optimized = optimize(script, Options(Target(machine or Machine(cores=2))))
    verify(optimized)
    return optimized


def exchanges(optimized: PlannedQuery) -> int:
    return sum(isinstance(node.operator, Exchange) for root in optimized.roots for node in root.walk())


def function(optimized: PlannedQuery) -> object:
    layout = optimized.outputs[0][0].layout
    if layout is None:
        return None
    assert isinstance(layout.partitioning, Partitioned)
    return layout.partitioning.function


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("SELECT * FROM hashed", "HASH CLUSTERED BY a"),
        ("SELECT a, c FROM hashed WHERE b > 3", "CLUSTERED BY a"),
        ("SELECT a, COUNT(*) AS n FROM hashed GROUP BY a", "CLUSTERED BY a"),
        ("SELECT x.a AS a, y.b AS b FROM hashed AS x JOIN hashed AS y ON x.a == y.a", "CLUSTERED BY a"),
    ],
)
def test_hashed_rows_are_stored_as_they_lie(stored: Path, query: str, output: str) -> None:
    optimized = planned(stored, query, output, Machine(cores=6, stage=1e-3, task=1e-9))
    assert exchanges(optimized) == 0
    found = function(optimized)
    assert isinstance(found, HashFunction)
    assert found.partitions in (1, 2, 3, 6)


@pytest.mark.parametrize("output", ["RANGE CLUSTERED BY a", "RANGE CLUSTERED BY a, b SORTED BY a"])
def test_ranges_are_stored_as_they_lie(stored: Path, output: str) -> None:
    optimized = planned(stored, "SELECT * FROM ranged", output)
    assert exchanges(optimized) == 0
    found = function(optimized)
    assert isinstance(found, RangeFunction)
    assert found.boundaries == tuple((i * 10_000,) for i in range(1, 6))


def test_other_rows_get_as_many_partitions_as_they_fill(stored: Path) -> None:
    optimized = planned(stored, "SELECT * FROM plain", "CLUSTERED BY a")
    assert function(optimized) == HashFunction((pa.int64(),), 1)
    other = planned(stored, "SELECT * FROM hashed", "CLUSTERED BY b")
    assert isinstance(function(other), HashFunction)


def test_guessed_rows_are_counted_first_unless_they_lie_right(stored: Path) -> None:
    guessed = "WHERE c RLIKE '1$'"
    assert function(planned(stored, f"SELECT * FROM plain {guessed}", "CLUSTERED BY a")) is None
    assert exchanges(planned(stored, f"SELECT * FROM hashed {guessed}", "CLUSTERED BY a")) == 0


@pytest.mark.parametrize("kind", ["HASH", "RANGE"])
@pytest.mark.parametrize("table", ["hashed", "ranged", "plain"])
def test_one_partition_needs_no_layout(stored: Path, table: str, kind: str) -> None:
    """The filter over a scan that reads all partitions as one had a requirement that one partition did not meet."""
    optimized = planned(stored, f"SELECT * FROM {table} WHERE b > 3", f"{kind} CLUSTERED BY a INTO 1")
    if function(optimized) is not None:
        assert exchanges(optimized) == 0
