"""An estimate of a relation: its rows and the statistics of its columns.

The statistics of a column belong to its base relation (a scan, a grouping) and are shared by every estimate above it. What
later happens to the rows of that relation, by a filter on another column or by a join, is one number: how many of them
remain. From the two follows what a column contains now. Nothing is copied column by column, and

    the selectivity of an equality    follows from the values in the base relation, so it is the same in every join order
    the number of distinct values     follows from these and from the remaining rows (`distinct`), for groups and partitions

Example. `orders` has 1500 rows and 1000 customers. A filter on the date leaves 150 rows. A join with `customers` on the
customer still selects one pair in a thousand, because the customers of the 150 orders are still among the thousand. But the
150 orders have only about 146 different customers, and that is the number of groups of a GROUP BY.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from math import expm1, log1p

import pyarrow as pa

from unshuffle.cardinality.samples import Sample
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import UNKNOWN_COLUMN, ColumnStatistics, default_width
from unshuffle.constants import ASSUMED
from unshuffle.frozen import dataclass
from unshuffle.properties.facts.dependencies import NO_FACTS, Dependencies


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """The rows that statistics describe, and their facts. Compared by identity: two scans of one table are two relations."""

    population: float
    facts: Dependencies
    order_dependencies: tuple[tuple[Column, ...], ...] = ()  # see `TableStatistics`
    overlaps: Mapping[Column, float] = field(default_factory=dict)  # see `ColumnStatistics`
    sample: Sample | None = None  # of its rows


Origin = tuple[Relation, Column]  # a base relation, and the column in it


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """`columns` has the statistics of each column in its base relation. `distinct` says how many values remain here."""

    rows: float
    columns: Mapping[Column, ColumnStatistics]
    guessed: bool  # a default replaced a statistic somewhere
    facts: Dependencies = NO_FACTS
    # The base relation of each column, then those of the columns that it was equated with.
    origins: Mapping[Column, tuple[Origin, ...]] = field(default_factory=dict)
    remaining: Mapping[Relation, float] = field(default_factory=dict)
    # The fraction of its relation's rows that satisfies the conditions on a column. Its statistics describe these rows.
    own: Mapping[Origin, float] = field(default_factory=dict)
    guesses: int = 0  # how many uncertain factors the rows are a product of; none if the rows were counted
    sample: Sample | None = None  # rows that were looked at

    def width(self, columns: Iterable[Column]) -> float:
        """Bytes of a row of these columns."""
        total = 0.0
        by_column = self.columns
        for column in columns:
            statistics = by_column.get(column)
            if statistics is None or statistics.width is None:
                total += default_width(column.type)
            else:
                total += statistics.width * (1.0 - statistics.null_fraction)
        return total

    def distinct(self, columns: Iterable[Column]) -> float:
        """The number of distinct combinations of these columns, NULL counted as a value; at most the rows."""
        rows = self.rows
        needed = self.essential(columns)
        if not needed or rows <= 1.0:
            return min(1.0, rows)
        if len(needed) == 1:
            return max(1.0, min(rows, self.present(needed[0], self._distinct_with_null(needed[0]))))
        if self.facts.unique(needed):
            return rows
        combinations = 1.0
        relations = self._by_relation(needed)
        at_least = 1.0  # all columns together have no fewer combinations than some of them
        for relation, members in relations.items():
            together = self._present_together(relation, members)
            at_least = max(at_least, together)
            combinations *= together
        if len(relations) > 1:
            combinations = max(at_least, distinct_after(rows, combinations))
        return max(1.0, min(rows, combinations))

    def groups(self, columns: Iterable[Column]) -> float:
        """The same, counted in the rows that were looked at if they tell. It takes longer."""
        needed = self.essential(columns)
        counted = self.sample.distinct(needed) if self.sample is not None and needed and self.rows > 1.0 else None
        known = self.distinct(columns)
        if counted is None or self.sample is None:
            return known
        if len(needed) > 1 or self.sample.covers(needed):
            return max(1.0, min(self.rows, counted))
        # Too few values repeat: what they tell is too low for values of unequal frequency, and footers may be too high.
        return float(max(1.0, min(self.rows, known, (known * counted) ** 0.5)))

    def largest_share(self, columns: Iterable[Column]) -> float:
        """The fraction of rows with the most common combination of these columns."""
        needed = self.essential(columns)
        if not needed:
            return 1.0
        even = 1.0 / max(1.0, self.distinct(needed))
        share = 1.0
        for column in needed:
            share *= max(
                self._max_frequency(column), 1.0 / max(1.0, self.present(column, self._distinct_with_null(column)))
            )
        return min(1.0, max(even, share))

    def _max_frequency(self, column: Column) -> float:
        """The fraction of rows with the most common value, from the statistics of the column and of all columns equal to it,
        so that equal columns have the same skew."""
        most = 0.0
        for other in self.facts.equals_of(column):
            known = self.columns.get(other, UNKNOWN_COLUMN)
            nulls = known.null_fraction if other not in self.facts.never_null else 0.0
            most = max(most, nulls, known.common[0][1] if known.common else 0.0)
        return most

    def counted_on(self, column: Column) -> float:
        """The rows that a column's statistics describe: those of its base relation."""
        origins = self.origins.get(column)
        return origins[0][0].population if origins else self.rows

    def kept(self, column: Column) -> float:
        """The fraction of its base relation's rows that remains, apart from what conditions on the column itself removed."""
        origins = self.origins.get(column)
        if not origins:
            return 1.0
        relation, name = origins[0]
        described = relation.population * self.own.get((relation, name), 1.0)
        return min(1.0, self.remaining.get(relation, described) / described) if described > 0.0 else 1.0

    def overlap(self, column: Column) -> float:
        """The share of a column's values among which the values of consecutive rows are. Columns that are equal come from
        tables in different orders, and the rows are in the order of one of these."""
        return max((relation.overlaps.get(name, 1.0) for relation, name in self.origins.get(column, ())), default=1.0)

    def essential(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """A subset of these columns that determines the others."""
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

    def with_facts(self, facts: Dependencies) -> Estimate:
        """The estimate of the same rows with other facts."""
        if facts is self.facts:
            return self
        return Estimate(
            self.rows,
            self.columns,
            self.guessed,
            facts,
            self.origins,
            self.remaining,
            self.own,
            self.guesses,
            self.sample,
        )

    def with_rows(self, rows: float) -> Estimate:
        """The estimate of the same relation, once its rows are known. Its base relations keep more or fewer of theirs."""
        share = rows / self.rows if self.rows > 0.0 else 1.0
        if share <= 1.0:
            remaining = remaining_rows(self.remaining, self.rows, share, {})
        else:
            remaining = {each: min(each.population, count * share) for each, count in self.remaining.items()}
        sample = self.sample
        if sample is not None:
            sample = sample.reduced(rows / sample.estimated) if sample.rows else None
        return Estimate(rows, self.columns, self.guessed, self.facts, self.origins, remaining, self.own, sample=sample)

    # --- the values of columns in their base relations

    def values(self, column: Column) -> float:
        """The number of values that a column has in its base relation, after conditions on the column itself."""
        known = self.columns.get(column)
        if known is not None and known.distinct is not None:
            return max(1.0, known.distinct)
        if column.type == _BOOLEAN:
            return 2.0
        origins = self.origins.get(column)
        if not origins:
            return max(1.0, self.rows * ASSUMED.distinct_share)
        relation, name = origins[0]
        unique = relation.facts.unique((name,))
        return max(1.0, relation.population if unique else relation.population * ASSUMED.distinct_share)

    def values_together(self, relation: Relation | None, columns: Sequence[Column]) -> float:
        """The number of combinations of some columns in their base relation, without those that contain NULL."""
        return self._base_combinations(relation, columns, self.values)

    def relations(self, column: Column) -> list[Relation]:
        """The base relations of a column and of the columns equated with it; its own comes first."""
        return [relation for relation, _ in self.origins.get(column, ())]

    def name_in(self, relation: Relation, column: Column) -> Column:
        return next(name for one, name in self.origins[column] if one is relation)

    def _by_relation(self, columns: Sequence[Column]) -> dict[Relation | None, list[Column]]:
        """The columns by base relation. A column with several relations goes to the one that has most of the others."""
        popular: Counter[Relation] = Counter()
        for column in columns:
            popular.update(self.relations(column))
        groups: dict[Relation | None, list[Column]] = {}
        for column in columns:
            relation = max(self.relations(column), key=lambda each: popular[each], default=None)
            groups.setdefault(relation, []).append(column)
        return groups

    def _base_combinations(
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
        if relation.sample is not None and len(names) > 1:
            counted = relation.sample.distinct(tuple(names))
            combinations = combinations if counted is None else min(combinations, counted)
        return min(population, combinations) if len(names) == 1 else distinct_after(population, combinations)

    def _own(self, relation: Relation, columns: Iterable[Column]) -> float:
        share = 1.0
        if self.own:
            for column in columns:
                share *= self.own.get((relation, self.name_in(relation, column)), 1.0)
        return share

    def _distinct_with_null(self, column: Column) -> float:
        """The number of values of a column, plus one if it has NULL."""
        known = self.columns.get(column)
        return self.values(column) + (1.0 if known is not None and known.null_fraction > 0.0 else 0.0)

    # --- the values that remain

    def present(self, column: Column, values: float) -> float:
        """The number of a column's base values that occur in the remaining rows."""
        return min(
            (
                self._remaining_values(relation, values, self._own(relation, (column,)))
                for relation in self.relations(column)
            ),
            default=min(values, self.rows),
        )

    def _present_together(self, relation: Relation | None, columns: Sequence[Column]) -> float:
        if len(columns) == 1:
            return self.present(columns[0], self._distinct_with_null(columns[0]))
        values = self._base_combinations(relation, columns, self._distinct_with_null)
        if relation is None:
            return min(values, self.rows)
        return self._remaining_values(relation, values, self._own(relation, columns))

    def _remaining_values(self, relation: Relation, values: float, own: float) -> float:
        """How many of the values in the fraction `own` of a relation's rows occur in the remaining rows."""
        return values_left(values, relation.population * own, self.remaining.get(relation, relation.population))


def base_estimate(
    names: Iterable[Column],
    rows: float,
    columns: Mapping[Column, ColumnStatistics],
    guessed: bool,
    facts: Dependencies,
    order_dependencies: tuple[tuple[Column, ...], ...] = (),
    overlaps: Mapping[Column, float] | None = None,
    guesses: int = 0,
) -> Estimate:
    """The estimate of a new base relation, whose statistics describe its own rows."""
    relation = Relation(rows, facts, order_dependencies, overlaps or {})
    return Estimate(
        rows,
        columns,
        guessed,
        facts,
        {column: ((relation, column),) for column in names},
        {relation: rows},
        guesses=guesses,
    )


_BOOLEAN = pa.bool_()


def distinct_after(rows: float, distinct: float) -> float:
    """The expected number of distinct values in rows drawn at random, if all values are equally likely (Cardenas 1975)."""
    if rows <= 0.0 or distinct <= 0.0:
        return 0.0
    if distinct <= 1.0:
        return min(distinct, rows)
    return min(rows, -distinct * expm1(rows * log1p(-1.0 / distinct)))


def values_left(values: float, population: float, rows: float) -> float:
    """The expected number of distinct values in rows drawn without replacement from a population in which `values` are
    uniform (Yao 1977, in the form that is exact for a key): all of them for all rows, and one for each row of a key."""
    if rows >= population or population <= 0.0:
        return values
    if rows <= 0.0 or values <= 0.0:
        return 0.0
    each = max(1.0, population / values)
    return min(rows, -values * expm1(each * log1p(-rows / population)))


def remaining_rows(
    remaining: Mapping[Relation, float], rows: float, fraction: float, own: Mapping[Relation, float]
) -> dict[Relation, float]:
    """The remaining rows of each base relation when a fraction of the rows remains.

    `own` is the part of the fraction that depends on a relation's own values: it applies to the relation directly. For the
    rest, a row of a relation that was joined into many rows disappears only if all of these do.
    """
    result = {}
    for relation, count in remaining.items():
        decided = own.get(relation, 1.0)
        rest = fraction / decided if decided > 0.0 else 0.0
        copies = rows / count if count > 0.0 else 1.0
        if rest < 1.0:
            rest = rest if copies <= 1.0 else -expm1(copies * log1p(-rest))
        result[relation] = count * decided * min(1.0, rest)
    return result


def product_of_values(counts: Iterable[float]) -> float:
    """The number of combinations of columns of one relation. Two columns are assumed to be independent. From the third on,
    each counts with half the exponent of the one before, because columns of a table are seldom all independent."""
    ordered = sorted(counts, reverse=True)
    product = 1.0
    exponent = 1.0
    for index, count in enumerate(ordered):
        if index >= 2:
            exponent /= 2
        product *= count**exponent
    return product
