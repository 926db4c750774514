"""One Window operator for each way of partitioning and ordering, over columns: what such an operator requires of its input
can then be said in one requirement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unshuffle.algebra.expressions import Expression, Ref, SortKey, WindowCall, columns_of, has_window
from unshuffle.algebra.logical import Plan, Window
from unshuffle.algebra.predicates import is_deterministic
from unshuffle.catalog.schema import Column
from unshuffle.rules.computed import Computed, only
from unshuffle.rules.correlation import has_subquery
from unshuffle.rules.rewriting import Rewriting

Calls = Sequence[tuple[Column, WindowCall]]


def compute_window_expressions(plan: Plan, context: Rewriting) -> Plan | None:
    """PARTITION BY, ORDER BY and arguments are computed beneath a window and dropped above it.

    Arguments without columns stay: `lag(x, 1)` and `ntile(4)` want constants. So does what is not deterministic, which
    would be drawn once for several calls.
    """
    if not isinstance(plan, Window):
        return None
    computed = Computed(context.numbers)
    calls = tuple((column, _over_columns(call, computed)) for column, call in plan.calls)
    if not computed:
        return None
    return only(_chain(computed.beneath(plan.child), calls), plan.columns)


def _over_columns(call: WindowCall, computed: Computed) -> WindowCall:
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
    """Window functions add columns and touch no others, so those with one partitioning and order can be computed before
    or after the rest. Functions with different frames over the same order stay together."""
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


RULES = (compute_window_expressions, split_windows)
