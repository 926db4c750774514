"""Window aggregates as a GROUP BY and a join: the alternative to sorting every partition.

    sum(x) over (partition by k)   =   rows  join  (select k, sum(x) group by k)  on k <=> k

A window sorts or holds whole partitions, and has no partial aggregate. A GROUP BY has one, and its result is often small
enough to broadcast. The price is that the input is computed twice. The search compares the costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Ref, WindowCall, columns_of, map_operands
from unshuffle.plan.logical import GroupBy, Join, Plan, Project, Window
from unshuffle.plan.predicates import conjunction
from unshuffle.search.memo import Memo, as_group, is_repeatable


def window_as_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """An aggregate over whole partitions is the aggregate of a GROUP BY, joined back. NULL is a partition of its own, so the
    join is null-safe.

    Unsound for a window with an order, whose frames end at the current row, and for an input that may differ when it is
    computed twice. Not for a window that another rule made from such a join."""
    if not isinstance(plan, Window) or not all(_spans_partition(call) for _, call in plan.calls) or memo.made_by(plan):
        return
    below = as_group(plan.child)
    by = [part.column for part in plan.calls[0][1].partition if isinstance(part, Ref)]
    if any(call.partition != plan.calls[0][1].partition for _, call in plan.calls) or not is_repeatable(below):
        return
    read = frozenset(by).union(*(columns_of(call.call) for _, call in plan.calls))
    copies = {column: memo.numbers.like(column) for column in below.columns if column in read}
    copy = Project(below, tuple((new, Ref(old)) for old, new in copies.items()))
    calls = tuple((column, _renamed(cast(AggregateCall, call.call), copies)) for column, call in plan.calls)
    grouped = GroupBy(copy, tuple(copies[column] for column in by), calls)
    same = conjunction(Call("<=>", (Ref(column), Ref(copies[column])), pa.bool_()) for column in by)
    yield Join(JoinKind.INNER, below, grouped, same, plan.columns)


def _spans_partition(call: WindowCall) -> bool:
    """Is the frame the whole partition? That takes no order and no explicit frame."""
    is_plain = isinstance(call.call, AggregateCall) and not call.call.distinct
    return is_plain and not call.order and call.frame is None and all(isinstance(part, Ref) for part in call.partition)


def _renamed(call: AggregateCall, names: dict[Column, Column]) -> AggregateCall:
    def change(expression: Expression) -> Expression:
        if isinstance(expression, Ref):
            return Ref(names.get(expression.column, expression.column))
        return map_operands(expression, change)

    return cast(AggregateCall, change(call))
