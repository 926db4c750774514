"""The rows of a join.

An equality between a column of each side takes one pair of rows in max(values left, values right): each value of the side
with fewer is taken to be found on the other. The values are those the columns were made with, not those left after
filters on other columns, and an equated column goes on with the fewer of the two. So for any set of relations that are
joined by equalities, rows are the product of all relations' rows, divided for each class of equal columns by all its
value counts but the least: a number in which the order of joining does not appear.

    rows 10, 100, 1000 and keys of 10, 100, 1000 values, joined on the key:
    (a x b) x c:  10 x 100 / 100 = 10,       10 x 1000 / 1000 = 10
    a x (b x c):  100 x 1000 / 1000 = 100,   10 x 100 / 100 = 10

Several equalities between the same two relations are one: a key of two columns has as many values as combinations occur,
which is at most the relation's rows. Equalities with different relations are independent. Values that many rows of both
sides hold meet each other in full, which is what makes skewed joins large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unshuffle.algebra.expressions import Call, Cast, Expression, Ref
from unshuffle.algebra.logical import Join
from unshuffle.algebra.predicates import conjuncts
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics import NOTHING_KNOWN_OF_COLUMN, ColumnStatistics
from unshuffle.cost import defaults
from unshuffle.cost.constants import UNKNOWN, like
from unshuffle.cost.distributions import Interval, range_fraction
from unshuffle.cost.estimates import Estimate, Origin, Relation, thinned
from unshuffle.cost.selectivity import Restriction, restriction
from unshuffle.properties.dependencies import Dependencies

Pair = tuple[Column, Column]
_COMMON_KEPT = 16
_NONE: tuple[Relation | None, ...] = (None,)


def join(node: Join, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    left, right = inputs
    pairs, rest = _taken_apart(node.condition, left, right)
    matched = _Matched(left, right)
    for between in _by_relations(pairs, left, right):
        matched.add(between)
    rows = left.rows * right.rows * matched.fraction
    if left.facts.keys and pairs and left.facts.unique([one for one, _ in pairs]):
        rows = min(rows, right.rows)
    if right.facts.keys and pairs and right.facts.unique([other for _, other in pairs]):
        rows = min(rows, left.rows)
    inner = _inner(left, right, rows, matched, facts)
    if rest:
        found = restriction(rest, inner)
        inner = _restricted(inner, found)
        matched.guessed |= found.guessed
    return _of_kind(node.kind, left, right, inner, matched, facts)


def _taken_apart(condition: Expression | None, left: Estimate, right: Estimate) -> tuple[list[Pair], list[Expression]]:
    """Equalities between a column of each side, and the rest of a condition."""
    pairs: list[Pair] = []
    rest: list[Expression] = []
    for part in conjuncts(condition):
        if type(part) is Call and part.function in ("=", "<=>"):
            one, other = (_column(argument) for argument in part.arguments)
            if one is not None and other is not None:
                if one in left.origins and other in right.origins:
                    pairs.append((one, other))
                    continue
                if other in left.origins and one in right.origins:
                    pairs.append((other, one))
                    continue
        rest.append(part)
    return _independent(pairs, left, right), rest


def _column(expression: Expression) -> Column | None:
    while type(expression) is Cast:
        expression = expression.operand
    return expression.column if type(expression) is Ref else None


def _independent(pairs: list[Pair], left: Estimate, right: Estimate) -> list[Pair]:
    """Without equalities that follow from others because a side holds its columns equal already."""
    if len(pairs) < 2:
        return pairs
    found: list[Pair] = []
    for one, other in pairs:
        if not any(_equal(left, one, a) and _equal(right, other, b) for a, b in found):
            found.append((one, other))
    return found


def _equal(side: Estimate, one: Column, other: Column) -> bool:
    return one == other or side.facts.equal(one, other)


@dataclass(frozen=True, slots=True)
class _Between:
    """Equalities between two relations, one of each side."""

    left: Relation | None
    right: Relation | None
    pairs: list[Pair] = field(default_factory=list)


def _by_relations(pairs: Sequence[Pair], left: Estimate, right: Estimate) -> list[_Between]:
    """Equalities between the same two relations together, as many as possible."""
    if len(pairs) == 1:
        return [_Between(None, None, [*pairs])]
    choices = [
        [(a, b) for a in left.relations(one) or _NONE for b in right.relations(other) or _NONE]
        for one, other in pairs
    ]
    popular = Counter(choice for each in choices for choice in each)
    found: dict[tuple[Relation | None, Relation | None], _Between] = {}
    for pair, each in zip(pairs, choices, strict=True):
        between = max(each, key=lambda choice: popular[choice])
        found.setdefault(between, _Between(*between)).pairs.append(pair)
    return list(found.values())


class _Matched:
    """What the equalities of a join do, gathered one after the other."""

    __slots__ = (
        "columns",
        "fraction",
        "guessed",
        "left",
        "left_by",
        "left_found",
        "origins",
        "right",
        "right_by",
        "right_found",
    )

    def __init__(self, left: Estimate, right: Estimate) -> None:
        self.left, self.right = left, right
        self.fraction = 1.0  # of all pairs of rows
        self.left_found = 1.0  # of the left side's rows, those that find a row
        self.right_found = 1.0
        self.left_by: list[Relation] = []  # whose values decide which of the left side's rows find a row
        self.right_by: list[Relation] = []
        self.columns: dict[Column, ColumnStatistics] = {}
        self.origins: dict[Column, tuple[Origin, ...]] = {}
        self.guessed = False

    def add(self, between: _Between) -> None:
        left, right, pairs = self.left, self.right, between.pairs
        for one, other in pairs:
            self.left_by += left.relations(one)
            self.right_by += right.relations(other)
            # From here on, each of the two belongs where the other does.
            self.origins[one] = self.origins[other] = (*left.origins.get(one, ()), *right.origins.get(other, ()))
        if len(pairs) == 1:
            self._single(*pairs[0])
            return
        ours, theirs = [one for one, _ in pairs], [other for _, other in pairs]
        values, also = left.values_together(between.left, ours), right.values_together(between.right, theirs)
        most = max(values, also)
        key, also_key = _is_key(left, between.left, ours), _is_key(right, between.right, theirs)
        if key != also_key:
            # A reference to a key: its combinations are among the key's, however many its columns could make.
            most = values if key else also
        solid, also_solid = _solid(left, ours), _solid(right, theirs)
        self.fraction *= solid * also_solid / most
        self.left_found *= solid * min(1.0, right.distinct(theirs) / most)
        self.right_found *= also_solid * min(1.0, left.distinct(ours) / most)
        for one, other in pairs:
            known, also_known = left.columns.get(one), right.columns.get(other)
            if known is None or also_known is None or known.distinct is None or also_known.distinct is None:
                self.guessed = True
            else:
                fewer = _without_shares(known if known.distinct <= also_known.distinct else also_known)
                self.columns[one] = self.columns[other] = fewer

    def _single(self, one: Column, other: Column) -> None:
        left, right = self.left, self.right
        known = left.columns.get(one, NOTHING_KNOWN_OF_COLUMN)
        also = right.columns.get(other, NOTHING_KNOWN_OF_COLUMN)
        self.guessed |= known.distinct is None or also.distinct is None
        solid, also_solid = 1.0 - known.null_fraction, 1.0 - also.null_fraction
        values, also_values = left.values(one), right.values(other)
        # Only the values that both sides may hold can meet.
        overlap = _overlap(known, also)
        share = also_share = 1.0
        if overlap is not None:
            share, also_share = (_share_in(known, overlap), _share_in(also, overlap))
            values, also_values = max(1.0, values * share), max(1.0, also_values * also_share)
        most = max(values, also_values)
        common: tuple[tuple[Any, float], ...] = ()
        fraction = share * also_share * solid * also_solid / most
        if known.common or also.common:
            fraction, common = _meeting(known, also, most, share * solid, also_share * also_solid)
        self.fraction *= fraction
        present, also_present = right.present(other, also_values), left.present(one, values)
        self.left_found *= solid * share * min(1.0, present / most)
        self.right_found *= also_solid * also_share * min(1.0, also_present / most)
        low, high = overlap if overlap is not None else (known.low, known.high)
        fewer = known if values <= also_values else also
        self.columns[one] = self.columns[other] = ColumnStatistics(
            min(values, also_values), 0.0, low, high, fewer.width, common, fewer.histogram
        )


def _is_key(side: Estimate, relation: Relation | None, columns: Sequence[Column]) -> bool:
    """Are these all columns of a key of a relation?"""
    if relation is None or not relation.facts.keys:
        return False
    return frozenset(side.name_in(relation, column) for column in columns) in relation.facts.keys


def _solid(side: Estimate, columns: Sequence[Column]) -> float:
    found = 1.0
    for column in columns:
        known = side.columns.get(column)
        if known is not None:
            found *= 1.0 - known.null_fraction
    return found


def _without_shares(known: ColumnStatistics) -> ColumnStatistics:
    return ColumnStatistics(known.distinct, 0.0, known.low, known.high, known.width, (), known.histogram)


def _overlap(known: ColumnStatistics, also: ColumnStatistics) -> tuple[Any, Any] | None:
    """The range in which both sides have values, where it is less than all that both have."""
    if known.low is None or also.low is None or (known.low == also.low and known.high == also.high):
        return None
    low, high = like(also.low, known.low), like(also.high, known.low)
    if low is UNKNOWN or high is UNKNOWN:
        return None
    try:
        return max(known.low, low), min(known.high, high)
    except TypeError:
        return None


def _share_in(known: ColumnStatistics, overlap: tuple[Any, Any]) -> float:
    """Of the rows that are not NULL, the fraction with a value in a range."""
    low, high = (like(value, known.low) for value in overlap)
    if low <= known.low and high >= known.high:
        return 1.0
    if low > high:
        return 1e-9
    found = range_fraction(known, Interval(low, True, high, True))
    return 1.0 if found is None else max(1e-9, found / max(1e-12, 1.0 - known.null_fraction))


def _meeting(
    known: ColumnStatistics, also: ColumnStatistics, most: float, solid: float, also_solid: float
) -> tuple[float, tuple[tuple[Any, float], ...]]:
    """The fraction of pairs that meet, where some values are known to be common; and how common they are after it."""
    ours, theirs = dict(known.common), dict(also.common)
    values = dict.fromkeys((*ours, *theirs))
    even = _even(known, solid, ours)
    also_even = _even(also, also_solid, theirs)
    met = []
    rest, also_rest = solid, also_solid
    for value in values:
        one, other = ours.get(value, even), theirs.get(value, also_even)
        rest, also_rest = rest - one, also_rest - other
        if one > 0.0 and other > 0.0:
            met.append((value, one * other))
    listed = sum(share for _, share in met)
    uncommon = max(1.0, most - len(values))
    fraction = listed + max(0.0, rest) * max(0.0, also_rest) / uncommon
    if fraction <= 0.0:
        return 0.0, ()
    met.sort(key=lambda pair: -pair[1])
    return fraction, tuple((value, min(1.0, share / fraction)) for value, share in met[:_COMMON_KEPT])


def _even(known: ColumnStatistics, solid: float, listed: Mapping[Any, float]) -> float:
    """The share of a value that is not among the common ones."""
    if known.all_values_known:
        return 0.0
    rest = max(0.0, solid - sum(listed.values()))
    return rest / max(1.0, (known.distinct or 1.0 / max(1e-12, rest)) - len(listed))


# --- the result


def _inner(left: Estimate, right: Estimate, rows: float, matched: _Matched, facts: Dependencies) -> Estimate:
    kept = min(1.0, matched.left_found, rows / left.rows) if left.rows > 0.0 else 1.0
    also_kept = min(1.0, matched.right_found, rows / right.rows) if right.rows > 0.0 else 1.0
    return Estimate(
        rows,
        {**left.columns, **right.columns, **matched.columns},
        left.guessed or right.guessed or matched.guessed,
        facts,
        {**left.origins, **right.origins, **matched.origins},
        {
            **thinned(left.remaining, left.rows, kept, dict.fromkeys(matched.left_by, kept)),
            **thinned(right.remaining, right.rows, also_kept, dict.fromkeys(matched.right_by, also_kept)),
        },
        {**left.own, **right.own} if left.own or right.own else left.own,
    )


def _restricted(relation: Estimate, found: Restriction) -> Estimate:
    return restricted(relation, found, relation.facts)


def restricted(relation: Estimate, found: Restriction, facts: Dependencies) -> Estimate:
    """What a condition leaves of a relation."""
    fraction = found.fraction
    own = relation.own
    decided: dict[Relation, float] = {}
    if found.own:
        own = dict(own)
        for column, share in found.own.items():
            for origin in relation.origins.get(column, ()):
                own[origin] = own.get(origin, 1.0) * share
                decided[origin[0]] = decided.get(origin[0], 1.0) * share
    return Estimate(
        relation.rows * fraction,
        {**relation.columns, **found.columns} if found.columns else relation.columns,
        relation.guessed or found.guessed,
        facts,
        relation.origins,
        thinned(relation.remaining, relation.rows, fraction, decided),
        own,
    )


def _of_kind(
    kind: JoinKind, left: Estimate, right: Estimate, inner: Estimate, matched: _Matched, facts: Dependencies
) -> Estimate:
    if kind is JoinKind.INNER:
        return inner
    found = min(matched.left_found, inner.rows / left.rows) if left.rows > 0.0 else 0.0
    also_found = min(matched.right_found, inner.rows / right.rows) if right.rows > 0.0 else 0.0
    match kind:
        case JoinKind.SEMI:
            return _kept(left, min(1.0, found), matched, inner, facts)
        case JoinKind.ANTI:
            return _kept(left, max(defaults.LEAST_UNMATCHED, 1.0 - found), matched, inner, facts)
        case JoinKind.LEFT:
            rows = max(left.rows, inner.rows + left.rows * max(0.0, 1.0 - found))
            return _extended(rows, inner, (left,), facts)
        case JoinKind.RIGHT:
            rows = max(right.rows, inner.rows + right.rows * max(0.0, 1.0 - also_found))
            return _extended(rows, inner, (right,), facts)
        case _:
            rows = inner.rows + left.rows * max(0.0, 1.0 - found) + right.rows * max(0.0, 1.0 - also_found)
            return _extended(max(rows, left.rows, right.rows), inner, (left, right), facts)


def _kept(left: Estimate, fraction: float, matched: _Matched, inner: Estimate, facts: Dependencies) -> Estimate:
    remaining = thinned(left.remaining, left.rows, fraction, dict.fromkeys(matched.left_by, fraction))
    return Estimate(left.rows * fraction, left.columns, inner.guessed, facts, left.origins, remaining, left.own)


def _extended(rows: float, inner: Estimate, whole: Sequence[Estimate], facts: Dependencies) -> Estimate:
    """The sides in `whole` keep all their rows and values; the other's columns are NULL where nothing matched."""
    columns = dict(inner.columns)
    remaining = dict(inner.remaining)
    for side in whole:
        columns.update(side.columns)
        remaining.update(side.remaining)
    kept = inner.rows / rows if rows > 0.0 else 1.0
    if kept < 1.0:
        whole_columns = set[Column]().union(*(side.origins for side in whole)) if len(whole) == 1 else set()
        for column in inner.columns:
            if column not in whole_columns:
                known = columns[column]
                common = tuple((value, share * kept) for value, share in known.common)
                columns[column] = ColumnStatistics(
                    known.distinct,
                    1.0 - (1.0 - known.null_fraction) * kept,
                    known.low,
                    known.high,
                    known.width,
                    common,
                    known.histogram,
                )
    return Estimate(rows, columns, inner.guessed, facts, inner.origins, remaining, inner.own)
