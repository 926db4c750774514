"""Which fraction of a relation's rows a condition leaves, and what it leaves of the columns' values.

Conjuncts are read together. All that compare one subject (a column, or an expression over columns) with constants make
one interval and one list of values: `x >= 1 and x < 9` is a single range, not two independent ones. What else is said of
the same subject multiplies with exponential backoff (the second condition counts with its square root, the third with its
fourth root), because conditions on one column say much the same. Different subjects are taken as independent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from unshuffle.algebra.expressions import (
    Call,
    Cast,
    Exists,
    Expression,
    InSubquery,
    Literal,
    Ref,
    Template,
)
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics import NOTHING_KNOWN_OF_COLUMN, ColumnStatistics
from unshuffle.cost import defaults
from unshuffle.cost.constants import UNKNOWN, like, value_of
from unshuffle.cost.derived import derived
from unshuffle.cost.distributions import (
    Interval,
    any_fraction,
    fewer_values,
    less_fraction,
    only_range,
    only_values,
    pattern_fraction,
    pattern_test,
    range_fraction,
    sample,
    without_null,
)
from unshuffle.cost.estimates import Estimate

_FALSE_FOR_NULL = frozenset(("like", "ilike", "rlike", "<>", "=", "<", "<=", ">", ">=", "in", "between"))
_FLIPPED = {"=": "=", "<=>": "<=>", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(slots=True)
class Restriction:
    """What a condition does: the fraction of rows it leaves, new statistics of the columns it speaks of, and which
    fraction each of these columns' own conditions leave."""

    fraction: float = 1.0
    columns: dict[Column, ColumnStatistics] = field(default_factory=dict)
    own: dict[Column, float] = field(default_factory=dict)
    guessed: bool = False


def restriction(conditions: Sequence[Expression], relation: Estimate) -> Restriction:
    """What several conditions that must all be true do to a relation."""
    reader = _Reader(relation)
    found = Restriction()
    subjects: dict[Expression, _Said] = {}
    for condition in conditions:
        if not reader.read(condition, subjects):
            found.fraction *= reader.fraction(condition)
            reader.equate(condition, found)
    for subject, said in subjects.items():
        known = reader.known(subject)
        fraction, left = reader.left(subject, known, said)
        found.fraction *= fraction
        if type(subject) is Ref and left is not known:
            found.columns[subject.column] = left
            found.own[subject.column] = fraction
    found.guessed = reader.guessed
    return found


@dataclass(slots=True)
class _Said:
    """All that conditions say of one subject by comparing it with constants."""

    interval: Interval | None = None
    values: list[Any] | None = None
    solid: bool = False  # it must not be NULL
    null: float | None = None  # it must be NULL, as this fraction of the rows is
    unknown_ends: int = 0  # comparisons with what only running can tell
    fractions: list[float] = field(default_factory=list)

    def one_of(self, values: list[Any]) -> None:
        self.values = values if self.values is None else [value for value in values if value in self.values]


class _Reader:
    """Reads conditions over one relation; `guessed` becomes true when a default had to do."""

    __slots__ = ("guessed", "relation")

    def __init__(self, relation: Estimate) -> None:
        self.relation = relation
        self.guessed = False

    def known(self, subject: Expression) -> ColumnStatistics:
        if type(subject) is Ref:
            return self.relation.columns.get(subject.column, NOTHING_KNOWN_OF_COLUMN)
        return derived(subject, self.relation)

    def values(self, subject: Expression, known: ColumnStatistics) -> float:
        if known.distinct is not None:
            return max(1.0, known.distinct)
        self.guessed = True
        if type(subject) is Ref:
            return self.relation.values(subject.column)
        return max(1.0, self.relation.rows * defaults.UNKNOWN_DISTINCT_SHARE)

    # --- conditions on one subject

    def read(self, condition: Expression, subjects: dict[Expression, _Said]) -> bool:
        """Adds a condition to what is said of its subject, if it compares one with constants."""
        if type(condition) is not Call:
            return False
        name, arguments = condition.function, condition.arguments
        if name in _FLIPPED and len(arguments) == 2:
            return self._comparison(name, arguments[0], arguments[1], subjects) or self._about_one_column(
                condition, subjects
            )
        if name == "between" and len(arguments) == 3:
            low, high = value_of(arguments[1]), value_of(arguments[2])
            if is_constant(arguments[0]):
                return False
            said = _of(arguments[0], subjects)
            self._end(said, arguments[0], ">=", low)
            self._end(said, arguments[0], "<=", high)
            return True
        if name == "in" and not is_constant(arguments[0]):
            values = [value_of(argument) for argument in arguments[1:]]
            if any(value is UNKNOWN for value in values):
                return False
            self._listed(arguments[0], values, subjects)
            return True
        if name == "or":
            return self._alternatives(arguments, subjects)
        if name in ("isnotnull", "isnull") and type(arguments[0]) is Ref:
            said = _of(arguments[0], subjects)
            said.solid |= name == "isnotnull"
            if name == "isnull":
                said.null = self._is_null(arguments)
            return True
        return self._about_one_column(condition, subjects)

    def _alternatives(self, parts: Sequence[Expression], subjects: dict[Expression, _Said]) -> bool:
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
            if is_constant(one) or (subject is not None and one != subject) or UNKNOWN in found:
                return False
            subject = one
            values += found
        assert subject is not None
        self._listed(subject, values, subjects)
        return True

    def _about_one_column(self, condition: Call, subjects: dict[Expression, _Said]) -> bool:
        """A condition that is false for NULL, and of which only the fraction can be told."""
        inner: Expression = condition
        if condition.function == "not":
            inner = condition.arguments[0]
        if type(inner) is not Call or inner.function not in _FALSE_FOR_NULL:
            return False
        column = _only_column(inner)
        if column is None:
            return False
        _of(Ref(column), subjects).fractions.append(self._at_least(self.fraction(condition), True))
        return True

    def _comparison(self, name: str, left: Expression, right: Expression, subjects: dict[Expression, _Said]) -> bool:
        subject, value = left, value_of(right)
        if value is UNKNOWN:
            value = value_of(left)
            if value is UNKNOWN:
                return False
            subject, name = right, _FLIPPED[name]
        elif is_constant(left):
            return False
        if name in ("=", "<=>"):
            if value is None and name == "<=>":
                return False
            self._listed(subject, [value], subjects)
        elif name == "<>":
            return False
        else:
            self._end(_of(subject, subjects), subject, name, value)
        return True

    def _listed(self, subject: Expression, values: list[Any], subjects: dict[Expression, _Said]) -> None:
        kind = sample(self.known(subject))
        comparable = (like(value, kind) if kind is not None else value for value in values if value is not None)
        _of(subject, subjects).one_of(list(dict.fromkeys(value for value in comparable if value is not UNKNOWN)))

    def _end(self, said: _Said, subject: Expression, name: str, value: Any) -> None:
        if value is None:
            said.values = []  # a comparison with NULL is never true
            return
        kind = sample(self.known(subject))
        value = like(value, kind) if kind is not None and value is not UNKNOWN else value
        if value is UNKNOWN:
            said.unknown_ends += 1
            return
        said.interval = said.interval or Interval()
        try:
            if name in (">", ">="):
                said.interval.above(value, name == ">=")
            else:
                said.interval.below(value, name == "<=")
        except TypeError:
            said.unknown_ends += 1

    def left(self, subject: Expression, known: ColumnStatistics, said: _Said) -> tuple[float, ColumnStatistics]:
        """The fraction of rows that what is said of a subject leaves, and the statistics of these."""
        try:
            fraction, left = self._left(subject, known, said)
        except TypeError:  # values of kinds that do not compare
            self.guessed = True
            return defaults.UNKNOWN_CONDITION, known
        return min(1.0, max(0.0, fraction)), left

    def _left(self, subject: Expression, known: ColumnStatistics, said: _Said) -> tuple[float, ColumnStatistics]:
        solid = 1.0 - known.null_fraction
        fractions = list(said.fractions)
        left = known
        if said.null is not None:
            contradicted = said.solid or said.values is not None or said.interval is not None
            return 0.0 if contradicted else said.null, ColumnStatistics(0.0, 1.0, width=known.width)
        if said.values is not None:
            values = [v for v in said.values if said.interval is None or said.interval.holds(v)]
            found = any_fraction(known, values)
            if found is None:
                found = min(1.0, len(values) / self.values(subject, known)) * solid
            found = self._at_least(found, bool(values))
            left = only_values(known, values, found)
            fractions.append(found)
        elif said.interval is not None:
            found = range_fraction(known, said.interval)
            if found is None:
                self.guessed = True
                both = said.interval.low is not None and said.interval.high is not None
                found = (defaults.INTERVAL if both else defaults.RANGE) * solid
            found = self._at_least(found, not said.interval.empty)
            left = only_range(known, said.interval, found)
            fractions.append(found)
        elif said.solid and not fractions and not said.unknown_ends:
            return solid, without_null(known)
        if said.unknown_ends:
            self.guessed = True
            fractions.append((defaults.INTERVAL if said.unknown_ends > 1 else defaults.RANGE) * solid)
        fraction = backed_off(fractions)
        return fraction, left if left is not known else fewer_values(known, fraction)

    def _at_least(self, fraction: float, possible: bool) -> float:
        """Half a row, where statistics say there is none: they may be old, and nothing above can be worse off."""
        return max(fraction, 0.5 / max(1.0, self.relation.rows)) if possible else 0.0

    # --- conditions of any form

    def fraction(self, condition: Expression) -> float:
        """The fraction of rows for which a condition is true."""
        match condition:
            case Literal(value=value):
                return 1.0 if value is True else 0.0
            case Call():
                rule = _RULES.get(condition.function)
                if rule is not None:
                    return min(1.0, max(0.0, rule(self, condition.arguments)))
            case Ref():
                return self._boolean(condition, True)
            case Exists() | InSubquery():
                self.guessed = True
                return defaults.SUBQUERY
            case Cast(operand=operand):
                return self.fraction(operand)
            case Template() if (unlike := _not_like(condition)) is not None:
                return self._not((unlike,))
            case _:
                pass
        self.guessed = True
        return defaults.UNKNOWN_CONDITION

    def together(self, conditions: Sequence[Expression]) -> float:
        inner = restriction(conditions, self.relation)
        self.guessed |= inner.guessed
        return inner.fraction

    def _and(self, parts: Sequence[Expression]) -> float:
        return self.together(parts)

    def _or(self, parts: Sequence[Expression]) -> float:
        """Conditions on one and the same column are taken to exclude each other, others to be independent."""
        fractions = [self.together((part,)) for part in parts]
        subjects = {_only_column(part) for part in parts}
        if len(subjects) == 1 and None not in subjects:
            return min(1.0, sum(fractions))
        missed = 1.0
        for fraction in fractions:
            missed *= 1.0 - fraction
        return 1.0 - missed

    def _not(self, parts: Sequence[Expression]) -> float:
        inner = parts[0]
        if type(inner) is Call and inner.function == "not":
            return self.fraction(inner.arguments[0])
        column = _only_column(inner)
        known = self.relation.columns.get(column) if column is not None else None
        nulls = known.null_fraction if known is not None and not _sees_null(inner) else 0.0
        return 1.0 - nulls - self.together((inner,))

    def _less(self, parts: Sequence[Expression]) -> float:
        """`<` and `<=` between two expressions over columns, taken as independent."""
        one, other = (self.known(part) for part in parts)
        found = less_fraction(one, other)
        if found is not None:
            return found
        self.guessed = True
        return defaults.RANGE

    def _greater(self, parts: Sequence[Expression]) -> float:
        return self._less(parts[::-1])

    def _equal(self, parts: Sequence[Expression]) -> float:
        one, other = parts
        if one == other:
            return 1.0 - self.known(one).null_fraction
        if type(one) is Ref and type(other) is Ref and self.relation.facts.equal(one.column, other.column):
            return 1.0 - self.known(one).null_fraction
        known, also = self.known(one), self.known(other)
        solid = (1.0 - known.null_fraction) * (1.0 - also.null_fraction)
        return solid / max(self.values(one, known), self.values(other, also))

    def _unequal(self, parts: Sequence[Expression]) -> float:
        solid = 1.0
        for part in parts:
            solid *= 1.0 - self.known(part).null_fraction
        return solid - self.together((Call("=", tuple(parts), None),))

    def _null_safe(self, parts: Sequence[Expression]) -> float:
        for one, other in (parts, parts[::-1]):
            if isinstance(other, Literal) and other.value is None:
                return self._is_null((one,))
        nulls = self.known(parts[0]).null_fraction * self.known(parts[1]).null_fraction
        return self._equal(parts) + nulls

    def _is_null(self, parts: Sequence[Expression]) -> float:
        subject = parts[0]
        if type(subject) is Ref:
            if not subject.column.nullable or subject.column in self.relation.facts.never_null:
                return 0.0
            if subject.column in self.relation.columns:
                return self.relation.columns[subject.column].null_fraction
        self.guessed = True
        return defaults.IS_NULL

    def _is_not_null(self, parts: Sequence[Expression]) -> float:
        return 1.0 - self._is_null(parts)

    def _boolean(self, subject: Expression, wanted: bool) -> float:
        known = self.known(subject)
        if known.common:
            return next((fraction for value, fraction in known.common if value is wanted), 0.0)
        self.guessed = True
        return defaults.BOOLEAN * (1.0 - known.null_fraction)

    def _between(self, parts: Sequence[Expression]) -> float:
        if not is_constant(parts[0]):
            return self.together((Call("between", tuple(parts), None),))
        self.guessed = True
        return defaults.INTERVAL

    def _in(self, parts: Sequence[Expression]) -> float:
        if not any(value_of(part) is UNKNOWN for part in parts[1:]):
            return self.together((Call("in", tuple(parts), None),))
        self.guessed = True
        known = self.known(parts[0])
        return min(1.0 - known.null_fraction, (len(parts) - 1) / self.values(parts[0], known))

    def _is_true(self, parts: Sequence[Expression]) -> float:
        return self.fraction(parts[0])

    def _is_false(self, parts: Sequence[Expression]) -> float:
        return self._not(parts)

    def _like(self, parts: Sequence[Expression]) -> float:
        return self._matches(parts, False)

    def _ilike(self, parts: Sequence[Expression]) -> float:
        return self._matches(parts, True)

    def _matches(self, parts: Sequence[Expression], ignore_case: bool) -> float:
        pattern = value_of(parts[1])
        escape = value_of(parts[2]) if len(parts) > 2 else "\\"
        known = self.known(parts[0])
        if not isinstance(pattern, str) or not isinstance(escape, str):
            self.guessed = True
            return defaults.LIKE_RUN
        prefix, runs = _literal_runs(pattern, escape)
        if not ignore_case and runs == 0 and "_" not in pattern and "%" not in pattern:
            return self.together((Call("=", (parts[0], Literal(prefix, None)), None),))
        begins = None
        if prefix and not ignore_case and isinstance(known.low, str):
            begins = range_fraction(known, Interval(prefix, True, prefix + "\U0010ffff", True))
        tried = pattern_fraction(known, pattern_test(pattern, escape, ignore_case))
        if tried is not None:
            # Between two bounds of a histogram a beginning is lost; that it has no bound says it is rarer than a bucket.
            return tried if begins is None or runs else max(begins, tried)
        self.guessed |= begins is None or runs > 0
        rest: float = defaults.LIKE_RUN * defaults.INTERVAL ** (runs - 1) if runs else 1.0
        return (begins if begins is not None else defaults.LIKE_RUN if prefix else 1.0) * rest

    # --- equal columns

    def equate(self, condition: Expression, found: Restriction) -> None:
        """Two columns that are made equal have the values of the one that had fewer."""
        match condition:
            case Call("=", (Ref(column=one), Ref(column=other))):
                known, also = (self.relation.columns.get(column) for column in (one, other))
                if known is None or also is None or known.distinct is None or also.distinct is None:
                    return
                fewer = without_null(known if known.distinct <= also.distinct else also)
                for column in (one, other):
                    found.columns.setdefault(column, fewer)
            case _:
                pass


_RULES: dict[str, Callable[[_Reader, Sequence[Expression]], float]] = {
    "and": _Reader._and,
    "or": _Reader._or,
    "not": _Reader._not,
    "=": _Reader._equal,
    "<=>": _Reader._null_safe,
    "<>": _Reader._unequal,
    "<": _Reader._less,
    "<=": _Reader._less,
    ">": _Reader._greater,
    ">=": _Reader._greater,
    "isnull": _Reader._is_null,
    "isnotnull": _Reader._is_not_null,
    "is true": _Reader._is_true,
    "is false": _Reader._is_false,
    "like": _Reader._like,
    "ilike": _Reader._ilike,
    "between": _Reader._between,
    "in": _Reader._in,
}


def backed_off(fractions: Iterable[float]) -> float:
    """The product of fractions that are not independent: the smallest counts in full, each next with half the exponent."""
    found, exponent = 1.0, 1.0
    for fraction in sorted(fractions):
        found *= fraction**exponent
        exponent /= 2
    return found


def is_constant(expression: Expression) -> bool:
    return value_of(expression) is not UNKNOWN


def _of(subject: Expression, subjects: dict[Expression, _Said]) -> _Said:
    while type(subject) is Cast and type(subject.operand) in (Ref, Cast):
        subject = subject.operand
    found = subjects.get(subject)
    if found is None:
        found = subjects[subject] = _Said()
    return found


def _only_column(expression: Expression) -> Column | None:
    """The one column that an expression compares with constants."""
    if type(expression) is not Call or not expression.arguments:
        return None
    columns = {part.column if type(part) is Ref else None for part in expression.arguments if not is_constant(part)}
    return columns.pop() if len(columns) == 1 else None


_NOT_LIKE = re.compile(r"^ NOT (I?LIKE) '((?:[^'\\\\]|\\\\.)*)'$")


def _not_like(condition: Template) -> Call | None:
    """The pattern that `x NOT LIKE 'pattern'`, which is kept as text, denies."""
    if len(condition.pieces) != 2 or condition.pieces[0]:
        return None
    found = _NOT_LIKE.match(condition.pieces[1])
    if found is None:
        return None
    return Call(found[1].lower(), (condition.operands[0], Literal(found[2], None)), None)


def _sees_null(condition: Expression) -> bool:
    return type(condition) is Call and condition.function in ("isnull", "isnotnull", "<=>", "is true", "is false")


def _literal_runs(pattern: str, escape: str) -> tuple[str, int]:
    """The literal text a pattern begins with, and how many runs of literal text follow a wildcard."""
    prefix: list[str] = []
    runs, place, wild, fresh = 0, 0, False, False
    while place < len(pattern):
        character = pattern[place]
        if character == escape and place + 1 < len(pattern):
            place += 1
            character = pattern[place]
        elif character in "%_":
            wild = fresh = True
            place += 1
            continue
        if not wild:
            prefix.append(character)
        elif fresh:
            runs, fresh = runs + 1, False
        place += 1
    return "".join(prefix), runs
