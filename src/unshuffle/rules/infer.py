"""Conditions that follow from others, and let rows go earlier.

    l_orderkey = o_orderkey and o_orderkey < 1000           l_orderkey < 1000 as well
    (a = b and x) or (a = b and y)                          a = b and (x or y): a join condition (TPC-H 19)
    (n1 = 'F' and n2 = 'G') or (n1 = 'G' and n2 = 'F')      n1 in F, G below on its side, n2 on the other (TPC-H 7)

An inferred condition is put on top of an input, to be pushed from there. It is only put where it does not hold yet
(`known.holds`), so inference comes to an end. Which way a condition may pass a join is the table of `push_join`: to a side
whose rows are gone if they match nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.algebra.expressions import Call, Expression, Literal, Ref, columns_of, connect, walk
from unshuffle.algebra.logical import Filter, Join, Plan
from unshuffle.algebra.predicates import (
    COMPARISONS,
    conjuncts,
    constant_of,
    is_deterministic,
    join_condition,
)
from unshuffle.catalog.schema import Column
from unshuffle.properties import interchangeable
from unshuffle.properties.equality import EqualColumns, merge_classes
from unshuffle.rules.conditions import (
    FILTERS_LEFT,
    FILTERS_RIGHT,
    KEEPS_LEFT,
    KEEPS_RIGHT,
    conjunction,
    filtered,
    moved_by,
    substitute,
)
from unshuffle.rules.known import conditions_on, holds
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import on
from unshuffle.rules.truth import asks_for_facts, is_true_by

_PASSED_ON = COMPARISONS | frozenset(("in", "between", "like", "and", "or", "not"))


def implied_equalities(conditions: Iterable[Expression]) -> tuple[frozenset[Column], ...]:
    """The classes of columns that conditions make equal: of a = b and b = c, one class of three. Any two members of
    a class may be joined on. Equality under a cast that loses something makes none."""
    pairs = []
    for condition in conditions:
        match condition:
            case Call("=", (Ref(column=one), Ref(column=other))) if interchangeable(one.type, other.type):
                pairs.append(EqualColumns(frozenset((one, other))))
    return tuple(each.columns for each in merge_classes(pairs))


@on(Join)
def infer_across_join(plan: Plan, context: Rewriting) -> Plan | None:
    """What holds of a column holds of the column it is joined with.

    Not on the side that an outer or anti join keeps: its rows come out, matched or not. Nor between columns whose types are
    not interchangeable: '01' and '1' both equal 1.
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
    """What is known of a column of the source, as conditions on the target's that are new there."""
    known = [each for each in dict.fromkeys(conditions_on(source, column)) if _means_the_same(each, column, other)]
    if not known or any(constant_of(each) is not None for each in conditions_on(target, other)):
        return []  # of a constant nothing more is to be said
    said = [substitute(each, {column: Ref(other)}) for each in known]
    new = [each for each in said if not holds(target, each)]
    return [each for each in new if not (asks_for_facts(each) and is_true_by(each, context.facts(target)))]


def _means_the_same(condition: Expression, column: Column, other: Column) -> bool:
    """Is it a comparison with constants, true of one column exactly if it is true of the other? Two integers of different
    widths compare alike with integers, and anything else with its like; -0.0 and 0.0 are one number to comparisons, but
    not to every function."""
    for part in walk(condition):
        match part:
            case Ref():
                pass
            case Literal(type=type):
                if column.type != other.type and not (type is not None and pa.types.is_signed_integer(type)):
                    return False
            case Call(function=name) if name in _PASSED_ON:
                pass
            case _ if columns_of(part) or column.type != other.type or not is_deterministic(part):
                return False
    return True


@on(Filter, Join)
def factor_disjunctions(plan: Plan, context: Rewriting) -> Plan | None:
    """What every alternative demands is demanded: (a and x) or (a and y) is a and (x or y), also where some are NULL.

    Not with a condition that is not deterministic: it was drawn once for each alternative.
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
    """A condition as conjuncts, with what all alternatives of an `or` have in common taken out of it."""
    if not (isinstance(condition, Call) and condition.function == "or"):
        return (condition,)
    alternatives = [conjuncts(each) for each in condition.arguments]
    common = [each for each in dict.fromkeys(alternatives[0]) if all(each in other for other in alternatives[1:])]
    if not common or not is_deterministic(condition):
        return (condition,)
    rests = [[each for each in alternative if each not in common] for alternative in alternatives]
    if not all(rests):
        return tuple(common)  # one alternative demands nothing else, and the others more than it
    return (*common, _any(rests))


@on(Filter, Join)
def infer_from_disjunctions(plan: Plan, context: Rewriting) -> Plan | None:
    """If each alternative of an `or` says something of one side of a join, one of these holds there.

    Not for a side where a condition must not go: the one that an outer or anti join keeps, for its ON; the NULL-extended
    one, for a filter above. And not before what is demanded in any case has gone down: that is to be asked first, for it
    drops more rows.
    """
    match plan:
        case Join(kind, left, right, condition) if condition is not None:
            parts = conjuncts(condition)
            if _go_down(
                parts, [side for side, kinds in ((left, FILTERS_LEFT), (right, FILTERS_RIGHT)) if kind in kinds]
            ):
                return None
            new_left = _narrowed(left, parts) if kind in FILTERS_LEFT else left
            new_right = _narrowed(right, parts) if kind in FILTERS_RIGHT else right
            if new_left is not left or new_right is not right:
                return replace(plan, left=new_left, right=new_right)
        case Filter(Join(kind, left, right) as join, predicate):
            parts = conjuncts(predicate)
            if _go_down(parts, [side for side, kinds in ((left, KEEPS_LEFT), (right, KEEPS_RIGHT)) if kind in kinds]):
                return None
            new_left = _narrowed(left, parts) if kind in KEEPS_LEFT else left
            new_right = _narrowed(right, parts) if kind in KEEPS_RIGHT else right
            if new_left is not left or new_right is not right:
                return replace(plan, child=replace(join, left=new_left, right=new_right))
    return None


def _go_down(conditions: Sequence[Expression], sides: Sequence[Plan]) -> bool:
    """Will some of the conditions go to a side by themselves?"""
    read = [moved_by(each) for each in conditions]
    return any(columns and columns <= frozenset(side.columns) for columns in read for side in sides)


def _narrowed(side: Plan, conditions: Sequence[Expression]) -> Plan:
    columns = frozenset(side.columns)
    implied = [each for condition in conditions for each in _implied(condition, columns) if not holds(side, each)]
    return filtered(side, implied)


def _implied(condition: Expression, columns: frozenset[Column]) -> tuple[Expression, ...]:
    """What a disjunction that reads other columns too says of these alone."""
    if not (isinstance(condition, Call) and condition.function == "or"):
        return ()
    read = moved_by(condition)
    if read is None or read <= columns or read.isdisjoint(columns):
        return ()
    said = [[part for part in conjuncts(each) if _reads_only(part, columns)] for each in condition.arguments]
    return factors(_any(said)) if all(said) else ()


def _reads_only(condition: Expression, columns: frozenset[Column]) -> bool:
    read = columns_of(condition)
    return bool(read) and read <= columns


def _any(alternatives: Sequence[Sequence[Expression]]) -> Expression:
    each = [connect("and", alternative) for alternative in alternatives]
    return connect("or", list(dict.fromkeys(each)))


RULES = (factor_disjunctions, infer_across_join, infer_from_disjunctions)
