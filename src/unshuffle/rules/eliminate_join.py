"""Joins that do nothing, and what is done in vain for a join.

No inner join is eliminated: that each row finds its match is referential integrity, which nothing here promises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unshuffle.algebra.expressions import AggregateCall, Call, Expression, Ref
from unshuffle.algebra.logical import Distinct, Filter, GroupBy, Join, Plan, Project
from unshuffle.algebra.predicates import conjuncts, is_deterministic, join_condition
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.properties import interchangeable
from unshuffle.rules.conditions import conjunction
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import on

# Aggregates that a row more of the same kind does not change.
_SAME_WITH_DUPLICATES = frozenset(
    ("min", "max", "any", "some", "every", "bool_and", "bool_or", "bit_and", "bit_or", "collect_set")
)


@on(Join)
def drop_outer_join(plan: Plan, context: Rewriting) -> Plan | None:
    """A left join of which only left columns are read yields each left row once, if no two right rows match it: if the
    right input is unique on what it is joined on. A right join likewise.

    Not if the types of a pair are not interchangeable: rows with '1' and '01' both match 1, though they differ.
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
    """Where it does not matter how often a row comes, a left join of which only left columns are read does nothing.

    Not below an aggregate that counts or adds up, unless it is DISTINCT.
    """
    match plan:
        case GroupBy(child, _, aggregates) if all(_minds_no_duplicates(call) for _, call in aggregates):
            below = _without_outer_join(child)
            return None if below is child else replace(plan, child=below)
        case Distinct(child):
            below = _without_outer_join(child)
            return None if below is child else Distinct(below)
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI, right=right):
            below = _without_outer_join(right)
            return None if below is right else replace(plan, right=below)
    return None


def _minds_no_duplicates(call: AggregateCall) -> bool:
    return call.distinct or call.function in _SAME_WITH_DUPLICATES


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
    """The input of an outer join whose rows all come out, if no column of the other does."""
    if plan.kind is JoinKind.LEFT and set(plan.columns) <= set(plan.left.columns):
        return plan.left
    if plan.kind is JoinKind.RIGHT and set(plan.columns) <= set(plan.right.columns):
        return plan.right
    return None


def _only(plan: Plan, columns: Sequence[Column]) -> Plan:
    return plan if plan.columns == tuple(columns) else Project(plan, tuple((column, Ref(column)) for column in columns))


@on(Join)
def drop_distinct_below_semi_join(plan: Plan, context: Rewriting) -> Plan | None:
    """Whether a row has a match does not depend on how many: distinct rows on the right are made in vain.

    Not if the GROUP BY has no keys, for its one row is there also for no input, nor if it has aggregates, which the
    condition may read.
    """
    match plan:
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI, right=GroupBy(child, keys, ())) if keys:
            return replace(plan, right=_only(child, keys))
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI, right=Distinct(child)):
            return replace(plan, right=child)
    return None


@on(Join)
def drop_repeated_equalities(plan: Plan, context: Rewriting) -> Plan | None:
    """a = b and b = a are one condition."""
    if not isinstance(plan, Join) or plan.condition is None:
        return None
    parts = conjuncts(plan.condition)
    said: list[Expression] = []
    for part in parts:
        if _turned(part) not in said:
            said.append(part)
    return None if len(said) == len(parts) else replace(plan, condition=conjunction(said))


def _turned(condition: Expression) -> Expression | None:
    match condition:
        case Call("=" | "<=>", (left, right)) if left != right and is_deterministic(condition):
            return replace(condition, arguments=(right, left))
        case _:
            return None


RULES = (
    drop_repeated_equalities,
    drop_distinct_below_semi_join,
    drop_outer_join,
    drop_outer_join_below_distinct,
)
