"""An estimate of a relation: its rows, and what is known of its columns' values.

The statistics of a column are counted once, on the relation that made it (a scan, a grouping), and shared by every
estimate above. What happens to that relation's rows later, by a filter on another column or by a join, is kept as one
number: how many of them are left. From the two follows what a column holds now. Nothing is copied a column at a time, and

    how selective an equality is    follows from the values a column was made with: the same in whatever order relations
                                    are joined
    how many values there are now   follows from these and the rows left (`distinct`): what groups and partitions need

Example. `orders` has 1500 rows and 1000 customers. A filter on the date leaves 150 rows. A join with `customers` on
the customer still takes one in a thousand pairs, for the customers in the 150 orders are still some of the thousand. But
the 150 orders hold only about 146 different customers, and that is what a GROUP BY gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import expm1, log1p

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics import NOTHING_KNOWN_OF_COLUMN, ColumnStatistics, default_width
from unshuffle.cost.defaults import UNKNOWN_DISTINCT_SHARE
from unshuffle.properties.dependencies import NOTHING_KNOWN, Dependencies


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """Rows on which statistics were counted, and what is known of them. Compared by identity: two scans of one table are
    two."""

    population: float
    facts: Dependencies


Origin = tuple[Relation, Column]  # the relation that a column was made in, and what it was called there


@dataclass(frozen=True, slots=True)
class Estimate:
    """`columns` holds what was counted where each column was made; `distinct` says what is left of it here."""

    rows: float
    columns: Mapping[Column, ColumnStatistics]
    guessed: bool  # a default had to stand in for a statistic somewhere
    facts: Dependencies = NOTHING_KNOWN
    origins: Mapping[Column, Origin] = field(default_factory=dict)
    remaining: Mapping[Relation, float] = field(default_factory=dict)
    # The fraction of its relation's rows that conditions on a column itself have left, whose values its statistics are.
    own: Mapping[Column, float] = field(default_factory=dict)

    def width(self, columns: Iterable[Column]) -> float:
        """Bytes that a row of these columns has."""
        found = 0.0
        known = self.columns
        for column in columns:
            statistics = known.get(column)
            if statistics is None or statistics.width is None:
                found += default_width(column.type)
            else:
                found += statistics.width * (1.0 - statistics.null_fraction)
        return found

    def distinct(self, columns: Iterable[Column]) -> float:
        """How many combinations of values these columns hold, NULL counted as a value; at most the rows."""
        rows = self.rows
        needed = self.essential(columns)
        if not needed or rows <= 1.0:
            return min(1.0, rows)
        if len(needed) == 1:
            return max(1.0, min(rows, self._present(needed[0])))
        if self.facts.unique(needed):
            return rows
        combinations = 1.0
        relations = self._by_relation(needed)
        for relation, members in relations.items():
            combinations *= self._present_together(relation, members)
        if len(relations) > 1:
            combinations = distinct_after(rows, combinations)
        return max(1.0, min(rows, combinations))

    def largest_share(self, columns: Iterable[Column]) -> float:
        """The fraction of rows that the most common combination of these columns has."""
        needed = self.essential(columns)
        if not needed:
            return 1.0
        even = 1.0 / max(1.0, self.distinct(needed))
        share = 1.0
        for column in needed:
            known = self.columns.get(column, NOTHING_KNOWN_OF_COLUMN)
            most = known.common[0][1] if known.common else 0.0
            share *= max(most, known.null_fraction, 1.0 / max(1.0, self._present(column)))
        return min(1.0, max(even, share))

    def essential(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """Of these columns, some that determine the others."""
        needed = tuple(columns)
        facts = self.facts
        if not (facts.functional or facts.classes or facts.keys):
            return needed
        if len(needed) == 1:
            return () if facts.determines((), needed) else needed
        for column in needed:
            rest = tuple(other for other in needed if other is not column)
            if facts.determines(rest, (column,)):
                needed = rest
        return needed

    # --- what columns were made with

    def values(self, column: Column) -> float:
        """How many values a column was made with, or was left with by conditions on itself."""
        known = self.columns.get(column)
        if known is not None and known.distinct is not None:
            return max(1.0, known.distinct)
        origin = self.origins.get(column)
        relation, name = origin if origin is not None else (None, column)
        population = relation.population if relation is not None else self.rows
        if column.type == _BOOLEAN:
            return 2.0
        if relation is not None and relation.facts.unique((name,)):
            return max(1.0, population)
        return max(1.0, population * UNKNOWN_DISTINCT_SHARE)

    def values_together(self, columns: Iterable[Column]) -> float:
        """How many combinations of values some columns were made with."""
        found = 1.0
        for relation, members in self._by_relation(columns).items():
            found *= self._made_together(relation, members)
        return found

    def origin(self, column: Column) -> Relation | None:
        found = self.origins.get(column)
        return found[0] if found is not None else None

    def _by_relation(self, columns: Iterable[Column]) -> dict[Relation | None, list[Column]]:
        found: dict[Relation | None, list[Column]] = {}
        for column in columns:
            found.setdefault(self.origin(column), []).append(column)
        return found

    def _made_together(self, relation: Relation | None, columns: list[Column]) -> float:
        if relation is None:
            return product_of_values(map(self.values, columns))
        if len(columns) == 1:
            return self.values(columns[0])
        names = {self.origins[column][1]: column for column in columns}
        facts = relation.facts
        population = relation.population
        for column in columns:
            population *= self.own.get(column, 1.0)
        if facts.unique(names):
            return max(1.0, population)
        for name in tuple(names):
            if len(names) > 1 and facts.determines((other for other in names if other is not name), (name,)):
                del names[name]
        combinations = product_of_values(self.values(column) for column in names.values())
        return min(population, combinations) if len(names) == 1 else distinct_after(population, combinations)

    # --- what they hold now

    def _present(self, column: Column) -> float:
        equals = self.facts.equals_of(column)
        if len(equals) == 1:
            return self._present_alone(column)
        return min(
            self._present_alone(other) for other in _in_order(equals) if other in self.origins or other == column
        )

    def _present_alone(self, column: Column) -> float:
        found = self._left(self.origin(column), self.values(column), self.own.get(column, 1.0))
        known = self.columns.get(column)
        return found + 1.0 if known is not None and known.null_fraction > 0.0 else found

    def _present_together(self, relation: Relation | None, columns: list[Column]) -> float:
        if len(columns) == 1:
            return self._present(columns[0])
        own = 1.0
        for column in columns:
            own *= self.own.get(column, 1.0)
        return self._left(relation, self._made_together(relation, columns), own)

    def _left(self, relation: Relation | None, values: float, own: float) -> float:
        """Of the values that a relation had in the fraction `own` of its rows, those in the rows that remain."""
        if relation is None:
            return min(values, self.rows)
        return values_left(values, relation.population * own, self.remaining.get(relation, relation.population))


_BOOLEAN = pa.bool_()


def _in_order(columns: Iterable[Column]) -> Iterator[Column]:
    return iter(sorted(columns, key=lambda column: column.id))


def distinct_after(rows: float, distinct: float) -> float:
    """How many of `distinct` values are expected among rows drawn at random, every value equally likely (Cardenas 1975)."""
    if rows <= 0.0 or distinct <= 0.0:
        return 0.0
    if distinct <= 1.0:
        return min(distinct, rows)
    return min(rows, -distinct * expm1(rows * log1p(-1.0 / distinct)))


def values_left(values: float, population: float, rows: float) -> float:
    """How many of `values`, evenly spread over a population, are expected in some rows drawn from it without putting
    back (Yao 1977, in the form that is exact for a key): all for all rows, as many as the rows for a key."""
    if rows >= population or population <= 0.0:
        return values
    if rows <= 0.0:
        return 0.0
    each = max(1.0, population / values)
    return min(rows, -values * expm1(each * log1p(-rows / population)))


def product_of_values(counts: Iterable[float]) -> float:
    """Combinations of columns of one relation. Two columns are taken as independent; from the third on, each counts with
    half the exponent of the one before, because columns of one table are seldom independent of all the others."""
    ordered = sorted(counts, reverse=True)
    found = 1.0
    exponent = 1.0
    for place, count in enumerate(ordered):
        if place >= 2:
            exponent /= 2
        found *= count**exponent
    return found
