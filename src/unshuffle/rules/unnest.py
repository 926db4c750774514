"""Subqueries become joins.

    exists (Q)         left semi join with Q          not exists (Q)        left anti join
    a in (Q)           left semi join on a = q        a not in (Q)          left anti join on a = q or (a = q) is null
    ... or exists (Q)  left join with the distinct keys of Q; it exists if a key came back
    (select agg ...)   left join with the aggregates, grouped by what the outer row is compared with

`correlation` takes out of Q what it reads of the outer row, `subqueries` joins what is left. What cannot be unnested stays
as it is, and the operator around it is left to Spark. So do uncorrelated scalar subqueries, which are one value for the
whole query, and an uncorrelated EXISTS is made one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unshuffle.algebra.expressions import (
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
from unshuffle.algebra.logical import Filter, GroupBy, GroupingSets, Join, Plan, Project, Window
from unshuffle.algebra.predicates import conjunction, conjuncts
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.rules.computed import only
from unshuffle.rules.correlation import BOOLEAN, has_subquery
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.subqueries import Joined


def unnest_filter(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter by a subquery is a join: semi or anti for a condition of its own, else a left join for its value.

    A left join must not repeat the outer row, so the subquery's side is made unique on what it is joined on, or known to
    be. Not where a subquery reads a query further out than the filter's own input: the join would be correlated.
    """
    if not isinstance(plan, Filter) or not has_subquery(plan.predicate):
        return None
    parts = [part for each in conjuncts(plan.predicate) for part in _conjuncts(each)]
    joined = Joined(plan.child, context)
    # A value that is the same for all rows is as good as a literal: what it filters need not be joined.
    joined.keep([part for part in parts if not _is_nested(part)])
    asked = [joined.where(part) for part in parts if _is_nested(part)]
    return joined.over(plan.columns, [part for part in asked if part is not None]) if joined.changed else None


def _is_nested(condition: Expression) -> bool:
    """Does it hold a subquery other than an uncorrelated scalar one?"""
    subqueries = (part for part in walk(condition) if isinstance(part, Exists | InSubquery | ScalarSubquery))
    return any(not isinstance(part, ScalarSubquery) or part.outer for part in subqueries)


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    """Those of NOT (a or b) too, if it holds a subquery. De Morgan's laws hold with NULLs."""
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
    """A subquery's value is a column of a left join, under the same conditions as in a filter. NULL and false differ
    here: IN becomes a join only where neither side can be NULL."""
    if not isinstance(plan, Project) or not any(has_subquery(e) for _, e in plan.outputs):
        return None
    joined = Joined(plan.child, context)
    outputs = tuple((column, joined.value(expression)) for column, expression in plan.outputs)
    return Project(joined.plan, outputs) if joined.changed else None


def unnest_aggregates(plan: Plan, context: Rewriting) -> Plan | None:
    """The arguments of aggregates are values like those of a projection."""
    if not isinstance(plan, GroupBy | GroupingSets) or not any(has_subquery(call) for _, call in plan.aggregates):
        return None
    joined = Joined(plan.child, context)
    aggregates = []
    for column, call in plan.aggregates:
        changed = map_operands(call, joined.value)
        assert isinstance(changed, AggregateCall)
        aggregates.append((column, changed))
    return replace(plan, child=joined.plan, aggregates=tuple(aggregates)) if joined.changed else None


def unnest_window(plan: Plan, context: Rewriting) -> Plan | None:
    """So are those of window functions; what was joined for them is dropped above."""
    if not isinstance(plan, Window) or not any(has_subquery(call) for _, call in plan.calls):
        return None
    joined = Joined(plan.child, context)
    calls = []
    for column, call in plan.calls:
        changed = map_operands(call, joined.value)
        assert isinstance(changed, WindowCall)
        calls.append((column, changed))
    return only(Window(joined.plan, tuple(calls)), plan.columns) if joined.changed else None


def unnest_join(plan: Plan, context: Rewriting) -> Plan | None:
    """An inner join's condition may as well stand above it, where a filter's subquery can be unnested. So may, beneath the
    join, one that reads only the side which is extended with NULLs or not kept. Any other condition of an outer join
    decides which rows match and not which are kept: it stays."""
    if not isinstance(plan, Join) or not any(has_subquery(part) for part in conjuncts(plan.condition)):
        return None
    match plan.kind:
        case JoinKind.INNER if plan.kept is None:
            rest, hard = _parted(plan, frozenset(plan.columns))
            return unnest_filter(Filter(replace(plan, condition=rest), connect("and", hard)), context)
        case JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI:
            rest, hard = _parted(plan, frozenset(plan.right.columns))
            below = unnest_filter(Filter(plan.right, connect("and", hard)), context) if hard else None
            return None if below is None else replace(plan, right=below, condition=rest)
        case JoinKind.RIGHT:
            rest, hard = _parted(plan, frozenset(plan.left.columns))
            below = unnest_filter(Filter(plan.left, connect("and", hard)), context) if hard else None
            return None if below is None else replace(plan, left=below, condition=rest)
        case _:
            return None


def _parted(plan: Join, columns: frozenset[Column]) -> tuple[Expression | None, list[Expression]]:
    """What stays of a join's condition, and the conditions by subqueries that read these columns only."""
    parts = conjuncts(plan.condition)
    hard = [part for part in parts if has_subquery(part) and columns_of(part) <= columns]
    return conjunction(part for part in parts if part not in hard), hard


RULES = (unnest_filter, unnest_project, unnest_aggregates, unnest_window, unnest_join)
