"""Checks a version of a stream against its manifest. All rows are read, and the checksums of all pages verified.

    files                exist, with the recorded size, footer and number of rows
    row groups           have the recorded rows, first key and last key
    partitions           every row is in the partition that the function gives
    order                inside each file, and from each file of a partition to the next
    histogram            counts as many rows as there are
    keys, dependencies   hold for all rows together

For each file and each kind of fault, the first is reported, with its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import isclose

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unshuffle.catalog.constraints.constraint import Constraint
from unshuffle.catalog.constraints.counterexamples import find_counterexamples
from unshuffle.catalog.types import spark_name
from unshuffle.frozen import dataclass
from unshuffle.partitions import Boundary, KeyOrder
from unshuffle.partitions.intervals import shown
from unshuffle.properties import HashFunction
from unshuffle.sstream.file_description import UnreadableFile, key_columns, read_footer
from unshuffle.sstream.manifest import RowGroup, StoredFile, ranges_of
from unshuffle.sstream.murmur import partition_numbers
from unshuffle.sstream.order import first_descent
from unshuffle.sstream.storage import storage_of
from unshuffle.sstream.store import Stream

Progress = Callable[[int, int], None]  # rows read, and rows in all


@dataclass(frozen=True, slots=True)
class Fault:
    """A statement of the manifest that is not true. Rows of a file are counted from 0."""

    message: str
    file: str | None = None
    row: int | None = None

    def __str__(self) -> str:
        row = "" if self.row is None else f", row {self.row:,}"
        return self.message if self.file is None else f"{self.file}{row}: {self.message}"


def check(stream: Stream, progress: Progress = lambda done, total: None) -> tuple[Fault, ...]:
    """The faults of a version of a stream; none if its manifest is correct."""
    checker = _StreamChecker(stream, progress)
    faults = [*checker.files(), *checker.histogram()]
    # Declarations can only be checked if all files can be read.
    return tuple(faults or checker.declarations())


class _StreamChecker:
    def __init__(self, stream: Stream, progress: Progress) -> None:
        self._stream, self._manifest, self._progress = stream, stream.manifest, progress
        self._types = dict(self._manifest.schema)
        self._done = 0

    def files(self) -> Iterator[Fault]:
        sizes = {entry.name: entry.size for entry in storage_of(self._stream.path).entries()}
        for number, partition in enumerate(self._manifest.partitions):
            last_row: list[pa.Array] | None = None
            for file in partition.files:
                if file.path not in sizes:
                    yield Fault("the file is missing", file.path)
                elif sizes[file.path] != file.bytes:
                    yield Fault(f"the file has {sizes[file.path]:,} bytes, not {file.bytes:,}", file.path)
                else:
                    try:
                        yield from self._footer(file)
                        checker = _FileChecker(self._stream, file, number, last_row)
                        yield from checker.faults(self._advance)
                        last_row = checker.last_row
                    except UnreadableFile as problem:
                        yield Fault(f"the file {problem}", file.path)

    def _advance(self, rows: int) -> None:
        self._done += rows
        self._progress(self._done, self._manifest.rows)

    def _footer(self, file: StoredFile) -> Iterator[Fault]:
        footer = read_footer(self._stream.path_of(file))
        if footer.crc != file.footer:
            yield Fault("the footer has changed since it was written", file.path)
        if footer.metadata.num_rows != file.rows:
            yield Fault(f"the file has {footer.metadata.num_rows:,} rows, not {file.rows:,}", file.path)
        names = footer.metadata.schema.to_arrow_schema().names
        if names != [name for name, _ in self._manifest.schema]:
            yield Fault(f"the file has the columns {', '.join(names)}", file.path)

    def histogram(self) -> Iterator[Fault]:
        counted_rows = self._manifest.histogram.rows
        if not isclose(counted_rows, self._manifest.rows, rel_tol=1e-6, abs_tol=0.5):
            yield Fault(f"the histogram counts {counted_rows:,.0f} rows, but there are {self._manifest.rows:,}")

    def declarations(self) -> Iterator[Fault]:
        for declaration in self._manifest.declarations:
            violation = find_violation(self._stream.paths, declaration, self._types, self._manifest.rows)
            if violation is not None:
                yield Fault(violation)


def find_violation(
    paths: Iterable[str], declaration: Constraint, types: dict[str, pa.DataType], rows: int
) -> str | None:
    """A message that says which rows of some files violate a declaration; None if none do."""
    columns = tuple((name, types[name]) for name in declaration.columns)
    all_paths = tuple(paths)

    def batches() -> Iterator[pa.RecordBatch]:
        for path in all_paths:
            for read in key_columns(path, columns):
                yield pa.RecordBatch.from_arrays(read, [name for name, _ in columns])

    violation = find_counterexamples(declaration, batches, rows)
    return None if violation is None else f"{declaration} does not hold: {violation}"


class _FileChecker:
    """Checks one file, a row group at a time. `last_row` has the sort columns of the last row so far, of this file or of the
    one before it."""

    def __init__(self, stream: Stream, file: StoredFile, number: int, last_row: list[pa.Array] | None) -> None:
        self._stream, self._file, self._number = stream, file, number
        self.last_row = last_row
        self._reported: set[str] = set()

    def faults(self, advance: Callable[[int], None]) -> Iterator[Fault]:
        manifest, row, groups = self._stream.manifest, 0, 0
        sorted_by = [each.name for each in manifest.sorted_by]
        names = list(dict.fromkeys((*sorted_by, *manifest.function_names)))
        types = dict(manifest.schema)
        columns = tuple((name, types[name]) for name in names)
        for read in key_columns(self._stream.path_of(self._file), columns, read_all=True):
            values = dict(zip(names, read, strict=True))
            if not len(read[0]):
                continue
            order = [values[name] for name in sorted_by]
            if groups < len(self._file.groups):
                yield from self._group(self._file.groups[groups], order, row)
            yield from self._order(order, row)
            yield from self._partition([values[name] for name in manifest.function_names], row)
            advance(len(read[0]))
            row, groups = row + len(read[0]), groups + 1
        if groups != len(self._file.groups):
            yield Fault(f"the file has {groups} row groups, not {len(self._file.groups)}", self._file.path)

    def _once(self, kind: str, message: str, row: int) -> Iterator[Fault]:
        if kind not in self._reported:
            self._reported.add(kind)
            yield Fault(message, self._file.path, row)

    def _group(self, group: RowGroup, order: list[pa.Array], row: int) -> Iterator[Fault]:
        rows = len(order[0])
        if rows != group.rows:
            yield from self._once("rows", f"the row group has {rows:,} rows, not {group.rows:,}", row)
        position = KeyOrder(self._stream.manifest.sort_keys).row
        for end, recorded, at in (("first", group.first, 0), ("last", group.last, rows - 1)):
            actual = tuple(column[at].as_py() for column in order)
            if position(actual) != position(recorded):
                message = f"the {end} key of the row group is {shown(actual)}, not {shown(recorded)}"
                yield from self._once(end, message, row + at)

    def _order(self, order: list[pa.Array], row: int) -> Iterator[Fault]:
        offset = 0
        if self.last_row is not None:
            order, offset = [pa.concat_arrays(pair) for pair in zip(self.last_row, order, strict=True)], 1
        self.last_row = [column.slice(len(column) - 1) for column in order]
        at = first_descent(order, self._stream.manifest.sort_keys)
        if at is not None:
            key, key_before = (tuple(column[i].as_py() for column in order) for i in (at, at - 1))
            names = ", ".join(map(str, self._stream.manifest.sorted_by))
            message = f"{shown(key)} comes after {shown(key_before)}, which is not in the order of {names}"
            yield from self._once("order", message, row + at - offset)

    def _partition(self, keys: list[pa.Array], row: int) -> Iterator[Fault]:
        numbers = self._partition_numbers(keys)
        wrong = np.flatnonzero(numbers != self._number)
        if len(wrong):
            at = int(wrong[0])
            key = tuple(column[at].as_py() for column in keys)
            message = f"the row with {self._key_text(key)} belongs in partition {numbers[at]}, not {self._number}"
            yield from self._once("partition", message, row + at)

    def _partition_numbers(self, keys: list[pa.Array]) -> npt.NDArray[np.int64]:
        function = self._stream.manifest.function
        if isinstance(function, HashFunction):
            return partition_numbers(keys, function.partitions)
        ranges = ranges_of(function)
        # Keys repeat, so each distinct key is looked up once.
        names = [str(i) for i in range(len(keys))]
        table = pa.table([*keys, pa.array(np.arange(len(keys[0])))], [*names, "row"])
        grouped = table.group_by(names, use_threads=False).aggregate([("row", "list")])
        found = ranges.numbers(zip(*(grouped[name].to_pylist() for name in names), strict=True))
        lists = grouped["row_list"].combine_chunks()
        lengths, rows = lists.value_lengths().to_numpy(), lists.flatten().to_numpy()
        numbers = np.empty(len(keys[0]), dtype=np.int64)
        numbers[rows] = np.repeat(np.array(found, dtype=np.int64), lengths)
        return numbers

    def _key_text(self, key: Boundary) -> str:
        manifest = self._stream.manifest
        types = dict(manifest.schema)
        return ", ".join(
            f"{name} {spark_name(types[name])} = {'NULL' if value is None else repr(value)}"
            for name, value in zip(manifest.function_names, key, strict=True)
        )
