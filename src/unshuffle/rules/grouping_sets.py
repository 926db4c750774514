"""GROUPING SETS, ROLLUP and CUBE as one GROUP BY over copied rows.

    group by grouping sets ((a, b), (a))        a' = a, b' = b or NULL, n = number of the set, for each row and set;
    sum(b), grouping(b)                         group by a', b', n:  sum(b),  grouping(b) = case when n = 1 then 1 else 0

The number keeps sets apart that give the same keys: a NULL in the data from a key left out, and a set written twice from
itself. It makes no group where there is no row, which is what Spark does: only `grouping sets (())`, a plain aggregate,
has a row for no input.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from unshuffle.algebra.expressions import AggregateCall, Call, Case, Expression, Literal, Ref
from unshuffle.algebra.logical import Expand, GroupBy, GroupingSets, Plan, Project
from unshuffle.catalog.schema import Column
from unshuffle.rules.rewriting import Rewriting

_GROUPING = ("grouping", "grouping_id")


def grouping_sets_as_expand(plan: Plan, context: Rewriting) -> Plan | None:
    """Aggregates see the columns that went in, the groups are by those that came out of the copies.

    Not where grouping() asks about something that is no key.
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
    """Which keys a set leaves out, one bit a key, the last key lowest; of all keys if none is named."""
    keys: list[Column] = [source for _, source in plan.keys]
    asked = [argument.column for argument in call.arguments if isinstance(argument, Ref)]
    if len(asked) < len(call.arguments) or not set(asked) <= set(keys):
        return None
    return _by_number(number, [_bits(asked or keys, one) for one in plan.sets], call)


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


RULES = (grouping_sets_as_expand,)
