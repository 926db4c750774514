"""Sorts without an effect are dropped: the order of rows matters only at the end of a query and below a LIMIT."""

from __future__ import annotations

from dataclasses import replace

from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.expressions import AggregateCall, WindowCall
from unshuffle.plan.logical import (
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
from unshuffle.plan.predicates import is_deterministic


def remove_redundant_sort(plan: Plan, context: Rewriting) -> Plan | None:
    """A join, a grouping, a set operation or another sort has the same result for its input in any order.

    Unsound below a LIMIT, which takes the first rows, below first(), collect_list() and the like, and below a window without
    an ORDER BY whose functions depend on the order. User-defined operators may depend on it too.
    """
    match plan:
        case GroupBy() | GroupingSets() if all(_ignores_order(call) for _, call in plan.aggregates):
            child = _unsorted(plan.child)
            return None if child is plan.child else replace(plan, child=child)
        case Window() if all(_ignores_input_order(call) for _, call in plan.calls):
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


def _ignores_order(call: AggregateCall) -> bool:
    return call.facts.ignores_order


def _ignores_input_order(call: WindowCall) -> bool:
    if call.order:
        return True
    return call.frame is None and isinstance(call.call, AggregateCall) and _ignores_order(call.call)


def _unsorted(plan: Plan) -> Plan:
    """The same rows, without a sort at the root or below operators that preserve the order."""
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
