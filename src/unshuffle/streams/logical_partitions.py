"""Which row groups of a stream each task reads, for the stored layout or for another that it can be read as.

A logical partition is one or more stored partitions, or parts of them, with a filter where rows of others lie between
(SIGMOD 2012, section 3). Rows inside a stored partition are sorted, and of every row group the first and the last key is
known. Where they are sorted by the columns that divide them, a task reads only the row groups that can have rows of its
own; the one at an end may be read by its neighbour too. Otherwise it reads the partitions whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from unshuffle.partitions import HashConnections, Interval, Order, Ranges, connect, spanning
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.streams.manifest import Manifest, RowGroup, SortedName, StoredFile, ranges_of


@dataclass(frozen=True, slots=True)
class Part:
    """Some row groups of a file, one after another."""

    file: StoredFile
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class LogicalPartitions:
    parts: tuple[tuple[Part, ...], ...]
    filtered: bool  # do some tasks read rows of others as well?

    @property
    def bytes(self) -> int:
        return sum(part.length for parts in self.parts for part in parts)


@dataclass(frozen=True, slots=True)
class _Group:
    file: StoredFile
    number: int
    group: RowGroup


Keeps = Callable[[RowGroup], bool]


def logical_partitions(
    manifest: Manifest, function: HashFunction | RangeFunction | None = None, within: Sequence[Interval] | None = None
) -> LogicalPartitions:
    """The row groups of each partition of the function (None: the stored one), of those that can have rows within some
    intervals of the order that the stream is sorted in."""
    keeps = _keeps(manifest, within)
    stored = [
        [_Group(file, number, group) for file in each.files for number, group in enumerate(file.groups) if keeps(group)]
        for each in manifest.partitions
    ]
    if function is None or function == manifest.function:
        return LogicalPartitions(tuple(_parts(groups) for groups in stored), filtered=False)
    if isinstance(function, HashFunction):
        hashes = HashConnections(len(stored), function.partitions)
        made = ([g for read in hashes.reads(i) for g in stored[read.input]] for i in range(function.partitions))
        return LogicalPartitions(tuple(map(_parts, made)), hashes.filtered)
    if not isinstance(manifest.function, RangeFunction):
        raise ValueError(f"{manifest.function} cannot be read as {function}")
    target, filtered = ranges_of(function), False
    outputs = []
    for groups, filters in _ranges(manifest, stored, target):
        filtered = filtered or filters
        outputs.append(_parts(groups))
    return LogicalPartitions(tuple(outputs), filtered)


def _ranges(
    manifest: Manifest, stored: Sequence[Sequence[_Group]], target: Ranges
) -> Iterator[tuple[list[_Group], bool]]:
    if _is_sorted_as_clustered(manifest, len(target.keys)):
        groups = [group for partition in stored for group in partition]
        spans = [spanning(each.group.first, each.group.last) for each in groups]
        connections = connect(spans, manifest.sort_keys, target)
        for output in range(len(target)):
            reads = connections.reads(output)
            yield [groups[read.input] for read in reads], any(read.filter is not None for read in reads)
        return
    assert isinstance(manifest.function, RangeFunction)
    own = ranges_of(manifest.function)
    connections = connect(own, own.keys, target)
    for output in range(len(target)):
        reads = [read for read in connections.reads(output) if stored[read.input]]
        found = [group for read in reads for group in stored[read.input]]
        yield found, any(read.filter is not None for read in reads)


def _is_sorted_as_clustered(manifest: Manifest, columns: int) -> bool:
    wanted: tuple[SortedName, ...] = manifest.clustered_by[:columns]
    return manifest.sorted_by[:columns] == wanted


def _keeps(manifest: Manifest, within: Sequence[Interval] | None) -> Keeps:
    if within is None:
        return lambda group: True
    place = Order(manifest.sort_keys).place
    wanted = [(place(each.low), place(each.high)) for each in within]

    def keeps(group: RowGroup) -> bool:
        span = spanning(group.first, group.last)
        low, high = place(span.low), place(span.high)
        return any(low < end and start < high for start, end in wanted)

    return keeps


def _parts(groups: Sequence[_Group]) -> tuple[Part, ...]:
    """Row groups that lie one after another in a file are read together."""
    found: list[Part] = []
    before: _Group | None = None
    for each in groups:
        start, end = each.group.offset, each.group.offset + each.group.length
        if before is not None and before.file is each.file and before.number + 1 == each.number:
            found[-1] = Part(each.file, found[-1].start, end - found[-1].start)
        else:
            found.append(Part(each.file, start, end - start))
        before = each
    return tuple(found)
