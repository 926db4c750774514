"""Parquet files without their rows: columns, row counts and statistics from the footers, as Spark reads the files."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet

from unshuffle.catalog.files import DataFile, HashedTuple, file_system
from unshuffle.catalog.folder_types import partition_type, partition_value
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.statistics.footers import footer_statistics, partition_statistics
from unshuffle.catalog.statistics.sampled_distinct import MIN_TABLE_ROWS, sampled_domains
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.frozen import dataclass

# With more files than this, the row count comes from an even sample of their footers.
EXACT_FOOTERS = 256
# Footers are read in threads if the first few take longer than this many seconds each.
_TIMED_FOOTERS = 4
_SLOW_FOOTER = 0.002


class NotParquet(Exception):
    """A file that should be Parquet is not. The message is its path."""


@dataclass(frozen=True, slots=True)
class ParquetContents:
    """What the footers of some files say. `partition_columns` come from folder names, and are the last of `columns`."""

    columns: tuple[tuple[str, DataType], ...]
    partition_columns: tuple[str, ...]
    rows: int
    bytes: int
    statistics: tuple[tuple[str, ColumnStatistics], ...]  # by column name
    rows_of_files: tuple[int, ...] = ()  # estimated by their size if only some footers were read


def parquet_contents(files: Sequence[DataFile]) -> ParquetContents:
    """Columns, row count, size and statistics of Parquet files. The footers of unchanged files are read once."""
    return (
        _cached_contents(HashedTuple.of(files))
        if all(file.modified is not None for file in files)
        else _contents(files)
    )


@lru_cache(maxsize=256)
def _cached_contents(files: HashedTuple[DataFile]) -> ParquetContents:
    return _contents(files)


def _contents(files: Sequence[DataFile]) -> ParquetContents:
    step = max(1, len(files) // EXACT_FOOTERS) if len(files) > EXACT_FOOTERS else 1
    sample = files[::step]
    footers = footers_of(HashedTuple.of(sample)) if step == 1 else _footers([file.path for file in sample])
    sampled_rows = sum(footer.num_rows for footer in footers)
    total_bytes, sampled_bytes = sum(file.size for file in files), sum(file.size for file in sample)
    rows = sampled_rows if step == 1 else round(sampled_rows * total_bytes / max(1, sampled_bytes))
    names = [name for name, _ in files[0].partition]
    partition = [(name, partition_type([dict(f.partition).get(name, "") for f in files])) for name in names]
    stored = [(n, t) for n, t in _columns(footers[0]) if n.lower() not in {name.lower() for name in names}]
    of_partition = []
    for name, type in partition:
        values = [partition_value(dict(f.partition).get(name, ""), type) for f in sample]
        counts = ((value, float(footer.num_rows)) for value, footer in zip(values, footers, strict=True))
        of_partition.append((name, partition_statistics(counts, type)))
    sampler = partial(sampled_domains, [f.path for f in files], _open_buffered) if rows >= MIN_TABLE_ROWS else None
    statistics = (*footer_statistics(footers, stored, rows, sampler), *of_partition)
    if step == 1:
        rows_of_files = tuple(footer.num_rows for footer in footers)
    else:
        rows_of_files = tuple(round(rows * file.size / max(1, total_bytes)) for file in files)
    return ParquetContents((*stored, *partition), tuple(names), rows, total_bytes, statistics, rows_of_files)


def footers_of(files: tuple[DataFile, ...]) -> tuple[pa.parquet.FileMetaData, ...]:
    """The footers of files. Those of unchanged files are kept for a while."""
    if any(file.modified is None for file in files):
        return tuple(_footers([file.path for file in files]))
    return _kept_footers(files)


@lru_cache(maxsize=16)
def _kept_footers(files: tuple[DataFile, ...]) -> tuple[pa.parquet.FileMetaData, ...]:
    return tuple(_footers([file.path for file in files]))


def _footers(paths: Sequence[str]) -> list[pa.parquet.FileMetaData]:
    """A local disk gives a footer in less time than threads take to start. A network's latency is waited for in threads."""
    began = perf_counter()
    first = [_footer(path) for path in paths[:_TIMED_FOOTERS]]
    rest = paths[_TIMED_FOOTERS:]
    if perf_counter() - began < _SLOW_FOOTER * len(first):
        return first + [_footer(path) for path in rest]
    with ThreadPoolExecutor(8) as pool:
        return [*first, *pool.map(_footer, rest)]


def _footer(path: str) -> pa.parquet.FileMetaData:
    system, inner = file_system(path)
    try:
        with system.open_input_file(inner) as file:
            return pa.parquet.read_metadata(file)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise NotParquet(path) from None


def _open_buffered(path: str) -> pa.parquet.ParquetFile:
    """A file to read a few rows from, without reading whole column chunks."""
    system, inner = file_system(path)
    return pa.parquet.ParquetFile(inner, filesystem=system, buffer_size=1 << 16)


def open_parquet(path: str, verify: bool = False) -> pa.parquet.ParquetFile:
    """A file to read rows from. INT96 timestamps are read in microseconds: in nanoseconds, distant ones would overflow.
    With `verify`, page checksums are verified where the file has them."""
    system, inner = file_system(path)
    return pa.parquet.ParquetFile(
        inner, filesystem=system, coerce_int96_timestamp_unit="us", page_checksum_verification=verify
    )


def _columns(footer: pa.parquet.FileMetaData) -> list[tuple[str, DataType]]:
    physical = footer.schema
    # To Spark an INT96 timestamp is an instant, though Arrow gives it no time zone.
    int96 = {physical.column(i).path for i in range(len(physical.names)) if physical.column(i).physical_type == "INT96"}
    return [
        (f.name, pa.timestamp("us", tz="UTC") if f.name in int96 else type_in_spark(f.type))
        for f in physical.to_arrow_schema()
    ]


_SAME_TYPES = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
_SIMPLE_TYPES = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary, pa.types.is_date32)


def type_in_spark(type: pa.DataType) -> DataType:
    """The type that Spark gives a Parquet column which Arrow reads as `type`; None where only Spark can tell."""
    t = pa.types
    if t.is_dictionary(type):
        return type_in_spark(type.value_type)
    if type in _SAME_TYPES:
        return _SAME_TYPES[type]
    if t.is_fixed_size_binary(type):
        return pa.binary()
    if t.is_timestamp(type):
        return pa.timestamp("us", tz="UTC" if type.tz else None) if type.unit != "ns" else None
    if t.is_nested(type):
        return _nested_in_spark(type)
    is_same = any(is_simple(type) for is_simple in _SIMPLE_TYPES) or t.is_decimal128(type)
    return type if is_same or type in (pa.float32(), pa.float64()) else None


def _nested_in_spark(type: pa.DataType) -> DataType:
    t = pa.types
    if t.is_list(type) or t.is_large_list(type):
        inner = type_in_spark(type.value_type)
        return None if inner is None else pa.list_(inner)
    if t.is_map(type):
        key, item = type_in_spark(type.key_type), type_in_spark(type.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if t.is_struct(type):
        fields = [(type.field(i).name, type_in_spark(type.field(i).type)) for i in range(type.num_fields)]
        return None if any(inner is None for _, inner in fields) else pa.struct(fields)
    return None
