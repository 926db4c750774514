"""Range layouts whose boundaries are chosen at planning time (SIGMOD 2012, sections 3.2 and 3.3.2).

Stored partitions have a histogram over the columns that they are clustered by. Boundaries are chosen from it
(`partitions.divide`, the paper's Algorithm 1): on the first columns if only those must be together, and for several inputs at
once from all their rows together. For an order, the histogram of an analyzed column serves as well.

Such a layout is a requirement like any other, and the search finds its cost: stored partitions are read in place, other rows
are sent. The paper's other way (Figure 7) is to sample the rows and choose boundaries at run time. Spark does so if it has
no boundaries (`properties.SampledBoundaries`), and computes everything below the exchange a second time. So boundaries that
are chosen at planning time save a pass, but may be skewed: `Spread.largest_share` estimates how much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product, takewhile
from math import sqrt
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.frozen import dataclass
from unshuffle.partitions import KeyColumn, KeyHistogram, Ranges, divide, divide_into, histogram_of_column
from unshuffle.partitions.values import SortedKey
from unshuffle.properties import (
    CoPartitioned,
    Partitioned,
    PrefixPartitioned,
    RangeFunction,
    RangeKey,
    SampledBoundaries,
    Sorted,
)

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of rows over some columns, which are the first of the histogram's keys."""

    columns: tuple[Column, ...]
    histogram: KeyHistogram
    kept: float = 1.0  # the fraction of the counted rows that is left; which of them is unknown
    characters: int | None = None  # the last column is a prefix of a string: boundaries on it have at most this length

    @property
    def order(self) -> tuple[Sorted, ...]:
        keys = zip(self.columns, self.histogram.keys, strict=False)
        return tuple(Sorted(column, key.descending, key.nulls_first) for column, key in keys)

    def renamed(self, name: Callable[[Column], Column | None]) -> Spread | None:
        """The same for renamed columns, up to the first one without a name."""
        names: list[Column] = []
        for column in self.columns:
            new = name(column)
            if new is None:
                break
            names.append(new)
        if not names:
            return None
        characters = self.characters if len(names) == len(self.columns) else None
        return Spread(tuple(names), self.histogram, self.kept, characters)

    def cut(self, column: Column, length: int, name: Callable[[Column], Column | None], short: Column) -> Spread | None:
        """The same with `short`, a prefix of a column, in the place of that column, and without the columns after it."""
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
        """About `count` ranges on the first columns; None if there is nothing to divide."""
        characters = self.characters if columns == len(self.columns) else None
        function = _divided(self.histogram, columns, count, characters)
        return Partitioned(function, self.columns[: function.arity]) if function is not None else None

    def divided_evenly(self, most: int, columns: int = 1) -> Partitioned | None:
        """At most this many ranges on the first columns, cut where that makes them most even."""
        function = _even(self.histogram, most, columns) if most > 1 else None
        return Partitioned(function, self.columns[: function.arity]) if function is not None else None

    def largest_share(self, function: RangeFunction) -> float:
        """The estimated share of rows in the largest range.

        If the rows that are left are distributed like the counted ones, it is the counted share. At worst they all come from
        that range. The estimate for rows that conditions on other columns leave is the geometric mean of the two."""
        rows = self.histogram.rows
        if rows <= 0 or isinstance(function.boundaries, SampledBoundaries):
            return 0.0
        counted = _rows_in_largest(self.histogram, function) / rows
        return sqrt(counted * min(1.0, counted / self.kept)) if self.kept > 0.0 else 1.0


def _function(ranges: Ranges) -> RangeFunction | None:
    if not ranges.boundaries:
        return None
    keys = ranges.keys[: max(map(len, ranges.boundaries))]
    return RangeFunction(tuple(RangeKey(key.type, key.descending, key.nulls_first) for key in keys), ranges.boundaries)


# Cached, because a table with many parts is read by many queries.
@lru_cache(maxsize=512)
def _divided(histogram: KeyHistogram, columns: int, count: int, characters: int | None) -> RangeFunction | None:
    if histogram.rows <= 0 or count < 2 or columns < 1:
        return None
    return _function(divide(histogram, histogram.rows / count, columns, characters).ranges)


@lru_cache(maxsize=512)
def _rows_in_largest(histogram: KeyHistogram, function: RangeFunction) -> float:
    assert not isinstance(function.boundaries, SampledBoundaries)
    return max(map(histogram.rows_in, Ranges(function.keys, function.boundaries)))


def counted(group: Group, key: Sorted) -> Spread | None:
    """The distribution of rows over one column, from its histogram (`unshuffle analyze`)."""
    if key not in group.column_spreads:
        group.column_spreads[key] = _counted(group, key)
    return group.column_spreads[key]


def _counted(group: Group, key: Sorted) -> Spread | None:
    known = group.estimate.columns.get(key.column)
    if known is None or known.histogram is None or key.column.type is None:
        return None
    histogram = _histogram(RangeKey(key.column.type, key.descending, key.nulls_first), known)
    return Spread((key.column,), histogram, group.estimate.kept(key.column)) if histogram is not None else None


# Cached, because most groups of a memo have the same columns with the same statistics.
@lru_cache(maxsize=256)
def _histogram(key: RangeKey, known: ColumnStatistics) -> KeyHistogram | None:
    try:
        return histogram_of_column(key, known, 1.0)
    except (TypeError, ValueError):
        return None  # the statistics hold values of another type than the column's


@lru_cache(maxsize=256)
def _even(histogram: KeyHistogram, most: int, columns: int) -> RangeFunction | None:
    return _function(divide_into(histogram, most, columns).ranges)


def spreads_above(each: Implementation, group: Group) -> Iterator[Spread]:
    """The distributions of an operator's rows, from those of its inputs."""
    for place, child in enumerate(each.inputs):
        if child.spreads:
            names = {source: made for made in reversed(group.columns) if (source := each.origin(place, made))}
            for spread in child.spreads:
                found = _selected(spread, each).renamed(names.get)
                if found is not None:
                    yield found
            for made in group.columns:
                prefix = each.prefix(place, made)
                if prefix is not None:
                    for spread in child.spreads:
                        found = spread.cut(*prefix, names.get, made)
                        if found is not None:
                            yield found


def _selected(spread: Spread, each: Implementation) -> Spread:
    """The distribution of the rows whose first column has a value that the operator keeps. Longer keys stay as they are."""
    key, *more = spread.histogram.keys
    kept = None if more else each.selected(spread.columns[0], KeyColumn(key.type, key.descending, key.nulls_first))
    if kept is None:
        return spread
    left = spread.histogram.within(kept)
    return spread if left.rows == spread.histogram.rows else replace(spread, histogram=left)


def united(spreads: Sequence[Spread]) -> tuple[Spread, ...]:
    """Distributions over the same columns, of several inputs, as one."""
    found: dict[tuple[Column, ...], Spread] = {}
    for each in spreads:
        known = found.get(each.columns)
        if known is None or _range_keys(known) != _range_keys(each):
            found.setdefault(each.columns, each)
        elif known.histogram is not each.histogram:
            characters = [n for n in (known.characters, each.characters) if n is not None]
            union = _with_keys(known.histogram, each.histogram.keys).union(each.histogram)
            found[each.columns] = Spread(each.columns, union, characters=min(characters, default=None))
    return tuple(found.values())


def _with_keys(histogram: KeyHistogram, keys: tuple[SortedKey, ...]) -> KeyHistogram:
    """The same histogram if it has these keys. Of many parts, another takes long to make."""
    return histogram if histogram.keys == keys else replace(histogram, keys=keys)


def _range_keys(spread: Spread) -> list[RangeKey]:
    return [RangeKey(key.type, key.descending, key.nulls_first) for key in spread.histogram.keys]


def clustering(group: Group, keys: frozenset[Column], count: int) -> Iterator[Partitioned]:
    """Range layouts under which rows that agree on the keys are together."""
    for spread in group.spreads:
        serves = takewhile(
            lambda column: column in group.column_set and group.facts.determines(keys, (column,)), spread.columns
        )
        layout = spread.divided(len(tuple(serves)), count)
        if layout is not None:
            yield layout


def in_common(spread: Spread, keys: Sequence[Sorted]) -> int:
    """The number of first keys that are also the first of the distribution's order."""
    return len(tuple(takewhile(lambda pair: pair[0] == pair[1], zip(spread.order, keys, strict=False))))


def ordering(group: Group, keys: Sequence[Sorted], count: int) -> Iterator[Partitioned]:
    """Range layouts in an order: with boundaries from stored ranges, and from the first key's histogram."""
    for spread in group.spreads:
        layout = spread.divided(in_common(spread, keys), count)
        if layout is not None:
            yield layout
    known = counted(group, keys[0])
    layout = known.divided_evenly(count) if known is not None else None
    if layout is not None:
        yield layout


def range_share(group: Group, layout: Partitioned) -> float | None:
    """The largest range's share of the rows; None if their distribution is unknown."""
    function = layout.function
    if not isinstance(function, RangeFunction) or isinstance(function.boundaries, SampledBoundaries):
        return None
    shares = [s.largest_share(function) for s in group.spreads if s.columns[: function.arity] == layout.columns]
    if not shares and function.arity == 1:
        (column,), (key,) = layout.columns, function.keys
        known = counted(group, Sorted(column, key.descending, key.nulls_first))
        shares = [known.largest_share(function)] if known is not None and known.histogram.keys == function.keys else []
    return max(shares, default=None)


def within_share(group: Group, layout: PrefixPartitioned) -> float:
    """The largest range's share of the rows, for ranges whose last keys are not columns of the rows."""
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
    """The estimated size of the largest range relative to the average; None if the distribution is unknown."""
    share = range_share(group, layout)
    return None if share is None else max(1.0, share * layout.function.partitions)


def common_ranges(
    each: Implementation, joint: CoPartitioned, counts: Sequence[int]
) -> Iterator[tuple[Partitioned, ...]]:
    """Layouts for all inputs of an operator, from the distributions of all inputs that have one."""
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
        alike = [
            Spread(
                named_alike,
                spread.histogram,
                characters=spread.characters if len(keys) == len(spread.columns) else None,
            )
            for spread in spreads
        ]
        together = united(alike)
        if len(spreads) < 2 or len(together) != 1:
            continue
        # Ranges that suit all inputs together, and those that leave the parts of one of them whole.
        for spread, count in product((*together, *alike), counts):
            layout = spread.divided(len(keys), count)
            if layout is not None and all(
                RangeKey(key.type).type == type_ for key, type_ in zip(keys, layout.function.types, strict=False)
            ):
                named = keys[: layout.function.arity]
                yield tuple(
                    Partitioned(layout.function, tuple(key.columns[place] for key in named))
                    for place in range(len(each.inputs))
                )
