"""Joins subqueries to the outer plan, so that a column holds the value of each subquery.

Conditions are three-valued, and a filter keeps a row only if its condition is true. NOT IN is true only if every comparison
is false. A comparison with a NULL is unknown, so the condition of the anti-join treats an unknown comparison as a match.

The count bug: over no rows, count is 0 and every other aggregate is NULL. A grouped subquery has no row for such a group, and
a left join gives NULL for all aggregates. So the expression around the aggregates is computed above the join, with
coalesce(count, 0) for count. For an empty group `sum(x) is null` is then true and `count(*) + 1` is 1, as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.normalize.projections.computed_columns import only
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.subqueries.correlation import (
    BOOLEAN,
    TRUE,
    Columns,
    Uncorrelated,
    by_keys,
    equality,
    has_subquery,
    pull,
    substituted,
)
from unshuffle.normalize.subqueries.subquery_shapes import (
    as_existence,
    columns_made_in,
    is_first_row,
    is_one_row,
    over_aggregates,
    same_existence,
)
from unshuffle.plan.expressions import (
    Call,
    Case,
    Exists,
    Expression,
    InSubquery,
    Literal,
    Ref,
    ScalarSubquery,
    Subquery,
    columns_of,
    map_operands,
)
from unshuffle.plan.logical import Filter, GroupBy, Join, Limit, Plan, Project
from unshuffle.plan.predicates import conjunction, is_deterministic, not_null_if_true

ONE = Literal(1, pa.int32())


@dataclass(slots=True)
class OuterPlan:
    """An outer plan with the subqueries that have been joined to it."""

    plan: Plan
    context: Rewriting
    changed: bool = False
    _values: dict[Subquery, Expression] = field(default_factory=dict)

    @property
    def outer(self) -> Columns:
        return frozenset(self.plan.columns)

    def keep(self, conditions: list[Expression]) -> None:
        condition = conjunction(part for part in conditions if part != TRUE)
        self.plan = self.plan if condition is None else Filter(self.plan, condition)

    def over(self, columns: tuple[Column, ...], conditions: list[Expression]) -> Plan:
        """The rows that satisfy the conditions, without the columns of the joined subqueries."""
        self.keep(conditions)
        return only(self.plan, columns)

    def _pulled(self, subquery: Subquery, plan: Plan) -> Uncorrelated | None:
        """The subquery's plan without the outer row. None if it reads columns of a query further out, or if its columns are
        already in the outer plan: a subquery that is used twice, through an alias, can be joined only once."""
        if not subquery.outer <= self.outer or not columns_made_in(subquery.plan).isdisjoint(
            columns_made_in(self.plan)
        ):
            return None
        return pull(plan, self.outer, self.context.numbers)

    def _join(self, kind: JoinKind, right: Plan, conditions: Iterable[Expression]) -> None:
        self.plan = Join(kind, self.plan, right, conjunction(conditions))
        self.changed = True

    # --- a subquery as a condition

    def where(self, condition: Expression) -> Expression | None:
        """Joins the subquery of a condition. Returns the condition that remains to be tested above, if any."""
        condition = as_existence(condition)
        match condition:
            case Exists():
                done = self._exists(condition, JoinKind.SEMI)
            case Call("not", (Exists() as subquery,)):
                done = self._exists(subquery, JoinKind.ANTI)
            case InSubquery():
                done = self._in(condition, JoinKind.SEMI)
            case Call("not", (InSubquery() as subquery,)):
                done = self._in(subquery, JoinKind.ANTI)
            case _:
                done = False
        return None if done else self.value(condition, null_is_false=True)

    def _exists(self, subquery: Exists, kind: JoinKind) -> bool:
        core = same_existence(subquery.plan)
        if not subquery.outer or is_one_row(core):
            return False
        inner = self._pulled(subquery, core)
        if inner is None:
            return False
        self._join(kind, inner.plan, inner.conditions)
        return True

    def _in(self, subquery: InSubquery, kind: JoinKind) -> bool:
        found = self._membership(subquery)
        if found is None:
            return False
        pairs, inner = found
        if kind is JoinKind.ANTI:
            conditions = [pair if self._is_never_null(pair, inner) else _or_unknown(pair) for pair in pairs]
            self._join(kind, inner.plan, (*conditions, *inner.conditions))
        else:
            self._join(kind, inner.plan, (*pairs, *inner.conditions))
        return True

    def _membership(self, subquery: InSubquery) -> tuple[list[Call], Uncorrelated] | None:
        """The comparisons that IN makes with each row of its subquery, and the decorrelated subquery."""
        if is_one_row(subquery.plan) or not all(map(_is_plain, subquery.operands)):
            return None
        inner = self._pulled(subquery, subquery.plan)
        if inner is None:
            return None
        sides = [inner.late.get(column, Ref(column)) for column in subquery.plan.columns]
        pairs = [Call("=", (one, other), BOOLEAN) for one, other in zip(subquery.operands, sides, strict=True)]
        return pairs, inner

    def _is_never_null(self, pair: Call, inner: Uncorrelated) -> bool:
        """Is the comparison never NULL for rows that satisfy the correlated conditions?"""
        facts = self.context.facts
        by_conditions = frozenset[Column]().union(*map(not_null_if_true, inner.conditions))
        never_null = facts(self.plan).never_null | facts(inner.plan).never_null | by_conditions
        return all(
            side.column in never_null if isinstance(side, Ref) else isinstance(side, Literal) and side.value is not None
            for side in pair.arguments
        )

    # --- a subquery as a value

    def value(self, expression: Expression, null_is_false: bool = False) -> Expression:
        """The expression with columns in place of the subqueries that can be joined. `null_is_false` says that the context
        treats NULL as false: a filter, or a condition of CASE."""
        match expression:
            case _ if not has_subquery(expression):
                return expression
            case Exists() | ScalarSubquery() | InSubquery():
                return self._once(expression, null_is_false)
            case Call("and" | "or"):
                return map_operands(expression, lambda part: self.value(part, null_is_false))
            case Call("is true"):
                return map_operands(expression, lambda part: self.value(part, True))
            case Case(branches, otherwise):
                changed = tuple((self.value(when, True), self.value(then, null_is_false)) for when, then in branches)
                last = self.value(otherwise, null_is_false) if otherwise is not None else None
                return replace(expression, branches=changed, otherwise=last)
            case _:
                return map_operands(expression, self.value)

    def _once(self, subquery: Subquery, null_is_false: bool) -> Expression:
        if subquery in self._values:
            return self._values[subquery]
        match subquery:
            case Exists():
                found = self._existence(subquery)
            case InSubquery():
                found = self._membership_value(subquery, null_is_false)
                if null_is_false:  # correct in this context only
                    return subquery if found is None else found
            case ScalarSubquery():
                found = self._scalar(subquery)
        if found is None:
            return subquery
        self._values[subquery] = found
        return found

    def _existence(self, subquery: Exists) -> Expression | None:
        core = same_existence(subquery.plan)
        numbers = self.context.numbers
        if is_one_row(core):
            self.changed = True
            return TRUE
        if isinstance(core, Filter) and is_one_row(core.child):
            # The one row of an aggregate, or no row if HAVING is not true.
            self.changed = True
            having = Project(core.child, ((numbers.new("having", BOOLEAN), core.predicate),))
            return Call("<=>", (self.value(ScalarSubquery(having, subquery.outer)), TRUE), BOOLEAN)
        if not subquery.outer:
            self.changed = True
            one = Project(core, ((numbers.new("one", ONE.type, False), ONE),))
            return Call("isnotnull", (ScalarSubquery(Limit(one, 1), frozenset()),), BOOLEAN)
        inner = self._pulled(subquery, core)
        return None if inner is None else self._marked(inner)

    def _membership_value(self, subquery: InSubquery, null_is_false: bool) -> Expression | None:
        if is_one_row(subquery.plan) and len(subquery.operands) == 1:
            # IN a single row is equality with it, also for NULL.
            self.changed = True
            only = self.value(ScalarSubquery(subquery.plan, subquery.outer))
            return Call("=", (self.value(subquery.operands[0]), only), BOOLEAN)
        found = self._membership(subquery)
        if found is None:
            return None
        pairs, inner = found
        if not null_is_false and not all(self._is_never_null(pair, inner) for pair in pairs):
            return None
        return self._marked(replace(inner, conditions=(*pairs, *inner.conditions)))

    def _marked(self, inner: Uncorrelated) -> Expression | None:
        """Whether a row exists, by a left join with the distinct keys. None if a condition is not an equality."""
        keyed = by_keys(inner, self.outer, self.context.numbers)
        if keyed is None:
            return None
        right: Plan = GroupBy(keyed.plan, keyed.keys, ()) if keyed.keys else Limit(keyed.plan, 1)
        if keyed.never_null:
            marker = keyed.never_null[0]
        else:
            marker = self.context.numbers.new("exists", BOOLEAN, False)
            right = Project(right, (*((key, Ref(key)) for key in keyed.keys), (marker, TRUE)))
        self._join(JoinKind.LEFT, right, keyed.conditions)
        return Call("isnotnull", (Ref(marker),), BOOLEAN)

    def _scalar(self, subquery: ScalarSubquery) -> Expression | None:
        if not subquery.outer:
            return None
        found = over_aggregates(subquery.plan)
        return self._single(subquery) if found is None else self._aggregated(subquery, *found)

    def _aggregated(self, subquery: ScalarSubquery, aggregation: GroupBy, value: Expression) -> Expression | None:
        calls = [call for _, call in aggregation.aggregates]
        if any(call.facts.over_no_rows not in ("zero", "null") for call in calls):
            return None
        inner = self._pulled(subquery, aggregation.child)
        if inner is None or any(not columns_of(call).isdisjoint(self.outer | inner.late.keys()) for call in calls):
            return None
        keyed = by_keys(inner, self.outer, self.context.numbers)
        whole = substituted(value, _counts(aggregation))
        if keyed is None or whole is None:
            return None
        self._join(JoinKind.LEFT, GroupBy(keyed.plan, keyed.keys, aggregation.aggregates), keyed.conditions)
        return whole

    def _single(self, subquery: ScalarSubquery) -> Expression | None:
        """A subquery with at most one row for each outer row, because of a key or a LIMIT."""
        inner = self._pulled(subquery, subquery.plan)
        if inner is None:
            return None
        (column,) = subquery.plan.columns
        if column in inner.late:
            value = inner.late[column]
            if inner.conditions or not is_one_row(inner.plan) or not columns_of(value) <= self.outer:
                return None
            self.changed = True
            return value
        found = [equality(condition, self.outer) for condition in inner.conditions]
        compared = [side.column for each in found if each is not None and isinstance(side := each[1], Ref)]
        if not is_first_row(subquery.plan) and not self.context.facts(inner.plan).unique(compared):
            return None
        self._join(JoinKind.LEFT, inner.plan, inner.conditions)
        return Ref(column)


def _is_plain(operand: Expression) -> bool:
    return is_deterministic(operand) and not has_subquery(operand)


def _counts(aggregation: GroupBy) -> Mapping[Column, Expression]:
    return {
        column: Call("coalesce", (Ref(column), Literal(0, pa.int64())), call.type)
        for column, call in aggregation.aggregates
        if call.facts.over_no_rows == "zero"
    }


def _or_unknown(pair: Call) -> Expression:
    return Call("or", (pair, Call("isnull", (pair,), BOOLEAN)), BOOLEAN)
