"""How rules meet a plan: from the root down, or from the leaves up.

Both ways keep every operator under which nothing changed as it is, so that what is known of it stays known, and rewrite a
shared rowset once for all its uses. Rules that move something down (a filter) are applied on the way down, where one pass
takes it as far as it goes; rules that ask what their inputs are like, on the way up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from unshuffle.algebra.expressions import Exists, InSubquery, ScalarSubquery
from unshuffle.algebra.expressions import walk as parts
from unshuffle.algebra.logical import (
    Combine,
    Foreign,
    Join,
    Plan,
    Reference,
    Scan,
    SetOperation,
    Shared,
    TableScan,
    Values,
    expressions_of,
    walk,
)
from unshuffle.algebra.sharing import map_plans
from unshuffle.errors import InternalError
from unshuffle.rules.rewriting import LIMIT, Rewrite, Rewriting

Change = Callable[[Plan], Plan]


def descend(plan: Plan, rules: Sequence[Rewrite], context: Rewriting, nested: bool = True) -> Plan:
    """The plan with the rules applied to an operator before they are applied to its inputs. `nested` says whether any
    expression holds a subquery, whose plan is then rewritten too."""
    active = _active(rules, context)
    shared: dict[int, Shared] = {}

    def change(node: Plan) -> Plan:
        if isinstance(node, Shared):
            return _once(node, shared, change)
        return over_inputs(_settled(node, active, context), change, nested)

    return change(plan)


def ascend(plan: Plan, rules: Sequence[Rewrite], context: Rewriting, nested: bool = True) -> Plan:
    """The plan with the rules applied to an operator after they were applied to its inputs."""
    active = _active(rules, context)
    shared: dict[int, Shared] = {}

    def change(node: Plan) -> Plan:
        if isinstance(node, Shared):
            return _once(node, shared, change)
        return _settled(over_inputs(node, change, nested), active, context)

    return change(plan)


def _active(rules: Sequence[Rewrite], context: Rewriting) -> list[Rewrite]:
    return [rule for rule in rules if rule.__name__ not in context.disabled]


def _settled(node: Plan, rules: Sequence[Rewrite], context: Rewriting) -> Plan:
    for _ in range(LIMIT):
        for rule in rules:
            result = rule(node, context)
            if result is not None:
                context.fired[rule.__name__] += 1
                node = result
                break
        else:
            return node
    raise InternalError(f"rewrites do not come to an end on {type(node).__name__}")


def _once(node: Shared, done: dict[int, Shared], change: Change) -> Shared:
    if id(node) not in done:
        child = change(node.child)
        done[id(node)] = node if child is node.child else Shared(node.name, child)
    return done[id(node)]


def has_subqueries(plan: Plan) -> bool:
    return any(map(subqueries_of, walk(plan)))


def subqueries_of(plan: Plan) -> list[Plan]:
    """The plans in an operator's own expressions."""
    return [
        part.plan
        for expression in expressions_of(plan)
        for part in parts(expression)
        if isinstance(part, ScalarSubquery | Exists | InSubquery)
    ]


def map_subqueries(plan: Plan, change: Change) -> Plan:
    """The same operator over the same inputs, the plans in its expressions changed."""
    if not subqueries_of(plan):
        return plan
    inputs = {id(child) for child in plan.children}
    return map_plans(plan, lambda each: each if id(each) in inputs else change(each))


def over_inputs(plan: Plan, change: Change, nested: bool = True) -> Plan:
    """The same operator over changed inputs; the very same where none changed."""
    if nested and subqueries_of(plan):
        return map_plans(plan, change)
    inputs = plan.children
    if not inputs:
        return plan
    changed = [change(each) for each in inputs]
    if all(new is old for new, old in zip(changed, inputs, strict=True)):
        return plan
    return with_inputs(plan, changed)


def with_inputs(plan: Plan, inputs: Sequence[Plan]) -> Plan:
    match plan:
        case Scan() | TableScan() | Values():
            return plan
        case Join() | Combine():
            return replace(plan, left=inputs[0], right=inputs[1])
        case SetOperation():
            return replace(plan, inputs=tuple(inputs))
        case Foreign():
            return replace(plan, inputs=tuple((name, new) for (name, _), new in zip(plan.inputs, inputs, strict=True)))
        case Reference():
            (rowset,) = inputs
            assert isinstance(rowset, Shared)
            return replace(plan, rowset=rowset)
        case Shared():
            return Shared(plan.name, inputs[0])
        case _:
            return replace(plan, child=inputs[0])
