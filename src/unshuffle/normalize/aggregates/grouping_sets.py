"""GROUPING SETS, ROLLUP and CUBE as one GROUP BY over copied rows.

    group by grouping sets ((a, b), (a))        a' = a, b' = b or NULL, n = number of the set, for each row and set;
    sum(b), grouping(b)                         group by a', b', n:  sum(b),  grouping(b) = case when n = 1 then 1 else 0

The number separates sets with equal keys: a NULL in the data from a key that was left out, and a set that is written twice
from itself. Without input rows there are no groups, as in Spark: only `grouping sets (())`, an aggregate without keys, has a
row for an empty input.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.expressions import AggregateCall, Call, Case, Expression, Literal, Ref
from unshuffle.plan.logical import Expand, GroupBy, GroupingSets, Plan, Project

_GROUPING = ("grouping", "grouping_id")


def grouping_sets_as_expand(plan: Plan, context: Rewriting) -> Plan | None:
    """Each row is copied once for each set, with NULL for the keys that the set leaves out. The copies are grouped by these
    keys; aggregates read the original columns.

    Not if grouping() has an argument that is not a key.
    """
    if not isinstance(plan, GroupingSets):
        return None
    number = context.numbers.new("set", pa.int32(), nullable=False)
    outputs: list[tuple[Column, Expression]] = [(out, Ref(out)) for out, _ in plan.keys]
    for column, call in plan.aggregates:
        value = _grouping(plan, call, number) if call.function in _GROUPING else Ref(column)
        if value is None:
            return None
        outputs.append((column, value))
    aggregates = tuple((column, call) for column, call in plan.aggregates if call.function not in _GROUPING)
    if len(plan.sets) == 1:
        single = GroupBy(plan.child, plan.sets[0], aggregates)
        named = {out: Ref(source) for out, source in plan.keys}
        return Project(single, tuple((column, named.get(column, value)) for column, value in outputs))
    copies = Expand(plan.child, plan.keys, plan.sets, number)
    groups = GroupBy(copies, (*(out for out, _ in plan.keys), number), aggregates)
    return Project(groups, tuple(outputs))


def _grouping(plan: GroupingSets, call: AggregateCall, number: Column) -> Expression | None:
    """Which keys a set leaves out, one bit per key, the last key lowest. Without arguments it is about all keys."""
    keys: list[Column] = [source for _, source in plan.keys]
    arguments = [argument.column for argument in call.arguments if isinstance(argument, Ref)]
    if len(arguments) < len(call.arguments) or not set(arguments) <= set(keys):
        return None
    return _by_number(number, [_bits(arguments or keys, one) for one in plan.sets], call)


def _bits(keys: Sequence[Column], present: Sequence[Column]) -> int:
    bits = 0
    for key in keys:
        bits = bits * 2 + (key not in present)
    return bits


def _by_number(number: Column, values: Sequence[int], call: AggregateCall) -> Expression:
    last = Literal(values[-1], call.type)
    branches = []
    for value in sorted(set(values) - {values[-1]}):
        sets = [Literal(place, number.type) for place, each in enumerate(values) if each == value]
        branches.append((Call("in", (Ref(number), *sets), pa.bool_()), Literal(value, call.type)))
    return Case(tuple(branches), last, call.type) if branches else last
