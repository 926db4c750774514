"""Aggregates over distinct values as aggregates over distinct rows.

    select g, count(distinct x), sum(y) from T group by g

    select g, count(x), sum(s) from (select g, x, sum(y) as s from T group by g, x) group by g

Both groupings are then ordinary GROUP BYs, and one exchange can serve both: hashing by g also brings together rows that agree
on (g, x).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import is_decimal
from unshuffle.normalize.projections.computed_columns import ComputedColumns
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.subqueries.correlation import has_subquery
from unshuffle.plan.expressions import AggregateCall, Call, Cast, Expression, Literal, Ref, columns_of
from unshuffle.plan.logical import GroupBy, Plan, Project
from unshuffle.plan.predicates import is_deterministic


def distinct_aggregates_as_group_by(plan: Plan, context: Rewriting) -> Plan | None:
    """DISTINCT aggregates over the same arguments are plain aggregates over the distinct rows of keys and arguments. The
    other aggregates are merged from their partial results for each of these rows. NULLs need no care: NULL arguments make
    one more distinct row, which the aggregates ignore as before.

    Unsound for DISTINCT aggregates over different arguments, and for a FILTER on one, which may keep only one of two equal
    rows.
    """
    if not isinstance(plan, GroupBy) or not any(_needs_distinct(call) for _, call in plan.aggregates):
        return None
    arguments = next(call.arguments for _, call in plan.aggregates if _needs_distinct(call))
    if not all(_is_over(call, arguments) or _can_be_merged(call) for _, call in plan.aggregates):
        return None
    computed = ComputedColumns(context.numbers)
    values = tuple(computed.column(argument, "distinct") for argument in arguments)
    partials: list[tuple[Column, AggregateCall]] = []
    merged_calls: list[tuple[Column, AggregateCall]] = []
    outputs: list[tuple[Column, Expression]] = [(key, Ref(key)) for key in plan.keys]
    for column, call in plan.aggregates:
        if _is_over(call, arguments):
            merged_calls.append((column, replace(call, arguments=tuple(map(Ref, values)), distinct=False)))
            outputs.append((column, Ref(column)))
            continue
        partial = context.numbers.like(column)
        partials.append((partial, call))
        merged = _merging(call, partial)
        value = _converted(column, call, merged, context) if merged.type != call.type or not plan.keys else None
        merged_calls.append((value[0] if value else column, merged))
        outputs.append((column, value[1] if value else Ref(column)))
    rows = GroupBy(computed.below(plan.child), tuple(dict.fromkeys((*plan.keys, *values))), tuple(partials))
    groups = GroupBy(rows, plan.keys, tuple(merged_calls))
    return groups if groups.columns == plan.columns else Project(groups, tuple(outputs))


def _needs_distinct(call: AggregateCall) -> bool:
    return call.distinct and not call.facts.ignores_duplicates


def _is_over(call: AggregateCall, arguments: Sequence[Expression]) -> bool:
    return (
        call.facts.distinct_is_over_distinct_rows
        and (call.distinct or call.facts.ignores_duplicates)
        and call.arguments == arguments
        and call.where is None
        and not call.within
        and all(columns_of(each) and is_deterministic(each) and not has_subquery(each) for each in call.arguments)
    )


def _can_be_merged(call: AggregateCall) -> bool:
    if call.facts.merged_by is None or call.type is None or call.within:
        return False
    return not call.distinct or not _needs_distinct(call)


def _merging(call: AggregateCall, partial: Column) -> AggregateCall:
    """The aggregate that merges partial results. Spark gives each sum of decimals ten more digits."""
    name = "sum" if call.function == "count" else call.function
    type = call.type
    if name == "sum" and is_decimal(type):
        assert type is not None
        type = pa.decimal128(min(38, type.precision + 10), type.scale)
    return AggregateCall(name, (Ref(partial),), type)


def _converted(
    column: Column, call: AggregateCall, merged: AggregateCall, context: Rewriting
) -> tuple[Column, Expression] | None:
    """A new column for the merged aggregate, and the original one in terms of it: with its old type, and 0 for a count of
    nothing. None if it needs no conversion."""
    if call.function == "count":
        new = context.numbers.like(column, nullable=True)
        return new, Call("coalesce", (Ref(new), Literal(0, call.type)), call.type)
    if merged.type != call.type and call.type is not None:
        new = context.numbers.new(column.name, merged.type)
        return new, Cast(Ref(new), call.type)
    return None


def drop_redundant_distinct(plan: Plan, context: Rewriting) -> Plan | None:
    """The minimum of the distinct values is the minimum of all values: such aggregates ignore duplicates.

    Unsound for aggregates that do not, such as count(DISTINCT x).
    """
    if not isinstance(plan, GroupBy):
        return None
    if not any(call.distinct and call.facts.ignores_duplicates for _, call in plan.aggregates):
        return None
    calls = tuple((c, call if _needs_distinct(call) else replace(call, distinct=False)) for c, call in plan.aggregates)
    return replace(plan, aggregates=calls)
