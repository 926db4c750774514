"""What the equalities of a join do: how many pairs of rows meet, which rows find one, what values are left.

An equality between a column of each side takes one pair of rows in max(values left, values right): each value of the side
with fewer is taken to be found on the other, in the range that both have. Values that many rows of both sides hold meet
each other in full, which is what makes skewed joins large.

Several equalities between the same two relations are one: a key of two columns has as many values as combinations occur,
which is at most the relation's rows. Equalities with different relations are independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics import NOTHING_KNOWN_OF_COLUMN, ColumnStatistics
from unshuffle.cost.constants import INCOMPARABLE, UNKNOWN, like
from unshuffle.cost.distributions import Interval, range_fraction
from unshuffle.cost.estimates import Estimate, Origin, Relation

_COMMON_KEPT = 16
_NOTABLE = 1.5  # times the average
_LEAST_SHARE = 1e-9
_NONE: tuple[Relation | None, ...] = (None,)


@dataclass(frozen=True, slots=True)
class Pair:
    """A column of each side that must be equal; `null_safe` if NULL equals NULL."""

    left: Column
    right: Column
    null_safe: bool = False


@dataclass(frozen=True, slots=True)
class Between:
    """Equalities between two relations, one of each side."""

    left: Relation | None
    right: Relation | None
    pairs: list[Pair] = field(default_factory=list)


def by_relations(pairs: Sequence[Pair], left: Estimate, right: Estimate) -> list[Between]:
    """Equalities between the same two relations together, as many as possible."""
    if len(pairs) == 1:
        return [Between(None, None, [*pairs])]
    choices = [
        [(a, b) for a in left.relations(pair.left) or _NONE for b in right.relations(pair.right) or _NONE]
        for pair in pairs
    ]
    popular = Counter(choice for each in choices for choice in each)
    found: dict[tuple[Relation | None, Relation | None], Between] = {}
    for pair, each in zip(pairs, choices, strict=True):
        between = max(each, key=lambda choice: popular[choice])
        found.setdefault(between, Between(*between)).pairs.append(pair)
    return list(found.values())


class Matched:
    """What the equalities of a join do, gathered one after the other."""

    __slots__ = (
        "columns",
        "fraction",
        "guessed",
        "left",
        "left_by",
        "left_found",
        "origins",
        "own",
        "right",
        "right_by",
        "right_found",
    )

    def __init__(self, left: Estimate, right: Estimate) -> None:
        self.left, self.right = left, right
        self.fraction = 1.0  # of all pairs of rows
        self.left_found = 1.0  # of the left side's rows, those that find a row
        self.right_found = 1.0
        self.left_by: dict[Relation, float] = {}  # the same, as far as a relation's own values decide
        self.right_by: dict[Relation, float] = {}
        self.columns: dict[Column, ColumnStatistics] = {}
        self.own: dict[Origin, float] = {}
        self.origins: dict[Column, tuple[Origin, ...]] = {}
        self.guessed = False

    def add(self, between: Between) -> None:
        left, right, pairs = self.left, self.right, between.pairs
        for pair in pairs:
            one, other = pair.left, pair.right
            # From here on, each of the two belongs where the other does.
            origins = dict.fromkeys((*self._origins(left, one), *self._origins(right, other)))
            for column in (*_equals(left, one), *_equals(right, other)):
                self.origins[column] = tuple(origins)
        if len(pairs) == 1:
            self._single(pairs[0])
            return
        ours, theirs = [pair.left for pair in pairs], [pair.right for pair in pairs]
        values, also = left.values_together(between.left, ours), right.values_together(between.right, theirs)
        most = max(values, also)
        key, also_key = _is_key(left, between.left, ours), _is_key(right, between.right, theirs)
        if key != also_key:
            # A reference to a key: its combinations are among the key's, however many its columns could make.
            most = values if key else also
        most = max(most, 1.0)  # an input without rows has no combinations at all
        strict = [not pair.null_safe for pair in pairs]
        solid, also_solid = _solid(left, ours, strict), _solid(right, theirs, strict)
        self.fraction *= solid * also_solid / most
        self._found(
            pairs, solid * min(1.0, right.distinct(theirs) / most), also_solid * min(1.0, left.distinct(ours) / most)
        )
        for pair in pairs:
            one, other = pair.left, pair.right
            known, also_known = left.columns.get(one), right.columns.get(other)
            if known is None or also_known is None or known.distinct is None or also_known.distinct is None:
                self.guessed = True
            else:
                fewer = _without_shares(known if known.distinct <= also_known.distinct else also_known)
                self._equate(pair, fewer)

    def _single(self, pair: Pair) -> None:
        left, right = self.left, self.right
        one, other = pair.left, pair.right
        # A column that an equality before this one spoke of has the values that that one left.
        known = self.columns.get(one) or left.columns.get(one, NOTHING_KNOWN_OF_COLUMN)
        also = self.columns.get(other) or right.columns.get(other, NOTHING_KNOWN_OF_COLUMN)
        self.guessed |= known.distinct is None or also.distinct is None
        solid, also_solid = 1.0 - known.null_fraction, 1.0 - also.null_fraction
        made = left.values(one) if known.distinct is None else max(1.0, known.distinct)
        also_made = right.values(other) if also.distinct is None else max(1.0, also.distinct)
        values, also_values = made, also_made
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
            ours, theirs = _notable(known, made, overlap), _notable(also, also_made, overlap)
            if ours or theirs:
                fraction, common = _meeting(
                    _Shares(ours, share * solid, len(ours) == known.distinct),
                    _Shares(theirs, also_share * also_solid, len(theirs) == also.distinct),
                    most,
                )
        if pair.null_safe:
            fraction += known.null_fraction * also.null_fraction
        self.fraction *= fraction
        present, also_present = right.present(other, also_values), left.present(one, values)
        found = solid * share * min(1.0, present / most)
        also_found = also_solid * also_share * min(1.0, also_present / most)
        if pair.null_safe and known.null_fraction * also.null_fraction > 0.0:
            found, also_found = found + known.null_fraction, also_found + also.null_fraction
        self._found([pair], found, also_found)
        fewest = min(values, also_values)
        self._own(left.origins.get(one, ()), left.own, fewest / made)
        self._own(right.origins.get(other, ()), right.own, fewest / also_made)
        low, high = overlap if overlap is not None else (known.low, known.high)
        fewer = known if values <= also_values else also
        self._equate(pair, ColumnStatistics(fewest, 0.0, low, high, fewer.width, common, fewer.histogram))

    def _equate(self, pair: Pair, left: ColumnStatistics) -> None:
        for column in (*_equals(self.left, pair.left), *_equals(self.right, pair.right)):
            self.columns[column] = left

    def _origins(self, side: Estimate, column: Column) -> Sequence[Origin]:
        return self.origins.get(column) or side.origins.get(column, ())

    def _found(self, pairs: Sequence[Pair], found: float, also_found: float) -> None:
        self.left_found *= found
        self.right_found *= also_found
        for relation in dict.fromkeys(each for pair in pairs for each in self.left.relations(pair.left)):
            self.left_by[relation] = self.left_by.get(relation, 1.0) * found
        for relation in dict.fromkeys(each for pair in pairs for each in self.right.relations(pair.right)):
            self.right_by[relation] = self.right_by.get(relation, 1.0) * also_found

    def _own(self, origins: Sequence[Origin], before: Mapping[Origin, float], share: float) -> None:
        """Values that the other side does not have are gone, and so are the rows that held them."""
        if share < 1.0:
            for origin in origins:
                self.own[origin] = self.own.get(origin, before.get(origin, 1.0)) * share


def _equals(side: Estimate, column: Column) -> Iterable[Column]:
    """A column and those equal to it, of which the same is known."""
    if not side.facts.classes:
        return (column,)
    return [each for each in side.facts.equals_of(column) if each in side.origins] or (column,)


def _is_key(side: Estimate, relation: Relation | None, columns: Sequence[Column]) -> bool:
    """Are these all columns of a key of a relation?"""
    if relation is None or not relation.facts.keys:
        return False
    return frozenset(side.name_in(relation, column) for column in columns) in relation.facts.keys


def _solid(side: Estimate, columns: Sequence[Column], strict: Sequence[bool]) -> float:
    """The fraction of rows that NULL does not keep from finding any."""
    found = 1.0
    for column, counts in zip(columns, strict, strict=True):
        known = side.columns.get(column)
        if known is not None and counts:
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
    except INCOMPARABLE:
        return None


def _share_in(known: ColumnStatistics, overlap: tuple[Any, Any]) -> float:
    """Of the rows that are not NULL, the fraction with a value in a range."""
    low, high = (like(value, known.low) for value in overlap)
    if low <= known.low and high >= known.high:
        return 1.0
    if low > high:
        return _LEAST_SHARE
    found = range_fraction(known, Interval(low, True, high, True))
    return 1.0 if found is None else max(_LEAST_SHARE, found / max(_LEAST_SHARE, 1.0 - known.null_fraction))


@dataclass(frozen=True, slots=True)
class _Shares:
    """Of one side's rows that can meet: the common values among them, and the fraction of all rows they are."""

    common: Mapping[Any, float]
    rows: float
    complete: bool  # there are no other values than the common ones

    def uncommon(self, domain: float) -> float:
        """The share of a value that is not a common one, for all the side knows: it may be there or not."""
        if self.complete:
            return 0.0
        return max(0.0, self.rows - sum(self.common.values())) / max(1.0, domain - len(self.common))


def _notable(known: ColumnStatistics, values: float, overlap: tuple[Any, Any] | None) -> dict[Any, float]:
    """The values, of those in a range, that are much more common than the average: the others meet as if all were even."""
    found: dict[Any, float] = {}
    least = _NOTABLE / values
    for value, share in known.common[:_COMMON_KEPT]:
        if share < least:
            break
        if overlap is None or overlap[0] <= value <= overlap[1]:
            found[value] = share
    return found


def _meeting(left: _Shares, right: _Shares, domain: float) -> tuple[float, tuple[tuple[Any, float], ...]]:
    """The fraction of pairs that meet, where some values are known to be common; and how common they are after it."""
    values = dict.fromkeys((*left.common, *right.common))
    uncommon, also_uncommon = left.uncommon(domain), right.uncommon(domain)
    met = []
    rest, also_rest = left.rows, right.rows
    for value in values:
        one, other = left.common.get(value, uncommon), right.common.get(value, also_uncommon)
        rest, also_rest = rest - one, also_rest - other
        if one > 0.0 and other > 0.0:
            met.append((value, one * other))
    fraction = sum(share for _, share in met)
    fraction += max(0.0, rest) * max(0.0, also_rest) / max(1.0, domain - len(values))
    if fraction <= 0.0:
        return 0.0, ()
    met.sort(key=lambda pair: -pair[1])
    return fraction, tuple((value, min(1.0, share / fraction)) for value, share in met[:_COMMON_KEPT])
