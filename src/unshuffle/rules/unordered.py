"""Sorts that nobody sees are dropped: rows have an order only at the end of a query and beneath a LIMIT."""

from __future__ import annotations

from dataclasses import replace

from unshuffle.algebra.expressions import AggregateCall, WindowCall
from unshuffle.algebra.logical import (
    Distinct,
    Expand,
    Filter,
    GroupBy,
    GroupingSets,
    Join,
    Plan,
    Project,
    SetOperation,
    Sort,
    Window,
)
from unshuffle.algebra.predicates import is_deterministic
from unshuffle.rules.rewriting import Rewriting

# Aggregates that give the same for rows in any order, but for the last bits of floating-point sums.
_ANY_ORDER = frozenset(
    ("count", "count_if", "sum", "avg", "mean", "min", "max", "any", "some", "every", "bool_and", "bool_or", "bit_and",
     "bit_or", "bit_xor", "std", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "corr",
     "covar_pop", "covar_samp", "kurtosis", "skewness", "median", "percentile", "percentile_cont", "percentile_disc",
     "approx_count_distinct", "try_sum", "try_avg", "grouping", "grouping_id")
)  # fmt: skip


def drop_unseen_sort(plan: Plan, context: Rewriting) -> Plan | None:
    """A join, a grouping, a set operation or another sort gives the same rows for rows in any order.

    Not under LIMIT, which takes the first rows; nor under first(), collect_list() and the like, nor under a window without
    an order of its own that counts rows, for these show the order to the user. User-defined operators may too.
    """
    match plan:
        case GroupBy() | GroupingSets() if all(_minds_no_order(call) for _, call in plan.aggregates):
            child = _unsorted(plan.child)
            return None if child is plan.child else replace(plan, child=child)
        case Window() if all(_has_order(call) for _, call in plan.calls):
            child = _unsorted(plan.child)
            return None if child is plan.child else replace(plan, child=child)
        case Distinct() | Sort():
            child = _unsorted(plan.child)
            return None if child is plan.child else replace(plan, child=child)
        case Join():
            left, right = _unsorted(plan.left), _unsorted(plan.right)
            return None if left is plan.left and right is plan.right else replace(plan, left=left, right=right)
        case SetOperation():
            inputs = tuple(map(_unsorted, plan.inputs))
            same = all(new is old for new, old in zip(inputs, plan.inputs, strict=True))
            return None if same else replace(plan, inputs=inputs)
        case _:
            return None


def _minds_no_order(call: AggregateCall) -> bool:
    return call.function in _ANY_ORDER


def _has_order(call: WindowCall) -> bool:
    if call.order:
        return True
    return call.frame is None and isinstance(call.call, AggregateCall) and _minds_no_order(call.call)


def _unsorted(plan: Plan) -> Plan:
    """The same rows, without a sort that stands on top or beneath operators that keep the order."""
    match plan:
        case Sort(child):
            return _unsorted(child)
        case Filter(predicate=predicate) if is_deterministic(predicate):
            return _over(plan, _unsorted(plan.child))
        case Project(outputs=outputs) if all(is_deterministic(e) for _, e in outputs):
            return _over(plan, _unsorted(plan.child))
        case Expand():
            return _over(plan, _unsorted(plan.child))
        case _:
            return plan


def _over(plan: Filter | Project | Expand, child: Plan) -> Plan:
    return plan if child is plan.child else replace(plan, child=child)


RULES = (drop_unseen_sort,)
