"""Places in the order of a key, and the intervals and ranges between them (SIGMOD 2012, section 3.2).

    Key       one column's order: type, direction, where NULLs go
    Cut       a place between rows: before all rows that begin with some values, or after all of them
    Interval  the rows between two cuts
    Ranges    all rows, divided at boundaries: range 0 is below the first, range n from the nth on

A boundary is a tuple of values, as many as the key has columns or fewer: (1,) on a key (a, b) is the first point with
a = 1, before (1, NULL) and (1, 'A'). Ranges are closed on the left and open on the right, so that a boundary belongs to
the range it opens. A `Cut` also knows the place *after* a value, and with it everything that half-open ranges of values
cannot say: the rows with a = 2, an interval given by a least and a greatest value, or no bound at all, which is the cut
before or after the rows that begin with nothing.

All comparing is done on `places`, flat tuples that Python compares by itself: a rank and a value for each column, so that
a beginning comes before whatever continues it, and a last rank above all others for a cut that is after. Where NULLs are
first, NULLs at the end of a boundary say nothing, since (1,) and (1, NULL) are one place; a place leaves them out.

    key (a, b), NULLs first:   (1,)  =  (1, NULL)  <  (1, 'A')  <  after (1, 'A')  <  after (1,)  <  (2,)

Worked example: Figure 6 of the paper. Of a partition [(1, 'B'), (2, 'D')) the range a < 2 holds a part, for (2,) lies
between its ends. No projection onto the common columns is needed to see it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from unshuffle.catalog.schema import DataType
from unshuffle.partitions.values import AFTER, NULL_FIRST, Coded, SortedKey, comparable, following

Boundary = tuple[Any, ...]
Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """One column of an ordered key, with Spark's default for NULLs in an ascending one."""

    type: DataType
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class Cut:
    """Before every row that begins with `values`, or after every one."""

    values: Boundary
    after: bool = False

    def __str__(self) -> str:
        return f"after {shown(self.values)}" if self.after else shown(self.values)


START, END = Cut(()), Cut((), after=True)


def shown(values: Boundary) -> str:
    inside = ", ".join("NULL" if value is None else str(value) for value in values)
    return f"({inside})"


@dataclass(frozen=True, slots=True)
class Interval:
    """The rows from one cut to another."""

    low: Cut = START
    high: Cut = END

    def holds(self, keys: Sequence[SortedKey], row: Sequence[Any]) -> bool:
        order = Order(keys)
        return order.place(self.low) <= order.row(row) < order.place(self.high)

    def empty(self, keys: Sequence[SortedKey]) -> bool:
        order = Order(keys)
        return order.place(self.low) >= order.place(self.high)

    def __str__(self) -> str:
        left = "(-" if self.low == START else f"[{self.low}"
        right = "-)" if self.high == END else f"{self.high})"
        return f"{left}, {right}"


EVERYTHING = Interval()


def interval(low: Boundary | None, high: Boundary | None) -> Interval:
    """From a boundary, which is in it, to another, which is not; None is no bound."""
    return Interval(START if low is None else Cut(low), END if high is None else Cut(high))


def spanning(least: Boundary, greatest: Boundary) -> Interval:
    """From the first row to the last, in the order of the key, both in it: what a file's statistics tell."""
    return Interval(Cut(least), Cut(greatest, after=True))


def only(values: Boundary) -> Interval:
    """The rows that begin with these values."""
    return Interval(Cut(values), Cut(values, after=True))


class Order:
    """The order of a key, for many comparisons."""

    __slots__ = ("_coders", "keys")

    def __init__(self, keys: Sequence[SortedKey]) -> None:
        self.keys = tuple(keys)
        self._coders: tuple[Callable[[Any], Coded], ...] = tuple(map(comparable, self.keys))

    def row(self, values: Sequence[Any]) -> Place:
        """Where a row lies, or the cut before all rows that begin with these values."""
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
        if len(cut.values) > len(self._coders):
            raise ValueError(f"{len(cut.values)} values for a key of {len(self._coders)} columns")
        pairs = (code(value) for code, value in zip(self._coders, cut.values, strict=False))
        return (*sum(pairs, ()), AFTER)

    def boundary(self, cut: Cut) -> Boundary | None:
        """The boundary at the very place of a cut; None if no boundary is there. An empty one is at or beyond an end."""
        if not cut.after or not cut.values:
            return cut.values
        key = self.keys[len(cut.values) - 1]
        further = following(key, cut.values[-1])
        if further is None:
            return None
        # Past the last value of a column lies what follows the columns before it.
        return (*cut.values[:-1], *further) if further else self.boundary(Cut(cut.values[:-1], after=True))


def widened_low(place: Place, columns: int) -> Place:
    """The last place at or before this one that a cut on the first columns alone can have."""
    return place if len(place) // 2 <= columns else place[: 2 * columns]


def widened_high(place: Place, columns: int) -> Place:
    """The first place at or after this one that a cut on the first columns alone can have."""
    return place if len(place) // 2 <= columns else (*place[: 2 * columns], AFTER)


@dataclass(frozen=True, slots=True)
class Ranges:
    """All rows divided at boundaries that never descend; of two equal ones the range between is empty. Ranges are equal
    if they send every row to the same number, however their boundaries are written."""

    keys: tuple[SortedKey, ...]
    boundaries: tuple[Boundary, ...] = field(compare=False)
    places: tuple[Place, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("ranges need a key")
        order = Order(self.keys)
        places = tuple(map(order.row, self.boundaries))
        for i in range(1, len(places)):
            if places[i - 1] > places[i]:
                raise ValueError(f"boundaries descend: {shown(self.boundaries[i - 1])}, {shown(self.boundaries[i])}")
        object.__setattr__(self, "places", places)

    def __len__(self) -> int:
        return len(self.boundaries) + 1

    def __iter__(self) -> Iterator[Interval]:
        return map(self.interval, range(len(self)))

    def interval(self, number: int) -> Interval:
        low = Cut(self.boundaries[number - 1]) if number else START
        return Interval(low, Cut(self.boundaries[number]) if number < len(self.boundaries) else END)

    def number(self, row: Sequence[Any]) -> int:
        """The range of a row with these key values."""
        return bisect_right(self.places, Order(self.keys).row(row))

    def numbers(self, rows: Iterable[Sequence[Any]]) -> list[int]:
        place = Order(self.keys).row
        return [bisect_right(self.places, place(row)) for row in rows]

    def plain(self) -> Ranges:
        """Without ranges that no row can be in, and without keys that no boundary reaches: the form in which a range
        function of the properties can be compared with others."""
        pairs = zip(self.places, self.boundaries, strict=True)
        kept = {place: boundary[: len(place) // 2] for place, boundary in pairs if place}
        reached = max(map(len, kept.values()), default=1)
        return Ranges(self.keys[:reached], tuple(kept.values()))

    def __str__(self) -> str:
        return f"{len(self)} ranges at {', '.join(map(shown, self.boundaries))}"
