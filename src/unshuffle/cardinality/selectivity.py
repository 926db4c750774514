"""The selectivity of a condition, and the statistics of the columns in the rows that satisfy it.

Conjuncts are read together. All comparisons of one subject (a column, or an expression over columns) with constants are one
condition (`column_conditions`): `x >= 1 and x < 9` is a single range, not two independent conditions. Different subjects are
assumed to be independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from math import prod

from unshuffle.cardinality.column_conditions import (
    SubjectConditions,
    common_conditions,
    read_comparison,
    restrict_subject,
)
from unshuffle.cardinality.correlated_order import correlated_restrictions
from unshuffle.cardinality.distributions import less_fraction, without_null
from unshuffle.cardinality.expression_statistics import expression_statistics
from unshuffle.cardinality.like_patterns import literal_runs, negated_like, pattern_fraction
from unshuffle.cardinality.literal_values import INCOMPARABLE, is_constant, value_of
from unshuffle.cardinality.relation_estimate import Estimate, Relation, remaining_rows
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import UNKNOWN_COLUMN, ColumnStatistics
from unshuffle.constants import ASSUMED
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Call, Cast, Exists, Expression, InSubquery, Literal, Ref, Template
from unshuffle.properties.facts.dependencies import Dependencies

_NULL_REJECTING = frozenset(("like", "ilike", "rlike", "<>", "=", "<", "<=", ">", ">=", "in", "between"))


@dataclass(slots=True)
class Restriction:
    """The effect of a condition: the fraction of rows that satisfy it, the new statistics of the columns it restricts, and
    the fraction of rows that satisfies the conditions on each of these columns alone."""

    fraction: float = 1.0
    columns: dict[Column, ColumnStatistics] = field(default_factory=dict)
    own: dict[Column, float] = field(default_factory=dict)
    correlated: dict[Column, float] = field(default_factory=dict)  # the same for columns that rise with restricted ones
    guessed: bool = False
    guesses: int = 0  # factors that a default replaced, and those beyond the first, which are taken to be independent

    def applied_to(self, relation: Estimate, facts: Dependencies) -> Estimate:
        """The estimate of a relation's rows that satisfy the condition."""
        own = relation.own
        decided: dict[Relation, float] = {}
        if self.own:
            changed = dict(own)
            for column, share in self.correlated.items():
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
            remaining_rows(relation.remaining, relation.rows, self.fraction, decided),
            own,
            relation.guesses + self.guesses,
        )


def restriction(conditions: Sequence[Expression], relation: Estimate) -> Restriction:
    """The effect of a conjunction of conditions on a relation."""
    reader = _ConditionReader(relation)
    total = Restriction()
    subjects: dict[Expression, SubjectConditions] = {}

    def conditions_on(subject: Expression) -> SubjectConditions:
        found = subjects.get(subject)
        if found is None:
            found = subjects[subject] = SubjectConditions(reader.statistics(subject))
        return found

    factors: list[float] = []
    for condition in conditions:
        if not reader.read(condition, conditions_on):
            factors.append(reader.fraction(condition))
            reader.equate(condition, total)
            reader.imply(condition, total)
    for subject, each in subjects.items():
        restricted = restrict_subject(each, partial(reader.values, subject, each.statistics), reader.min_fraction)
        factors.append(restricted.fraction)
        total.guessed |= restricted.guessed
        total.guesses += restricted.guessed
        if type(subject) is Ref and restricted.statistics is not each.statistics and restricted.fraction > 0.0:
            total.columns[subject.column] = restricted.statistics
            total.own[subject.column] = restricted.fraction
    total.fraction = prod(factors)
    total.guessed |= reader.guessed
    total.guesses += reader.guessed + max(0, sum(factor < 1.0 for factor in factors) - 1)
    for column, (share, statistics) in correlated_restrictions(relation, total.columns).items():
        total.columns[column] = statistics
        total.correlated[column] = share
    return total


class _ConditionReader:
    """Reads conditions over one relation. `guessed` becomes true when a default replaces a statistic."""

    __slots__ = ("guessed", "relation")

    def __init__(self, relation: Estimate) -> None:
        self.relation = relation
        self.guessed = False

    def statistics(self, subject: Expression) -> ColumnStatistics:
        if type(subject) is Ref:
            return self.relation.columns.get(subject.column, UNKNOWN_COLUMN)
        return expression_statistics(subject, self.relation)

    def values(self, subject: Expression, known: ColumnStatistics) -> float:
        if known.distinct is not None:
            return max(1.0, known.distinct)
        self.guessed = True
        if type(subject) is Ref:
            return self.relation.values(subject.column)
        return max(1.0, self.relation.rows * ASSUMED.distinct_share)

    # --- conditions on one subject

    def read(self, condition: Expression, subjects: Callable[[Expression], SubjectConditions]) -> bool:
        """Adds a condition to those on its subject, if it has only one subject."""
        if type(condition) is not Call:
            return False
        if read_comparison(condition, subjects):
            return True
        if condition.function in ("isnotnull", "isnull") and type(condition.arguments[0]) is Ref:
            conditions = subjects(condition.arguments[0])
            if condition.function == "isnull":
                conditions.null_fraction = self._is_null(condition.arguments)
            else:
                conditions.is_not_null = True
            return True
        inner: Expression = condition.arguments[0] if condition.function == "not" else condition
        column = _only_column(inner) if type(inner) is Call and inner.function in _NULL_REJECTING else None
        if column is None:
            return False
        subjects(Ref(column)).fractions.append(max(self.fraction(condition), self.min_fraction))
        return True

    @property
    def min_fraction(self) -> float:
        """The fraction that half a row is."""
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
                return ASSUMED.subquery
            case Cast(operand=operand):
                return self.fraction(operand)
            case Template() if (like := negated_like(condition)) is not None:
                return self._not((like,))
            case _:
                pass
        self.guessed = True
        return ASSUMED.unknown_condition

    def together(self, conditions: Sequence[Expression]) -> float:
        inner = restriction(conditions, self.relation)
        self.guessed |= inner.guessed
        return inner.fraction

    def _and(self, parts: Sequence[Expression]) -> float:
        return self.together(parts)

    def _or(self, parts: Sequence[Expression]) -> float:
        """Conditions on the same column are assumed to exclude each other, others to be independent."""
        fractions = [self.together((part,)) for part in parts]
        subjects = {_only_column(part) for part in parts}
        if len(subjects) == 1 and None not in subjects:
            return min(1.0, sum(fractions))
        none = 1.0
        for fraction in fractions:
            none *= 1.0 - fraction
        return 1.0 - none

    def _not(self, parts: Sequence[Expression]) -> float:
        inner = parts[0]
        if type(inner) is Call and inner.function == "not":
            return self.fraction(inner.arguments[0])
        column = _only_column(inner)
        known = self.relation.columns.get(column) if column is not None else None
        nulls = known.null_fraction if known is not None and not _sees_null(inner) else 0.0
        return 1.0 - nulls - self.together((inner,))

    def _less(self, parts: Sequence[Expression]) -> float:
        """`<` and `<=` between two expressions over columns, which are assumed to be independent."""
        one, other = (self.statistics(part) for part in parts)
        try:
            fraction = less_fraction(one, other)
        except INCOMPARABLE:
            fraction = None
        if fraction is not None:
            return fraction
        self.guessed = True
        return ASSUMED.range_condition

    def _greater(self, parts: Sequence[Expression]) -> float:
        return self._less(parts[::-1])

    def _equal(self, parts: Sequence[Expression]) -> float:
        one, other = parts
        if is_constant(one) and is_constant(other):
            return float(value_of(one) is not None and value_of(one) == value_of(other))
        if one == other:
            return 1.0 - self.statistics(one).null_fraction
        if type(one) is Ref and type(other) is Ref and self.relation.facts.equal(one.column, other.column):
            return 1.0 - self.statistics(one).null_fraction
        left, right = self.statistics(one), self.statistics(other)
        non_null = (1.0 - left.null_fraction) * (1.0 - right.null_fraction)
        return non_null / max(self.values(one, left), self.values(other, right))

    def _unequal(self, parts: Sequence[Expression]) -> float:
        non_null = 1.0
        for part in parts:
            non_null *= 1.0 - self.statistics(part).null_fraction
        return non_null - self.together((Call("=", tuple(parts), None),))

    def _null_safe(self, parts: Sequence[Expression]) -> float:
        for one, other in (parts, parts[::-1]):
            if isinstance(other, Literal) and other.value is None:
                return self._is_null((one,))
        nulls = self.statistics(parts[0]).null_fraction * self.statistics(parts[1]).null_fraction
        return self._equal(parts) + nulls

    def _is_null(self, parts: Sequence[Expression]) -> float:
        subject = parts[0]
        if type(subject) is Ref:
            if not subject.column.nullable or subject.column in self.relation.facts.never_null:
                return 0.0
            if subject.column in self.relation.columns:
                return self.relation.columns[subject.column].null_fraction
        self.guessed = True
        return ASSUMED.is_null

    def _is_not_null(self, parts: Sequence[Expression]) -> float:
        return 1.0 - self._is_null(parts)

    def _boolean(self, subject: Expression, value: bool) -> float:
        known = self.statistics(subject)
        if known.common:
            return next((fraction for common, fraction in known.common if common is value), 0.0)
        self.guessed = True
        return ASSUMED.boolean_column * (1.0 - known.null_fraction)

    def _between(self, parts: Sequence[Expression]) -> float:
        if not is_constant(parts[0]):
            return self.together((Call("between", tuple(parts), None),))
        self.guessed = True
        return ASSUMED.interval_condition

    def _in(self, parts: Sequence[Expression]) -> float:
        if not is_constant(parts[0]) and all(map(is_constant, parts[1:])):
            return self.together((Call("in", tuple(parts), None),))
        self.guessed = True
        known = self.statistics(parts[0])
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
            return ASSUMED.like_literal
        if not ignore_case and "_" not in pattern and "%" not in pattern:
            return self.together((Call("=", (parts[0], Literal(literal_runs(pattern, escape)[0], None)), None),))
        fraction, guessed = pattern_fraction(self.statistics(parts[0]), pattern, escape, ignore_case)
        self.guessed |= guessed
        return fraction

    # --- what a condition implies for columns

    def imply(self, condition: Expression, total: Restriction) -> None:
        """`a = 1 and b = 2 or a = 3` implies that a is 1 or 3."""
        if type(condition) is not Call or condition.function != "or":
            return
        for subject, each in common_conditions(condition.arguments, self.statistics).items():
            restricted = restrict_subject(each, partial(self.values, subject, each.statistics), self.min_fraction)
            if type(subject) is Ref and restricted.fraction > 0.0 and not restricted.guessed:
                total.columns[subject.column] = restricted.statistics
                total.own[subject.column] = restricted.fraction

    def equate(self, condition: Expression, total: Restriction) -> None:
        """Two columns that must be equal have the values of the column with fewer values."""
        match condition:
            case Call("=", (Ref(column=one), Ref(column=other))):
                left, right = (self.relation.columns.get(column) for column in (one, other))
                if left is None or right is None or left.distinct is None or right.distinct is None:
                    return
                fewer = without_null(left if left.distinct <= right.distinct else right)
                for column in (one, other):
                    total.columns.setdefault(column, fewer)
            case _:
                pass


_RULES: dict[str, Callable[[_ConditionReader, Sequence[Expression]], float]] = {
    "and": _ConditionReader._and,
    "or": _ConditionReader._or,
    "not": _ConditionReader._not,
    "=": _ConditionReader._equal,
    "<=>": _ConditionReader._null_safe,
    "<>": _ConditionReader._unequal,
    "<": _ConditionReader._less,
    "<=": _ConditionReader._less,
    ">": _ConditionReader._greater,
    ">=": _ConditionReader._greater,
    "isnull": _ConditionReader._is_null,
    "isnotnull": _ConditionReader._is_not_null,
    "is true": _ConditionReader._is_true,
    "is false": _ConditionReader._is_false,
    "like": _ConditionReader._like,
    "ilike": _ConditionReader._ilike,
    "between": _ConditionReader._between,
    "in": _ConditionReader._in,
}


def _only_column(expression: Expression) -> Column | None:
    """The one column that an expression compares with constants."""
    if type(expression) is not Call or not expression.arguments:
        return None
    columns = {part.column if type(part) is Ref else None for part in expression.arguments if not is_constant(part)}
    return columns.pop() if len(columns) == 1 else None


def _sees_null(condition: Expression) -> bool:
    return type(condition) is Call and condition.function in ("isnull", "isnotnull", "<=>", "is true", "is false")
