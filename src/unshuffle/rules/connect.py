"""Inner joins in an order in which each joins what it has a condition for.

`from part, supplier, lineitem where p_partkey = l_partkey and s_suppkey = l_suppkey` is bound as it is written, and joins
every part with every supplier first. Here the tables of adjacent inner joins are put into an order, as near to the
written one as can be, in which each shares a condition with those before it. Which of the many such orders is best is for
the search to say; it must only not begin from a product that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unshuffle.algebra.expressions import Call, Expression, Ref, columns_of
from unshuffle.algebra.logical import Join, Plan
from unshuffle.algebra.predicates import conjuncts
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import conjunction, is_movable
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import on


@on(Join)
def avoid_products(plan: Plan, context: Rewriting) -> Plan | None:
    """Inner joins may be done in any order, each condition as soon as its columns are there.

    Not past an outer join, which stays one input among others. Nor if a condition is not deterministic: it would be drawn
    for other pairs of rows.
    """
    if not (isinstance(plan, Join) and plan.kind is JoinKind.INNER) or not _products(plan):
        return None
    inputs, conditions = inner_joins(plan)
    if not all(map(is_movable, conditions)):
        return None
    together = _together(inputs, conditions)
    if _products(together) >= _products(plan):
        return None
    return together if together.columns == plan.columns else replace(together, kept=plan.columns)


def inner_joins(plan: Plan) -> tuple[list[Plan], list[Expression]]:
    """The inputs of adjacent inner joins, in the order written, and all their conditions."""
    if not (isinstance(plan, Join) and plan.kind is JoinKind.INNER):
        return [plan], []
    left, on_left = inner_joins(plan.left)
    right, on_right = inner_joins(plan.right)
    return [*left, *right], [*on_left, *on_right, *conjuncts(plan.condition)]


def _products(plan: Plan) -> int:
    """How many of the adjacent inner joins have no condition on both of their sides."""
    if not (isinstance(plan, Join) and plan.kind is JoinKind.INNER):
        return 0
    left, right = frozenset(plan.left.columns), frozenset(plan.right.columns)
    connected = any(_connects(each, left, right) for each in conjuncts(plan.condition))
    return (not connected) + _products(plan.left) + _products(plan.right)


def _connects(condition: Expression, left: frozenset[Column], right: frozenset[Column]) -> bool:
    read = columns_of(condition)
    return bool(read & left) and bool(read & right)


def _is_equality(condition: Expression) -> bool:
    return (
        isinstance(condition, Call)
        and condition.function in ("=", "<=>")
        and all(isinstance(part, Ref) for part in condition.arguments)
    )


def _together(inputs: Sequence[Plan], conditions: Sequence[Expression]) -> Join:
    """Grows joins from the first input, by equalities rather than other conditions; what shares no condition with them is
    grown in the same way, and joined with them last."""
    waiting, unused = list(inputs), list(conditions)
    grown: list[Plan] = []
    while waiting:
        plan = waiting.pop(0)
        while (following := _next(plan, waiting, unused)) is not None:
            waiting.remove(following)
            plan, unused = _joined(plan, following, unused)
        grown.append(plan)
    plan = grown[0]
    for other in grown[1:]:
        plan, unused = _joined(plan, other, unused)
    assert isinstance(plan, Join)
    # A condition on nothing, or on what a query around this one yields, has no place of its own.
    return replace(plan, condition=conjunction((*conjuncts(plan.condition), *unused))) if unused else plan


def _next(plan: Plan, waiting: Sequence[Plan], conditions: Sequence[Expression]) -> Plan | None:
    here = frozenset(plan.columns)
    for wanted in ([c for c in conditions if _is_equality(c)], conditions):
        for other in waiting:
            there = frozenset(other.columns)
            if any(_connects(each, here, there) and columns_of(each) <= here | there for each in wanted):
                return other
    return None


def _joined(left: Plan, right: Plan, conditions: Sequence[Expression]) -> tuple[Join, list[Expression]]:
    """The join of two inputs on every condition that can be decided then, and the conditions that cannot."""
    here = frozenset((*left.columns, *right.columns))
    now = [each for each in conditions if columns_of(each) and columns_of(each) <= here]
    later = [each for each in conditions if each not in now]
    return Join(JoinKind.INNER, left, right, conjunction(now)), later


RULES = (avoid_products,)
