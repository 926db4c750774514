"""Cuts in the order of a composite key, and the intervals and ranges between them (SIGMOD 2012, section 3.2).

    KeyColumn    the order of one column: type, direction, position of NULLs
    Cut          a point between rows: before all rows with a prefix, or after all of them
    KeyInterval  the rows between two cuts
    Ranges       all rows, divided at boundaries: range 0 is below the first boundary, range n starts at the nth

A boundary is a tuple with a value for each column of the key, or for its first columns: (1,) on a key (a, b) is the first
point with a = 1, before (1, NULL) and (1, 'A'). Ranges are closed on the left and open on the right: a boundary belongs to
the range it starts. A `Cut` can also be after a prefix. That expresses what half-open ranges of values cannot: the rows
with a = 2, an interval from a least to a greatest value, and unbounded ends, which are the cuts before and after the
empty prefix.

Comparisons use places: flat tuples with a rank and a value for each column, compared by Python. A prefix precedes its
extensions, and a cut after a prefix ends in a rank above all others. If NULLs are first, trailing NULLs of a boundary have
no effect, since (1,) and (1, NULL) are the same point; a place omits them.

    key (a, b), NULLs first:   (1,)  =  (1, NULL)  <  (1, 'A')  <  after (1, 'A')  <  after (1,)  <  (2,)

Worked example: Figure 6 of the paper. The partition [(1, 'B'), (2, 'D')) overlaps the range a < 2, because (2,) is between
its ends. No projection onto the common columns is needed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import product
from typing import Any

from unshuffle.catalog.schema import DataType
from unshuffle.frozen import dataclass
from unshuffle.partitions.values import AFTER, NULL_FIRST, Coded, SortedKey, comparable, following

Boundary = tuple[Any, ...]
Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a composite key. The defaults are Spark's ascending order."""

    type: DataType
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class Cut:
    """The point before all rows with the prefix `values`, or after all of them."""

    values: Boundary
    after: bool = False

    def __str__(self) -> str:
        return f"after {shown(self.values)}" if self.after else shown(self.values)


START, END = Cut(()), Cut((), after=True)


def shown(values: Boundary) -> str:
    inside = ", ".join("NULL" if value is None else str(value) for value in values)
    return f"({inside})"


@dataclass(frozen=True, slots=True)
class KeyInterval:
    """The rows between two cuts."""

    low: Cut = START
    high: Cut = END

    def holds(self, keys: Sequence[SortedKey], row: Sequence[Any]) -> bool:
        order = KeyOrder(keys)
        return order.place(self.low) <= order.row(row) < order.place(self.high)

    def empty(self, keys: Sequence[SortedKey]) -> bool:
        order = KeyOrder(keys)
        return order.place(self.low) >= order.place(self.high)

    def __str__(self) -> str:
        left = "(-" if self.low == START else f"[{self.low}"
        right = "-)" if self.high == END else f"{self.high})"
        return f"{left}, {right}"


EVERYTHING = KeyInterval()


def interval(low: Boundary | None, high: Boundary | None) -> KeyInterval:
    """The half-open interval from `low` (included) to `high` (excluded); None means unbounded."""
    return KeyInterval(START if low is None else Cut(low), END if high is None else Cut(high))


def closed_interval(least: Boundary, greatest: Boundary) -> KeyInterval:
    """The interval from the first to the last row, both included, as the statistics of a file give it."""
    return KeyInterval(Cut(least), Cut(greatest, after=True))


def interval_of_value(values: Boundary) -> KeyInterval:
    """The rows with this prefix."""
    return KeyInterval(Cut(values), Cut(values, after=True))


class KeyOrder:
    """The order of a composite key, prepared for many comparisons."""

    __slots__ = ("_coders", "keys")

    def __init__(self, keys: Sequence[SortedKey]) -> None:
        self.keys = tuple(keys)
        self._coders: tuple[Callable[[Any], Coded], ...] = tuple(map(comparable, self.keys))

    def row(self, values: Sequence[Any]) -> Place:
        """The place of a row, or of the cut before all rows with this prefix."""
        if len(values) == 1 and self._coders:
            coded: Place = self._coders[0](values[0])
        elif len(values) > len(self._coders):
            raise ValueError(f"{len(values)} values for a key of {len(self._coders)} columns")
        else:
            coded = sum((code(value) for code, value in zip(self._coders, values, strict=False)), ())
        while coded and coded[-2] == NULL_FIRST:
            coded = coded[:-2]
        return coded

    def place(self, cut: Cut) -> Place:
        if not cut.after:
            return self.row(cut.values)
        if len(cut.values) == 1 and self._coders:
            return (*self._coders[0](cut.values[0]), AFTER)
        if len(cut.values) > len(self._coders):
            raise ValueError(f"{len(cut.values)} values for a key of {len(self._coders)} columns")
        pairs = (code(value) for code, value in zip(self._coders, cut.values, strict=False))
        return (*sum(pairs, ()), AFTER)

    def boundary(self, cut: Cut) -> Boundary | None:
        """The boundary at a cut; None if there is none. An empty boundary is at or beyond an end of the order."""
        if not cut.after or not cut.values:
            return cut.values
        key = self.keys[len(cut.values) - 1]
        further = following(key, cut.values[-1])
        if further is None:
            return None
        # After the last value of a column comes the successor of the columns before it.
        return (*cut.values[:-1], *further) if further else self.boundary(Cut(cut.values[:-1], after=True))


def merged(keys: Sequence[SortedKey], intervals: Iterable[KeyInterval]) -> list[KeyInterval]:
    """Disjoint intervals with the same rows, in order. Two become one if they overlap, or if no value is between them."""
    order = KeyOrder(keys)
    placed = sorted(
        ((order.place(each.low), order.place(each.high), each) for each in intervals), key=lambda ends: ends[:2]
    )
    found: list[KeyInterval] = []
    reached: Place = ()
    for low, high, each in placed:
        if low >= high:
            continue
        if found and low <= reached:
            if high > order.place(found[-1].high):
                found[-1] = KeyInterval(found[-1].low, each.high)
        else:
            found.append(each)
        following = order.boundary(found[-1].high)
        reached = order.row(following) if following else order.place(found[-1].high)
    return found


def intersected(
    keys: Sequence[SortedKey], some: Iterable[KeyInterval], others: Iterable[KeyInterval]
) -> tuple[KeyInterval, ...]:
    """The intervals that two lists of intervals have in common. Where both begin at the first NULL, the cut names it."""
    place = KeyOrder(keys).place

    def start(cut: Cut) -> tuple[Place, int]:
        return place(cut), len(cut.values)

    found = (
        KeyInterval(max(one.low, other.low, key=start), min(one.high, other.high, key=place))
        for one, other in product(some, others)
    )
    return tuple(each for each in found if place(each.low) < place(each.high))


def widened_low(place: Place, columns: int) -> Place:
    """The last place at or before this one that is a cut on the first columns alone."""
    return place if len(place) // 2 <= columns else place[: 2 * columns]


def widened_high(place: Place, columns: int) -> Place:
    """The first place at or after this one that is a cut on the first columns alone."""
    return place if len(place) // 2 <= columns else (*place[: 2 * columns], AFTER)


@dataclass(frozen=True, slots=True)
class Ranges:
    """All rows, divided at boundaries that do not descend. The range between two equal boundaries is empty. Two `Ranges` are
    equal if they send every row to the same range, even if their boundaries are written differently."""

    keys: tuple[SortedKey, ...]
    boundaries: tuple[Boundary, ...] = field(compare=False)
    places: tuple[Place, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("ranges need a key")
        order = KeyOrder(self.keys)
        places = tuple(map(order.row, self.boundaries))
        for i in range(1, len(places)):
            if places[i - 1] > places[i]:
                raise ValueError(f"boundaries descend: {shown(self.boundaries[i - 1])}, {shown(self.boundaries[i])}")
        object.__setattr__(self, "places", places)

    def __len__(self) -> int:
        return len(self.boundaries) + 1

    def __iter__(self) -> Iterator[KeyInterval]:
        return map(self.interval, range(len(self)))

    def interval(self, number: int) -> KeyInterval:
        low = Cut(self.boundaries[number - 1]) if number else START
        return KeyInterval(low, Cut(self.boundaries[number]) if number < len(self.boundaries) else END)

    def number(self, row: Sequence[Any]) -> int:
        """The number of the range that has a row with these key values."""
        return bisect_right(self.places, KeyOrder(self.keys).row(row))

    def numbers(self, rows: Iterable[Sequence[Any]]) -> list[int]:
        place = KeyOrder(self.keys).row
        return [bisect_right(self.places, place(row)) for row in rows]

    def meeting(self, low: Place, high: Place) -> range:
        """The numbers of the ranges that overlap the interval between two places, which is not empty."""
        return range(bisect_right(self.places, low), bisect_left(self.places, high) + 1)

    def plain(self) -> Ranges:
        """The same division without empty ranges and without keys that no boundary uses, as `properties.RangeFunction`
        requires it."""
        pairs = zip(self.places, self.boundaries, strict=True)
        kept = {place: boundary[: len(place) // 2] for place, boundary in pairs if place}
        reached = max(map(len, kept.values()), default=1)
        return Ranges(self.keys[:reached], tuple(kept.values()))

    def __str__(self) -> str:
        return f"{len(self)} ranges at {', '.join(map(shown, self.boundaries))}"
