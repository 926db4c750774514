"""The effect of a join's equalities: the fraction of pairs of rows that match, the rows with a match, the values that remain.

An equality between a column of each side selects one pair of rows in max(values left, values right): every value of the side
with fewer values is assumed to occur on the other side, within the range that both have (containment). Values that are common
on both sides are matched by their frequencies, which is what makes skewed joins large.

Several equalities between the same two relations are one condition: a key of two columns has as many values as combinations
occur, which is at most the relation's rows. Equalities with different relations are independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from unshuffle.cardinality.distributions import ValueRange, range_fraction
from unshuffle.cardinality.literal_values import INCOMPARABLE, UNKNOWN, converted
from unshuffle.cardinality.relation_estimate import Estimate, Origin, Relation
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import UNKNOWN_COLUMN, ColumnStatistics
from unshuffle.frozen import dataclass

_MAX_COMMON = 16
_SKEW_FACTOR = 1.5  # times the average frequency
_MIN_SHARE = 1e-9
_NONE: tuple[Relation | None, ...] = (None,)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A column of each side that must be equal. With `null_safe`, NULL equals NULL."""

    left: Column
    right: Column
    null_safe: bool = False


@dataclass(frozen=True, slots=True)
class RelationEqualities:
    """The equalities between two relations, one of each side."""

    left: Relation | None
    right: Relation | None
    pairs: list[KeyPair] = field(default_factory=list)


def by_relations(pairs: Sequence[KeyPair], left: Estimate, right: Estimate) -> list[RelationEqualities]:
    """Equalities grouped by the two relations that they compare, in as few groups as possible."""
    if len(pairs) == 1:
        return [RelationEqualities(None, None, [*pairs])]
    choices = [
        [(a, b) for a in left.relations(pair.left) or _NONE for b in right.relations(pair.right) or _NONE]
        for pair in pairs
    ]
    popular = Counter(choice for each in choices for choice in each)
    groups: dict[tuple[Relation | None, Relation | None], RelationEqualities] = {}
    for pair, each in zip(pairs, choices, strict=True):
        relations = max(each, key=lambda choice: popular[choice])
        groups.setdefault(relations, RelationEqualities(*relations)).pairs.append(pair)
    return list(groups.values())


class EquiJoin:
    """The combined effect of a join's equalities, which are added one after the other."""

    __slots__ = (
        "assumed",
        "columns",
        "fraction",
        "guessed",
        "left",
        "left_by",
        "left_matched",
        "origins",
        "own",
        "right",
        "right_by",
        "right_matched",
    )

    def __init__(self, left: Estimate, right: Estimate) -> None:
        self.left, self.right = left, right
        self.fraction = 1.0  # of all pairs of rows
        self.left_matched = 1.0  # the fraction of the left side's rows that have a match
        self.right_matched = 1.0
        self.left_by: dict[Relation, float] = {}  # the same, as far as it depends on one relation's values
        self.right_by: dict[Relation, float] = {}
        self.columns: dict[Column, ColumnStatistics] = {}
        self.own: dict[Origin, float] = {}
        self.origins: dict[Column, tuple[Origin, ...]] = {}
        self.guessed = False
        self.assumed = 0  # how often columns that are no key were taken to be independent

    def add(self, equalities: RelationEqualities) -> None:
        left, right, pairs = self.left, self.right, equalities.pairs
        for pair in pairs:
            # Equated columns belong to the relations of both.
            origins = dict.fromkeys((*self._origins(left, pair.left), *self._origins(right, pair.right)))
            for column in (*_equal_columns(left, pair.left), *_equal_columns(right, pair.right)):
                self.origins[column] = tuple(origins)
        if len(pairs) == 1:
            self._add_one(pairs[0])
        else:
            self._add_several(equalities)

    def _add_several(self, equalities: RelationEqualities) -> None:
        left, right, pairs = self.left, self.right, equalities.pairs
        left_columns, right_columns = [pair.left for pair in pairs], [pair.right for pair in pairs]
        left_values = left.values_together(equalities.left, left_columns)
        right_values = right.values_together(equalities.right, right_columns)
        values = max(left_values, right_values)
        is_left_key = _is_key(left, equalities.left, left_columns)
        is_right_key = _is_key(right, equalities.right, right_columns)
        self.assumed += not is_left_key and not is_right_key
        if is_left_key != is_right_key:
            # A foreign key: its combinations are among the key's, however many its columns could form.
            values = left_values if is_left_key else right_values
        values = max(values, 1.0)  # an input without rows has no combinations
        rejects_null = [not pair.null_safe for pair in pairs]
        left_non_null = _non_null(left, left_columns, rejects_null)
        right_non_null = _non_null(right, right_columns, rejects_null)
        self.fraction *= left_non_null * right_non_null / values
        self._match(
            pairs,
            left_non_null * min(1.0, right.distinct(right_columns) / values),
            right_non_null * min(1.0, left.distinct(left_columns) / values),
        )
        for pair in pairs:
            ours, theirs = left.columns.get(pair.left), right.columns.get(pair.right)
            if ours is None or theirs is None or ours.distinct is None or theirs.distinct is None:
                self.guessed = True
            else:
                self._equate(pair, _without_shares(ours if ours.distinct <= theirs.distinct else theirs))

    def _add_one(self, pair: KeyPair) -> None:
        left, right = self.left, self.right
        # A column that an earlier equality restricted has the values that remain after it.
        ours = self.columns.get(pair.left) or left.columns.get(pair.left, UNKNOWN_COLUMN)
        theirs = self.columns.get(pair.right) or right.columns.get(pair.right, UNKNOWN_COLUMN)
        self.guessed |= ours.distinct is None or theirs.distinct is None
        left_non_null, right_non_null = 1.0 - ours.null_fraction, 1.0 - theirs.null_fraction
        all_left = left.values(pair.left) if ours.distinct is None else max(1.0, ours.distinct)
        all_right = right.values(pair.right) if theirs.distinct is None else max(1.0, theirs.distinct)
        left_values, right_values = all_left, all_right
        # Only values that both sides may have can match.
        overlap = _overlap(ours, theirs)
        left_share = right_share = 1.0
        if overlap is not None:
            left_share, right_share = _share_in(ours, overlap), _share_in(theirs, overlap)
            left_values, right_values = max(1.0, left_values * left_share), max(1.0, right_values * right_share)
        values = max(left_values, right_values)
        common: tuple[tuple[Any, float], ...] = ()
        fraction = left_share * right_share * left_non_null * right_non_null / values
        if ours.common or theirs.common:
            left_common, right_common = _skewed(ours, all_left, overlap), _skewed(theirs, all_right, overlap)
            if left_common or right_common:
                fraction, common = _skewed_fraction(
                    _Shares(left_common, left_share * left_non_null, len(left_common) == ours.distinct),
                    _Shares(right_common, right_share * right_non_null, len(right_common) == theirs.distinct),
                    values,
                )
        if pair.null_safe:
            fraction += ours.null_fraction * theirs.null_fraction
        self.fraction *= fraction
        left_matched = left_non_null * left_share * min(1.0, right.present(pair.right, right_values) / values)
        right_matched = right_non_null * right_share * min(1.0, left.present(pair.left, left_values) / values)
        if pair.null_safe and ours.null_fraction * theirs.null_fraction > 0.0:
            left_matched, right_matched = left_matched + ours.null_fraction, right_matched + theirs.null_fraction
        self._match([pair], left_matched, right_matched)
        fewest = min(left_values, right_values)
        self._restrict(left.origins.get(pair.left, ()), left.own, fewest / all_left)
        self._restrict(right.origins.get(pair.right, ()), right.own, fewest / all_right)
        low, high = overlap if overlap is not None else (ours.low, ours.high)
        fewer = ours if left_values <= right_values else theirs
        self._equate(pair, ColumnStatistics(fewest, 0.0, low, high, fewer.width, common, fewer.histogram))

    def observe(self, left_matched: float | None, right_matched: float | None) -> None:
        """The shares of rows with a match, where they were counted."""
        if left_matched is not None:
            self.left_matched = left_matched
            self.left_by = dict.fromkeys(self.left_by, left_matched)
        if right_matched is not None:
            self.right_matched = right_matched
            self.right_by = dict.fromkeys(self.right_by, right_matched)

    def _equate(self, pair: KeyPair, statistics: ColumnStatistics) -> None:
        for column in (*_equal_columns(self.left, pair.left), *_equal_columns(self.right, pair.right)):
            self.columns[column] = statistics

    def _origins(self, side: Estimate, column: Column) -> Sequence[Origin]:
        return self.origins.get(column) or side.origins.get(column, ())

    def _match(self, pairs: Sequence[KeyPair], left_matched: float, right_matched: float) -> None:
        self.left_matched *= left_matched
        self.right_matched *= right_matched
        for relation in dict.fromkeys(each for pair in pairs for each in self.left.relations(pair.left)):
            self.left_by[relation] = self.left_by.get(relation, 1.0) * left_matched
        for relation in dict.fromkeys(each for pair in pairs for each in self.right.relations(pair.right)):
            self.right_by[relation] = self.right_by.get(relation, 1.0) * right_matched

    def _restrict(self, origins: Sequence[Origin], before: Mapping[Origin, float], share: float) -> None:
        """Removes the rows with values that the other side does not have."""
        if share < 1.0:
            for origin in origins:
                self.own[origin] = self.own.get(origin, before.get(origin, 1.0)) * share


def _equal_columns(side: Estimate, column: Column) -> Iterable[Column]:
    """A column and the columns that are equal to it, which share its statistics."""
    if not side.facts.classes:
        return (column,)
    return [each for each in side.facts.equals_of(column) if each in side.origins] or (column,)


def _is_key(side: Estimate, relation: Relation | None, columns: Sequence[Column]) -> bool:
    """Whether these are all columns of a key of a relation."""
    if relation is None or not relation.facts.keys:
        return False
    return frozenset(side.name_in(relation, column) for column in columns) in relation.facts.keys


def _non_null(side: Estimate, columns: Sequence[Column], rejects_null: Sequence[bool]) -> float:
    """The fraction of rows without NULL in a column whose equality rejects NULL."""
    fraction = 1.0
    for column, is_rejected in zip(columns, rejects_null, strict=True):
        statistics = side.columns.get(column)
        if statistics is not None and is_rejected:
            fraction *= 1.0 - statistics.null_fraction
    return fraction


def _without_shares(column: ColumnStatistics) -> ColumnStatistics:
    return ColumnStatistics(column.distinct, 0.0, column.low, column.high, column.width, (), column.histogram)


def _overlap(left: ColumnStatistics, right: ColumnStatistics) -> tuple[Any, Any] | None:
    """The range in which both sides have values; None if both have the same range."""
    if left.low is None or right.low is None or (left.low == right.low and left.high == right.high):
        return None
    low, high = converted(right.low, left.low), converted(right.high, left.low)
    if low is UNKNOWN or high is UNKNOWN:
        return None
    try:
        return max(left.low, low), min(left.high, high)
    except INCOMPARABLE:
        return None


def _share_in(column: ColumnStatistics, overlap: tuple[Any, Any]) -> float:
    """Of the rows that are not NULL, the fraction with a value in a range."""
    low, high = (converted(value, column.low) for value in overlap)
    if low <= column.low and high >= column.high:
        return 1.0
    if low > high:
        return _MIN_SHARE
    fraction = range_fraction(column, ValueRange(low, True, high, True))
    return 1.0 if fraction is None else max(_MIN_SHARE, fraction / max(_MIN_SHARE, 1.0 - column.null_fraction))


@dataclass(frozen=True, slots=True)
class _Shares:
    """The rows of one side that can match: the shares of common values, and the share of all of these rows."""

    common: Mapping[Any, float]
    rows: float
    is_complete: bool  # there are no values but the common ones

    def uncommon(self, domain: float) -> float:
        """The expected share of a value of the domain that is not a common one."""
        if self.is_complete:
            return 0.0
        return max(0.0, self.rows - sum(self.common.values())) / max(1.0, domain - len(self.common))


def _skewed(column: ColumnStatistics, values: float, overlap: tuple[Any, Any] | None) -> dict[Any, float]:
    """The values in a range that are much more common than the average. The others are assumed to be uniform."""
    skewed: dict[Any, float] = {}
    min_share = _SKEW_FACTOR / values
    for value, share in column.common[:_MAX_COMMON]:
        if share < min_share:
            break
        if overlap is None or overlap[0] <= value <= overlap[1]:
            skewed[value] = share
    return skewed


def _skewed_fraction(left: _Shares, right: _Shares, domain: float) -> tuple[float, tuple[tuple[Any, float], ...]]:
    """The fraction of pairs that match, given the common values, and the common values of the result."""
    values = dict.fromkeys((*left.common, *right.common))
    left_uncommon, right_uncommon = left.uncommon(domain), right.uncommon(domain)
    matches = []
    left_rest, right_rest = left.rows, right.rows
    for value in values:
        one, other = left.common.get(value, left_uncommon), right.common.get(value, right_uncommon)
        left_rest, right_rest = left_rest - one, right_rest - other
        if one > 0.0 and other > 0.0:
            matches.append((value, one * other))
    fraction = sum(share for _, share in matches)
    fraction += max(0.0, left_rest) * max(0.0, right_rest) / max(1.0, domain - len(values))
    if fraction <= 0.0:
        return 0.0, ()
    matches.sort(key=lambda pair: -pair[1])
    return fraction, tuple((value, min(1.0, share / fraction)) for value, share in matches[:_MAX_COMMON])
