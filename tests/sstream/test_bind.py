"""A stream in a query is bound with its layout and facts, and plans use them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.storing import by, store
from unshuffle import Session
from unshuffle.catalog.constraints.constraint import DeclaredKey
from unshuffle.cost.machine import Machine
from unshuffle.errors import StreamProblem
from unshuffle.optimizer import Options, optimize
from unshuffle.plan.logical import Scan, Script
from unshuffle.plan.physical import Exchange, FileScan
from unshuffle.properties import Partitioned
from unshuffle.sstream import LayoutRequest, storage_of
from unshuffle.sstream.footer_statistics import statistics_of
from unshuffle.sstream.vacuum import vacuum
from unshuffle.target import Target
from unshuffle.verify import verify

ROWS = pa.table({"a": list(range(50)), "b": [i % 7 for i in range(50)], "c": [f"text {i}" for i in range(50)]})
QUERY = "select b, count(*) as n from x group by b"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    request = LayoutRequest(by("b", "a"), by("-b"), boundaries=((2,), (5,)), keys=(DeclaredKey(("a",)),))
    store(tmp_path / "x.ss", ROWS, request)
    return Session(tables=tmp_path)


def bound(session: Session, query: str) -> Script:
    return session.pipeline.bind(query)


def scans(script: Script) -> list[Scan]:
    return [node for node in script.operators() if isinstance(node, Scan)]


def test_each_use_has_the_layout_under_its_own_columns(session: Session) -> None:
    for scan in scans(bound(session, "select * from x join x as y on x.b = y.b")):
        a, b, _ = scan.columns
        assert str(scan.layout) == f"{{({b}) by range into 3 at (2,), (5,); [{b}↓]}}"
        assert scan.keys == (frozenset((a,)),)
        assert scan.stream is not None
        assert scan.files.paths == scan.stream.paths
        assert (scan.files.rows, scan.statistics.rows if scan.statistics else None) == (50, 50.0)


def test_all_uses_in_a_script_read_one_version(session: Session, tmp_path: Path) -> None:
    script = bound(session, "select * from x where a in (select a from x)")
    assert {scan.stream.version for scan in scans(script) if scan.stream} == {1}
    store(tmp_path / "x.ss", ROWS.slice(0, 3), LayoutRequest(by("a"), partitions=1, overwrite=True))
    assert [scan.files.rows for scan in scans(bound(session, "select * from x"))] == [3]


def test_plans_use_the_layout(session: Session) -> None:
    free = Machine(cores=3, stage=1e-9, task=1e-9)  # otherwise so few rows get a serial plan
    optimized = optimize(bound(session, QUERY), Options(Target(free)))
    verify(optimized)
    nodes = [node for root in optimized.roots for node in root.walk()]
    (read,) = [node for node in nodes if isinstance(node.operator, FileScan)]
    assert isinstance(read.delivered.partitioning, Partitioned)
    assert not any(isinstance(node.operator, Exchange) for node in nodes)


def test_a_removed_version_is_an_error(session: Session, tmp_path: Path) -> None:
    path = str(tmp_path / "x.ss")
    old = scans(bound(session, QUERY))[0].stream
    assert old is not None
    store(path, ROWS, LayoutRequest(by("a"), partitions=1, overwrite=True))
    vacuum(storage_of(path), path, hours=0)
    with pytest.raises(StreamProblem, match=r"p=0/part-.* is missing"):
        statistics_of(old)


def test_analyze_reads_the_files_of_the_newest_version(session: Session, tmp_path: Path) -> None:
    """The folder has the files of older versions too, in folders that look like values of a column p."""
    store(tmp_path / "x.ss", ROWS.slice(0, 30), LayoutRequest(by("b"), partitions=3, overwrite=True))
    (done,) = session.analyze(tmp_path)  # a folder of tables
    assert (done.path, done.statistics.rows) == (str(tmp_path / "x.ss"), 30)
    assert [column.name for column in done.statistics.columns] == ["a", "b", "c"]
    (scan,) = scans(bound(session, QUERY))
    a, _, c = scan.columns
    known = dict(scan.statistics.columns) if scan.statistics else {}
    assert known[c].distinct == 30
    assert known[c].histogram is not None
    assert frozenset((c,)) in scan.keys
    assert frozenset((a,)) in scan.keys


def test_facts_of_an_analyzed_version_do_not_hold_for_the_next(session: Session, tmp_path: Path) -> None:
    store(tmp_path / "x.ss", ROWS, LayoutRequest(by("a"), partitions=2, overwrite=True))
    session.analyze(tmp_path / "x.ss")
    twice = pa.concat_tables([ROWS, ROWS])
    store(tmp_path / "x.ss", twice, LayoutRequest(by("a"), partitions=2, overwrite=True))
    (scan,) = scans(bound(session, QUERY))
    assert scan.keys == ()
    assert scan.statistics is not None
    known = dict(scan.statistics.columns)
    assert (scan.statistics.rows, known[scan.columns[2]].distinct) == (100, 100)  # as a key, it grows with the rows
