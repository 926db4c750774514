"""Which row groups of a stream each task reads, for the stored layout or for another that it can be read as.

A logical partition is one or more stored partitions, or parts of them, with a filter where rows of others lie between
(SIGMOD 2012, section 3). Rows inside a stored partition are sorted, and of every row group the first and the last key is
known. Where they are sorted by the columns that divide them, a task reads only the row groups that can have rows of its
own; the one at an end may be read by its neighbour too. Otherwise it reads the partitions whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from unshuffle.partitions import HashConnections, Interval, Order, Ranges, connect, spanning
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.streams.manifest import Manifest, RowGroup, SortedName, StoredFile, ranges_of


@dataclass(frozen=True, slots=True)
class Part:
    """Some row groups of a file, one after another. If they are not `whole`, rows of other partitions lie among them."""

    file: StoredFile
    start: int
    length: int
    whole: bool = True


@dataclass(frozen=True, slots=True)
class LogicalPartitions:
    parts: tuple[tuple[Part, ...], ...]

    @property
    def filtered(self) -> bool:
        """Do some tasks read rows of others as well?"""
        return not all(part.whole for parts in self.parts for part in parts)

    @property
    def bytes(self) -> int:
        return sum(part.length for parts in self.parts for part in parts)


@dataclass(frozen=True, slots=True)
class _Group:
    file: StoredFile
    number: int
    group: RowGroup


Keeps = Callable[[RowGroup], bool]
Reads = list[tuple[_Group, bool]]  # row groups of a partition, each with whether all its rows are


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
        return _made([(group, True) for group in groups] for groups in stored)
    if isinstance(function, HashFunction):
        return _made(_hashes(stored, HashConnections(len(stored), function.partitions)))
    if not isinstance(manifest.function, RangeFunction):
        raise ValueError(f"{manifest.function} cannot be read as {function}")
    return _made(_ranges(manifest, stored, ranges_of(function)))


def _made(reads: Iterable[Reads]) -> LogicalPartitions:
    return LogicalPartitions(tuple(map(_parts, reads)))


def _hashes(stored: Sequence[Sequence[_Group]], connections: HashConnections) -> Iterator[Reads]:
    for output in range(connections.outputs):
        yield [(g, not connections.filtered) for read in connections.reads(output) for g in stored[read.input]]


def _ranges(manifest: Manifest, stored: Sequence[Sequence[_Group]], target: Ranges) -> Iterator[Reads]:
    if _is_sorted_as_clustered(manifest, len(target.keys)):
        groups = [group for partition in stored for group in partition]
        spans = [spanning(each.group.first, each.group.last) for each in groups]
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


def _parts(reads: Reads) -> tuple[Part, ...]:
    """Row groups that lie one after another in a file are read together."""
    found: list[Part] = []
    before: _Group | None = None
    for each, whole in reads:
        start, end = each.group.offset, each.group.offset + each.group.length
        last = found[-1] if found else None
        follows = before is not None and before.file is each.file and before.number + 1 == each.number
        if last is not None and follows and last.whole == whole:
            found[-1] = Part(each.file, last.start, end - last.start, whole)
        else:
            found.append(Part(each.file, start, end - start, whole))
        before = each
    return tuple(found)
