"""The folders and buckets of a table that Spark wrote, as the stored partitions of a scan.

Each folder `day=2026-01-03/` has the rows with one value of the partition columns. In the order of these columns the folders
are ranges, each from its own value to the next, so a table in folders is stored like a range-partitioned stream that is
sorted by its partition columns. A bucketed table is stored like a hash-partitioned stream: Spark numbers buckets by the hash
that its exchanges use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from unshuffle.catalog.files import DataFile, HashedTuple, without_scheme
from unshuffle.catalog.parquet_files import ParquetContents
from unshuffle.catalog.schema import Column, DataType
from unshuffle.frozen import dataclass
from unshuffle.partitions import KeyColumn, KeyHistogram, KeyOrder, histogram_of_partitions, interval_of_value
from unshuffle.plan.bucketed_scans import read_by_buckets
from unshuffle.plan.folder_values import columns_named, folder_values, have_names
from unshuffle.plan.logical import Scan, StoredParts
from unshuffle.properties import Delivered, HashFunction, Partitioned, RangeFunction, RangeKey, Sorted
from unshuffle.sstream.manifest import RowGroup, Schema, SortedName, StoredFile, StoredPartition, typed_keys

_BUCKET = re.compile(r".*_(\d+)(?:\..*)?")  # the number of a bucket is in the names of its files


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table. `rows` may be an estimate."""

    path: str
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class TableLayout:
    """Which files hold which partition of a table, and the partition function: what a manifest says of a stream. There is one
    object for a table as long as its files do not change, so that what is computed of it can be kept with it."""

    schema: Schema
    clustered_by: tuple[SortedName, ...]
    function: HashFunction | RangeFunction
    sorted_by: tuple[SortedName, ...]
    partitions: tuple[StoredPartition, ...]

    @property
    def sort_keys(self) -> tuple[KeyColumn, ...]:
        return typed_keys(self.schema, self.sorted_by)

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)


def table_files(found: Sequence[DataFile], contents: ParquetContents) -> HashedTuple[TableFile]:
    """Files that were listed, with the rows that their footers tell."""
    return _table_files(HashedTuple.of(found), contents.rows_of_files)


# Cached, and the folders below too, because a table of many folders is read by many queries.
@lru_cache(maxsize=32)
def _table_files(found: HashedTuple[DataFile], rows_of_files: tuple[int, ...]) -> HashedTuple[TableFile]:
    pairs = zip(found, rows_of_files, strict=True)
    return HashedTuple(TableFile(without_scheme(file.path), file.size, rows) for file, rows in pairs)


def in_folders(scan: Scan, names: Sequence[str], files: Sequence[TableFile]) -> Scan | None:
    """The scan of a table with these partition columns as a scan of its folders. None if a value cannot be read from the name
    of a folder for certain, or if there is one folder only."""
    columns = columns_named(scan, names)
    if columns is None or not have_names(columns):
        return None
    found = _folders(_schema(scan), tuple(column.name for column in columns), HashedTuple.of(files))
    if found is None:
        return None
    layout, spread = found
    return replace(_with_layout(scan, layout, columns, tuple(names)), spread=spread, spread_on=columns)


@lru_cache(maxsize=32)
def _folders(
    schema: Schema, names: tuple[str, ...], files: HashedTuple[TableFile]
) -> tuple[TableLayout, KeyHistogram] | None:
    types = dict(schema)
    columns = [Column(0, name, types[name]) for name in names]
    keys = tuple(KeyColumn(types[name]) for name in names)
    order = KeyOrder(keys)
    folders: dict[tuple[Any, ...], tuple[tuple[Any, ...], list[StoredFile]]] = {}
    for file in files:
        values = folder_values(file.path, columns)
        if values is None:
            return None
        stored = StoredFile(file.path, file.bytes, 0, (RowGroup(0, file.bytes, file.rows, values, values),))
        folders.setdefault(order.row(values), (values, []))[1].append(stored)
    if len(folders) < 2:
        return None
    ordered = [folders[place] for place in sorted(folders)]
    sorted_by = tuple(map(SortedName, names))
    function = RangeFunction(tuple(RangeKey(key.type) for key in keys), tuple(values for values, _ in ordered[1:]))
    partitions = tuple(StoredPartition(tuple(stored)) for _, stored in ordered)
    layout = TableLayout(schema, sorted_by, function, sorted_by, partitions)
    counted = zip(ordered, partitions, strict=True)
    return layout, histogram_of_partitions(
        keys, [(interval_of_value(values), part.rows) for (values, _), part in counted]
    )


def in_buckets(
    scan: Scan, names: Sequence[str], buckets: int, files: Sequence[TableFile], folders: Sequence[str] = ()
) -> Scan | None:
    """The scan of a table that Spark bucketed by these columns as a scan of its buckets. None if names of files do not tell
    their buckets."""
    numbers = [_bucket(file.path) for file in files]
    known = [number for number in numbers if number is not None]
    return _in_buckets(scan, names, buckets, files, known, folders) if len(known) == len(files) else None


def in_numbered_buckets(scan: Scan, names: Sequence[str], buckets: int, numbers: Sequence[int]) -> Scan | None:
    """The scan of a table of which each file is in the bucket with this number."""
    if scan.bounds is None:
        return None
    files = [TableFile(*each) for each in scan.bounds.files]
    return _in_buckets(scan, names, buckets, files, numbers, scan.bounds.folder_columns)


def _in_buckets(
    scan: Scan,
    names: Sequence[str],
    buckets: int,
    files: Sequence[TableFile],
    numbers: Sequence[int],
    folders: Sequence[str],
) -> Scan | None:
    """None if values that Spark calls equal may be hashed differently.

    A table may be in folders and in buckets. A scan that is one of folders already keeps them, and its buckets are another
    way to read it."""
    columns, folder_columns = columns_named(scan, names), columns_named(scan, folders) if folders else ()
    if columns is None or folder_columns is None or not have_names(folder_columns) or buckets < 2:
        return None
    if not all(_has_one_hash(column.type) for column in columns) or any(number >= buckets for number in numbers):
        return None
    in_order = [tuple(column.name for column in each) for each in (columns, folder_columns)]
    layout = _buckets(_schema(scan), *in_order, buckets, tuple(zip(files, numbers, strict=True)))
    if layout is None:
        return None
    parts = StoredParts(layout, "", in_order[1])
    return replace(scan, buckets=parts) if scan.parts is not None else read_by_buckets(replace(scan, buckets=parts))


def _bucket(path: str) -> int | None:
    match = _BUCKET.fullmatch(path.rsplit("/", 1)[-1])
    return int(match[1]) if match is not None else None


@lru_cache(maxsize=32)
def _buckets(
    schema: Schema,
    names: tuple[str, ...],
    folders: tuple[str, ...],
    buckets: int,
    files: tuple[tuple[TableFile, int], ...],
) -> TableLayout | None:
    """The buckets, with the values of the folders of each file."""
    types = dict(schema)
    folder_columns = [Column(0, name, types[name]) for name in folders]
    parts: list[list[StoredFile]] = [[] for _ in range(buckets)]
    for file, number in files:
        values = folder_values(file.path, folder_columns)
        if values is None:
            return None
        stored = StoredFile(file.path, file.bytes, 0, (RowGroup(0, file.bytes, file.rows, values, values),))
        parts[number].append(stored)
    function = HashFunction(tuple(types[name] for name in names), buckets)
    # In the order of its folders a file can be skipped, though the rows of a bucket are in no order.
    clustered_by, sorted_by = tuple(map(SortedName, names)), tuple(map(SortedName, folders))
    return TableLayout(schema, clustered_by, function, sorted_by, tuple(StoredPartition(tuple(each)) for each in parts))


def _with_layout(scan: Scan, layout: TableLayout, columns: tuple[Column, ...], folder_columns: tuple[str, ...]) -> Scan:
    order = tuple(Sorted(column, descending=False, nulls_first=True) for column in columns)
    delivered = Delivered(Partitioned(layout.function, columns), order)
    return replace(scan, layout=delivered, stored=delivered, parts=StoredParts(layout, "", folder_columns))


def _schema(scan: Scan) -> Schema:
    return tuple((column.name, column.type) for column in scan.columns if column.type is not None)


def _has_one_hash(type: DataType) -> bool:
    """Not so for a floating-point number, which has two zeros and many NaNs."""
    t = pa.types
    return any(is_type(type) for is_type in (t.is_integer, t.is_date, t.is_string, t.is_boolean, t.is_timestamp))
