"""Layouts by ranges, made from what is stored in ranges (SIGMOD 2012, sections 3.2 and 3.3.2).

Files that are stored in partitions say how their rows lie in the order of the columns that they are clustered by. From
that, boundaries are chosen when the plan is made (`partitions.divide`, the paper's Algorithm 1): on the first of the columns
if only those must be together, and for several inputs at once from all their rows together.

Such a layout is a wish like any other. What it costs is found out by the search: stored partitions are read in place for
it, other rows are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.partitions import Histogram, Ranges, divide
from unshuffle.properties import (
    CoPartitioned,
    Partitioned,
    RangeFunction,
    RangeKey,
    Sampled,
    Sorted,
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
        return Spread(tuple(found), self.histogram, self.divisions) if found else None

    def divided(self, columns: int, count: int) -> Partitioned | None:
        """About so many ranges on the first columns; None if there is nothing to divide."""
        if (columns, count) not in self.divisions:
            self.divisions[columns, count] = self._divided(columns, count)
        function = self.divisions[columns, count]
        return Partitioned(function, self.columns[: function.arity]) if function is not None else None

    def _divided(self, columns: int, count: int) -> RangeFunction | None:
        if self.histogram.rows <= 0 or count < 2 or columns < 1:
            return None
        found = divide(self.histogram, self.histogram.rows / count, columns).ranges
        if not found.boundaries:
            return None
        reached = found.keys[: max(map(len, found.boundaries))]
        keys = tuple(RangeKey(key.type, key.descending, key.nulls_first) for key in reached)
        return RangeFunction(keys, found.boundaries)

    def largest_share(self, function: RangeFunction) -> float:
        """The part of all rows that the largest range has."""
        rows = self.histogram.rows
        if rows <= 0 or isinstance(function.boundaries, Sampled):
            return 0.0
        return max(map(self.histogram.rows_in, Ranges(function.keys, function.boundaries))) / rows


def spreads_above(each: Implementation, group: Group) -> Iterator[Spread]:
    """How the rows of an operator lie, from what is known of its inputs."""
    for place, child in enumerate(each.inputs):
        if child.spreads:
            names = {source: made for made in reversed(group.columns) if (source := each.origin(place, made))}
            for spread in child.spreads:
                found = spread.renamed(names.get)
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
            found[each.columns] = Spread(each.columns, known.histogram.union(each.histogram))
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


def ordering(group: Group, keys: Sequence[Sorted], count: int) -> Iterator[Partitioned]:
    """Ranges in an order."""
    for spread in group.spreads:
        serves = tuple(takewhile(lambda pair: pair[0] == pair[1], zip(spread.order, keys, strict=False)))
        layout = spread.divided(len(serves), count)
        if layout is not None:
            yield layout


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
        together = united([Spread(tuple(key.columns[0] for key in keys), spread.histogram) for spread in spreads])
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
