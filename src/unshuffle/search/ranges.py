"""Layouts by ranges whose boundaries are chosen when the plan is made (SIGMOD 2012, sections 3.2 and 3.3.2).

Files that are stored in partitions say how their rows lie in the order of the columns that they are clustered by. From
that, boundaries are chosen (`partitions.divide`, the paper's Algorithm 1): on the first of the columns if only those must be
together, and for several inputs at once from all their rows together. Where an order is wanted, the values that were counted
of a column tell as much.

Such a layout is a wish like any other. What it costs is found out by the search: stored partitions are read in place for
it, other rows are sent. The paper's other way (Figure 7) is to look at the rows first and choose boundaries when the plan
runs. That is what Spark does when it is given none (`properties.Sampled`): all that is below the exchange is computed once
more, for a sample. So boundaries that are chosen now save a pass, and may fit badly: how badly is `Spread.largest_share`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from math import sqrt
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics import ColumnStatistics
from unshuffle.partitions import Histogram, Ranges, divide, divide_into, of_column
from unshuffle.properties import (
    CoPartitioned,
    Partitioned,
    RangeFunction,
    RangeKey,
    Sampled,
    Sorted,
    Within,
)

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group

Divisions = dict[tuple[int, int], RangeFunction | None]


@dataclass(frozen=True, slots=True)
class Spread:
    """How rows lie in the order of some columns, which are the first of the histogram's keys."""

    columns: tuple[Column, ...]
    histogram: Histogram
    # Of the rows that were counted, the fraction that is left: which of them, nobody knows.
    kept: float = 1.0
    characters: int | None = (
        None  # that boundaries on the last of the columns may have, it being the beginning of a text
    )
    divisions: Divisions = field(default_factory=dict, repr=False, compare=False)  # by columns and number of ranges

    @property
    def order(self) -> tuple[Sorted, ...]:
        keys = zip(self.columns, self.histogram.keys, strict=False)
        return tuple(Sorted(column, key.descending, key.nulls_first) for column, key in keys)

    def renamed(self, name: Callable[[Column], Column | None]) -> Spread | None:
        """The same under other names, as far as there are some."""
        found: list[Column] = []
        for column in self.columns:
            new = name(column)
            if new is None:
                break
            found.append(new)
        if not found:
            return None
        characters = self.characters if len(found) == len(self.columns) else None
        return Spread(tuple(found), self.histogram, self.kept, characters, self.divisions)

    def cut(self, column: Column, length: int, name: Callable[[Column], Column | None], short: Column) -> Spread | None:
        """The same with `short` in the place of a column of which it has the first characters, and without those after."""
        if column not in self.columns:
            return None
        place = self.columns.index(column)
        before = [new for each in self.columns[:place] if (new := name(each)) is not None]
        if len(before) < place or self.histogram.keys[place].descending:
            return None
        is_last = self.characters is not None and place == len(self.columns) - 1
        characters = min(length, self.characters or length) if is_last else length
        return Spread((*before, short), self.histogram, self.kept, characters)

    def divided(self, columns: int, count: int) -> Partitioned | None:
        """About so many ranges on the first columns; None if there is nothing to divide."""
        if (columns, count) not in self.divisions:
            self.divisions[columns, count] = self._divided(columns, count)
        function = self.divisions[columns, count]
        return Partitioned(function, self.columns[: function.arity]) if function is not None else None

    def _divided(self, columns: int, count: int) -> RangeFunction | None:
        if self.histogram.rows <= 0 or count < 2 or columns < 1:
            return None
        characters = self.characters if columns == len(self.columns) else None
        return _function(divide(self.histogram, self.histogram.rows / count, columns, characters).ranges)

    def divided_evenly(self, most: int, columns: int = 1) -> Partitioned | None:
        """At most so many ranges on the first columns, wherever it is best to cut."""
        function = _even(self.histogram, most, columns) if most > 1 else None
        return Partitioned(function, self.columns[: function.arity]) if function is not None else None

    def largest_share(self, function: RangeFunction) -> float:
        """The part of all rows that the largest range is to be reckoned with.

        As counted, if the rows that are left are like those that were counted. At the worst they all come from that one
        range. What conditions on other columns leave lies between the two: the mean (geometric, as of any two rates)."""
        rows = self.histogram.rows
        if rows <= 0 or isinstance(function.boundaries, Sampled):
            return 0.0
        counted = max(map(self.histogram.rows_in, Ranges(function.keys, function.boundaries))) / rows
        return sqrt(counted * min(1.0, counted / self.kept)) if self.kept > 0.0 else 1.0


def _function(found: Ranges) -> RangeFunction | None:
    if not found.boundaries:
        return None
    reached = found.keys[: max(map(len, found.boundaries))]
    return RangeFunction(
        tuple(RangeKey(key.type, key.descending, key.nulls_first) for key in reached), found.boundaries
    )


def counted(group: Group, key: Sorted) -> Spread | None:
    """How rows lie in the order of one column, by the values that were counted of it (`unshuffle analyze`)."""
    if key not in group.counted:
        group.counted[key] = _counted(group, key)
    return group.counted[key]


def _counted(group: Group, key: Sorted) -> Spread | None:
    known = group.estimate.columns.get(key.column)
    if known is None or known.histogram is None or key.column.type is None:
        return None
    histogram = _histogram(RangeKey(key.column.type, key.descending, key.nulls_first), known)
    return Spread((key.column,), histogram, group.estimate.kept(key.column)) if histogram is not None else None


# Most groups of a memo have the same columns with the same statistics.
@lru_cache(maxsize=256)
def _histogram(key: RangeKey, known: ColumnStatistics) -> Histogram | None:
    try:
        return of_column(key, known, 1.0)
    except (TypeError, ValueError):
        return None  # values in another form than the column has them: they are an estimate's, and bind nobody


@lru_cache(maxsize=256)
def _even(histogram: Histogram, most: int, columns: int) -> RangeFunction | None:
    return _function(divide_into(histogram, most, columns).ranges)


def spreads_above(each: Implementation, group: Group) -> Iterator[Spread]:
    """How the rows of an operator lie, from what is known of its inputs."""
    for place, child in enumerate(each.inputs):
        if child.spreads:
            names = {source: made for made in reversed(group.columns) if (source := each.origin(place, made))}
            for spread in child.spreads:
                found = spread.renamed(names.get)
                if found is not None:
                    yield found
            for made in group.columns:
                prefix = each.prefix(place, made)
                if prefix is not None:
                    for spread in child.spreads:
                        found = spread.cut(*prefix, names.get, made)
                        if found is not None:
                            yield found


def united(spreads: Sequence[Spread]) -> tuple[Spread, ...]:
    """Those of rows of several inputs in the same columns, as one."""
    found: dict[tuple[Column, ...], Spread] = {}
    for each in spreads:
        known = found.get(each.columns)
        if known is None or known.histogram.keys != each.histogram.keys:
            found.setdefault(each.columns, each)
        elif known.histogram is not each.histogram:
            characters = [n for n in (known.characters, each.characters) if n is not None]
            union = known.histogram.union(each.histogram)
            found[each.columns] = Spread(each.columns, union, characters=min(characters, default=None))
    return tuple(found.values())


def clustering(group: Group, keys: frozenset[Column], count: int) -> Iterator[Partitioned]:
    """Ranges that bring together rows which agree on the keys."""
    for spread in group.spreads:
        serves = takewhile(
            lambda column: column in group.column_set and group.facts.determines(keys, (column,)), spread.columns
        )
        layout = spread.divided(len(tuple(serves)), count)
        if layout is not None:
            yield layout


def in_common(spread: Spread, keys: Sequence[Sorted]) -> int:
    """How many of the first keys are those that the rows lie in order of."""
    return len(tuple(takewhile(lambda pair: pair[0] == pair[1], zip(spread.order, keys, strict=False))))


def ordering(group: Group, keys: Sequence[Sorted], count: int) -> Iterator[Partitioned]:
    """Ranges in an order: at boundaries of what is stored, and at the best that statistics tell."""
    for spread in group.spreads:
        layout = spread.divided(in_common(spread, keys), count)
        if layout is not None:
            yield layout
    known = counted(group, keys[0])
    layout = known.divided_evenly(count) if known is not None else None
    if layout is not None:
        yield layout


def range_share(group: Group, layout: Partitioned) -> float | None:
    """The share of the largest range, where it is known how rows lie; None where it is not."""
    function = layout.function
    if not isinstance(function, RangeFunction) or isinstance(function.boundaries, Sampled):
        return None
    shares = [s.largest_share(function) for s in group.spreads if s.columns[: function.arity] == layout.columns]
    if not shares and function.arity == 1:
        (column,), (key,) = layout.columns, function.keys
        known = counted(group, Sorted(column, key.descending, key.nulls_first))
        shares = [known.largest_share(function)] if known is not None and known.histogram.keys == function.keys else []
    return max(shares, default=None)


def within_share(group: Group, layout: Within) -> float:
    """The share of the largest of the ranges that rows lie in, of which only the first keys are known."""
    function, count = layout.function, len(layout.columns)
    keys = [RangeKey(key.type, key.descending, key.nulls_first) for key in function.keys]
    shares = [
        spread.largest_share(function)
        for spread in group.spreads
        if spread.columns[:count] == layout.columns
        and keys == [RangeKey(k.type, k.descending, k.nulls_first) for k in spread.histogram.keys[: function.arity]]
    ]
    return max(shares, default=0.0)


def unevenness(group: Group, layout: Partitioned) -> float | None:
    """The largest range over the average, to be reckoned with; None where nothing is known of it."""
    share = range_share(group, layout)
    return None if share is None else max(1.0, share * layout.function.partitions)


def common_ranges(each: Implementation, joint: CoPartitioned, count: int) -> Iterator[tuple[Partitioned, ...]]:
    """One layout for all inputs of an operator, from the rows of all of them of which it is known how they lie."""
    wished: dict[tuple[int, ...], list[Spread]] = {}
    for place, child in enumerate(each.inputs):
        for spread in child.spreads:
            known = {key.columns[place]: i for i, key in enumerate(joint.keys)}
            chosen = tuple(known[c] for c in takewhile(known.__contains__, spread.columns))
            if chosen:
                wished.setdefault(chosen, []).append(spread)
    for chosen, spreads in wished.items():
        keys = [joint.keys[i] for i in chosen]
        named_alike = tuple(key.columns[0] for key in keys)
        together = united(
            [
                Spread(
                    named_alike,
                    spread.histogram,
                    characters=spread.characters if len(keys) == len(spread.columns) else None,
                )
                for spread in spreads
            ]
        )
        if len(spreads) < 2 or len(together) != 1:
            continue
        layout = together[0].divided(len(keys), count)
        if layout is not None and all(
            RangeKey(key.type).type == type_ for key, type_ in zip(keys, layout.function.types, strict=False)
        ):
            named = keys[: layout.function.arity]
            yield tuple(
                Partitioned(layout.function, tuple(key.columns[place] for key in named))
                for place in range(len(each.inputs))
            )
