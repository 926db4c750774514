"""Windowed aggregates as a grouping and a join: the alternative to keeping every row of a partition at hand.

    sum(x) over (partition by k)   =   rows  join  (select k, sum(x) group by k)  on k <=> k

A window must sort or hold whole partitions and cannot split its work; a GROUP BY can, and its result is often small enough
to be sent everywhere. The price is that the input is computed twice. The search weighs the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pyarrow as pa

from unshuffle.algebra.expressions import AggregateCall, Call, Expression, Ref, WindowCall, columns_of, map_operands
from unshuffle.algebra.logical import GroupBy, Join, Plan, Project, Window
from unshuffle.algebra.predicates import conjunction
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.search.memo import Group, Memo, is_repeatable


def window_as_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """An aggregate over whole partitions is that of a GROUP BY, joined back. NULL is a partition of its own, so the join
    is null-safe. Not for a window with an order, whose frames end at the row; not if the input would not be the same
    twice; not if the window was such a join."""
    if not isinstance(plan, Window) or not all(_whole(call) for _, call in plan.calls) or memo.made_by(plan):
        return
    below = cast(Group, plan.child)
    by = [part.column for part in plan.calls[0][1].partition if isinstance(part, Ref)]
    if any(call.partition != plan.calls[0][1].partition for _, call in plan.calls) or not is_repeatable(below):
        return
    read = frozenset(by).union(*(columns_of(call.call) for _, call in plan.calls))
    again = {column: memo.numbers.like(column) for column in below.columns if column in read}
    copy = Project(cast(Plan, below), tuple((new, Ref(old)) for old, new in again.items()))
    calls = tuple((column, _renamed(cast(AggregateCall, call.call), again)) for column, call in plan.calls)
    grouped = GroupBy(copy, tuple(again[column] for column in by), calls)
    same = conjunction(Call("<=>", (Ref(column), Ref(again[column])), pa.bool_()) for column in by)
    yield Join(JoinKind.INNER, cast(Plan, below), grouped, same, plan.columns)


def _whole(call: WindowCall) -> bool:
    """The frame is the partition: no order, and no other frame said."""
    plain = isinstance(call.call, AggregateCall) and not call.call.distinct
    return plain and not call.order and call.frame is None and all(isinstance(part, Ref) for part in call.partition)


def _renamed(call: AggregateCall, names: dict[Column, Column]) -> AggregateCall:
    def change(expression: Expression) -> Expression:
        if isinstance(expression, Ref):
            return Ref(names.get(expression.column, expression.column))
        return map_operands(expression, change)

    return cast(AggregateCall, change(call))


RULES = (window_as_join,)
