"""Describes Parquet files for a manifest: row groups, their first and last keys, and a histogram.

Only footers and key columns are read. The files of a partition are ordered by their first keys.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet

from unshuffle.catalog import files
from unshuffle.catalog.parquet_files import open_parquet
from unshuffle.catalog.row_groups import place_of
from unshuffle.frozen import dataclass
from unshuffle.partitions import Boundary, KeyColumn, KeyHistogram, KeyOrder, histogram_of_rows
from unshuffle.sstream.manifest import RowGroup, Schema, SortedName, StoredFile, StoredPartition, typed_keys
from unshuffle.sstream.order import first_descent

SAMPLE = 20_000  # rows in the sample for a histogram
BUCKETS = 256
_MAGIC, _TAIL = b"PAR1", 8  # a Parquet file ends with the footer's length and the magic
_THREADS = 8


class UnreadableFile(Exception):
    """A file that cannot be used. The message says why, with the file as its subject."""


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
                raise UnreadableFile("is not a whole Parquet file")
            data = file.read_at(length, size - _TAIL - length)
        whole = pa.BufferReader(_MAGIC + data + tail)
        return Footer(pa.parquet.read_metadata(whole), zlib.crc32(data))
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"cannot be read: {_first_line(error)}") from None


def key_columns(path: str, columns: Schema, read_all: bool = False) -> Iterator[list[pa.Array]]:
    """Some columns of a file, a row group at a time, cast to the given types. Page checksums are verified: those of these
    columns, or of all columns with `read_all`."""
    names = [name for name, _ in columns]
    try:
        with open_parquet(path, verify=True) as source:
            for group in range(source.metadata.num_row_groups):
                table = source.read_row_group(group, columns=None if read_all else names)
                yield [_one_array(table[name]).cast(type) for name, type in columns]
    except KeyError as error:
        raise UnreadableFile(f"has no column {error}") from None
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"cannot be read: {_first_line(error)}") from None


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _first_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return (str(error).splitlines() or [type(error).__name__])[0]


def describe(
    root: str,
    partitions: Sequence[Mapping[str, int]],
    schema: Schema,
    clustered_by: tuple[SortedName, ...],
    sorted_by: tuple[SortedName, ...],
) -> tuple[tuple[StoredPartition, ...], KeyHistogram]:
    """The partitions and the histogram of a manifest. `partitions` has the size of each file, by its path below `root`."""
    sizes = {path: size for partition in partitions for path, size in partition.items()}
    with ThreadPoolExecutor(_THREADS) as pool:
        footers = dict(zip(sizes, pool.map(lambda path: read_footer(f"{root}/{path}"), sizes), strict=True))
        rows = sum(footer.metadata.num_rows for footer in footers.values())
        reader = _FileReader(root, schema, clustered_by, sorted_by, max(1, rows // SAMPLE))
        described = dict(
            zip(sizes, pool.map(lambda path: reader.describe(path, sizes[path], footers[path]), sizes), strict=True)
        )
    stored = tuple(_partition([described[path][0] for path in files], reader.keys) for files in partitions)
    sample = (row for path in sizes for row in described[path][1])
    return stored, _histogram(typed_keys(schema, clustered_by), sample, rows)


def _partition(files: Sequence[StoredFile], keys: tuple[KeyColumn, ...]) -> StoredPartition:
    position = KeyOrder(keys).row
    nonempty = [file for file in files if file.groups]
    nonempty.sort(key=lambda file: (position(file.groups[0].first), position(file.groups[-1].last), file.path))
    for file, successor in pairwise(nonempty):
        if position(file.groups[-1].last) > position(successor.groups[0].first):
            raise UnreadableFile(f"is not sorted: {successor.path} begins before {file.path} ends")
    return StoredPartition(tuple(nonempty))


def _histogram(keys: tuple[KeyColumn, ...], sample: Iterator[Boundary], rows: int) -> KeyHistogram:
    histogram = histogram_of_rows(keys, sample, BUCKETS)
    return histogram.scaled(rows / histogram.rows) if histogram.rows else histogram


@dataclass(frozen=True, slots=True)
class _FileReader:
    root: str
    schema: Schema
    clustered_by: tuple[SortedName, ...]
    sorted_by: tuple[SortedName, ...]
    sample_step: int  # one row in this many is in the sample

    @property
    def keys(self) -> tuple[KeyColumn, ...]:
        return typed_keys(self.schema, self.sorted_by)

    def describe(self, path: str, size: int, footer: Footer) -> tuple[StoredFile, list[Boundary]]:
        """The file, and a sample of its clustering keys."""
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
            position = KeyOrder(self.keys).row
            if first_descent(order, self.keys) is not None or (groups and position(groups[-1].last) > position(first)):
                raise UnreadableFile(f"({path}) is not sorted by {', '.join(map(str, self.sorted_by))}")
            groups.append(_row_group(footer.metadata.row_group(number), first, last))
            sampled = (values[each.name][:: self.sample_step].to_pylist() for each in self.clustered_by)
            sample += zip(*sampled, strict=True)
        return StoredFile(path, size, footer.crc, tuple(groups)), sample


def _row_group(metadata: pa.parquet.RowGroupMetaData, first: Boundary, last: Boundary) -> RowGroup:
    place = place_of(metadata)
    return RowGroup(place.offset, place.length, place.rows, first, last)
