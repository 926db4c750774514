"""The machinery of rewrites: rules that always help and are applied to the tree before the search begins.

A rewrite is a function of one operator (its inputs already rewritten) that gives another operator with the same rows, or
None where it does not apply. `rewrite` goes from the leaves up and applies rules until none fires; a shared rowset is
rewritten once for all its uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from unshuffle.algebra.facts import facts_of
from unshuffle.algebra.logical import Plan, Shared
from unshuffle.algebra.sharing import map_plans
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.errors import InternalError
from unshuffle.properties import Dependencies

Rewrite = Callable[[Plan, "Rewriting"], "Plan | None"]

# A rule that fires this often on one operator undoes what another does.
LIMIT = 100


class Rewriting:
    """What rewrites share: numbers for new columns, the facts of plans, and the record of which rules fired."""

    def __init__(self, numbers: ColumnNumbers, disabled: frozenset[str] = frozenset()) -> None:
        self.numbers = numbers
        self.disabled = disabled
        self.fired: Counter[str] = Counter()
        self._facts: dict[int, tuple[Plan, Dependencies]] = {}  # the plan is kept so that its id stays its own

    def facts(self, plan: Plan) -> Dependencies:
        """What is known of a plan's rows."""
        known = self._facts.get(id(plan))
        if known is None:
            known = plan, facts_of(plan, [self.facts(child) for child in plan.children])
            self._facts[id(plan)] = known
        return known[1]


def rewrite(plan: Plan, rules: Sequence[Rewrite], context: Rewriting) -> Plan:
    """The plan with the rules applied everywhere, from the leaves up, plans of subqueries included."""
    active = [rule for rule in rules if rule.__name__ not in context.disabled]
    shared: dict[int, Plan] = {}

    def change(node: Plan) -> Plan:
        if isinstance(node, Shared):
            if id(node) not in shared:
                shared[id(node)] = Shared(node.name, change(node.child))
            return shared[id(node)]
        return settle(map_plans(node, change))

    def settle(node: Plan) -> Plan:
        for _ in range(LIMIT):
            for rule in active:
                result = rule(node, context)
                if result is not None:
                    context.fired[rule.__name__] += 1
                    node = result
                    break
            else:
                return node
        raise InternalError(f"rewrites do not come to an end on {type(node).__name__}")

    return change(plan)
