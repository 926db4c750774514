"""Conditions that follow from others and filter rows earlier.

    l_orderkey = o_orderkey and o_orderkey < 1000           l_orderkey < 1000 as well
    (a = b and x) or (a = b and y)                          a = b and (x or y): a join condition (TPC-H 19)
    (n1 = 'F' and n2 = 'G') or (n1 = 'G' and n2 = 'F')      n1 in F, G below on its side, n2 on the other (TPC-H 7)

An inferred condition is put on top of an input and pushed down from there. It is added only where it does not hold already
(`implied_predicates.holds`), so inference terminates. Conditions may move to the inputs of a join that drop rows without a
match: `join_predicate_pushdown` has the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.normalize.predicates.constant_conditions import asks_for_facts, is_true_by
from unshuffle.normalize.predicates.implied_predicates import conditions_on, holds
from unshuffle.normalize.predicates.part_pruning import holds_by_bounds, holds_by_values
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.plan.expressions import Call, Expression, Literal, Ref, columns_of, connect, walk
from unshuffle.plan.functions.scalars import COMPARISONS
from unshuffle.plan.logical import Filter, Join, Plan
from unshuffle.plan.movable_conditions import (
    FILTERS_LEFT,
    FILTERS_RIGHT,
    KEEPS_LEFT,
    KEEPS_RIGHT,
    filtered,
    movable_columns,
    substitute,
)
from unshuffle.plan.predicates import conjunction, conjuncts, constant_of, is_deterministic, join_condition
from unshuffle.properties import interchangeable

_COMPARES = COMPARISONS | frozenset(("in", "between", "like", "and", "or", "not"))


@on(Join)
def infer_across_join(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition on one side of a join key also holds for the other side: matching rows have equal keys.

    Unsound for the side that an outer or anti-join preserves: its rows are in the result without a match too. Unsound between
    columns whose types are not interchangeable: '01' and '1' both equal 1.
    """
    if not isinstance(plan, Join) or plan.condition is None:
        return None
    keys = join_condition(plan.condition, plan.left.columns, plan.right.columns).keys
    pairs = [key.columns for key in keys if interchangeable(*(column.type for column in key.columns))]
    left, right = plan.left, plan.right
    for one, other in pairs:
        if plan.kind in FILTERS_RIGHT:
            right = filtered(right, _passed_on(left, one, right, other, context))
        if plan.kind in FILTERS_LEFT:
            left = filtered(left, _passed_on(right, other, left, one, context))
    if left is plan.left and right is plan.right:
        return None
    return replace(plan, left=left, right=right)


def _passed_on(source: Plan, column: Column, target: Plan, other: Column, context: Rewriting) -> list[Expression]:
    """The conditions on the source's column, for the target's column, without those that already hold there."""
    conditions = [each for each in dict.fromkeys(conditions_on(source, column)) if _means_the_same(each, column, other)]
    if not conditions or any(constant_of(each) is not None for each in conditions_on(target, other)):
        return []  # the target's column is constant already
    renamed = [substitute(each, {column: Ref(other)}) for each in conditions]
    new = [
        each
        for each in renamed
        if not holds(target, each)
        and not holds_by_bounds(target, other, each)
        and not holds_by_values(target, other, each)
    ]
    return [each for each in new if not (asks_for_facts(each) and is_true_by(each, context.facts(target)))]


def _means_the_same(condition: Expression, column: Column, other: Column) -> bool:
    """Is it a comparison with constants that is true for one column exactly if it is true for the other? Integers of
    different widths compare alike with integers; other types must be the same. Only comparisons qualify: other functions
    may tell -0.0 from 0.0."""
    for part in walk(condition):
        match part:
            case Ref():
                pass
            case Literal(type=type):
                if column.type != other.type and not (type is not None and pa.types.is_signed_integer(type)):
                    return False
            case Call(function=name) if name in _COMPARES:
                pass
            case _ if columns_of(part) or column.type != other.type or not is_deterministic(part):
                return False
    return True


@on(Filter, Join)
def factor_disjunctions(plan: Plan, context: Rewriting) -> Plan | None:
    """(a and x) or (a and y) is a and (x or y). Distribution holds in three-valued logic too.

    Unsound for a condition that is not deterministic: it was evaluated once for each alternative.
    """
    match plan:
        case Filter(predicate=condition) | Join(condition=Call() as condition):
            parts = conjuncts(condition)
            factored = [each for part in parts for each in factors(part)]
            if len(factored) != len(parts) or any(a is not b for a, b in zip(factored, parts, strict=True)):
                together = conjunction(factored)
                if isinstance(plan, Join):
                    return replace(plan, condition=together)
                return filtered(plan.child, factored)
    return None


def factors(condition: Expression) -> tuple[Expression, ...]:
    """A condition as conjuncts, with the conjuncts that all alternatives of an `or` have in common factored out."""
    if not (isinstance(condition, Call) and condition.function == "or"):
        return (condition,)
    alternatives = [conjuncts(each) for each in condition.arguments]
    common = [each for each in dict.fromkeys(alternatives[0]) if all(each in other for other in alternatives[1:])]
    if not common or not is_deterministic(condition):
        return (condition,)
    rests = [[each for each in alternative if each not in common] for alternative in alternatives]
    if not all(rests):
        return tuple(common)  # absorption: one alternative is just the common part
    return (*common, _any(rests))


@on(Filter, Join)
def infer_from_disjunctions(plan: Plan, context: Rewriting) -> Plan | None:
    """If every alternative of an `or` has a condition on one side of a join, the `or` of these conditions holds there.

    Unsound for the side that an outer or anti-join preserves, if the `or` is in its ON condition, and for the NULL-extended
    side, if it is in a filter above. Waits until conjuncts that read one side were pushed down: they drop more rows and
    should be evaluated first.
    """
    match plan:
        case Join(kind, left, right, condition) if condition is not None:
            parts = conjuncts(condition)
            if _can_be_pushed(
                parts, [side for side, kinds in ((left, FILTERS_LEFT), (right, FILTERS_RIGHT)) if kind in kinds]
            ):
                return None
            new_left = _narrowed(left, parts) if kind in FILTERS_LEFT else left
            new_right = _narrowed(right, parts) if kind in FILTERS_RIGHT else right
            if new_left is not left or new_right is not right:
                return replace(plan, left=new_left, right=new_right)
        case Filter(Join(kind, left, right) as join, predicate):
            parts = conjuncts(predicate)
            if _can_be_pushed(
                parts, [side for side, kinds in ((left, KEEPS_LEFT), (right, KEEPS_RIGHT)) if kind in kinds]
            ):
                return None
            new_left = _narrowed(left, parts) if kind in KEEPS_LEFT else left
            new_right = _narrowed(right, parts) if kind in KEEPS_RIGHT else right
            if new_left is not left or new_right is not right:
                return replace(plan, child=replace(join, left=new_left, right=new_right))
    return None


def _can_be_pushed(conditions: Sequence[Expression], sides: Sequence[Plan]) -> bool:
    """Will `join_predicate_pushdown` push one of the conditions to a side?"""
    read = [movable_columns(each) for each in conditions]
    return any(columns and columns <= frozenset(side.columns) for columns in read for side in sides)


def _narrowed(side: Plan, conditions: Sequence[Expression]) -> Plan:
    columns = frozenset(side.columns)
    implied = [each for condition in conditions for each in _implied(condition, columns) if not holds(side, each)]
    return filtered(side, implied)


def _implied(condition: Expression, columns: frozenset[Column]) -> tuple[Expression, ...]:
    """What a disjunction that also reads other columns implies for these columns."""
    if not (isinstance(condition, Call) and condition.function == "or"):
        return ()
    read = movable_columns(condition)
    if read is None or read <= columns or read.isdisjoint(columns):
        return ()
    implied = [[part for part in conjuncts(each) if _reads_only(part, columns)] for each in condition.arguments]
    return factors(_any(implied)) if all(implied) else ()


def _reads_only(condition: Expression, columns: frozenset[Column]) -> bool:
    read = columns_of(condition)
    return bool(read) and read <= columns


def _any(alternatives: Sequence[Sequence[Expression]]) -> Expression:
    each = [connect("and", alternative) for alternative in alternatives]
    return connect("or", list(dict.fromkeys(each)))
