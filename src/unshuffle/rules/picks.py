"""Aggregates that pick a value of a group: one for all that pick from the same row.

    max_by(event, ts), max_by(machine, ts)     is     max_by(struct(event, machine), ts), and its fields

Spark keeps a state for each, and compares for each, with every row; the row is the same. (In SCOPE they are ARGMAX and
ARGMIN.) Where rows tie, the values picked are now of one row, as any of them may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.algebra.expressions import AggregateCall, Call, Expression, Field, Literal, Ref
from unshuffle.algebra.logical import GroupBy, Plan, Project
from unshuffle.catalog.schema import Column
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.sorted_inputs import is_fixed

_BY_ANOTHER = frozenset(("max_by", "min_by"))
_BY_PLACE = frozenset(("first", "first_value", "last", "last_value", "any_value"))
_OF_CONSTANTS = _BY_PLACE | frozenset(("min", "max"))

Calls = Sequence[tuple[Column, AggregateCall]]


def pick_once(plan: Plan, context: Rewriting) -> Plan | None:
    """Several values that are picked from one row are picked as one.

    Not if all of them have a fixed width: then Spark finds the groups in a hash table, which a struct cannot be kept in."""
    if not isinstance(plan, GroupBy):
        return None
    alike: dict[object, list[tuple[Column, AggregateCall]]] = {}
    for column, call in plan.aggregates:
        if call.function in _BY_ANOTHER | _BY_PLACE and not call.distinct and not call.ignore_nulls and not call.within:
            same = (call.function, call.arguments[1:], call.where)
            alike.setdefault(same, []).append((column, call))
    joined = [calls for calls in alike.values() if _are_worth_it(calls)]
    if not joined:
        return None
    gone = {column for calls in joined for column, _ in calls}
    made: list[tuple[Column, AggregateCall]] = [each for each in plan.aggregates if each[0] not in gone]
    values: dict[Column, Expression] = {}
    for calls in joined:
        column, call = _together(calls, context)
        made.append((column, call))
        for place, (each, one) in enumerate(calls):
            values[each] = Field(Ref(column), f"v{place}", one.type)
    return Project(GroupBy(plan.child, plan.keys, tuple(made)), tuple((c, values.get(c, Ref(c))) for c in plan.columns))


def _are_worth_it(calls: Calls) -> bool:
    types = [call.arguments[0].type for _, call in calls]
    return len(calls) > 1 and None not in types and not all(map(is_fixed, types))


def _together(calls: Calls, context: Rewriting) -> tuple[Column, AggregateCall]:
    fields = [(f"v{place}", call.arguments[0]) for place, (_, call) in enumerate(calls)]
    type = pa.struct([pa.field(name, value.type) for name, value in fields])
    parts = tuple(part for name, value in fields for part in (Literal(name, pa.string()), value))
    first = calls[0][1]
    picked = replace(first, arguments=(Call("named_struct", parts, type), *first.arguments[1:]), type=type)
    return context.numbers.new("picked", type), picked


def pick_constant(plan: Plan, context: Rewriting) -> Plan | None:
    """The first, least or greatest of a constant in a group is the constant. Not without keys: there may be no row."""
    if not isinstance(plan, GroupBy) or not plan.keys:
        return None
    constants: dict[Column, Expression] = {
        column: call.arguments[0]
        for column, call in plan.aggregates
        if call.function in _OF_CONSTANTS and call.where is None and isinstance(call.arguments[0], Literal)
    }
    if not constants:
        return None
    kept = tuple((column, call) for column, call in plan.aggregates if column not in constants)
    return Project(GroupBy(plan.child, plan.keys, kept), tuple((c, constants.get(c, Ref(c))) for c in plan.columns))


RULES = (pick_constant, pick_once)
