"""Subqueries become joins.

    exists (Q)         left semi join with Q          not exists (Q)        left anti join
    a in (Q)           left semi join on a = q        a not in (Q)          left anti join on a = q or (a = q) is null
    ... or exists (Q)  left join with the distinct keys of Q; it exists if a key came back
    (select agg ...)   left join with the aggregates, grouped by what the outer row is compared with

`correlation` removes references to the outer row from Q, `join_subqueries` joins the result. A subquery that cannot be
unnested stays, and its operator falls back to Spark. Uncorrelated scalar subqueries stay too: they are one value for the
whole query. An uncorrelated EXISTS becomes such a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.normalize.projections.computed_columns import only
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.subqueries.correlation import BOOLEAN, has_subquery
from unshuffle.normalize.subqueries.join_subqueries import OuterPlan
from unshuffle.plan.expressions import (
    AggregateCall,
    Call,
    Exists,
    Expression,
    InSubquery,
    ScalarSubquery,
    WindowCall,
    columns_of,
    connect,
    map_operands,
    walk,
)
from unshuffle.plan.logical import Filter, GroupBy, GroupingSets, Join, Plan, Project, Window
from unshuffle.plan.predicates import conjunction, conjuncts


def unnest_filter(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter with a subquery is a join: a semi- or anti-join if the subquery is a conjunct, otherwise a left join for its
    value.

    Unsound if a left join repeats the outer row, so the subquery's side must be unique on the join columns. Not for a
    subquery that reads a query further out than the filter's input: the join would be correlated.
    """
    if not isinstance(plan, Filter) or not has_subquery(plan.predicate):
        return None
    parts = [part for each in conjuncts(plan.predicate) for part in _conjuncts(each)]
    joined = OuterPlan(plan.child, context)
    # Conditions without such subqueries come first: the rows they drop need not be joined.
    joined.keep([part for part in parts if not _needs_join(part)])
    remaining = [joined.where(part) for part in parts if _needs_join(part)]
    return joined.over(plan.columns, [part for part in remaining if part is not None]) if joined.changed else None


def _needs_join(condition: Expression) -> bool:
    """Does it contain a subquery other than an uncorrelated scalar one?"""
    subqueries = (part for part in walk(condition) if isinstance(part, Exists | InSubquery | ScalarSubquery))
    return any(not isinstance(part, ScalarSubquery) or part.outer for part in subqueries)


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    """The conjuncts of a condition, also of NOT (a or b), if it contains a subquery. De Morgan's laws hold with NULLs."""
    match condition:
        case _ if not has_subquery(condition):
            yield condition
        case Call("not", (Call("not", (inner,)),)):
            yield from _conjuncts(inner)
        case Call("not", (Call("or", parts),)):
            for part in parts:
                yield from _conjuncts(Call("not", (part,), BOOLEAN))
        case Call("and", parts):
            for part in parts:
                yield from _conjuncts(part)
        case _:
            yield condition


def unnest_project(plan: Plan, context: Rewriting) -> Plan | None:
    """A subquery's value is a column of a left join, under the same conditions as in a filter.

    Unsound for IN if either side can be NULL: unlike in a filter, NULL and false differ here."""
    if not isinstance(plan, Project) or not any(has_subquery(e) for _, e in plan.outputs):
        return None
    joined = OuterPlan(plan.child, context)
    outputs = tuple((column, joined.value(expression)) for column, expression in plan.outputs)
    return Project(joined.plan, outputs) if joined.changed else None


def unnest_aggregates(plan: Plan, context: Rewriting) -> Plan | None:
    """Subqueries in arguments of aggregates are values, under the same conditions as in a projection."""
    if not isinstance(plan, GroupBy | GroupingSets) or not any(has_subquery(call) for _, call in plan.aggregates):
        return None
    joined = OuterPlan(plan.child, context)
    aggregates = []
    for column, call in plan.aggregates:
        changed = map_operands(call, joined.value)
        assert isinstance(changed, AggregateCall)
        aggregates.append((column, changed))
    return replace(plan, child=joined.plan, aggregates=tuple(aggregates)) if joined.changed else None


def unnest_window(plan: Plan, context: Rewriting) -> Plan | None:
    """Subqueries in window functions are values, too. The joined columns are dropped above the window.

    The conditions are those of a projection."""
    if not isinstance(plan, Window) or not any(has_subquery(call) for _, call in plan.calls):
        return None
    joined = OuterPlan(plan.child, context)
    calls = []
    for column, call in plan.calls:
        changed = map_operands(call, joined.value)
        assert isinstance(changed, WindowCall)
        calls.append((column, changed))
    return only(Window(joined.plan, tuple(calls)), plan.columns) if joined.changed else None


def unnest_join(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition of an inner join can be a filter above it, in which its subquery can be unnested. A condition of another
    join that reads only the input which the join does not preserve can be a filter on that input.

    Unsound for other conditions of outer joins: they decide which rows match, not which rows are kept."""
    if not isinstance(plan, Join) or not any(has_subquery(part) for part in conjuncts(plan.condition)):
        return None
    match plan.kind:
        case JoinKind.INNER if plan.kept is None:
            rest, with_subqueries = _split(plan, frozenset(plan.columns))
            return unnest_filter(Filter(replace(plan, condition=rest), connect("and", with_subqueries)), context)
        case JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI:
            rest, with_subqueries = _split(plan, frozenset(plan.right.columns))
            below = (
                unnest_filter(Filter(plan.right, connect("and", with_subqueries)), context) if with_subqueries else None
            )
            return None if below is None else replace(plan, right=below, condition=rest)
        case JoinKind.RIGHT:
            rest, with_subqueries = _split(plan, frozenset(plan.left.columns))
            below = (
                unnest_filter(Filter(plan.left, connect("and", with_subqueries)), context) if with_subqueries else None
            )
            return None if below is None else replace(plan, left=below, condition=rest)
        case _:
            return None


def _split(plan: Join, columns: frozenset[Column]) -> tuple[Expression | None, list[Expression]]:
    """The rest of a join's condition, and its conjuncts with subqueries that read these columns only."""
    parts = conjuncts(plan.condition)
    with_subqueries = [part for part in parts if has_subquery(part) and columns_of(part) <= columns]
    return conjunction(part for part in parts if part not in with_subqueries), with_subqueries
