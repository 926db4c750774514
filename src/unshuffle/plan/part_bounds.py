"""The parts of a table and the values that each can have: row groups of Parquet files, with the bounds of their columns.

Bounds come from the names of folders, which are exact, from the footers of files, and from conditions that the user declared
on files and folders. They tell which parts a query needs, and which tasks must read a part if rows are to be in ranges of a
column. A part that several tasks read is filtered by each, so bounds that overlap cost time and never rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from unshuffle.catalog.constraints.constraint import PartCondition
from unshuffle.catalog.files import DataFile, HashedTuple, absolute, without_scheme
from unshuffle.catalog.parquet_files import NotParquet, are_worth_reading, footers_of
from unshuffle.catalog.row_groups import (
    ColumnRange,
    RowGroupPlace,
    has_ranges,
    parts_of_file,
    place_of,
    ranges_of_column,
)
from unshuffle.catalog.schema import Column, DataType
from unshuffle.constants import THRESHOLDS
from unshuffle.frozen import dataclass
from unshuffle.partitions import (
    EVERYTHING,
    KeyColumn,
    KeyHistogram,
    KeyInterval,
    KeyOrder,
    PartitionIndex,
    Ranges,
    closed_interval,
    intersected,
    interval_of_value,
    merged,
)
from unshuffle.partitions.connection_map import are_alike
from unshuffle.plan.expressions import Expression, columns_of, connect
from unshuffle.plan.folder_values import columns_named, folder_values, have_names
from unshuffle.plan.logical import Scan
from unshuffle.plan.part_histograms import histogram_of_parts
from unshuffle.plan.predicate_intervals import NULLS, Intervals, intervals_of_column, is_closed
from unshuffle.properties import RangeFunction, RangeKey, SampledBoundaries

Schema = tuple[tuple[str, DataType], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A row group: its file, where it is read from, its place there, and the values of the folder columns."""

    path: str
    file_bytes: int
    start: int
    end: int
    place: RowGroupPlace
    folder_values: tuple[Any, ...]


class PartRead(NamedTuple):
    """A part, and whether all its rows are in the range of the task that reads it."""

    part: int
    is_whole: bool


Found = TypeVar("Found")
KEPT = 64  # sets of parts of which something is kept


class ColumnBounds:
    """The intervals of one column in each part of a table. A part has no row outside of its intervals."""

    def __init__(self, type: DataType, intervals: Sequence[Intervals], rows: Sequence[int]) -> None:
        self.key = _key(type)
        self.intervals = tuple(intervals)
        self.index = PartitionIndex((self.key,), self.intervals)
        self._rows = tuple(rows)
        # Of some parts: many queries over a table need the same ones, or all.
        self._histograms: _OfParts[KeyHistogram | None] = _OfParts()
        self._values: _OfParts[tuple[KeyInterval, ...]] = _OfParts()
        self._ends: _OfParts[tuple[Any, Any] | None] = _OfParts()

    @cached_property
    def are_useful(self) -> bool:
        """Whether most parts can be told from most others by the values of the column."""
        ends = [each for part in self.index.without_nulls.ends for each in part]
        lows, highs = sorted(low for low, _ in ends), sorted(high for _, high in ends)
        meeting = sum(bisect_left(lows, high) - bisect_right(highs, low) for low, high in ends)
        return len(ends) > 1 and meeting <= THRESHOLDS.bounds_overlap * len(ends) ** 2

    def overlapping(self, wanted: Iterable[KeyInterval]) -> frozenset[int]:
        return frozenset(part for each in wanted for part in self.index.overlapping(each))

    def outputs(self, ranges: Ranges, needed: Sequence[int] | None) -> Iterator[tuple[int, Sequence[int]]]:
        """The ranges that can have rows of each part, for parts with rows."""
        ends = self.index.ends
        for part in range(len(ends)) if needed is None else needed:
            if len(ends[part]) == 1:
                yield part, ranges.meeting(*ends[part][0])
            elif ends[part]:
                yield part, sorted({output for low, high in ends[part] for output in ranges.meeting(low, high)})

    def values(self, parts: Sequence[int]) -> tuple[KeyInterval, ...]:
        """Disjoint intervals in order that have every value in some parts, except NULL."""
        return self._values.get(parts, self._find_values)

    def _find_values(self, parts: Sequence[int]) -> tuple[KeyInterval, ...]:
        return tuple(merged((self.key,), (each for part in parts for each in self.intervals[part] if each != NULLS)))

    def ends(self, parts: Sequence[int]) -> tuple[Any, Any] | None:
        """The least and greatest value in some parts; None if there is no bound, or no value."""
        return self._ends.get(parts, self._find_ends)

    def _find_ends(self, parts: Sequence[int]) -> tuple[Any, Any] | None:
        spans = [each for part in parts for each in self.intervals[part] if each != NULLS]
        if not spans or not all(map(is_closed, spans)):
            return None
        place = KeyOrder((self.key,)).place
        low, high = min(spans, key=lambda each: place(each.low)), max(spans, key=lambda each: place(each.high))
        return low.low.values[0], high.high.values[0]

    def histogram(self, kept: Sequence[int] | None = None) -> KeyHistogram | None:
        """The distribution of the rows of some parts; None if the values between two bounds cannot be computed."""
        return self._histograms.get(range(len(self.intervals)) if kept is None else kept, self._find_histogram)

    def _find_histogram(self, parts: Sequence[int]) -> KeyHistogram | None:
        return histogram_of_parts(self.key, [(self.intervals[part], self._rows[part]) for part in parts])


class _OfParts(Generic[Found]):
    """What was found of some of the parts, for the sets of parts that were asked for last."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, ...], Found] = {}

    def get(self, parts: Sequence[int], find: Callable[[Sequence[int]], Found]) -> Found:
        chosen = tuple(parts)
        if chosen not in self._found:
            if len(self._found) >= KEPT:
                self._found.clear()
            self._found[chosen] = find(chosen)
        return self._found[chosen]


class PartBounds:
    """The parts of a table's files. `folders` are the values of the folder columns of each file, and `declared` conditions on
    files and folders."""

    def __init__(
        self,
        files: Sequence[DataFile],
        paths: Sequence[str],
        names: Sequence[str],
        folders: Sequence[tuple[Any, ...]],
        declared: Sequence[PartCondition] = (),
    ) -> None:
        self._found = HashedTuple.of(files)
        self._paths = tuple(paths)
        self.folder_columns = tuple(names)
        self._folders = tuple(folders)
        self._declared = tuple(declared)
        self._bounds: dict[tuple[str, DataType], ColumnBounds | None] = {}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Every row group."""
        found: list[Part] = []
        described = zip(self._found, self._paths, footers_of(self._found), self._folders, strict=True)
        for file, path, footer, values in described:
            places = [place_of(footer.row_group(number)) for number in range(footer.num_row_groups)]
            for place, (start, end) in zip(places, parts_of_file(places, file.size), strict=True):
                found.append(Part(path, file.size, start, end, place, values))
        return tuple(found)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(part.place.length for part in self.parts)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        return tuple(part.place.rows for part in self.parts)

    def bytes_of(self, needed: Iterable[int] | None = None) -> int:
        return sum(self.sizes if needed is None else (self.sizes[part] for part in needed))

    def on(self, column: Column) -> ColumnBounds | None:
        """The bounds of a column; None if nothing is known of it."""
        mark = (column.name, column.type)
        if mark not in self._bounds:
            self._bounds[mark] = self._read(column)
        return self._bounds[mark]

    def narrowed(self, declared: Sequence[PartCondition]) -> PartBounds:
        """The same parts, with conditions that are true for some of the files in addition to others."""
        conditions = (*self._declared, *declared)
        columns = {(c.name, c.type) for each in conditions if each.expression for c in columns_of(each.expression)}
        return _narrowed_bounds(
            self._found, self._paths, self.folder_columns, self._folders, conditions, frozenset(columns)
        )

    def has_files_of(self, declared: PartCondition) -> bool:
        return any(map(declared.covers, self.absolute_paths))

    @cached_property
    def files(self) -> tuple[tuple[str, int, int], ...]:
        """The path of each file, its bytes and its rows."""
        described = zip(self._found, self._paths, footers_of(self._found), strict=True)
        return tuple((path, file.size, footer.num_rows) for file, path, footer in described)

    @cached_property
    def absolute_paths(self) -> tuple[str, ...]:
        return tuple(absolute(file.path) for file in self._found)

    def is_declared(self, column: Column) -> bool:
        """Whether a declared condition bounds the column in a part."""
        return any(_declared_intervals(each, column) is not None for each in self._conditions.values())

    @cached_property
    def _conditions(self) -> dict[str, Expression]:
        """The declared conditions of each file that has some, by where it is read from. A table may have a default value for
        a column that a file lacks, so such a file has none."""
        found: dict[str, Expression] = {}
        described = zip(self.absolute_paths, self._paths, footers_of(self._found), strict=True)
        for place, path, footer in described if self._declared else ():
            covering = [each.expression for each in self._declared if each.expression and each.covers(place)]
            columns = {*footer.schema.to_arrow_schema().names, *self.folder_columns} if covering else set()
            known = [each for each in covering if all(column.name in columns for column in columns_of(each))]
            if known:
                found[path] = connect("and", known)
        return found

    def reads(self, column: Column, ranges: Ranges, needed: Sequence[int] | None) -> list[list[PartRead]] | None:
        """The parts that the task of each range must read; None if the bounds of the column do not tell."""
        bounds = self.on(column)
        if bounds is None or not are_alike(bounds.key, ranges.keys[0]):
            return None
        found: list[list[PartRead]] = [[] for _ in range(len(ranges))]
        for part, outputs in bounds.outputs(ranges, needed):
            for output in outputs:
                found[output].append(PartRead(part, len(outputs) == 1))
        return found

    def readers(self, column: Column, function: RangeFunction, needed: Sequence[int] | None) -> float | None:
        """How many tasks read a byte of the parts on average."""
        if isinstance(function.boundaries, SampledBoundaries):
            return None
        bounds, ranges = self.on(column), Ranges(function.keys, function.boundaries)
        if bounds is None or not are_alike(bounds.key, ranges.keys[0]):
            return None
        sizes = self.sizes
        read = sum(sizes[part] * len(outputs) for part, outputs in bounds.outputs(ranges, needed))
        return read / max(1, self.bytes_of(needed))

    def _read(self, column: Column) -> ColumnBounds | None:
        if not has_ranges(column.type):
            return None
        try:
            intervals = zip(self._intervals(column), self.parts, strict=True)
            return ColumnBounds(column.type, [each if part.place.rows else () for each, part in intervals], self.rows)
        except (OSError, NotParquet, pa.ArrowException, TypeError):
            return None  # a file is gone, or has a value of another type than the column's

    def _intervals(self, column: Column) -> list[Intervals]:
        stored = zip(self._stored_intervals(column), self.parts, strict=True)
        declared = {path: _declared_intervals(each, column) for path, each in self._conditions.items()}
        keys = (_key(column.type),)
        return [
            intersected(keys, each, within) if (within := declared.get(part.path)) is not None else each
            for each, part in stored
        ]

    def _stored_intervals(self, column: Column) -> list[Intervals]:
        if column.name in self.folder_columns:
            place = self.folder_columns.index(column.name)
            return [(interval_of_value((part.folder_values[place],)),) for part in self.parts]
        found = ranges_of_column(footers_of(self._found), column.name, column.type)
        return [_intervals(each) for ranges in found for each in ranges]


def with_bounds(scan: Scan, found: Sequence[DataFile], names: Sequence[str]) -> Scan:
    """The scan of a table with these folder columns, with the bounds of columns in its row groups. The same scan if there are
    no rows, footers that take too long to read, or values of folders that cannot be read for certain."""
    columns = columns_named(scan, names) if names else ()
    if not scan.files.rows or columns is None or not have_names(columns) or not are_worth_reading(found):
        return scan
    bounds = _part_bounds(HashedTuple.of(found), tuple((column.name, column.type) for column in columns))
    return scan if bounds is None else replace(scan, bounds=bounds)


@lru_cache(maxsize=64)
def _part_bounds(files: HashedTuple[DataFile], folder_columns: Schema) -> PartBounds | None:
    """The same object for the same files, so that bounds are read once."""
    paths = tuple(without_scheme(file.path) for file in files)
    columns = [Column(0, name, type) for name, type in folder_columns]
    folders = [folder_values(path, columns) for path in paths]
    values = [each for each in folders if each is not None]
    if len(values) < len(folders):
        return None
    return PartBounds(files, paths, [column.name for column in columns], values)


@lru_cache(maxsize=64)
def _narrowed_bounds(
    files: tuple[DataFile, ...],
    paths: tuple[str, ...],
    names: tuple[str, ...],
    folders: tuple[tuple[Any, ...], ...],
    declared: tuple[PartCondition, ...],
    types: frozenset[tuple[str, DataType]],
) -> PartBounds:
    """The same object for the same files and conditions, so that bounds are read once. Conditions are the same if their
    texts and the types of their columns are."""
    return PartBounds(files, paths, names, folders, declared)


def _key(type: DataType) -> KeyColumn:
    return KeyColumn(RangeKey(type).type)


def _declared_intervals(condition: Expression, column: Column) -> Intervals | None:
    """What a condition on a table says of one of its columns. A column that is read as another type is not compared."""
    same = [c for c in columns_of(condition) if c.name == column.name and c.type == column.type]
    return intervals_of_column(condition, same[0], _key(column.type)) if same and has_ranges(column.type) else None


def _intervals(found: ColumnRange | None) -> Intervals:
    if found is None:
        return (EVERYTHING,)
    nulls = (NULLS,) if found.has_nulls else ()
    return nulls if found.low is None else (*nulls, closed_interval((found.low,), (found.high,)))
