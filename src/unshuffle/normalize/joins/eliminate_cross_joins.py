"""Inner joins in an order in which each has a join condition, if there is one.

`from part, supplier, lineitem where p_partkey = l_partkey and s_suppkey = l_suppkey` is bound as it is written, and joins
every part with every supplier first. Here the inputs of adjacent inner joins are put into an order, as close to the written
one as possible, in which each shares a condition with those before it. The search decides which of these orders is best; this
rule only keeps it from starting with a cross product that the query does not ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.plan.expressions import Call, Expression, Ref, columns_of
from unshuffle.plan.logical import Join, Plan
from unshuffle.plan.movable_conditions import is_movable
from unshuffle.plan.predicates import conjunction, conjuncts


@on(Join)
def eliminate_cross_joins(plan: Plan, context: Rewriting) -> Plan | None:
    """Inner joins are associative and commutative, and a condition can be applied as soon as its columns are available.

    Unsound across an outer join, which remains one of the inputs. Unsound if a condition is not deterministic: it would be
    evaluated for other pairs of rows.
    """
    if not (isinstance(plan, Join) and plan.kind is JoinKind.INNER) or not _cross_joins(plan):
        return None
    inputs, conditions = inner_joins(plan)
    if not all(map(is_movable, conditions)):
        return None
    connected = _connected(inputs, conditions)
    if _cross_joins(connected) >= _cross_joins(plan):
        return None
    return connected if connected.columns == plan.columns else replace(connected, kept=plan.columns)


def inner_joins(plan: Plan) -> tuple[list[Plan], list[Expression]]:
    """The inputs of adjacent inner joins, in the order written, and all their conditions."""
    if not (isinstance(plan, Join) and plan.kind is JoinKind.INNER):
        return [plan], []
    left, on_left = inner_joins(plan.left)
    right, on_right = inner_joins(plan.right)
    return [*left, *right], [*on_left, *on_right, *conjuncts(plan.condition)]


def _cross_joins(plan: Plan) -> int:
    """How many of the adjacent inner joins have no condition that reads both of their inputs."""
    if not (isinstance(plan, Join) and plan.kind is JoinKind.INNER):
        return 0
    left, right = frozenset(plan.left.columns), frozenset(plan.right.columns)
    is_connected = any(_connects(each, left, right) for each in conjuncts(plan.condition))
    return (not is_connected) + _cross_joins(plan.left) + _cross_joins(plan.right)


def _connects(condition: Expression, left: frozenset[Column], right: frozenset[Column]) -> bool:
    read = columns_of(condition)
    return bool(read & left) and bool(read & right)


def _is_equality(condition: Expression) -> bool:
    return (
        isinstance(condition, Call)
        and condition.function in ("=", "<=>")
        and all(isinstance(part, Ref) for part in condition.arguments)
    )


def _connected(inputs: Sequence[Plan], conditions: Sequence[Expression]) -> Join:
    """Starts from the first input and adds inputs that share a condition, equalities first. Inputs that share none are joined
    among themselves in the same way, and then combined by cross products."""
    waiting, unused = list(inputs), list(conditions)
    trees: list[Plan] = []
    while waiting:
        plan = waiting.pop(0)
        while (following := _next(plan, waiting, unused)) is not None:
            waiting.remove(following)
            plan, unused = _joined(plan, following, unused)
        trees.append(plan)
    plan = trees[0]
    for other in trees[1:]:
        plan, unused = _joined(plan, other, unused)
    assert isinstance(plan, Join)
    # Conditions without columns, or on columns of an outer query, belong to no particular join.
    return replace(plan, condition=conjunction((*conjuncts(plan.condition), *unused))) if unused else plan


def _next(plan: Plan, waiting: Sequence[Plan], conditions: Sequence[Expression]) -> Plan | None:
    here = frozenset(plan.columns)
    for candidates in ([c for c in conditions if _is_equality(c)], conditions):
        for other in waiting:
            there = frozenset(other.columns)
            if any(_connects(each, here, there) and columns_of(each) <= here | there for each in candidates):
                return other
    return None


def _joined(left: Plan, right: Plan, conditions: Sequence[Expression]) -> tuple[Join, list[Expression]]:
    """The join of two inputs with every condition that reads only them, and the remaining conditions."""
    here = frozenset((*left.columns, *right.columns))
    now = [each for each in conditions if columns_of(each) and columns_of(each) <= here]
    later = [each for each in conditions if each not in now]
    return Join(JoinKind.INNER, left, right, conjunction(now)), later
