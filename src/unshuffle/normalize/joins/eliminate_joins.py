"""Joins without an effect, and work below joins without an effect.

Inner joins are not eliminated: that would take a foreign key, which guarantees a match for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Ref
from unshuffle.plan.logical import Distinct, Filter, GroupBy, Join, Plan, Project
from unshuffle.plan.predicates import conjunction, conjuncts, is_deterministic, join_condition
from unshuffle.properties import interchangeable


@on(Join)
def drop_outer_join(plan: Plan, context: Rewriting) -> Plan | None:
    """A left join whose right columns nobody reads is its left input, if the right input is unique on its join columns: each
    left row then has at most one match. The same holds for a right join.

    Unsound if the types of a key pair are not interchangeable: '1' and '01' differ, but both match 1.
    """
    if not isinstance(plan, Join):
        return None
    kept = _kept_side(plan)
    if kept is None:
        return None
    other = plan.right if kept is plan.left else plan.left
    keys = join_condition(plan.condition, kept.columns, other.columns).keys
    same = [key.columns[1] for key in keys if interchangeable(*(column.type for column in key.columns))]
    if not context.facts(other).unique(same):
        return None
    return _only(kept, plan.columns)


@on(GroupBy, Distinct, Join)
def drop_outer_join_below_distinct(plan: Plan, context: Rewriting) -> Plan | None:
    """Below an operator that ignores duplicates, a left join whose right columns nobody reads does nothing.

    Unsound below an aggregate that counts or sums, unless it is DISTINCT.
    """
    match plan:
        case GroupBy(child, _, aggregates) if all(_ignores_duplicates(call) for _, call in aggregates):
            below = _without_outer_join(child)
            return None if below is child else replace(plan, child=below)
        case Distinct(child):
            below = _without_outer_join(child)
            return None if below is child else Distinct(below)
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI, right=right):
            below = _without_outer_join(right)
            return None if below is right else replace(plan, right=below)
    return None


def _ignores_duplicates(call: AggregateCall) -> bool:
    return call.distinct or call.facts.ignores_duplicates


def _without_outer_join(plan: Plan) -> Plan:
    match plan:
        case Join():
            kept = _kept_side(plan)
            return plan if kept is None else _without_outer_join(_only(kept, plan.columns))
        case Project(child, outputs) if all(is_deterministic(expression) for _, expression in outputs):
            below = _without_outer_join(child)
            return plan if below is child else replace(plan, child=below)
        case Filter(child, predicate) if is_deterministic(predicate):
            below = _without_outer_join(child)
            return plan if below is child else replace(plan, child=below)
        case _:
            return plan


def _kept_side(plan: Join) -> Plan | None:
    """The preserved input of an outer join, if no column of the other input is in the result."""
    if plan.kind is JoinKind.LEFT and set(plan.columns) <= set(plan.left.columns):
        return plan.left
    if plan.kind is JoinKind.RIGHT and set(plan.columns) <= set(plan.right.columns):
        return plan.right
    return None


def _only(plan: Plan, columns: Sequence[Column]) -> Plan:
    return plan if plan.columns == tuple(columns) else Project(plan, tuple((column, Ref(column)) for column in columns))


@on(Join)
def drop_distinct_below_semi_join(plan: Plan, context: Rewriting) -> Plan | None:
    """Whether a row has a match does not depend on the number of matches, so a DISTINCT on the right is redundant.

    Unsound for a GROUP BY without keys, which has a row even for an empty input, and with aggregates, which the condition
    may read.
    """
    match plan:
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI, right=GroupBy(child, keys, ())) if keys:
            return replace(plan, right=_only(child, keys))
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI, right=Distinct(child)):
            return replace(plan, right=child)
    return None


@on(Join)
def drop_repeated_equalities(plan: Plan, context: Rewriting) -> Plan | None:
    """a = b and b = a are one condition.

    Unsound if one is not deterministic: each is evaluated for itself.
    """
    if not isinstance(plan, Join) or plan.condition is None:
        return None
    parts = conjuncts(plan.condition)
    distinct: list[Expression] = []
    for part in parts:
        if _flipped(part) not in distinct:
            distinct.append(part)
    return None if len(distinct) == len(parts) else replace(plan, condition=conjunction(distinct))


def _flipped(condition: Expression) -> Expression | None:
    match condition:
        case Call("=" | "<=>", (left, right)) if left != right and is_deterministic(condition):
            return replace(condition, arguments=(right, left))
        case _:
            return None
