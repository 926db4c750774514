"""Aggregates over distinct values as aggregates over distinct rows.

    select g, count(distinct x), sum(y) from T group by g

    select g, count(x), sum(s) from (select g, x, sum(y) as s from T group by g, x) group by g

Both groupings are plain then, and the inner one's exchange may serve the outer: rows that agree on (g, x) are already
together if rows that agree on g are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.algebra.expressions import AggregateCall, Call, Cast, Expression, Literal, Ref, columns_of
from unshuffle.algebra.logical import GroupBy, Plan, Project
from unshuffle.algebra.predicates import is_deterministic
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import is_decimal
from unshuffle.rules.computed import Computed
from unshuffle.rules.correlation import has_subquery
from unshuffle.rules.rewriting import Rewriting

# A value that comes again changes none of these; of their results over parts, the same aggregate is that over all.
_SAME_WITH_DUPLICATES = frozenset(
    ("min", "max", "any", "some", "every", "bool_and", "bool_or", "bit_and", "bit_or", "collect_set")
)
_OVER_DISTINCT_ROWS = _SAME_WITH_DUPLICATES | frozenset(
    ("count", "sum", "avg", "mean", "try_sum", "try_avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop",
     "var_samp", "std")
)  # fmt: skip
_MADE_OF_PARTS = _SAME_WITH_DUPLICATES - {"collect_set"} | {"sum", "count"}


def distinct_aggregates_as_group_by(plan: Plan, context: Rewriting) -> Plan | None:
    """All distinct aggregates are over the same arguments, and the others can be made of what they are for each value.

    Not over several lists of arguments: rows cannot be distinct in two ways. Not with a FILTER on a distinct aggregate,
    under which the same value counts in one row and not in the next. NULLs need no care: a row of NULL arguments is one
    more distinct row, which the aggregates skip as before.
    """
    if not isinstance(plan, GroupBy) or not any(_minds_duplicates(call) for _, call in plan.aggregates):
        return None
    arguments = next(call.arguments for _, call in plan.aggregates if _minds_duplicates(call))
    if not all(_is_over(call, arguments) or _is_made_of_parts(call) for _, call in plan.aggregates):
        return None
    computed = Computed(context.numbers)
    values = tuple(computed.column(argument, "distinct") for argument in arguments)
    parts: list[tuple[Column, AggregateCall]] = []
    wholes: list[tuple[Column, AggregateCall]] = []
    outputs: list[tuple[Column, Expression]] = [(key, Ref(key)) for key in plan.keys]
    for column, call in plan.aggregates:
        if _is_over(call, arguments):
            wholes.append((column, replace(call, arguments=tuple(map(Ref, values)), distinct=False)))
            outputs.append((column, Ref(column)))
            continue
        part = context.numbers.like(column)
        parts.append((part, call))
        whole = _of_parts(call, part)
        value = _as_before(column, call, whole, context) if whole.type != call.type or not plan.keys else None
        wholes.append((value[0] if value else column, whole))
        outputs.append((column, value[1] if value else Ref(column)))
    rows = GroupBy(computed.beneath(plan.child), tuple(dict.fromkeys((*plan.keys, *values))), tuple(parts))
    groups = GroupBy(rows, plan.keys, tuple(wholes))
    return groups if groups.columns == plan.columns else Project(groups, tuple(outputs))


def _minds_duplicates(call: AggregateCall) -> bool:
    return call.distinct and call.function not in _SAME_WITH_DUPLICATES


def _is_over(call: AggregateCall, arguments: Sequence[Expression]) -> bool:
    return (
        call.function in _OVER_DISTINCT_ROWS
        and (call.distinct or call.function in _SAME_WITH_DUPLICATES)
        and call.arguments == arguments
        and call.where is None
        and not call.within
        and all(columns_of(each) and is_deterministic(each) and not has_subquery(each) for each in call.arguments)
    )


def _is_made_of_parts(call: AggregateCall) -> bool:
    if call.function not in _MADE_OF_PARTS or call.type is None or call.within:
        return False
    return not call.distinct or not _minds_duplicates(call)


def _of_parts(call: AggregateCall, part: Column) -> AggregateCall:
    """The aggregate of partial results. Spark gives the sum of a decimal ten more digits, each time."""
    name = "sum" if call.function == "count" else call.function
    type = call.type
    if name == "sum" and is_decimal(type):
        assert type is not None
        type = pa.decimal128(min(38, type.precision + 10), type.scale)
    return AggregateCall(name, (Ref(part),), type)


def _as_before(
    column: Column, call: AggregateCall, whole: AggregateCall, context: Rewriting
) -> tuple[Column, Expression] | None:
    """The whole under a column of its own, and the aggregate made of it: of its old type, 0 if there is nothing to count."""
    if call.function == "count":
        made = context.numbers.like(column, nullable=True)
        return made, Call("coalesce", (Ref(made), Literal(0, call.type)), call.type)
    if whole.type != call.type and call.type is not None:
        made = context.numbers.new(column.name, whole.type)
        return made, Cast(Ref(made), call.type)
    return None


def forget_distinct(plan: Plan, context: Rewriting) -> Plan | None:
    """The least of the distinct values is the least of all. Only for aggregates that do not mind duplicates."""
    if not isinstance(plan, GroupBy):
        return None
    if not any(call.distinct and call.function in _SAME_WITH_DUPLICATES for _, call in plan.aggregates):
        return None
    calls = tuple(
        (c, call if _minds_duplicates(call) else replace(call, distinct=False)) for c, call in plan.aggregates
    )
    return replace(plan, aggregates=calls)


RULES = (forget_distinct, distinct_aggregates_as_group_by)
