"""Which parts of a table can have rows in an interval of a column: the partition index tree (Herodotou, Borisov and Babu,
"Query optimization techniques for partitioned tables", section 4.1).

A part, such as a file, has one or more intervals of the column, and has no rows outside of them. The tree is ordered by the
lower ends of all intervals, and every node knows the greatest upper end below it, so a probe visits only nodes that lead to
an overlap. It is kept in an array: the root of a slice is its middle.

    parts   0: [0, 10)   1: [10, 20)   2: [5, 40)   3: NULL or [20, 30)
    probe   [20, 25) finds 2 and 3

Parts are often disjoint, like folders, or nearly so. Then upper ends ascend like lower ends, the overlaps of a probe are
neighbours, and two binary searches find them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from unshuffle.partitions.intervals import Cut, KeyColumn, KeyInterval, KeyOrder, Place
from unshuffle.partitions.values import SortedKey

Ends = tuple[Place, Place]
AFTER_NULL: Place = KeyOrder((KeyColumn(None),)).place(Cut((None,), after=True))  # where NULLs are first


def neighbours(lows: Sequence[Place], highs: Sequence[Place], low: Place, high: Place) -> tuple[int, int]:
    """Where the intervals that overlap one from `low` to `high` begin and end, if the ends of all intervals ascend."""
    return bisect_right(highs, low), bisect_left(lows, high)


class PartitionIndex:
    """The intervals of one column, or of one composite key, in the parts of a table."""

    def __init__(self, keys: Sequence[SortedKey], parts: Iterable[Sequence[KeyInterval]]) -> None:
        self._order = KeyOrder(keys)
        place = self._order.place
        self._index([[(place(each.low), place(each.high)) for each in part] for part in parts])

    def _index(self, ends: Iterable[Sequence[Ends]]) -> None:
        self.ends: tuple[tuple[Ends, ...], ...] = tuple(  # of the intervals of each part
            tuple([each for each in part if each[0] < each[1]]) for part in ends
        )
        ordered = sorted((low, high, part) for part, intervals in enumerate(self.ends) for low, high in intervals)
        self._lows = [low for low, _, _ in ordered]
        self._highs = [high for _, high, _ in ordered]
        self._parts = [part for _, _, part in ordered]
        self._ascend = all(one <= other for one, other in pairwise(self._highs))
        self._is_simple = len(ordered) == len(set(self._parts))  # no part has two intervals
        self._greatest = [] if self._ascend else _greatest(self._highs)
        self._least_high = min(self._highs, default=())

    @cached_property
    def without_nulls(self) -> PartitionIndex:
        """The same without NULL, which comes before all values here and is equal to nothing."""
        return self._with([(max(low, AFTER_NULL), high) for low, high in part] for part in self.ends)

    def of_parts(self, parts: Iterable[int] | None) -> PartitionIndex:
        """The index of some parts, numbered anew."""
        if parts is None:
            return self
        return self._with(self.ends[part] for part in parts)

    def _with(self, ends: Iterable[Sequence[Ends]]) -> PartitionIndex:
        made = PartitionIndex(self._order.keys, ())
        made._index(ends)
        return made

    def __len__(self) -> int:
        return len(self.ends)

    def overlapping(self, interval: KeyInterval) -> list[int]:
        """The parts with an interval that overlaps this one, in their order."""
        return self.meeting(self._order.place(interval.low), self._order.place(interval.high))

    def meeting(self, low: Place, high: Place) -> list[int]:
        """The same for the ends of an interval."""
        if low >= high:
            return []
        first, last = neighbours(self._lows, self._highs, low, high)
        if self._ascend:
            found = self._parts[first:last]
        elif last == len(self._parts) and low < self._least_high:  # every part, as in a column that is in no order
            found = self._parts
        else:
            found = [self._parts[at] for at in self._above(low, last)]
        return sorted(found) if self._is_simple else sorted(set(found))

    def meeting_parts_of(self, other: PartitionIndex) -> list[list[int]]:
        """For each part of the other table, the parts of this one that it overlaps."""
        found: list[list[int]] = [[] for _ in other.ends]
        if self._is_simple and other._is_simple and self._ascend and other._ascend:
            # Both are in order, so the overlaps of one part begin and end where those of the part before do, or later.
            first = last = 0
            lows, highs, count = self._lows, self._highs, len(self._lows)
            for low, high, part in zip(other._lows, other._highs, other._parts, strict=True):
                while first < count and highs[first] <= low:
                    first += 1
                while last < count and lows[last] < high:
                    last += 1
                found[part] = sorted(self._parts[first:last])
            return found
        for part, intervals in enumerate(other.ends):
            together = {each for low, high in intervals for each in self.meeting(low, high)}
            found[part] = sorted(together)
        return found

    def _above(self, low: Place, end: int) -> Iterator[int]:
        """The positions before `end` of intervals whose upper end is above `low`."""
        highs, greatest = self._highs, self._greatest
        waiting = [(0, len(highs))]
        while waiting:
            start, stop = waiting.pop()
            if start >= stop or start >= end:
                continue
            middle = (start + stop) // 2
            if greatest[middle] <= low:
                continue
            if middle < end and highs[middle] > low:
                yield middle
            waiting.append((start, middle))
            waiting.append((middle + 1, stop))


def _greatest(highs: Sequence[Place]) -> list[Place]:
    """The greatest upper end in the slice of which each position is the middle."""
    found: list[Place] = [()] * len(highs)

    def fill(start: int, stop: int) -> Place:
        if start >= stop:
            return ()
        middle = (start + stop) // 2
        found[middle] = max(highs[middle], fill(start, middle), fill(middle + 1, stop))
        return found[middle]

    fill(0, len(highs))
    return found
