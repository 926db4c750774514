"""One Window operator for each combination of PARTITION BY and ORDER BY, over columns. One layout requirement then describes
what it needs of its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unshuffle.catalog.schema import Column
from unshuffle.normalize.projections.computed_columns import ComputedColumns, only
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.subqueries.correlation import has_subquery
from unshuffle.plan.expressions import Expression, Ref, SortKey, WindowCall, columns_of, has_window
from unshuffle.plan.logical import Plan, Window
from unshuffle.plan.predicates import is_deterministic

Calls = Sequence[tuple[Column, WindowCall]]


def compute_window_expressions(plan: Plan, context: Rewriting) -> Plan | None:
    """The expressions of PARTITION BY, ORDER BY and arguments are computed below a window and dropped above it.

    Unsound for expressions that are not deterministic: several calls would share one evaluation. Arguments without columns
    stay: `lag(x, 1)` and `ntile(4)` need constants.
    """
    if not isinstance(plan, Window):
        return None
    computed = ComputedColumns(context.numbers)
    calls = tuple((column, _over_columns(call, computed)) for column, call in plan.calls)
    if not computed:
        return None
    return only(_chain(computed.below(plan.child), calls), plan.columns)


def _over_columns(call: WindowCall, computed: ComputedColumns) -> WindowCall:
    def column(part: Expression, name: str = "part") -> Expression:
        return Ref(computed.column(part, name)) if _may_compute(part) else part

    def argument(part: Expression) -> Expression:
        return Ref(computed.column(part, "argument")) if columns_of(part) and _may_compute(part) else part

    def key(order: SortKey) -> SortKey:
        return replace(order, expression=column(order.expression, "key"))

    arguments = tuple(map(argument, call.call.arguments))
    return replace(
        call,
        call=replace(call.call, arguments=arguments),
        partition=tuple(map(column, call.partition)),
        order=tuple(map(key, call.order)),
    )


def _may_compute(part: Expression) -> bool:
    return is_deterministic(part) and not has_subquery(part) and not has_window(part)


def split_windows(plan: Plan, context: Rewriting) -> Plan | None:
    """Window functions only add columns, so those with the same PARTITION BY and ORDER BY can be computed by an operator of
    their own. Different frames over the same order stay together.

    The split changes no results; a Window with one combination is left alone, or the rule would not terminate."""
    if not isinstance(plan, Window) or len(_specifications(plan.calls)) < 2:
        return None
    return only(_chain(plan.child, plan.calls), plan.columns)


def _chain(child: Plan, calls: Calls) -> Plan:
    for same in _specifications(calls):
        child = Window(child, tuple(same))
    return child


def _specifications(calls: Calls) -> list[list[tuple[Column, WindowCall]]]:
    groups: dict[tuple[object, object], list[tuple[Column, WindowCall]]] = {}
    for column, call in calls:
        groups.setdefault((call.partition, call.order), []).append((column, call))
    return list(groups.values())
