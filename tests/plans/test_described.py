"""Described tables are bound like stored ones, with the described facts and statistics."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from unshuffle.catalog.schema import Dependency
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.plan.logical import Reference, Scan, Script
from workloads.described import Described, parse

TEXT = """
orders  rows=1.5e8 key(o_id) depends(clerk -> office, o_id)
    o_id    bigint
    clerk   string  distinct=1000 width=15 nulls=0.1
    office  string  distinct=10
    placed  date    low=1992-01-01 high=1998-08-02
parts  rows=20 key(a, b)
    a  int  distinct=4
    b  decimal(10,2)
"""


@pytest.fixture
def described(tmp_path: Path) -> Described:
    return Described(tmp_path, parse(TEXT))


def scans(script: Script) -> list[Scan]:
    return [node for node in script.operators() if isinstance(node, Scan)]


def test_a_scan_has_the_described_facts(described: Described) -> None:
    (scan,) = scans(described.bind("select * from orders"))
    assert scan.files.rows == 150_000_000
    o_id, clerk, office, _ = scan.columns
    assert scan.keys == (frozenset({o_id}),)
    assert scan.dependencies == (Dependency(frozenset({clerk}), frozenset({office, o_id})),)
    assert scan.statistics is not None
    by_name = {column.name: known for column, known in scan.statistics.columns}
    assert by_name["o_id"] == ColumnStatistics(distinct=1.5e8)
    assert by_name["clerk"] == ColumnStatistics(distinct=1000, width=15, null_fraction=0.1)
    assert by_name["placed"].low == datetime.date(1992, 1, 1)


def test_each_use_has_columns_of_its_own(described: Described) -> None:
    first, second = scans(described.bind("select 1 from parts p, parts q where p.a = q.a"))
    assert not set(first.columns) & set(second.columns)
    assert first.statistics is not None
    assert {column for column, _ in first.statistics.columns} == set(first.columns)
    assert first.keys[0] <= set(first.columns)


def test_another_size(described: Described) -> None:
    (scan,) = scans(described.bind("select * from orders", rows={"orders": 50}))
    assert scan.files.rows == 50
    assert scan.statistics is not None
    assert [known.distinct for _, known in scan.statistics.columns] == [50, 50, 10, None]


def test_a_script_reads_described_files_and_keeps_its_sharing(described: Described) -> None:
    text = (
        'p = EXTRACT a, b FROM "@data/parts.parquet" USING Parquet();\n'
        'r = SELECT x.a FROM p AS x JOIN p AS y ON x.a == y.a; OUTPUT r TO "r.csv" USING Csv();'
    )
    script = described.bind(text, is_script=True)
    one, other = [node for node in script.operators() if isinstance(node, Reference)]
    assert one.rowset is other.rowset
    assert [scan.files.rows for scan in scans(script)] == [20]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orders", "expected NAME rows=N"),
        ("orders rows=1\n  a", "not a table or a column: 'a'"),
        ("orders rows=1\n  a whatever", "'a whatever'"),
        ("orders rows=1\n  a int size=1", "size is no statistic"),
        ("orders rows=1\n  a int low=x", "'a int low=x'"),
        ("orders rows=1 key(b)\n  a int", "orders has no column 'b'"),
    ],
)
def test_malformed_descriptions(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"not a table|no column") as problem:
        parse(text)
    assert message in str(problem.value)
