"""Takes away the sharing that a script does not use.

While binding, every named rowset is a `Shared` node and every use of it a `Reference`. A rowset that turns out to have
one use is put in place of that use, so that what remains shared is what is really read twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from unshuffle.algebra.expressions import (
    AggregateCall,
    Exists,
    Expression,
    InSubquery,
    Ref,
    ScalarSubquery,
    SortKey,
    WindowCall,
    map_operands,
)
from unshuffle.algebra.logical import (
    Combine,
    Distinct,
    Expand,
    Filter,
    FinalGroupBy,
    Foreign,
    GroupBy,
    GroupingSets,
    Join,
    Limit,
    PartialGroupBy,
    PartialTop,
    Plan,
    Process,
    Project,
    Reduce,
    Reference,
    Scan,
    Script,
    SetOperation,
    Shared,
    Sort,
    TableScan,
    Values,
    Window,
)

Change = Callable[[Plan], Plan]


def inline_single_uses(script: Script) -> Script:
    uses = Counter(id(node.rowset) for node in script.operators() if isinstance(node, Reference))
    rebuilt: dict[int, Shared] = {}

    def change(plan: Plan) -> Plan:
        if not isinstance(plan, Reference):
            return map_plans(plan, change)
        rowset = plan.rowset
        if uses[id(rowset)] > 1:
            if id(rowset) not in rebuilt:
                rebuilt[id(rowset)] = Shared(rowset.name, change(rowset.child))
            return Reference(rebuilt[id(rowset)], plan.columns)
        child = change(rowset.child)
        if plan.columns == rowset.columns:
            return child
        pairs = zip(plan.columns, rowset.columns, strict=True)
        return Project(child, tuple((column, Ref(original)) for column, original in pairs))

    return replace(script, outputs=tuple(replace(output, plan=change(output.plan)) for output in script.outputs))


def map_plans(plan: Plan, change: Change) -> Plan:
    """The same operator over changed inputs, the plans of subqueries in its expressions included."""

    def inside(expression: Expression) -> Expression:
        expression = map_operands(expression, inside)
        if isinstance(expression, ScalarSubquery | Exists | InSubquery):
            return replace(expression, plan=change(expression.plan))
        return expression

    def aggregate(call: AggregateCall) -> AggregateCall:
        changed = inside(call)
        assert isinstance(changed, AggregateCall)
        return changed

    def window(call: WindowCall) -> WindowCall:
        changed = inside(call)
        assert isinstance(changed, WindowCall)
        return changed

    def key(order: SortKey) -> SortKey:
        return replace(order, expression=inside(order.expression))

    match plan:
        case Scan() | TableScan():
            return plan
        case Values():
            return replace(plan, rows=tuple(tuple(inside(v) for v in row) for row in plan.rows))
        case Project():
            return replace(plan, child=change(plan.child), outputs=tuple((c, inside(e)) for c, e in plan.outputs))
        case Filter():
            return replace(plan, child=change(plan.child), predicate=inside(plan.predicate))
        case GroupBy() | GroupingSets() | FinalGroupBy():
            calls = tuple((c, aggregate(call)) for c, call in plan.aggregates)
            return replace(plan, child=change(plan.child), aggregates=calls)
        case PartialGroupBy():
            states = tuple((c, aggregate(call)) for c, call in plan.states)
            return replace(plan, child=change(plan.child), states=states)
        case Window():
            return replace(plan, child=change(plan.child), calls=tuple((c, window(call)) for c, call in plan.calls))
        case Sort() | PartialTop():
            return replace(plan, child=change(plan.child), order=tuple(map(key, plan.order)))
        case Distinct() | Expand() | Limit() | Process() | Reduce():
            return replace(plan, child=change(plan.child))
        case Shared():
            return Shared(plan.name, change(plan.child))
        case Join():
            condition = inside(plan.condition) if plan.condition is not None else None
            return replace(plan, left=change(plan.left), right=change(plan.right), condition=condition)
        case SetOperation():
            return replace(plan, inputs=tuple(map(change, plan.inputs)))
        case Combine():
            return replace(plan, left=change(plan.left), right=change(plan.right))
        case Foreign():
            return replace(plan, inputs=tuple((name, change(child)) for name, child in plan.inputs))
        case Reference():
            changed = change(plan.rowset)
            assert isinstance(changed, Shared)
            return replace(plan, rowset=changed)
