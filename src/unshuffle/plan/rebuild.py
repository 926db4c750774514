"""The same logical operator over other inputs or with other expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from unshuffle.errors import InternalError
from unshuffle.plan.expressions import Expression, SortKey, Subquery, map_operands
from unshuffle.plan.logical import (
    Combine,
    Filter,
    FinalGroupBy,
    Foreign,
    GroupBy,
    GroupingSets,
    GroupRef,
    Join,
    MultiJoin,
    MultiOutput,
    PartialGroupBy,
    PartialTopN,
    Plan,
    Project,
    Reference,
    Scan,
    SetOperation,
    Shared,
    Sort,
    TableScan,
    Values,
    Window,
    subqueries_of,
)

Change = Callable[[Plan], Plan]
ChangeExpression = Callable[[Expression], Expression]


def with_inputs(plan: Plan, inputs: Sequence[Plan]) -> Plan:
    """A copy of the operator over `inputs`, which replace its children in order."""
    match plan:
        case Scan() | TableScan() | Values() | GroupRef():
            return plan
        case Join() | Combine():
            return replace(plan, left=inputs[0], right=inputs[1])
        case SetOperation() | MultiJoin() | MultiOutput():
            return replace(plan, inputs=tuple(inputs))
        case Foreign():
            return replace(plan, inputs=tuple((name, new) for (name, _), new in zip(plan.inputs, inputs, strict=True)))
        case Reference():
            (rowset,) = inputs
            if not isinstance(rowset, Shared | GroupRef):
                raise InternalError(f"a Reference reads a shared rowset, not a {type(rowset).__name__}")
            return replace(plan, rowset=rowset)
        case Shared():
            return Shared(plan.name, inputs[0])
        case _:
            return replace(plan, child=inputs[0])


def map_inputs(plan: Plan, change: Change, nested: bool = True) -> Plan:
    """The operator over changed inputs, or the operator itself if no input changed. With `nested`, the plans of the
    subqueries in its expressions are changed too."""
    rebuilt = map_subqueries(plan, change) if nested else plan
    inputs = plan.children
    changed = [change(each) for each in inputs]
    if all(new is old for new, old in zip(changed, inputs, strict=True)):
        return rebuilt
    return with_inputs(rebuilt, changed)


def map_subqueries(plan: Plan, change: Change) -> Plan:
    """The operator over the same inputs, with the plans of its subqueries changed. The operator itself if none changed."""
    plans = subqueries_of(plan)
    changed = {id(each): change(each) for each in plans}
    if all(changed[id(each)] is each for each in plans):
        return plan

    def inside(expression: Expression) -> Expression:
        expression = map_operands(expression, inside)
        if isinstance(expression, Subquery):
            return replace(expression, plan=changed[id(expression.plan)])
        return expression

    return map_expressions(plan, inside)


def map_expressions(plan: Plan, change: ChangeExpression) -> Plan:
    """The operator over the same inputs, with the expressions that it evaluates changed. Key columns are no expressions."""
    rule = _MAP_EXPRESSIONS.get(type(plan))
    return plan if rule is None else rule(plan, change)


def _pairs(pairs: Sequence[tuple[Any, Any]], change: ChangeExpression) -> tuple[tuple[Any, Any], ...]:
    return tuple((column, change(expression)) for column, expression in pairs)


def _order(order: Sequence[SortKey], change: ChangeExpression) -> tuple[SortKey, ...]:
    return tuple(replace(key, expression=change(key.expression)) for key in order)


def _map_condition(plan: Join, change: ChangeExpression) -> Plan:
    return plan if plan.condition is None else replace(plan, condition=change(plan.condition))


_MAP_EXPRESSIONS: dict[type, Callable[[Any, ChangeExpression], Plan]] = {
    Values: lambda plan, change: replace(plan, rows=tuple(tuple(map(change, row)) for row in plan.rows)),
    Project: lambda plan, change: replace(plan, outputs=_pairs(plan.outputs, change)),
    Filter: lambda plan, change: replace(plan, predicate=change(plan.predicate)),
    GroupBy: lambda plan, change: replace(plan, aggregates=_pairs(plan.aggregates, change)),
    GroupingSets: lambda plan, change: replace(plan, aggregates=_pairs(plan.aggregates, change)),
    FinalGroupBy: lambda plan, change: replace(plan, aggregates=_pairs(plan.aggregates, change)),
    PartialGroupBy: lambda plan, change: replace(plan, states=_pairs(plan.states, change)),
    Window: lambda plan, change: replace(plan, calls=_pairs(plan.calls, change)),
    Sort: lambda plan, change: replace(plan, order=_order(plan.order, change)),
    PartialTopN: lambda plan, change: replace(plan, order=_order(plan.order, change)),
    Join: _map_condition,
    MultiJoin: lambda plan, change: replace(plan, conditions=tuple(map(change, plan.conditions))),
}
