"""The two traversals that apply rules to a plan: from the root down, and from the leaves up.

Both return the same object for an operator under which nothing changed, so that cached facts stay valid, and both rewrite a
shared rowset once for all its uses. Rules that push something down (a filter) run on the way down, where one pass pushes it
as far as it goes. Rules that look at their inputs run on the way up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unshuffle.constants import THRESHOLDS
from unshuffle.errors import InternalError
from unshuffle.normalize.rewriting import Rewrite, Rewriting
from unshuffle.plan.logical import Plan, Shared
from unshuffle.plan.rebuild import Change, map_inputs

_OPERATORS = "operators"  # the attribute that `on` gives a rule


def on(*operators: type) -> Callable[[Rewrite], Rewrite]:
    """Declares which operators a rule matches, so that it is not tried on others."""

    def mark(rule: Rewrite) -> Rewrite:
        rule.__dict__[_OPERATORS] = operators
        return rule

    return mark


class Done:
    """Plans that a sequence of rules left unchanged, and would leave unchanged again because the rules look at nothing else.
    The plans are held, so that their ids are not reused."""

    def __init__(self) -> None:
        self._plans: dict[int, Plan] = {}

    def __contains__(self, plan: Plan) -> bool:
        return id(plan) in self._plans

    def add(self, plan: Plan) -> None:
        self._plans[id(plan)] = plan


def descend(
    plan: Plan, rules: Sequence[Rewrite], context: Rewriting, nested: bool = True, done: Done | None = None
) -> Plan:
    """Applies the rules to an operator before its inputs. `nested` says whether expressions may hold subqueries, whose plans
    are then rewritten too. `done` has the plans that the same rules need not see again."""
    active = _Active(rules, context)
    return _traverse(plan, lambda node, change: map_inputs(_settled(node, active, context), change, nested), done)


def ascend(
    plan: Plan, rules: Sequence[Rewrite], context: Rewriting, nested: bool = True, done: Done | None = None
) -> Plan:
    """Applies the rules to an operator after its inputs."""
    active = _Active(rules, context)
    return _traverse(plan, lambda node, change: _settled(map_inputs(node, change, nested), active, context), done)


def _traverse(plan: Plan, rewrite: Callable[[Plan, Change], Plan], done: Done | None) -> Plan:
    """Rewrites every operator once. `rewrite` gets an operator and the function that rewrites its inputs."""
    shared: dict[int, Shared] = {}
    finished = done or Done()

    def change(node: Plan) -> Plan:
        if node in finished:
            return node
        if isinstance(node, Shared):
            return _once(node, shared, change)
        changed = rewrite(node, change)
        if changed is node:
            finished.add(node)
        return changed

    return change(plan)


class _Active:
    """The rules that are not disabled, by the operators that they match."""

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
    for _ in range(THRESHOLDS.rule_firings):
        for rule in rules[type(node)]:
            result = rule(node, context)
            if result is not None:
                context.fired[rule.__name__] += 1
                node = result
                break
        else:
            return node
    raise InternalError(f"the rewrites of {type(node).__name__} do not terminate")


def _once(node: Shared, done: dict[int, Shared], change: Change) -> Shared:
    if id(node) not in done:
        child = change(node.child)
        done[id(node)] = node if child is node.child else Shared(node.name, child)
    return done[id(node)]
