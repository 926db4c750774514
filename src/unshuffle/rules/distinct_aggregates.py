"""Aggregates over distinct values as aggregates over distinct rows.

    select g, count(distinct x) from T group by g    ->    select g, count(x) from (select distinct g, x from T) group by g

Both groupings are plain then, and the inner one's exchange may serve the outer: rows that agree on (g, x) are already
together if rows that agree on g are.
"""

from __future__ import annotations

from dataclasses import replace

from unshuffle.algebra.expressions import AggregateCall, Ref, columns_of
from unshuffle.algebra.logical import GroupBy, Plan
from unshuffle.algebra.predicates import is_deterministic
from unshuffle.rules.computed import Computed
from unshuffle.rules.correlation import has_subquery
from unshuffle.rules.rewriting import Rewriting

# A value that comes again changes none of these.
_SAME_WITH_DUPLICATES = frozenset(
    ("min", "max", "any", "some", "every", "bool_and", "bool_or", "bit_and", "bit_or", "collect_set")
)
_OVER_DISTINCT_ROWS = _SAME_WITH_DUPLICATES | frozenset(
    ("count", "sum", "avg", "mean", "try_sum", "try_avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop",
     "var_samp", "std")
)  # fmt: skip


def distinct_aggregates_as_group_by(plan: Plan, context: Rewriting) -> Plan | None:
    """All aggregates are over the distinct values of the same arguments, or do not mind duplicates of them.

    Not beside an aggregate that minds: it would miss the rows that were taken for duplicates. Not with a FILTER, under
    which the same value counts in one row and not in the next. NULLs need no care: a row of NULL arguments is one more
    distinct row, which the aggregates skip as before.
    """
    if not isinstance(plan, GroupBy) or not any(_minds_duplicates(call) for _, call in plan.aggregates):
        return None
    arguments = plan.aggregates[0][1].arguments
    if not all(_is_over(call, arguments) for _, call in plan.aggregates):
        return None
    computed = Computed(context.numbers)
    columns = [computed.column(argument, "distinct") for argument in arguments]
    rows = GroupBy(computed.beneath(plan.child), tuple(dict.fromkeys((*plan.keys, *columns))), ())
    refs = tuple(Ref(column) for column in columns)
    calls = tuple((out, replace(call, arguments=refs, distinct=False)) for out, call in plan.aggregates)
    return GroupBy(rows, plan.keys, calls)


def _minds_duplicates(call: AggregateCall) -> bool:
    return call.distinct and call.function not in _SAME_WITH_DUPLICATES


def _is_over(call: AggregateCall, arguments: tuple[object, ...]) -> bool:
    return (
        call.function in _OVER_DISTINCT_ROWS
        and (call.distinct or call.function in _SAME_WITH_DUPLICATES)
        and call.arguments == arguments
        and call.where is None
        and not call.within
        and all(columns_of(each) and is_deterministic(each) and not has_subquery(each) for each in call.arguments)
    )


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


RULES = (distinct_aggregates_as_group_by, forget_distinct)
