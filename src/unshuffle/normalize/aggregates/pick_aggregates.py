"""Aggregates that pick a value from a row of the group: one aggregate for all that pick from the same row.

    max_by(event, ts), max_by(machine, ts)     is     max_by(struct(event, machine), ts), and its fields

Spark keeps a state and makes a comparison for each of them, although the row is the same. (In SCOPE they are ARGMAX and
ARGMIN.) If rows tie, all values now come from one of them, which is a correct result. An expression over picked values is not
part of the state but computed once per group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.expressions import AggregateCall, Call, Case, Expression, Field, Literal, Ref, columns_of, is_fixed
from unshuffle.plan.logical import GroupBy, Plan, Project
from unshuffle.plan.movable_conditions import is_movable, substitute

Calls = Sequence[tuple[Column, AggregateCall]]


def merge_pick_aggregates(plan: Plan, context: Rewriting) -> Plan | None:
    """Several values that are picked from the same row are picked as one struct.

    Unsound with IGNORE NULLS or DISTINCT: each value may then come from another row. Not if all values have a fixed width:
    Spark then aggregates in a hash table, which cannot hold a struct."""
    if not isinstance(plan, GroupBy):
        return None
    alike: dict[object, list[tuple[Column, AggregateCall]]] = {}
    for column, call in plan.aggregates:
        if call.facts.picks_a_row and not call.distinct and not call.ignore_nulls and not call.within:
            same = (call.function, call.arguments[1:], call.where)
            alike.setdefault(same, []).append((column, call))
    merged = [calls for calls in alike.values() if _are_worth_merging(calls)]
    if not merged:
        return None
    replaced = {column for calls in merged for column, _ in calls}
    made: list[tuple[Column, AggregateCall]] = [each for each in plan.aggregates if each[0] not in replaced]
    values: dict[Column, Expression] = {}
    for calls in merged:
        kept = _kept([call.arguments[0] for _, call in calls])
        column, call = _as_struct(calls[0][1], kept, context)
        made.append((column, call))
        fields = {value: Field(Ref(column), f"v{place}", value.type) for place, value in enumerate(kept)}
        for each, one in calls:
            values[each] = _of_fields(one.arguments[0], fields, column)
    return Project(GroupBy(plan.child, plan.keys, tuple(made)), tuple((c, values.get(c, Ref(c))) for c in plan.columns))


def _are_worth_merging(calls: Calls) -> bool:
    types = [call.arguments[0].type for _, call in calls]
    return len(calls) > 1 and None not in types and not all(map(is_fixed, types))


def _kept(values: Sequence[Expression]) -> list[Expression]:
    """The values without those that can be computed from others among them."""
    columns = {value.column for value in values if isinstance(value, Ref)}
    return [
        value for value in dict.fromkeys(values) if isinstance(value, Ref) or not _is_computable_from(value, columns)
    ]


def _is_computable_from(value: Expression, columns: set[Column]) -> bool:
    return columns_of(value) <= columns and is_movable(value)


def _of_fields(value: Expression, fields: Mapping[Expression, Expression], picked: Column) -> Expression:
    if value in fields:
        return fields[value]
    # Without a row the result is NULL, while an expression over NULLs may have a value.
    computed = substitute(value, {kept.column: field for kept, field in fields.items() if isinstance(kept, Ref)})
    return Case(((Call("isnotnull", (Ref(picked),), pa.bool_()), computed),), None, value.type)


def _as_struct(like: AggregateCall, kept: Sequence[Expression], context: Rewriting) -> tuple[Column, AggregateCall]:
    fields = [(f"v{place}", value) for place, value in enumerate(kept)]
    type = pa.struct([pa.field(name, value.type) for name, value in fields])
    parts = tuple(part for name, value in fields for part in (Literal(name, pa.string()), value))
    picked = replace(like, arguments=(Call("named_struct", parts, type), *like.arguments[1:]), type=type)
    return context.numbers.new("picked", type), picked


def aggregate_of_constant(plan: Plan, context: Rewriting) -> Plan | None:
    """The first, least or greatest value of a constant in a group is the constant.

    Unsound without keys: an empty input has a group, with NULL as its value. Unsound with a FILTER, which may keep no row."""
    if not isinstance(plan, GroupBy) or not plan.keys:
        return None
    constants: dict[Column, Expression] = {
        column: call.arguments[0]
        for column, call in plan.aggregates
        if call.facts.picks in ("value", "by_position")
        and call.where is None
        and isinstance(call.arguments[0], Literal)
    }
    if not constants:
        return None
    kept = tuple((column, call) for column, call in plan.aggregates if column not in constants)
    return Project(GroupBy(plan.child, plan.keys, kept), tuple((c, constants.get(c, Ref(c))) for c in plan.columns))
