"""Conditions that compare one subject, a column or an expression over columns, with constants.

All conditions on a subject are combined into one range, one list of values, and the selectivities of other conditions
(`<>`, LIKE). The range and the list are as exact as the statistics. The other selectivities multiply with exponential
backoff: the second condition counts with its square root, the third with its fourth root, because conditions on one column
are seldom independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from unshuffle.cardinality.distributions import (
    ValueRange,
    any_fraction,
    example_value,
    fewer_values,
    only_range,
    only_values,
    range_fraction,
    without_null,
)
from unshuffle.cardinality.literal_values import INCOMPARABLE, UNKNOWN, converted, is_constant, value_of
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.constants import ASSUMED
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Call, Cast, Expression, Ref
from unshuffle.plan.functions.scalars import FLIPPED
from unshuffle.plan.predicates import conjuncts

_LOWER = (">", ">=")


@dataclass(slots=True)
class SubjectConditions:
    """All conditions on one subject."""

    statistics: ColumnStatistics
    range: ValueRange | None = None
    values: list[Any] | None = None
    is_not_null: bool = False
    null_fraction: float | None = None  # it must be NULL, as this fraction of the rows is
    unknown_bounds: int = 0  # comparisons with values that are known only at run time
    fractions: list[float] = field(default_factory=list)

    def require_one_of(self, values: Iterable[Any]) -> None:
        """Values of another type than the column's, and NULL, are equal to nothing."""
        kind = example_value(self.statistics)
        comparable = (converted(value, kind) if kind is not None else value for value in values if value is not None)
        listed = list(dict.fromkeys(value for value in comparable if value is not UNKNOWN))
        self.values = listed if self.values is None else [value for value in listed if value in self.values]

    def require_bound(self, comparison: str, value: Any) -> None:
        if value is None:
            self.values = []  # a comparison with NULL is never true
            return
        kind = example_value(self.statistics)
        value = converted(value, kind) if kind is not None and value is not UNKNOWN else value
        if value is UNKNOWN:
            self.unknown_bounds += 1
            return
        self.range = self.range or ValueRange()
        try:
            if comparison in _LOWER:
                self.range.raise_low(value, comparison == ">=")
            else:
                self.range.lower_high(value, comparison == "<=")
        except INCOMPARABLE:
            self.unknown_bounds += 1


@dataclass(frozen=True, slots=True)
class SubjectRestriction:
    """What conditions on a subject leave: the fraction of rows, the subject's statistics in them, and whether these rest on
    a default."""

    fraction: float
    statistics: ColumnStatistics
    guessed: bool


def restrict_subject(
    conditions: SubjectConditions, values: Callable[[], float], min_fraction: float
) -> SubjectRestriction:
    """What all conditions on a subject leave of the rows. `values` is the number of its values, for statistics without one.
    A condition that can be satisfied leaves at least `min_fraction`: statistics may be outdated, and half a row costs
    nothing."""
    try:
        return _restrict_subject(conditions, values, min_fraction)
    except INCOMPARABLE:
        return SubjectRestriction(ASSUMED.unknown_condition, conditions.statistics, True)


def _restrict_subject(
    conditions: SubjectConditions, values: Callable[[], float], min_fraction: float
) -> SubjectRestriction:
    statistics = conditions.statistics
    non_null = 1.0 - statistics.null_fraction
    if conditions.null_fraction is not None:
        is_contradicted = conditions.is_not_null or conditions.values is not None or conditions.range is not None
        only_null = ColumnStatistics(0.0, 1.0, width=statistics.width)
        return SubjectRestriction(0.0 if is_contradicted else conditions.null_fraction, only_null, False)
    fractions = list(conditions.fractions)
    remaining = statistics
    guessed = False
    if conditions.values is not None:
        listed = [value for value in conditions.values if conditions.range is None or conditions.range.contains(value)]
        fraction = any_fraction(statistics, listed)
        if fraction is None:
            guessed = True
            fraction = min(1.0, len(listed) / values()) * non_null
        fraction = max(fraction, min_fraction) if listed else 0.0
        remaining = only_values(statistics, listed)
        fractions.append(fraction)
    elif conditions.range is not None:
        fraction = range_fraction(statistics, conditions.range)
        if fraction is None:
            guessed = True
            has_both = conditions.range.low is not None and conditions.range.high is not None
            fraction = (ASSUMED.interval_condition if has_both else ASSUMED.range_condition) * non_null
        fraction = 0.0 if conditions.range.is_empty else max(fraction, min_fraction)
        remaining = only_range(statistics, conditions.range, fraction)
        fractions.append(fraction)
    elif conditions.is_not_null and not fractions and not conditions.unknown_bounds:
        return SubjectRestriction(non_null, without_null(statistics), False)
    if conditions.unknown_bounds:
        guessed = True
        fractions.append(
            (ASSUMED.interval_condition if conditions.unknown_bounds > 1 else ASSUMED.range_condition) * non_null
        )
    total = min(1.0, max(0.0, _exponential_backoff(fractions)))
    if remaining is statistics:
        remaining = fewer_values(statistics, total)
    return SubjectRestriction(total, remaining, guessed)


def _exponential_backoff(fractions: Iterable[float]) -> float:
    """The product of fractions that are not independent: the smallest counts in full, each next with half the exponent."""
    product, exponent = 1.0, 1.0
    for fraction in sorted(fractions):
        product *= fraction**exponent
        exponent /= 2
    return product


# --- reading conditions


Subjects = Callable[[Expression], SubjectConditions]  # the conditions on a subject so far


def read_comparison(condition: Call, subjects: Subjects) -> bool:
    """Adds a comparison with constants to the conditions on its subject. False if the condition is no such comparison."""
    name, arguments = condition.function, condition.arguments
    if name in FLIPPED and len(arguments) == 2:
        return _compared(name, arguments[0], arguments[1], subjects)
    if name == "between" and len(arguments) == 3 and not is_constant(arguments[0]):
        conditions = subjects(without_casts(arguments[0]))
        conditions.require_bound(">=", value_of(arguments[1]))
        conditions.require_bound("<=", value_of(arguments[2]))
        return True
    if name == "in" and not is_constant(arguments[0]):
        values = [value_of(argument) for argument in arguments[1:]]
        if any(value is UNKNOWN for value in values):
            return False
        subjects(without_casts(arguments[0])).require_one_of(values)
        return True
    return name == "or" and _read_value_list(arguments, subjects)


def _compared(name: str, left: Expression, right: Expression, subjects: Subjects) -> bool:
    subject, value = left, value_of(right)
    if value is UNKNOWN:
        subject, value, name = right, value_of(left), FLIPPED[name]
        if value is UNKNOWN:
            return False
    elif is_constant(left):
        return False
    if name == "<>" or (name == "<=>" and value is None):
        return False
    if name in ("=", "<=>"):
        subjects(without_casts(subject)).require_one_of((value,))
    else:
        subjects(without_casts(subject)).require_bound(name, value)
    return True


def _read_value_list(parts: Sequence[Expression], subjects: Subjects) -> bool:
    """Reads `a = 1 or a = 2` as a list of values."""
    subject: Expression | None = None
    values: list[Any] = []
    for part in parts:
        if type(part) is not Call or part.function not in ("=", "in"):
            return False
        one, *others = part.arguments
        if part.function == "=" and is_constant(one):
            one, others = others[0], [one]
        listed = [value_of(other) for other in others]
        if is_constant(one) or (subject is not None and one != subject) or any(v is UNKNOWN for v in listed):
            return False
        subject = one
        values += listed
    if subject is None:
        return False
    subjects(without_casts(subject)).require_one_of(values)
    return True


def common_conditions(
    alternatives: Sequence[Expression], statistics_of: Callable[[Expression], ColumnStatistics]
) -> dict[Expression, SubjectConditions]:
    """The conditions that follow from an OR, on the subjects that every alternative restricts: the union of what the
    alternatives allow."""
    common: dict[Expression, SubjectConditions] | None = None
    for alternative in alternatives:
        own: dict[Expression, SubjectConditions] = {}
        for condition in conjuncts(alternative):
            if type(condition) is Call:
                read_comparison(condition, partial(_conditions_on, own, statistics_of))
        if common is None:
            common = own
        else:
            common = {subject: both for subject in common if (both := _union(common[subject], own.get(subject)))}
        if not common:
            return {}
    return common or {}


def _conditions_on(
    so_far: dict[Expression, SubjectConditions],
    statistics_of: Callable[[Expression], ColumnStatistics],
    subject: Expression,
) -> SubjectConditions:
    if subject not in so_far:
        so_far[subject] = SubjectConditions(statistics_of(subject))
    return so_far[subject]


def _union(one: SubjectConditions, other: SubjectConditions | None) -> SubjectConditions | None:
    if other is None:
        return None
    if one.values is not None and other.values is not None:
        return SubjectConditions(one.statistics, values=list(dict.fromkeys((*one.values, *other.values))))
    bounds = [_bounds(one), _bounds(other)]
    try:
        low = None if any(low is None for low, _ in bounds) else min(low for low, _ in bounds)
        high = None if any(high is None for _, high in bounds) else max(high for _, high in bounds)
    except INCOMPARABLE:
        return None
    if low is None and high is None:
        return None
    return SubjectConditions(one.statistics, range=ValueRange(low, True, high, True))


def _bounds(conditions: SubjectConditions) -> tuple[Any, Any]:
    try:
        if conditions.values:
            return min(conditions.values), max(conditions.values)
    except INCOMPARABLE:
        return None, None
    return (conditions.range.low, conditions.range.high) if conditions.range is not None else (None, None)


def without_casts(subject: Expression) -> Expression:
    """The subject of a comparison that casts a column is the column."""
    while type(subject) is Cast and type(subject.operand) in (Ref, Cast):
        subject = subject.operand
    return subject
