"""What a manifest says of Parquet files, found by reading them: row groups, their first and last keys, a histogram.

Only footers and the columns of the keys are read. The order of the files of a partition is that of their first keys.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet

from unshuffle.catalog import files
from unshuffle.partitions import Boundary, Histogram, Key, Order, of_rows
from unshuffle.streams.manifest import RowGroup, Schema, SortedName, StoredFile, StoredPartition, typed
from unshuffle.streams.order import first_descent

SAMPLE = 20_000  # rows that a histogram is made from
BUCKETS = 256
_MAGIC, _TAIL = b"PAR1", 8  # a Parquet file ends with the footer's length and the magic
_THREADS = 8


class Unreadable(Exception):
    """What is wrong with a file."""


@dataclass(frozen=True, slots=True)
class Footer:
    metadata: pa.parquet.FileMetaData
    crc: int


def read_footer(path: str) -> Footer:
    try:
        with files.input_file(path) as file:
            size = file.size()
            tail = file.read_at(_TAIL, max(0, size - _TAIL))
            length = int.from_bytes(tail[:4], "little")
            if tail[4:] != _MAGIC or length + _TAIL > size:
                raise Unreadable("is not a whole Parquet file")
            data = file.read_at(length, size - _TAIL - length)
        whole = pa.BufferReader(_MAGIC + data + tail)
        return Footer(pa.parquet.read_metadata(whole), zlib.crc32(data))
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"cannot be read: {_first_line(error)}") from None


def key_columns(path: str, columns: Schema, read_all: bool = False) -> Iterator[list[pa.Array]]:
    """Some columns of a file, a row group at a time, of exactly these types. Checksums of pages are verified: of these
    columns, or with `read_all` of all that there are."""
    names = [name for name, _ in columns]
    try:
        with files.parquet_file(path, verify=True) as source:
            for group in range(source.metadata.num_row_groups):
                table = source.read_row_group(group, columns=None if read_all else names)
                yield [_whole(table[name]).cast(type) for name, type in columns]
    except KeyError as error:
        raise Unreadable(f"has no column {error}") from None
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"cannot be read: {_first_line(error)}") from None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def describe(
    root: str,
    partitions: Sequence[Mapping[str, int]],
    schema: Schema,
    clustered_by: tuple[SortedName, ...],
    sorted_by: tuple[SortedName, ...],
) -> tuple[tuple[StoredPartition, ...], Histogram]:
    """Files of partitions, each by its path below a folder and its size, as a manifest has them."""
    sizes = {path: size for partition in partitions for path, size in partition.items()}
    with ThreadPoolExecutor(_THREADS) as pool:
        footers = dict(zip(sizes, pool.map(lambda path: read_footer(f"{root}/{path}"), sizes), strict=True))
        rows = sum(footer.metadata.num_rows for footer in footers.values())
        reading = _Reading(root, schema, clustered_by, sorted_by, max(1, rows // SAMPLE))
        read = dict(
            zip(sizes, pool.map(lambda path: reading.file(path, sizes[path], footers[path]), sizes), strict=True)
        )
    stored = tuple(_partition([read[path][0] for path in files], reading.keys) for files in partitions)
    sample = (row for path in sizes for row in read[path][1])
    return stored, _histogram(typed(schema, clustered_by), sample, rows)


def _partition(files: Sequence[StoredFile], keys: tuple[Key, ...]) -> StoredPartition:
    place = Order(keys).row
    there = [file for file in files if file.groups]
    there.sort(key=lambda file: (place(file.groups[0].first), place(file.groups[-1].last), file.path))
    for one, following in pairwise(there):
        if place(one.groups[-1].last) > place(following.groups[0].first):
            raise Unreadable(f"is not sorted as it should be: {following.path} begins before {one.path} ends")
    return StoredPartition(tuple(there))


def _histogram(keys: tuple[Key, ...], sample: Iterator[Boundary], rows: int) -> Histogram:
    found = of_rows(keys, sample, BUCKETS)
    return found.scaled(rows / found.rows) if found.rows else found


@dataclass(frozen=True, slots=True)
class _Reading:
    root: str
    schema: Schema
    clustered_by: tuple[SortedName, ...]
    sorted_by: tuple[SortedName, ...]
    every: int  # of how many rows one is in the sample

    @property
    def keys(self) -> tuple[Key, ...]:
        return typed(self.schema, self.sorted_by)

    def file(self, path: str, size: int, footer: Footer) -> tuple[StoredFile, list[Boundary]]:
        """The file, and some of its clustering keys."""
        names = list(dict.fromkeys(each.name for each in (*self.sorted_by, *self.clustered_by)))
        types = dict(self.schema)
        groups: list[RowGroup] = []
        sample: list[Boundary] = []
        columns = key_columns(f"{self.root}/{path}", tuple((name, types[name]) for name in names))
        for number, read in enumerate(columns):
            if not len(read[0]):
                continue
            values = dict(zip(names, read, strict=True))
            order = [values[each.name] for each in self.sorted_by]
            first, last = (tuple(column[at].as_py() for column in order) for at in (0, -1))
            place = Order(self.keys).row
            if first_descent(order, self.keys) is not None or (groups and place(groups[-1].last) > place(first)):
                raise Unreadable(f"({path}) is not sorted by {', '.join(map(str, self.sorted_by))}")
            groups.append(_row_group(footer.metadata.row_group(number), first, last))
            chosen = (values[each.name][:: self.every].to_pylist() for each in self.clustered_by)
            sample += zip(*chosen, strict=True)
        return StoredFile(path, size, footer.crc, tuple(groups)), sample


def _row_group(metadata: pa.parquet.RowGroupMetaData, first: Boundary, last: Boundary) -> RowGroup:
    chunks = [metadata.column(i) for i in range(metadata.num_columns)]
    offset, length = _offset(chunks[0]), sum(chunk.total_compressed_size for chunk in chunks)
    return RowGroup(offset, length, metadata.num_rows, first, last)


def _offset(chunk: pa.parquet.ColumnChunkMetaData) -> int:
    """Where the first page lies; the dictionary, if there is one, is before the data."""
    dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
    return int(chunk.data_page_offset if dictionary is None else min(dictionary, chunk.data_page_offset))
