"""Parquet files without their rows: columns, row counts and statistics from the footers, as Spark reads the files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from threading import Lock
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet

from unshuffle.catalog.files import DataFile, HashedTuple, file_system, is_uri
from unshuffle.catalog.folder_types import partition_type, partition_value
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.statistics.footers import footer_statistics, partition_statistics
from unshuffle.catalog.statistics.sampled_distinct import MIN_TABLE_ROWS, sampled_domains
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.constants import THRESHOLDS, MachineConstants
from unshuffle.frozen import dataclass

# With more files than this, the row count comes from an even sample of their footers.
EXACT_FOOTERS = 256
# Footers are read in threads if the first few take longer than this many seconds each.
_TIMED_FOOTERS = 4
# Footers are kept up to this size as they are in the files; in memory, they take several times as much.
KEPT_BYTES = 64_000_000
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
    footers = footers_of(sample)
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


def are_worth_reading(files: Sequence[DataFile]) -> bool:
    """Whether reading every footer takes little time, or little compared with reading the files."""
    if len(files) <= EXACT_FOOTERS:
        return True
    seconds = sum(THRESHOLDS.footer_remote if is_uri(file.path) else THRESHOLDS.footer_local for file in files)
    reading = sum(file.size for file in files) * MachineConstants().scan_byte
    return seconds <= THRESHOLDS.footers_seconds + THRESHOLDS.footers_share * reading


def footers_of(files: Sequence[DataFile]) -> tuple[pa.parquet.FileMetaData, ...]:
    """The footers of files. Those of unchanged files are kept for a while, each by itself: of a table that gets a file every
    hour, one footer is read."""
    return _KEPT.footers(files)


class _KeptFooters:
    """The footers that were used last, up to a number of bytes. Threads may read one twice."""

    def __init__(self) -> None:
        self._found: OrderedDict[DataFile, pa.parquet.FileMetaData] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def footers(self, files: Sequence[DataFile]) -> tuple[pa.parquet.FileMetaData, ...]:
        with self._lock:
            known = {file: self._found[file] for file in files if file in self._found}
            for file in known:
                self._found.move_to_end(file)
        missing = [file for file in files if file not in known]
        if missing:
            known |= zip(missing, _footers([file.path for file in missing]), strict=True)
            with self._lock:
                self._keep({file: known[file] for file in missing if file.modified is not None})
        return tuple(known[file] for file in files)

    def _keep(self, new: Mapping[DataFile, pa.parquet.FileMetaData]) -> None:
        for file, footer in new.items():
            self._bytes += footer.serialized_size if file not in self._found else 0
            self._found[file] = footer
        while self._bytes > KEPT_BYTES and self._found:
            self._bytes -= self._found.popitem(last=False)[1].serialized_size


_KEPT = _KeptFooters()


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
