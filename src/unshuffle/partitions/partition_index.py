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
from itertools import pairwise

from unshuffle.partitions.intervals import KeyInterval, KeyOrder, Place
from unshuffle.partitions.values import SortedKey

Ends = tuple[Place, Place]


class PartitionIndex:
    """The intervals of one column, or of one composite key, in the parts of a table."""

    def __init__(self, keys: Sequence[SortedKey], parts: Iterable[Sequence[KeyInterval]]) -> None:
        self._order = KeyOrder(keys)
        place = self._order.place
        ends = [
            [(low, high) for each in part if (low := place(each.low)) < (high := place(each.high))] for part in parts
        ]
        self.ends: tuple[tuple[Ends, ...], ...] = tuple(map(tuple, ends))  # of the intervals of each part
        ordered = sorted((low, high, part) for part, intervals in enumerate(self.ends) for low, high in intervals)
        self._lows = [low for low, _, _ in ordered]
        self._highs = [high for _, high, _ in ordered]
        self._parts = [part for _, _, part in ordered]
        self._ascend = all(one <= other for one, other in pairwise(self._highs))
        self._is_simple = len(ordered) == len(set(self._parts))  # no part has two intervals
        self._greatest = [] if self._ascend else _greatest(self._highs)

    def __len__(self) -> int:
        return len(self.ends)

    def overlapping(self, interval: KeyInterval) -> list[int]:
        """The parts with an interval that overlaps this one, in their order."""
        return self.meeting(self._order.place(interval.low), self._order.place(interval.high))

    def meeting(self, low: Place, high: Place) -> list[int]:
        """The same for the ends of an interval."""
        if low >= high:
            return []
        last = bisect_left(self._lows, high)
        if self._ascend:
            found = self._parts[bisect_right(self._highs, low) : last]
        else:
            found = [self._parts[at] for at in self._above(low, last)]
        return sorted(found) if self._is_simple else sorted(set(found))

    def count(self, low: Place, high: Place) -> int:
        """How many intervals overlap, without enumerating them: all but those that begin too late or end too early."""
        if self._ascend:
            return bisect_left(self._lows, high) - bisect_right(self._highs, low)
        return bisect_left(self._lows, high) - bisect_right(sorted(self._highs), low)

    def before(self, high: Place) -> list[int]:
        """The parts with an interval that begins before this end."""
        return sorted(set(self._parts[: bisect_left(self._lows, high)]))

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
