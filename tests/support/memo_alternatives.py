"""Plans chosen at random among the alternatives of a memo, in operators that `evaluation` can run."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa

from unshuffle.cardinality.estimate import estimate
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, EquiDepthHistogram
from unshuffle.plan.expressions import AggregateCall, Call, Literal, Ref
from unshuffle.plan.logical import (
    FinalGroupBy,
    GroupBy,
    Limit,
    MultiJoin,
    PartialGroupBy,
    PartialTopN,
    Plan,
    Project,
    Reference,
    Scan,
    Shared,
    Sort,
)
from unshuffle.plan.rebuild import with_inputs
from unshuffle.search.memo import Group, Memo

# The function that merges partial states. An average has a state of two values and is not run here.
MERGED = {"sum": "sum", "count": "sum", "min": "min", "max": "max", "bool_and": "bool_and", "bool_or": "bool_or"}


ZERO = Literal(0, pa.int64())


def random_alternative(group: Group, choose: random.Random, shared: dict[int, Shared], fired: Counter[str]) -> Plan:
    """A plan for a group, with an expression of each group chosen at random."""
    ways = [each for each in group.expressions if not isinstance(each, MultiJoin)]
    chosen = choose.choice(ways)
    fired[type(chosen).__name__] += chosen is not ways[0]
    if isinstance(chosen, Reference):
        rowset: Any = chosen.rowset
        if rowset.number not in shared:
            shared[rowset.number] = Shared(rowset.name, random_alternative(rowset, choose, shared, fired))
        return Reference(shared[rowset.number], chosen.columns)
    inputs: list[Any] = [random_alternative(child, choose, shared, fired) for child in chosen.children]
    return runnable(with_inputs(chosen, inputs))


def runnable(plan: Plan) -> Plan:
    """Partial and final operators as complete ones, which are equivalent over one partition."""
    match plan:
        case PartialGroupBy(child, keys, states):
            return GroupBy(child, keys, states)
        case FinalGroupBy(child, keys, aggregates, states):
            merged = tuple(
                (column, AggregateCall(MERGED.get(call.function, call.function), (Ref(state),), call.type))
                for (column, call), state in zip(aggregates, states, strict=True)
            )
            # A count over no rows is 0, while the sum of no counts is NULL.
            counted = tuple(
                (column, Call("coalesce", (Ref(column), ZERO), ZERO.type))
                for column, call in aggregates
                if call.function == "count"
            )
            others = tuple((column, Ref(column)) for column in plan.columns if column not in dict(counted))
            outputs = dict((*counted, *others))
            return Project(GroupBy(child, keys, merged), tuple((column, outputs[column]) for column in plan.columns))
        case PartialTopN(child, count, order):
            return Limit(Sort(child, order) if order else child, count)
        case _:
            return plan


def can_be_run(memo: Memo) -> bool:
    """Can every aggregate of the memo be merged from partial states of one value?"""
    finals = [each for group in memo.groups for each in group.expressions if isinstance(each, FinalGroupBy)]
    return all(call.function in MERGED for each in finals for _, call in each.aggregates)


def estimate_anything(node: Plan, inputs: Any, facts: Any) -> Any:
    """Estimates under which rules fire that require small tables or counted values: a table with a key is small."""
    if isinstance(node, Scan):
        counted = ColumnStatistics(3.0, 0.25, common=((1, 0.5),), histogram=EquiDepthHistogram((0, 3), (3.0,), (3.0,)))
        rows = 10.0 if node.keys else 1000.0
        return replace(estimate(node, inputs, facts), rows=rows, columns=dict.fromkeys(node.columns, counted))
    if isinstance(node, PartialGroupBy | FinalGroupBy | PartialTopN):
        return inputs[0]
    return estimate(node, inputs, facts)
