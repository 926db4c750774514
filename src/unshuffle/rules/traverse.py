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
_OPERATORS = "operators"  # the attribute that `on` gives a rule


def on(*operators: type) -> Callable[[Rewrite], Rewrite]:
    """Says which operators a rule looks at, so that it is not asked about others."""

    def mark(rule: Rewrite) -> Rewrite:
        rule.__dict__[_OPERATORS] = operators
        return rule

    return mark


class Done:
    """Operators with all that is under them that a sequence of rules left as they were, and will leave so again: the rules
    look at nothing else. The operators are kept, so that their ids stay theirs."""

    def __init__(self) -> None:
        self._plans: dict[int, Plan] = {}

    def __contains__(self, plan: Plan) -> bool:
        return id(plan) in self._plans

    def add(self, plan: Plan) -> None:
        self._plans[id(plan)] = plan


def descend(
    plan: Plan, rules: Sequence[Rewrite], context: Rewriting, nested: bool = True, done: Done | None = None
) -> Plan:
    """The plan with the rules applied to an operator before they are applied to its inputs. `nested` says whether any
    expression holds a subquery, whose plan is then rewritten too; `done` is what the same rules need not see again."""
    active = _Active(rules, context)
    shared: dict[int, Shared] = {}
    finished = done or Done()

    def change(node: Plan) -> Plan:
        if node in finished:
            return node
        if isinstance(node, Shared):
            return _once(node, shared, change)
        changed = over_inputs(_settled(node, active, context), change, nested)
        if changed is node:
            finished.add(node)
        return changed

    return change(plan)


def ascend(
    plan: Plan, rules: Sequence[Rewrite], context: Rewriting, nested: bool = True, done: Done | None = None
) -> Plan:
    """The plan with the rules applied to an operator after they were applied to its inputs."""
    active = _Active(rules, context)
    shared: dict[int, Shared] = {}
    finished = done or Done()

    def change(node: Plan) -> Plan:
        if node in finished:
            return node
        if isinstance(node, Shared):
            return _once(node, shared, change)
        changed = _settled(over_inputs(node, change, nested), active, context)
        if changed is node:
            finished.add(node)
        return changed

    return change(plan)


class _Active:
    """The rules that are not switched off, by the operators they look at."""

    def __init__(self, rules: Sequence[Rewrite], context: Rewriting) -> None:
        self._rules = [rule for rule in rules if rule.__name__ not in context.disabled]
        self._of: dict[type, list[Rewrite]] = {}

    def __getitem__(self, operator: type) -> list[Rewrite]:
        found = self._of.get(operator)
        if found is None:
            found = [rule for rule in self._rules if operator in rule.__dict__.get(_OPERATORS, (operator,))]
            self._of[operator] = found
        return found


def _settled(node: Plan, rules: _Active, context: Rewriting) -> Plan:
    for _ in range(LIMIT):
        for rule in rules[type(node)]:
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
    changed = {id(each): change(each) for each in subqueries_of(plan)}
    if all(changed[id(each)] is each for each in subqueries_of(plan)):
        return plan
    return map_plans(plan, lambda each: changed.get(id(each), each))


def over_inputs(plan: Plan, change: Change, nested: bool = True) -> Plan:
    """The same operator over changed inputs; the very same where none changed."""
    if nested and (plans := subqueries_of(plan)):
        changed_plans = {id(each): change(each) for each in (*plans, *plan.children)}
        if all(changed_plans[id(each)] is each for each in (*plans, *plan.children)):
            return plan
        return map_plans(plan, lambda each: changed_plans[id(each)])
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
