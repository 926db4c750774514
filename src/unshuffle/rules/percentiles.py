"""Percentiles of one value as one aggregate.

    select g, median(x), percentile(x, array(0.1, 0.9)) from T group by g

    select g, element_at(p, 1), slice(p, 2, 2) from (select g, percentile(x, array(0.5, 0.1, 0.9)) as p from T group by g)

The state of an exact percentile is all the values of a group. Spark collects and sorts them once for each call.
"""

from __future__ import annotations

import pyarrow as pa

from unshuffle.algebra.expressions import AggregateCall, Call, Cast, Expression, Literal, Ref
from unshuffle.algebra.logical import GroupBy, Plan, Project
from unshuffle.algebra.predicates import is_deterministic
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import DOUBLE, INT, is_numeric
from unshuffle.rules.rewriting import Rewriting


def one_percentile_of_a_value(plan: Plan, context: Rewriting) -> Plan | None:
    """Of a group without values all are NULL, and so are the parts of a NULL array.

    Not of calls that count other rows (FILTER), count them otherwise (DISTINCT, frequencies), or of values that may be
    others each time they are computed. Not of intervals, which are not numbers."""
    if not isinstance(plan, GroupBy):
        return None
    alike: dict[object, list[tuple[Column, AggregateCall]]] = {}
    for column, call in plan.aggregates:
        if percentages_of(call) is not None:
            alike.setdefault((call.arguments[0], call.where, call.distinct), []).append((column, call))
    together = [calls for calls in alike.values() if len(calls) > 1]
    if not together:
        return None
    made: dict[Column, Expression] = {}
    calls = list(plan.aggregates)
    for group in together:
        column, call = _as_one(group, made, context)
        calls = [each for each in calls if each not in group] + [(column, call)]
    outputs = tuple((column, made.get(column, Ref(column))) for column in plan.columns)
    return Project(GroupBy(plan.child, plan.keys, tuple(calls)), outputs)


def _as_one(
    group: list[tuple[Column, AggregateCall]], made: dict[Column, Expression], context: Rewriting
) -> tuple[Column, AggregateCall]:
    """The call that has all percentages, one call's after another's. `made` gets what each was."""
    first = group[0][1]
    listed = next((call.type for _, call in group if call.type != DOUBLE), pa.list_(DOUBLE))
    column = context.numbers.new("percentiles", listed)
    percentages: list[Expression] = []
    for old, call in group:
        start = Literal(len(percentages) + 1, INT)
        own = percentages_of(call) or ()
        if call.type == DOUBLE:
            made[old] = Call("element_at", (Ref(column), start), DOUBLE)
        else:
            made[old] = Call("slice", (Ref(column), start, Literal(len(own), INT)), call.type)
        percentages += own
    array = Call("array", tuple(percentages), pa.list_(DOUBLE))
    return column, AggregateCall(
        "percentile", (first.arguments[0], array), listed, distinct=first.distinct, where=first.where
    )


def percentages_of(call: AggregateCall) -> tuple[Expression, ...] | None:
    """What an exact percentile of numbers is asked for, as Spark would have it: as doubles."""
    if call.within or not call.arguments or not is_deterministic(call):
        return None
    match call.function, call.arguments[1:]:
        case "median", () if call.type == DOUBLE:
            return (Literal(0.5, DOUBLE),)
        case "percentile", (Literal() | Cast() as one,) if call.type == DOUBLE:
            asked: tuple[Expression, ...] = (one,)
        case "percentile", (Call("array", (_, *_) as several),) if call.type == pa.list_(DOUBLE):
            asked = several
        case _:
            return None
    if not all(map(_is_number, asked)):
        return None
    return tuple(each if each.type == DOUBLE else Cast(each, DOUBLE) for each in asked)


def _is_number(expression: Expression) -> bool:
    """Is it written as a number, possibly one of another type (`0.5D`)?"""
    if expression.type is None or not is_numeric(expression.type):
        return False
    if isinstance(expression, Cast):
        return _is_number(expression.operand)
    return isinstance(expression, Literal) and expression.value is not None


RULES = (one_percentile_of_a_value,)
