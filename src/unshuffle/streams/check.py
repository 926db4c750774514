"""Does everything hold that a manifest says? All rows are read, and the checksums of all pages verified.

    files         there, of their size, footer and number of rows
    row groups    where they lie, and the first and last key of each
    partitions    every row in the one that the function sends it to
    order         inside files, and from each file of a partition to the next
    histogram     as many rows in all as there are
    keys, dependencies   of all rows together

Of each file and claim the first fault is reported, with its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isclose

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unshuffle.catalog.declared import Declaration, counted
from unshuffle.catalog.types import spark_name
from unshuffle.partitions import Boundary, Order
from unshuffle.partitions.intervals import shown
from unshuffle.properties import HashFunction
from unshuffle.streams.described import Unreadable, key_columns, read_footer
from unshuffle.streams.manifest import RowGroup, StoredFile, ranges_of
from unshuffle.streams.murmur import partition_numbers
from unshuffle.streams.order import first_descent
from unshuffle.streams.places import place_of
from unshuffle.streams.store import Stream

Progress = Callable[[int, int], None]  # rows that were read, of how many


@dataclass(frozen=True, slots=True)
class Fault:
    """A claim that does not hold; rows of a file are counted from 0."""

    message: str
    file: str | None = None
    row: int | None = None

    def __str__(self) -> str:
        row = "" if self.row is None else f", row {self.row:,}"
        return self.message if self.file is None else f"{self.file}{row}: {self.message}"


def check(stream: Stream, progress: Progress = lambda done, total: None) -> tuple[Fault, ...]:
    """What is wrong with a version of a stream; nothing, if all that its manifest says is true."""
    checking = _Checking(stream, progress)
    faults = [*checking.files(), *checking.histogram()]
    # Rows of files that cannot be read contradict nothing.
    return tuple(faults or checking.declarations())


class _Checking:
    def __init__(self, stream: Stream, progress: Progress) -> None:
        self._stream, self._manifest, self._progress = stream, stream.manifest, progress
        self._types = dict(self._manifest.schema)
        self._done = 0

    def files(self) -> Iterator[Fault]:
        sizes = {entry.name: entry.size for entry in place_of(self._stream.path).entries()}
        for number, partition in enumerate(self._manifest.partitions):
            before: list[pa.Array] | None = None
            for file in partition.files:
                if file.path not in sizes:
                    yield Fault("the file is missing", file.path)
                elif sizes[file.path] != file.bytes:
                    yield Fault(f"the file has {sizes[file.path]:,} bytes, not {file.bytes:,}", file.path)
                else:
                    try:
                        yield from self._footer(file)
                        reading = _File(self._stream, file, number, before)
                        yield from reading.faults(self._counted)
                        before = reading.last
                    except Unreadable as problem:
                        yield Fault(f"the file {problem}", file.path)

    def _counted(self, rows: int) -> None:
        self._done += rows
        self._progress(self._done, self._manifest.rows)

    def _footer(self, file: StoredFile) -> Iterator[Fault]:
        footer = read_footer(self._stream.path_of(file))
        if footer.crc != file.footer:
            yield Fault("the footer is not the one that was written", file.path)
        if footer.metadata.num_rows != file.rows:
            yield Fault(f"the file has {footer.metadata.num_rows:,} rows, not {file.rows:,}", file.path)
        names = footer.metadata.schema.to_arrow_schema().names
        if names != [name for name, _ in self._manifest.schema]:
            yield Fault(f"the file has the columns {', '.join(names)}", file.path)

    def histogram(self) -> Iterator[Fault]:
        found = self._manifest.histogram.rows
        if not isclose(found, self._manifest.rows, rel_tol=1e-6, abs_tol=0.5):
            yield Fault(f"the histogram counts {found:,.0f} rows, and there are {self._manifest.rows:,}")

    def declarations(self) -> Iterator[Fault]:
        for declaration in self._manifest.declarations:
            broken = declared_of(self._stream.paths, declaration, self._types, self._manifest.rows)
            if broken is not None:
                yield Fault(broken)


def declared_of(paths: Iterable[str], declaration: Declaration, types: dict[str, pa.DataType], rows: int) -> str | None:
    """What contradicts a declaration in the rows of some files, in words."""
    columns = tuple((name, types[name]) for name in declaration.columns)
    every = tuple(paths)

    def batches() -> Iterator[pa.RecordBatch]:
        for path in every:
            for read in key_columns(path, columns):
                yield pa.RecordBatch.from_arrays(read, [name for name, _ in columns])

    broken = counted(declaration, batches, rows)
    return None if broken is None else f"{declaration} does not hold: {broken}"


class _File:
    """One file, a row group at a time. `last` is its last row, of the columns that it is sorted by."""

    def __init__(self, stream: Stream, file: StoredFile, number: int, before: list[pa.Array] | None) -> None:
        self._stream, self._file, self._number = stream, file, number
        self.last = before
        self._reported: set[str] = set()

    def faults(self, counted: Callable[[int], None]) -> Iterator[Fault]:
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
            counted(len(read[0]))
            row, groups = row + len(read[0]), groups + 1
        if groups != len(self._file.groups):
            yield Fault(f"the file has {groups} row groups, not {len(self._file.groups)}", self._file.path)

    def _once(self, claim: str, message: str, row: int) -> Iterator[Fault]:
        if claim not in self._reported:
            self._reported.add(claim)
            yield Fault(message, self._file.path, row)

    def _group(self, group: RowGroup, order: list[pa.Array], row: int) -> Iterator[Fault]:
        rows = len(order[0])
        if rows != group.rows:
            yield from self._once("rows", f"the row group has {rows:,} rows, not {group.rows:,}", row)
        place = Order(self._stream.manifest.sort_keys).row
        for what, claimed, at in (("first", group.first, 0), ("last", group.last, rows - 1)):
            found = tuple(column[at].as_py() for column in order)
            if place(found) != place(claimed):
                message = f"the {what} key of the row group is {shown(found)}, not {shown(claimed)}"
                yield from self._once(what, message, row + at)

    def _order(self, order: list[pa.Array], row: int) -> Iterator[Fault]:
        above = 0
        if self.last is not None:
            order, above = [pa.concat_arrays(pair) for pair in zip(self.last, order, strict=True)], 1
        self.last = [column.slice(len(column) - 1) for column in order]
        at = first_descent(order, self._stream.manifest.sort_keys)
        if at is not None:
            found, before = (tuple(column[i].as_py() for column in order) for i in (at, at - 1))
            names = ", ".join(map(str, self._stream.manifest.sorted_by))
            message = f"{shown(found)} stands after {shown(before)}, which is not in the order of {names}"
            yield from self._once("order", message, row + at - above)

    def _partition(self, keys: list[pa.Array], row: int) -> Iterator[Fault]:
        numbers = self._numbers(keys)
        wrong = np.flatnonzero(numbers != self._number)
        if len(wrong):
            at = int(wrong[0])
            key = tuple(column[at].as_py() for column in keys)
            message = f"the row with {self._named(key)} belongs in partition {numbers[at]}, not {self._number}"
            yield from self._once("partition", message, row + at)

    def _numbers(self, keys: list[pa.Array]) -> npt.NDArray[np.int64]:
        function = self._stream.manifest.function
        if isinstance(function, HashFunction):
            return partition_numbers(keys, function.partitions)
        ranges = ranges_of(function)
        # Keys repeat: each different one is looked up once.
        names = [str(i) for i in range(len(keys))]
        table = pa.table([*keys, pa.array(np.arange(len(keys[0])))], [*names, "row"])
        grouped = table.group_by(names, use_threads=False).aggregate([("row", "list")])
        found = ranges.numbers(zip(*(grouped[name].to_pylist() for name in names), strict=True))
        lists = grouped["row_list"].combine_chunks()
        lengths, rows = lists.value_lengths().to_numpy(), lists.flatten().to_numpy()
        numbers = np.empty(len(keys[0]), dtype=np.int64)
        numbers[rows] = np.repeat(np.array(found, dtype=np.int64), lengths)
        return numbers

    def _named(self, key: Boundary) -> str:
        manifest = self._stream.manifest
        types = dict(manifest.schema)
        return ", ".join(
            f"{name} {spark_name(types[name])} = {'NULL' if value is None else repr(value)}"
            for name, value in zip(manifest.function_names, key, strict=True)
        )
