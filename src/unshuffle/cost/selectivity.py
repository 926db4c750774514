"""Which fraction of a relation's rows a condition leaves, and what it leaves of the columns' values.

Conjuncts are read together. All that compare one subject (a column, or an expression over columns) with constants are one
condition (`subjects`): `x >= 1 and x < 9` is a single range, not two independent ones. Different subjects are taken as
independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

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
from unshuffle.cost.constants import INCOMPARABLE, is_constant, value_of
from unshuffle.cost.derived import derived
from unshuffle.cost.distributions import less_fraction, without_null
from unshuffle.cost.estimates import Estimate, Relation, thinned
from unshuffle.cost.patterns import denied_pattern, literal_runs, pattern_fraction
from unshuffle.cost.rising import carried
from unshuffle.cost.subjects import Said, alternatives, left_by, read_comparison
from unshuffle.properties.dependencies import Dependencies

_FALSE_FOR_NULL = frozenset(("like", "ilike", "rlike", "<>", "=", "<", "<=", ">", ">=", "in", "between"))


@dataclass(slots=True)
class Restriction:
    """What a condition does: the fraction of rows it leaves, new statistics of the columns it speaks of, and which
    fraction each of these columns' own conditions leave."""

    fraction: float = 1.0
    columns: dict[Column, ColumnStatistics] = field(default_factory=dict)
    own: dict[Column, float] = field(default_factory=dict)
    carried: dict[Column, float] = field(default_factory=dict)  # the same of columns that rise with those
    guessed: bool = False

    def of(self, relation: Estimate, facts: Dependencies) -> Estimate:
        """What it leaves of a relation."""
        own = relation.own
        decided: dict[Relation, float] = {}
        if self.own:
            changed = dict(own)
            for column, share in self.carried.items():
                for origin in relation.origins.get(column, ()):
                    changed[origin] = changed.get(origin, 1.0) * share
            for column, share in self.own.items():
                for origin in relation.origins.get(column, ()):
                    changed[origin] = changed.get(origin, 1.0) * share
                    decided[origin[0]] = decided.get(origin[0], 1.0) * share
            own = changed
        return Estimate(
            relation.rows * self.fraction,
            {**relation.columns, **self.columns} if self.columns else relation.columns,
            relation.guessed or self.guessed,
            facts,
            relation.origins,
            thinned(relation.remaining, relation.rows, self.fraction, decided),
            own,
        )


def restriction(conditions: Sequence[Expression], relation: Estimate) -> Restriction:
    """What several conditions that must all be true do to a relation."""
    reader = _Reader(relation)
    found = Restriction()
    subjects: dict[Expression, Said] = {}

    def said_of(subject: Expression) -> Said:
        said = subjects.get(subject)
        if said is None:
            said = subjects[subject] = Said(reader.known(subject))
        return said

    for condition in conditions:
        if not reader.read(condition, said_of):
            found.fraction *= reader.fraction(condition)
            reader.equate(condition, found)
            reader.imply(condition, found)
    for subject, said in subjects.items():
        left = left_by(said, partial(reader.values, subject, said.known), reader.least)
        found.fraction *= left.fraction
        found.guessed |= left.guessed
        if type(subject) is Ref and left.statistics is not said.known and left.fraction > 0.0:
            found.columns[subject.column] = left.statistics
            found.own[subject.column] = left.fraction
    found.guessed |= reader.guessed
    for column, (share, statistics) in carried(relation, found.columns).items():
        found.columns[column] = statistics
        found.carried[column] = share
    return found


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

    def read(self, condition: Expression, subjects: Callable[[Expression], Said]) -> bool:
        """Adds a condition to what is said of its subject, if it speaks of only one."""
        if type(condition) is not Call:
            return False
        if read_comparison(condition, subjects):
            return True
        if condition.function in ("isnotnull", "isnull") and type(condition.arguments[0]) is Ref:
            said = subjects(condition.arguments[0])
            if condition.function == "isnull":
                said.null = self._is_null(condition.arguments)
            else:
                said.solid = True
            return True
        inner: Expression = condition.arguments[0] if condition.function == "not" else condition
        column = _only_column(inner) if type(inner) is Call and inner.function in _FALSE_FOR_NULL else None
        if column is None:
            return False
        subjects(Ref(column)).fractions.append(max(self.fraction(condition), self.least))
        return True

    @property
    def least(self) -> float:
        """Half a row."""
        return 0.5 / max(1.0, self.relation.rows)

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
            case Template() if (unlike := denied_pattern(condition)) is not None:
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
        try:
            found = less_fraction(one, other)
        except INCOMPARABLE:
            found = None
        if found is not None:
            return found
        self.guessed = True
        return defaults.RANGE

    def _greater(self, parts: Sequence[Expression]) -> float:
        return self._less(parts[::-1])

    def _equal(self, parts: Sequence[Expression]) -> float:
        one, other = parts
        if is_constant(one) and is_constant(other):
            return float(value_of(one) is not None and value_of(one) == value_of(other))
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
        if not is_constant(parts[0]) and all(map(is_constant, parts[1:])):
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
        if not isinstance(pattern, str) or not isinstance(escape, str):
            self.guessed = True
            return defaults.LIKE_RUN
        if not ignore_case and "_" not in pattern and "%" not in pattern:
            return self.together((Call("=", (parts[0], Literal(literal_runs(pattern, escape)[0], None)), None),))
        found, guessed = pattern_fraction(self.known(parts[0]), pattern, escape, ignore_case)
        self.guessed |= guessed
        return found

    # --- what follows

    def imply(self, condition: Expression, found: Restriction) -> None:
        """`a = 1 and b = 2 or a = 3` leaves no other values of a than 1 and 3."""
        if type(condition) is not Call or condition.function != "or":
            return
        for subject, said in alternatives(condition.arguments, self.known).items():
            left = left_by(said, partial(self.values, subject, said.known), self.least)
            if type(subject) is Ref and left.fraction > 0.0 and not left.guessed:
                found.columns[subject.column] = left.statistics
                found.own[subject.column] = left.fraction

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


def _only_column(expression: Expression) -> Column | None:
    """The one column that an expression compares with constants."""
    if type(expression) is not Call or not expression.arguments:
        return None
    columns = {part.column if type(part) is Ref else None for part in expression.arguments if not is_constant(part)}
    return columns.pop() if len(columns) == 1 else None


def _sees_null(condition: Expression) -> bool:
    return type(condition) is Call and condition.function in ("isnull", "isnotnull", "<=>", "is true", "is false")
