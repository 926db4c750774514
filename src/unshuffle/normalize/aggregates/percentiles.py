"""Several percentiles of one value as one aggregate.

    select g, median(x), percentile(x, array(0.1, 0.9)) from T group by g

    select g, element_at(p, 1), slice(p, 2, 2) from (select g, percentile(x, array(0.5, 0.1, 0.9)) as p from T group by g)

The state of an exact percentile is all values of a group. Spark collects and sorts them separately for each call.
"""

from __future__ import annotations

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import DOUBLE, INT
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Literal, Ref
from unshuffle.plan.functions.percentages import percentages_of
from unshuffle.plan.logical import GroupBy, Plan, Project


def merge_percentiles(plan: Plan, context: Rewriting) -> Plan | None:
    """Percentiles of the same value are elements of one array of percentiles. A group without values gives NULL for all, and
    so do the elements of a NULL array.

    Unsound for calls over different rows (FILTER), that count them differently (DISTINCT, frequencies), or of values that
    are not deterministic. Not for intervals, which are not numbers."""
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
    """One call with the percentages of all, in order. Adds to `made` the expression for each original column."""
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
