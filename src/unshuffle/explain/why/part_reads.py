"""The parts of a table, the bounds of a column in each, and the tasks of a scan that read it.

A part is a row group, or a file of a table in so many folders that footers are not read. The tasks are those that the
scan's own lowering makes: by the bounds of a column, or by the stored layout of folders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from unshuffle.catalog.files import without_scheme
from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.partitions import KeyColumn, KeyInterval, KeyOrder, PartitionIndex, Ranges, interval_of_value
from unshuffle.plan import physical
from unshuffle.plan.logical import Scan
from unshuffle.properties import Partitioned, PrefixPartitioned, RangeFunction, RangeKey, SampledBoundaries

Tasks = tuple[int, ...]
_EMPTY: Tasks = ()


@dataclass(frozen=True, slots=True)
class TablePart:
    """A part of a table. `bounds` are of one column, and empty if the part has no rows."""

    name: str  # of the file, below the folder of the table
    rows: int
    bytes: int
    bounds: tuple[KeyInterval, ...]
    is_read: bool
    tasks: Tasks = ()  # that read it; none if Spark makes the tasks
    group: str = ""  # the folders of other columns than the one with the bounds: region=asia

    @property
    def folder(self) -> str:
        """The folder of the part without those of its group, or its file if the table has no folders."""
        folders = self.name.split("/")[:-1]
        return "/".join(each for each in folders if each not in self.group.split("/")) or self.name


@dataclass(frozen=True, slots=True)
class TableReads:
    """The parts of a table in the order of a column, and which of them a scan reads."""

    scan: physical.FileScan
    column: Column
    unit: str  # what a part is: "row group" or "file"
    parts: tuple[TablePart, ...]

    @property
    def label(self) -> str:
        return self.scan.scan.label

    @property
    def read(self) -> list[TablePart]:
        return [part for part in self.parts if part.is_read]

    @property
    def shared(self) -> list[TablePart]:
        """The parts that several tasks read."""
        return [part for part in self.parts if len(part.tasks) > 1]

    @property
    def bytes_read(self) -> int:
        """By all tasks together."""
        return sum(part.bytes * max(1, len(part.tasks)) for part in self.read)

    @property
    def share(self) -> float:
        """The fraction of the bytes of the table that is read."""
        return sum(part.bytes for part in self.read) / max(1, sum(part.bytes for part in self.parts))


class ScannedParts:
    """The parts of the table that an operator scans. There are none of a table without bounds and folders."""

    def __init__(self, operator: physical.FileScan) -> None:
        self._operator = operator
        self._scan = operator.scan
        self._files = _files_in_folders(operator.scan) if operator.scan.bounds is None else []
        self.unit = "row group" if operator.scan.bounds is not None else "file"

    def intervals(self, column: Column) -> Sequence[tuple[KeyInterval, ...]] | None:
        """The bounds of a column in each part; None if they are not known."""
        if self._scan.bounds is not None:
            known = self._scan.bounds.on(column)
            return None if known is None else known.intervals
        stored = self._scan.parts
        if stored is None or not self._files or column.name not in stored.folder_columns:
            return None
        place = stored.folder_columns.index(column.name)
        return [(interval_of_value((file.groups[0].first[place],)),) for file in self._files]

    def index(self, column: Column) -> PartitionIndex | None:
        """The bounds of a column in the parts that are read."""
        if self._scan.bounds is not None:
            known = self._scan.bounds.on(column)
            return None if known is None else known.index.of_parts(self.read)
        intervals = self.intervals(column)
        if intervals is None:
            return None
        return PartitionIndex((KeyColumn(RangeKey(column.type).type),), (intervals[part] for part in self.read))

    @cached_property
    def read(self) -> list[int]:
        tasks = self._tasks
        if tasks is not None:
            return [part for part in range(len(self._places)) if tasks.get(part)]
        needed = self._scan.needed
        if needed is None and self._files:
            kept = _read_folders(self._scan, None)
            return [part for part, (path, _, _) in enumerate(self._places) if path in kept]
        return list(range(len(self._places)) if needed is None else needed)

    def on(self, column: Column) -> TableReads | None:
        """The parts with the bounds of a column, in its order; None if they are not known."""
        intervals = self.intervals(column)
        if intervals is None:
            return None
        place = KeyOrder((KeyColumn(RangeKey(column.type).type),)).place
        read, tasks = frozenset(self.read), self._tasks or {}
        found = [
            (
                [place(each.low) for each in bounds],
                TablePart(name, rows, size, bounds, part in read, tasks.get(part, _EMPTY), group),
            )
            for part, (bounds, name, (_, rows, size), group) in enumerate(
                zip(intervals, self._names, self._places, self._groups(column), strict=True)
            )
        ]
        ordered = [part for _, part in sorted(found, key=lambda each: (each[0], each[1].name))]
        return TableReads(self._operator, column, self.unit, tuple(ordered))

    @cached_property
    def _places(self) -> list[tuple[str, int, int]]:
        """The path, rows and bytes of each part."""
        if self._scan.bounds is not None:
            return [(part.path, part.place.rows, part.place.length) for part in self._scan.bounds.parts]
        stored = self._scan.parts
        return [] if stored is None else [(stored.path_of(file), file.rows, file.bytes) for file in self._files]

    @property
    def _names(self) -> Iterator[str]:
        """Paths below the folder of the table; with a number, if a file has several row groups."""
        files = self._scan.files
        roots = [f"{without_scheme(root).rstrip('/')}/" for root in (files.base, *files.paths) if root]
        paths = [path for path, _, _ in self._places]
        number = 0
        for at, path in enumerate(paths):
            number = number + 1 if at and paths[at - 1] == path else 0
            root = next((root for root in roots if path.startswith(root)), "")
            is_one_of_some = number or path in paths[at + 1 : at + 2]
            yield path.removeprefix(root) + (f" row group {number}" if is_one_of_some else "")

    def _groups(self, column: Column) -> Iterator[str]:
        source = self._scan.bounds or self._scan.parts
        names = source.folder_columns if source is not None else ()
        for path, _, _ in self._places:
            folders = path.split("/")[-1 - len(names) : -1]
            pairs = zip(names, folders, strict=False)
            yield "/".join(each for name, each in pairs if name != column.name) if column.name in names else ""

    @cached_property
    def _tasks(self) -> Mapping[int, Tasks] | None:
        """The tasks that read each part; None if Spark makes the tasks."""
        operator, layout = self._operator, self._operator.layout.partitioning
        if operator.bounded_by is not None and self._scan.bounds is not None and isinstance(layout, Partitioned):
            ranges = ranges_of_layout(layout)
            reads = None if ranges is None else self._scan.bounds.reads(operator.bounded_by, ranges, self._scan.needed)
            return None if reads is None else _turned([[each.part for each in of_task] for of_task in reads])
        if not isinstance(layout, Partitioned | PrefixPartitioned) or not _files_in_folders(self._scan):
            return None
        folders = _read_folders(self._scan, layout.function if operator.readers is not None else None)
        return {part: folders.get(path, ()) for part, (path, _, _) in enumerate(self._places)}


def ranges_of_layout(layout: Partitioned) -> Ranges | None:
    """The ranges of the tasks; None if they are not ranges, or are chosen at run time."""
    function = layout.function
    if not isinstance(function, RangeFunction) or isinstance(function.boundaries, SampledBoundaries):
        return None
    return Ranges(function.keys, function.boundaries)


def _files_in_folders(scan: Scan) -> list[Any]:
    if scan.parts is None or not isinstance(scan.parts.layout.function, RangeFunction):
        return []  # in no folders, or read by its buckets
    if not scan.parts.folder_columns:
        return []
    return [file for partition in scan.parts.layout.partitions for file in partition.files]


def _read_folders(scan: Scan, function: Any) -> dict[str, Tasks]:
    """The tasks that read each file of a table in folders, in ranges of `function`, or one for each folder."""
    from unshuffle.plan.stored_reads import stored_reads  # plans of other tables need no layouts of streams

    assert scan.parts is not None
    found: dict[str, list[int]] = {}
    for task, of_task in enumerate(stored_reads(scan, function)):
        for each in of_task:
            found.setdefault(scan.parts.path_of(each.file), []).append(task)
    return {path: tuple(tasks) for path, tasks in found.items()}


def _turned(reads: Sequence[Sequence[int]]) -> dict[int, Tasks]:
    """The tasks of each part, from the parts of each task."""
    found: dict[int, list[int]] = {}
    for task, parts in enumerate(reads):
        for part in parts:
            found.setdefault(part, []).append(task)
    return {part: tuple(tasks) for part, tasks in found.items()}
