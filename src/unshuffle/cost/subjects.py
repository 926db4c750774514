"""What conditions say of one subject, a column or an expression over columns, by comparing it with constants.

All that is said of a subject becomes one interval, one list of values, and the fractions of conditions that are neither
(`<>`, LIKE). The interval and the list are exact where the statistics are. The rest multiplies with exponential backoff:
the second condition counts with its square root, the third with its fourth root, because conditions on one column say
much the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from unshuffle.algebra.expressions import Call, Cast, Expression, Ref
from unshuffle.algebra.predicates import conjuncts
from unshuffle.catalog.statistics import ColumnStatistics
from unshuffle.cost import defaults
from unshuffle.cost.constants import INCOMPARABLE, UNKNOWN, is_constant, like, value_of
from unshuffle.cost.distributions import (
    Interval,
    any_fraction,
    fewer_values,
    only_range,
    only_values,
    range_fraction,
    sample,
    without_null,
)

FLIPPED = {"=": "=", "<=>": "<=>", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LOWER = (">", ">=")


@dataclass(slots=True)
class Said:
    """All that is said of one subject, whose statistics are `known`."""

    known: ColumnStatistics
    interval: Interval | None = None
    values: list[Any] | None = None
    solid: bool = False  # it must not be NULL
    null: float | None = None  # it must be NULL, as this fraction of the rows is
    unknown_ends: int = 0  # comparisons with what only running can tell
    fractions: list[float] = field(default_factory=list)

    def one_of(self, values: Iterable[Any]) -> None:
        """Of values of another kind than the column's, and of NULL, none is equal to anything."""
        kind = sample(self.known)
        comparable = (like(value, kind) if kind is not None else value for value in values if value is not None)
        listed = list(dict.fromkeys(value for value in comparable if value is not UNKNOWN))
        self.values = listed if self.values is None else [value for value in listed if value in self.values]

    def bounded(self, comparison: str, value: Any) -> None:
        if value is None:
            self.values = []  # a comparison with NULL is never true
            return
        kind = sample(self.known)
        value = like(value, kind) if kind is not None and value is not UNKNOWN else value
        if value is UNKNOWN:
            self.unknown_ends += 1
            return
        self.interval = self.interval or Interval()
        try:
            if comparison in _LOWER:
                self.interval.above(value, comparison == ">=")
            else:
                self.interval.below(value, comparison == "<=")
        except INCOMPARABLE:
            self.unknown_ends += 1


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of the rows: their fraction, the subject's statistics in them, and whether a default had to do."""

    fraction: float
    statistics: ColumnStatistics
    guessed: bool


def left_by(said: Said, values: Callable[[], float], least: float) -> Left:
    """What is left of all rows. `values` is how many values the subject has where its statistics do not say; `least` is
    a fraction that nothing possible falls below: statistics may be old, and half a row costs nothing."""
    try:
        return _left_by(said, values, least)
    except INCOMPARABLE:
        return Left(defaults.UNKNOWN_CONDITION, said.known, True)


def _left_by(said: Said, values: Callable[[], float], least: float) -> Left:
    known = said.known
    solid = 1.0 - known.null_fraction
    if said.null is not None:
        contradicted = said.solid or said.values is not None or said.interval is not None
        nothing_else = ColumnStatistics(0.0, 1.0, width=known.width)
        return Left(0.0 if contradicted else said.null, nothing_else, False)
    fractions = list(said.fractions)
    left = known
    guessed = False
    if said.values is not None:
        listed = [value for value in said.values if said.interval is None or said.interval.holds(value)]
        found = any_fraction(known, listed)
        if found is None:
            guessed = True
            found = min(1.0, len(listed) / values()) * solid
        found = max(found, least) if listed else 0.0
        left = only_values(known, listed)
        fractions.append(found)
    elif said.interval is not None:
        found = range_fraction(known, said.interval)
        if found is None:
            guessed = True
            both = said.interval.low is not None and said.interval.high is not None
            found = (defaults.INTERVAL if both else defaults.RANGE) * solid
        found = 0.0 if said.interval.empty else max(found, least)
        left = only_range(known, said.interval, found)
        fractions.append(found)
    elif said.solid and not fractions and not said.unknown_ends:
        return Left(solid, without_null(known), False)
    if said.unknown_ends:
        guessed = True
        fractions.append((defaults.INTERVAL if said.unknown_ends > 1 else defaults.RANGE) * solid)
    fraction = min(1.0, max(0.0, backed_off(fractions)))
    return Left(fraction, left if left is not known else fewer_values(known, fraction), guessed)


def backed_off(fractions: Iterable[float]) -> float:
    """The product of fractions that are not independent: the smallest counts in full, each next with half the exponent."""
    found, exponent = 1.0, 1.0
    for fraction in sorted(fractions):
        found *= fraction**exponent
        exponent /= 2
    return found


# --- reading


Subjects = Callable[[Expression], Said]  # what is said of a subject so far


def read_comparison(condition: Call, subjects: Subjects) -> bool:
    """Adds a comparison with constants to what is said of its subject; false if it is none."""
    name, arguments = condition.function, condition.arguments
    if name in FLIPPED and len(arguments) == 2:
        return _compared(name, arguments[0], arguments[1], subjects)
    if name == "between" and len(arguments) == 3 and not is_constant(arguments[0]):
        said = subjects(plain(arguments[0]))
        said.bounded(">=", value_of(arguments[1]))
        said.bounded("<=", value_of(arguments[2]))
        return True
    if name == "in" and not is_constant(arguments[0]):
        values = [value_of(argument) for argument in arguments[1:]]
        if any(value is UNKNOWN for value in values):
            return False
        subjects(plain(arguments[0])).one_of(values)
        return True
    return name == "or" and _alternatives(arguments, subjects)


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
        subjects(plain(subject)).one_of((value,))
    else:
        subjects(plain(subject)).bounded(name, value)
    return True


def _alternatives(parts: Sequence[Expression], subjects: Subjects) -> bool:
    """`a = 1 or a = 2` is a list of values."""
    subject: Expression | None = None
    values: list[Any] = []
    for part in parts:
        if type(part) is not Call or part.function not in ("=", "in"):
            return False
        one, *others = part.arguments
        if part.function == "=" and is_constant(one):
            one, others = others[0], [one]
        found = [value_of(other) for other in others]
        if is_constant(one) or (subject is not None and one != subject) or any(v is UNKNOWN for v in found):
            return False
        subject = one
        values += found
    if subject is None:
        return False
    subjects(plain(subject)).one_of(values)
    return True


def alternatives(
    parts: Sequence[Expression], known: Callable[[Expression], ColumnStatistics]
) -> dict[Expression, Said]:
    """What is said of subjects of which every one of several alternatives says something: all that any of them allows."""
    found: dict[Expression, Said] | None = None
    for part in parts:
        said: dict[Expression, Said] = {}
        for condition in conjuncts(part):
            if type(condition) is Call:
                read_comparison(condition, partial(_said, said, known))
        if found is None:
            found = said
        else:
            found = {subject: either for subject in found if (either := _either(found[subject], said.get(subject)))}
        if not found:
            return {}
    return found or {}


def _said(so_far: dict[Expression, Said], known: Callable[[Expression], ColumnStatistics], subject: Expression) -> Said:
    if subject not in so_far:
        so_far[subject] = Said(known(subject))
    return so_far[subject]


def _either(one: Said, other: Said | None) -> Said | None:
    if other is None:
        return None
    if one.values is not None and other.values is not None:
        return Said(one.known, values=list(dict.fromkeys((*one.values, *other.values))))
    ends = [_ends(one), _ends(other)]
    try:
        low = None if any(low is None for low, _ in ends) else min(low for low, _ in ends)
        high = None if any(high is None for _, high in ends) else max(high for _, high in ends)
    except INCOMPARABLE:
        return None
    return Said(one.known, interval=Interval(low, True, high, True)) if low is not None or high is not None else None


def _ends(said: Said) -> tuple[Any, Any]:
    try:
        if said.values:
            return min(said.values), max(said.values)
    except INCOMPARABLE:
        return None, None
    return (said.interval.low, said.interval.high) if said.interval is not None else (None, None)


def plain(subject: Expression) -> Expression:
    """A column that is cast to be compared is the column."""
    while type(subject) is Cast and type(subject.operand) in (Ref, Cast):
        subject = subject.operand
    return subject
