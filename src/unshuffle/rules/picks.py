"""Aggregates that pick a value of a group: one for all that pick from the same row.

    max_by(event, ts), max_by(machine, ts)     is     max_by(struct(event, machine), ts), and its fields

Spark keeps a state for each, and compares for each, with every row; the row is the same. (In SCOPE they are ARGMAX and
ARGMIN.) Where rows tie, the values picked are now of one row, as any of them may be. What can be computed of values that
are picked is not kept beside them, but computed once a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.algebra.expressions import (
    AggregateCall,
    Call,
    Case,
    Expression,
    Field,
    Literal,
    Ref,
    columns_of,
    is_fixed,
)
from unshuffle.algebra.logical import GroupBy, Plan, Project
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import is_movable, substitute
from unshuffle.rules.rewriting import Rewriting

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
        kept = _kept([call.arguments[0] for _, call in calls])
        column, call = _together(calls[0][1], kept, context)
        made.append((column, call))
        fields = {value: Field(Ref(column), f"v{place}", value.type) for place, value in enumerate(kept)}
        for each, one in calls:
            values[each] = _of_fields(one.arguments[0], fields, column)
    return Project(GroupBy(plan.child, plan.keys, tuple(made)), tuple((c, values.get(c, Ref(c))) for c in plan.columns))


def _are_worth_it(calls: Calls) -> bool:
    types = [call.arguments[0].type for _, call in calls]
    return len(calls) > 1 and None not in types and not all(map(is_fixed, types))


def _kept(values: Sequence[Expression]) -> list[Expression]:
    """The values without those that can be computed of others among them."""
    columns = {value.column for value in values if isinstance(value, Ref)}
    return [value for value in dict.fromkeys(values) if isinstance(value, Ref) or not _is_told_by(value, columns)]


def _is_told_by(value: Expression, columns: set[Column]) -> bool:
    return columns_of(value) <= columns and is_movable(value)


def _of_fields(value: Expression, fields: Mapping[Expression, Expression], picked: Column) -> Expression:
    if value in fields:
        return fields[value]
    # Of no row nothing is picked, while a function of nothing but NULLs may give a value.
    computed = substitute(value, {known.column: field for known, field in fields.items() if isinstance(known, Ref)})
    return Case(((Call("isnotnull", (Ref(picked),), pa.bool_()), computed),), None, value.type)


def _together(like: AggregateCall, kept: Sequence[Expression], context: Rewriting) -> tuple[Column, AggregateCall]:
    fields = [(f"v{place}", value) for place, value in enumerate(kept)]
    type = pa.struct([pa.field(name, value.type) for name, value in fields])
    parts = tuple(part for name, value in fields for part in (Literal(name, pa.string()), value))
    picked = replace(like, arguments=(Call("named_struct", parts, type), *like.arguments[1:]), type=type)
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
