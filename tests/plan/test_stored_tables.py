"""Folders and buckets of tables as stored layouts."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from unshuffle.catalog.schema import Column
from unshuffle.plan.logical import Files, Format, Scan
from unshuffle.plan.stored_tables import TableFile, in_buckets, in_folders
from unshuffle.properties import HashFunction, Partitioned, RangeFunction

NUMBER, DAY, TEXT, HALF = pa.int32(), pa.date32(), pa.string(), pa.float64()


def scan(**types: pa.DataType | None) -> Scan:
    columns = tuple(Column(i, name, type_) for i, (name, type_) in enumerate(types.items(), 1))
    return Scan("t", Files(("/t",), Format("Parquet")), columns)


def files(*paths: str) -> list[TableFile]:
    return [TableFile(f"/t/{path}", 10, 5) for path in paths]


def values(found: Scan | None) -> list[tuple[object, ...]]:
    assert found is not None
    assert found.parts is not None
    return [part.files[0].groups[0].first for part in found.parts.layout.partitions]


def test_folders_are_ranges_in_the_order_of_their_values() -> None:
    found = in_folders(scan(v=NUMBER, n=NUMBER), ["n"], files("n=10/a", "n=9/a", "n=-1/a", "n=9/b"))
    assert values(found) == [(-1,), (9,), (10,)]
    assert found is not None
    assert found.stored is not None
    layout = found.stored.partitioning
    assert isinstance(layout, Partitioned)
    assert isinstance(layout.function, RangeFunction)
    assert layout.function.boundaries == ((9,), (10,))
    assert [column.name for column in layout.columns] == ["n"]
    assert found.spread is not None
    assert [bucket.rows for bucket in found.spread.buckets] == [5, 10, 5]


def test_values_are_read_as_spark_reads_them() -> None:
    days = in_folders(scan(d=DAY), ["d"], files("d=2026-02-01/a", "d=__HIVE_DEFAULT_PARTITION__/a"))
    assert values(days) == [(None,), (datetime.date(2026, 2, 1),)]
    texts = in_folders(scan(s=TEXT), ["s"], files("s=a%2Fb/x", "s=é/x", "s=x=y/x", "s=%25/x"))
    assert sorted(values(texts)) == [("%",), ("a/b",), ("x=y",), ("é",)]
    assert values(in_folders(scan(s=TEXT), ["s"], files("s=%C3%A9/x", "s=a/x"))) == [("a",), ("Ã©",)]


def test_folders_in_folders_are_ranges_of_several_columns() -> None:
    found = in_folders(scan(y=NUMBER, m=NUMBER, v=TEXT), ["y", "m"], files("y=2/m=1/a", "y=1/m=12/a", "y=1/m=2/a"))
    assert values(found) == [(1, 2), (1, 12), (2, 1)]


@pytest.mark.parametrize(
    ("columns", "names", "paths"),
    [
        ({"n": NUMBER}, ["n"], ["n=1/a", "n=1/b"]),  # one folder has no order
        ({"n": NUMBER}, ["n"], ["n=1/a", "n=1.5/b"]),
        ({"d": DAY}, ["d"], ["d=2026-01-01/a", "d=2026-02-30/a"]),
        ({"d": DAY}, ["d"], ["d=2026-01-01/a", "d=2026-1-2/a"]),
        ({"n": NUMBER}, ["n"], ["n=1/a", "elsewhere/a"]),
        ({"n": NUMBER, "m": NUMBER}, ["n", "m"], ["n=1/m=1/a", "m=1/n=2/a"]),
        ({"x": HALF}, ["x"], ["x=1.0/a", "x=2.0/a"]),
        ({"n": NUMBER, "v": None}, ["n"], ["n=1/a", "n=2/a"]),  # a type that only Spark knows
        ({"n": NUMBER, "N": NUMBER}, ["n"], ["n=1/a", "n=2/a"]),
    ],
)
def test_folders_that_cannot_be_read_for_certain_have_no_layout(
    columns: dict[str, pa.DataType | None], names: list[str], paths: list[str]
) -> None:
    assert in_folders(scan(**columns), names, files(*paths)) is None


def test_buckets_are_hash_partitions() -> None:
    found = in_buckets(scan(k=NUMBER, v=TEXT), ["k"], 3, files("part-0-u_00002.c000.parquet", "part-1-u_00000.parquet"))
    assert found is not None
    assert found.parts is not None
    assert [len(part.files) for part in found.parts.layout.partitions] == [1, 0, 1]
    assert found.parts.layout.function == HashFunction((NUMBER,), 3)


@pytest.mark.parametrize(
    ("type_", "name"), [(NUMBER, "part-0.parquet"), (NUMBER, "part-0_00003.parquet"), (HALF, "part-0_00001.parquet")]
)
def test_buckets_that_are_not_known_have_no_layout(type_: pa.DataType, name: str) -> None:
    assert in_buckets(scan(k=type_), ["k"], 3, files(name)) is None
