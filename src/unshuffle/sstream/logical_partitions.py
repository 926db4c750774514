"""Which row groups of a stream each task reads, for the stored layout or for another that it can be read as.

A logical partition is one or more stored partitions, or parts of them, with a filter if they contain rows of other logical
partitions (SIGMOD 2012, section 3). Rows inside a stored partition are sorted, and the first and last key of every row group
are known. If the sort order begins with the partitioning columns, a task reads only the row groups that can have rows of its
partition; two neighbouring tasks may both read the row group at their border. Otherwise a task reads whole partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import lru_cache

from unshuffle.frozen import dataclass
from unshuffle.partitions import HashConnections, KeyInterval, KeyOrder, Ranges, closed_interval, connect
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.sstream.manifest import RowGroup, SortedName, StoredFile, ranges_of
from unshuffle.sstream.stored_layout import StoredLayout


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Adjacent row groups of a file. Unless `is_whole`, they contain rows of other logical partitions too."""

    file: StoredFile
    start: int
    length: int
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class LogicalPartitions:
    slices: tuple[tuple[FileSlice, ...], ...]  # by logical partition
    bytes: int = field(init=False)  # that all tasks read

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", sum(each.length for slices in self.slices for each in slices))

    @property
    def filtered(self) -> bool:
        """Does any task also read rows of other partitions?"""
        return not all(each.is_whole for slices in self.slices for each in slices)


@dataclass(frozen=True, slots=True)
class _Group:
    file: StoredFile
    number: int
    group: RowGroup


Keeps = Callable[[RowGroup], bool]
Reads = list[tuple[_Group, bool]]  # row groups that a partition reads, and whether it has all rows of each


def logical_partitions(
    manifest: StoredLayout,
    function: HashFunction | RangeFunction | None = None,
    within: Sequence[KeyInterval] | None = None,
) -> LogicalPartitions:
    """The row groups of each partition of `function` (None: the stored one). Row groups without rows in the intervals
    `within`, which are intervals of the sort order, are left out."""
    return _logical_partitions(manifest, function, None if within is None else tuple(within))


# Cached, because a table of many folders is read by many queries.
@lru_cache(maxsize=64)
def _logical_partitions(
    manifest: StoredLayout, function: HashFunction | RangeFunction | None, within: tuple[KeyInterval, ...] | None
) -> LogicalPartitions:
    keeps = _keeps(manifest, within)
    stored = [
        [_Group(file, number, group) for file in each.files for number, group in enumerate(file.groups) if keeps(group)]
        for each in manifest.partitions
    ]
    if function is None or function == manifest.function:
        return _from_reads([(group, True) for group in groups] for groups in stored)
    if isinstance(function, HashFunction):
        return _from_reads(_hash_reads(stored, HashConnections(len(stored), function.partitions)))
    if not isinstance(manifest.function, RangeFunction):
        raise ValueError(f"{manifest.function} cannot be read as {function}")
    return _from_reads(_range_reads(manifest, stored, ranges_of(function)))


def _from_reads(reads: Iterable[Reads]) -> LogicalPartitions:
    return LogicalPartitions(tuple(map(_slices, reads)))


def _hash_reads(stored: Sequence[Sequence[_Group]], connections: HashConnections) -> Iterator[Reads]:
    for output in range(connections.outputs):
        yield [(g, not connections.filtered) for read in connections.reads(output) for g in stored[read.input]]


def _range_reads(manifest: StoredLayout, stored: Sequence[Sequence[_Group]], target: Ranges) -> Iterator[Reads]:
    if _is_sorted_as_clustered(manifest, len(target.keys)):
        groups = [group for partition in stored for group in partition]
        spans = [closed_interval(each.group.first, each.group.last) for each in groups]
        connections = connect(spans, manifest.sort_keys, target)
        for output in range(len(target)):
            yield [(groups[read.input], read.filter is None) for read in connections.reads(output)]
        return
    assert isinstance(manifest.function, RangeFunction)
    own = ranges_of(manifest.function)
    connections = connect(own, own.keys, target)
    for output in range(len(target)):
        reads = connections.reads(output)
        yield [(group, read.filter is None) for read in reads for group in stored[read.input]]


def _is_sorted_as_clustered(manifest: StoredLayout, columns: int) -> bool:
    clustered_by: tuple[SortedName, ...] = manifest.clustered_by[:columns]
    return manifest.sorted_by[:columns] == clustered_by


def _keeps(manifest: StoredLayout, within: Sequence[KeyInterval] | None) -> Keeps:
    if within is None:
        return lambda group: True
    position = KeyOrder(manifest.sort_keys).place
    intervals = [(position(each.low), position(each.high)) for each in within]

    def keeps(group: RowGroup) -> bool:
        span = closed_interval(group.first, group.last)
        low, high = position(span.low), position(span.high)
        return any(low < end and start < high for start, end in intervals)

    return keeps


def _slices(reads: Reads) -> tuple[FileSlice, ...]:
    """Adjacent row groups of a file are read together."""
    slices: list[FileSlice] = []
    before: _Group | None = None
    for each, is_whole in reads:
        start, end = each.group.offset, each.group.offset + each.group.length
        last = slices[-1] if slices else None
        follows = before is not None and before.file is each.file and before.number + 1 == each.number
        if last is not None and follows and last.is_whole == is_whole:
            slices[-1] = FileSlice(each.file, last.start, end - last.start, is_whole)
        else:
            slices.append(FileSlice(each.file, start, end - start, is_whole))
        before = each
    return tuple(slices)
