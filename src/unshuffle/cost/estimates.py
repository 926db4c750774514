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

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    rising: tuple[tuple[Column, ...], ...] = ()  # groups of columns that have one order: see `TableStatistics`


Origin = tuple[Relation, Column]  # a relation, and what a column is called in it


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """`columns` holds what was counted where each column was made; `distinct` says what is left of it here."""

    rows: float
    columns: Mapping[Column, ColumnStatistics]
    guessed: bool  # a default had to stand in for a statistic somewhere
    facts: Dependencies = NOTHING_KNOWN
    # The relation that made each column, then those whose columns it was made equal to.
    origins: Mapping[Column, tuple[Origin, ...]] = field(default_factory=dict)
    remaining: Mapping[Relation, float] = field(default_factory=dict)
    # The fraction of its relation's rows that conditions on a column itself have left, whose values its statistics are.
    own: Mapping[Origin, float] = field(default_factory=dict)

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
            return max(1.0, min(rows, self.present(needed[0], self._kinds(needed[0]))))
        if self.facts.unique(needed):
            return rows
        combinations = 1.0
        relations = self._by_relation(needed)
        most = 1.0  # of any part of the columns: all of them hold no fewer
        for relation, members in relations.items():
            together = self._present_together(relation, members)
            most = max(most, together)
            combinations *= together
        if len(relations) > 1:
            combinations = max(most, distinct_after(rows, combinations))
        return max(1.0, min(rows, combinations))

    def largest_share(self, columns: Iterable[Column]) -> float:
        """The fraction of rows that the most common combination of these columns has."""
        needed = self.essential(columns)
        if not needed:
            return 1.0
        even = 1.0 / max(1.0, self.distinct(needed))
        share = 1.0
        for column in needed:
            share *= max(self._most(column), 1.0 / max(1.0, self.present(column, self._kinds(column))))
        return min(1.0, max(even, share))

    def _most(self, column: Column) -> float:
        """The fraction of rows that the most common value has, as far as statistics of the column or of one that equals it
        say; so equal columns are as skewed as each other."""
        most = 0.0
        for other in self.facts.equals_of(column):
            known = self.columns.get(other, NOTHING_KNOWN_OF_COLUMN)
            nulls = known.null_fraction if other not in self.facts.never_null else 0.0
            most = max(most, nulls, known.common[0][1] if known.common else 0.0)
        return most

    def counted_on(self, column: Column) -> float:
        """The rows that a column's values were counted on: those of its table, or groups of them."""
        origins = self.origins.get(column)
        return origins[0][0].population if origins else self.rows

    def kept(self, column: Column) -> float:
        """Of the rows that a column's values were counted on, the fraction that is left, apart from what conditions on the
        column itself took away: only of those it is known which they are."""
        origins = self.origins.get(column)
        if not origins:
            return 1.0
        relation, name = origins[0]
        counted = relation.population * self.own.get((relation, name), 1.0)
        return min(1.0, self.remaining.get(relation, counted) / counted) if counted > 0.0 else 1.0

    def essential(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """Of these columns, some that determine the others."""
        needed = tuple(dict.fromkeys(columns))
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

    def under(self, facts: Dependencies) -> Estimate:
        """The same of the same rows, of which other facts are known."""
        if facts is self.facts:
            return self
        return Estimate(self.rows, self.columns, self.guessed, facts, self.origins, self.remaining, self.own)

    # --- what columns were made with

    def values(self, column: Column) -> float:
        """How many values a column was made with, or was left with by conditions on itself."""
        known = self.columns.get(column)
        if known is not None and known.distinct is not None:
            return max(1.0, known.distinct)
        if column.type == _BOOLEAN:
            return 2.0
        origins = self.origins.get(column)
        if not origins:
            return max(1.0, self.rows * UNKNOWN_DISTINCT_SHARE)
        relation, name = origins[0]
        unique = relation.facts.unique((name,))
        return max(1.0, relation.population if unique else relation.population * UNKNOWN_DISTINCT_SHARE)

    def values_together(self, relation: Relation | None, columns: Sequence[Column]) -> float:
        """How many combinations of values some columns of one relation were made with, those with NULL left out."""
        return self._made_together(relation, columns, self.values)

    def relations(self, column: Column) -> list[Relation]:
        """The relations that have the column, or one that is equal to it; first the one that made it."""
        return [relation for relation, _ in self.origins.get(column, ())]

    def name_in(self, relation: Relation, column: Column) -> Column:
        return next(name for one, name in self.origins[column] if one is relation)

    def _by_relation(self, columns: Sequence[Column]) -> dict[Relation | None, list[Column]]:
        """Each column under a relation that has it; where there are several, under the one that has most of the others."""
        popular: Counter[Relation] = Counter()
        for column in columns:
            popular.update(self.relations(column))
        found: dict[Relation | None, list[Column]] = {}
        for column in columns:
            relation = max(self.relations(column), key=lambda each: popular[each], default=None)
            found.setdefault(relation, []).append(column)
        return found

    def _made_together(
        self, relation: Relation | None, columns: Sequence[Column], count: Callable[[Column], float]
    ) -> float:
        if len(columns) == 1:
            return count(columns[0])
        if relation is None:
            return product_of_values(map(count, columns))
        names = {self.name_in(relation, column): column for column in columns}
        facts = relation.facts
        population = relation.population * self._own(relation, columns)
        if facts.unique(names):
            return max(1.0, population)
        for name in tuple(names):
            if len(names) > 1 and facts.determines((other for other in names if other is not name), (name,)):
                del names[name]
        combinations = product_of_values(count(column) for column in names.values())
        return min(population, combinations) if len(names) == 1 else distinct_after(population, combinations)

    def _own(self, relation: Relation, columns: Iterable[Column]) -> float:
        found = 1.0
        if self.own:
            for column in columns:
                found *= self.own.get((relation, self.name_in(relation, column)), 1.0)
        return found

    def _kinds(self, column: Column) -> float:
        """The values of a column, and NULL if it has that."""
        known = self.columns.get(column)
        return self.values(column) + (1.0 if known is not None and known.null_fraction > 0.0 else 0.0)

    # --- what they hold now

    def present(self, column: Column, values: float) -> float:
        """Of so many values that a column was made with, those that are in the rows that remain."""
        return min(
            (self._left(relation, values, self._own(relation, (column,))) for relation in self.relations(column)),
            default=min(values, self.rows),
        )

    def _present_together(self, relation: Relation | None, columns: Sequence[Column]) -> float:
        if len(columns) == 1:
            return self.present(columns[0], self._kinds(columns[0]))
        made = self._made_together(relation, columns, self._kinds)
        return min(made, self.rows) if relation is None else self._left(relation, made, self._own(relation, columns))

    def _left(self, relation: Relation, values: float, own: float) -> float:
        """Of the values that a relation had in the fraction `own` of its rows, those in the rows that remain."""
        return values_left(values, relation.population * own, self.remaining.get(relation, relation.population))


def fresh(
    names: Iterable[Column],
    rows: float,
    columns: Mapping[Column, ColumnStatistics],
    guessed: bool,
    facts: Dependencies,
    rising: tuple[tuple[Column, ...], ...] = (),
) -> Estimate:
    """A relation whose statistics are counted on its own rows."""
    relation = Relation(rows, facts, rising)
    return Estimate(
        rows, columns, guessed, facts, {column: ((relation, column),) for column in names}, {relation: rows}
    )


_BOOLEAN = pa.bool_()


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


def thinned(
    remaining: Mapping[Relation, float], rows: float, fraction: float, own: Mapping[Relation, float]
) -> dict[Relation, float]:
    """What remains of each relation when a fraction of the rows made from them does.

    `own` is the part of the fraction that is decided by a relation's own values: it takes that much of the relation. For
    the rest, a row of a relation that was joined into many rows is gone only when all of these are.
    """
    found = {}
    for relation, count in remaining.items():
        decided = own.get(relation, 1.0)
        rest = fraction / decided if decided > 0.0 else 0.0
        copies = rows / count if count > 0.0 else 1.0
        if rest < 1.0:
            rest = rest if copies <= 1.0 else -expm1(copies * log1p(-rest))
        found[relation] = count * decided * min(1.0, rest)
    return found


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
