"""What a normalization rule is, and the state that the rules of one query share.

A rewrite is a function of one operator that returns another operator with the same rows and columns, or None where it does
not apply. `traversal` applies rewrites to all operators of a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.plan.facts import facts_of
from unshuffle.plan.logical import Plan
from unshuffle.properties import Dependencies

Rewrite = Callable[[Plan, "Rewriting"], "Plan | None"]


class Rewriting:
    """State that rewrites share: numbers for new columns, the facts of plans, and how often each rule fired."""

    def __init__(self, numbers: ColumnNumbers, disabled: frozenset[str] = frozenset()) -> None:
        self.numbers = numbers
        self.disabled = disabled
        self.fired: Counter[str] = Counter()
        self._facts: dict[int, tuple[Plan, Dependencies]] = {}  # holds the plan, so that its id is not reused

    def facts(self, plan: Plan) -> Dependencies:
        """The keys, dependencies, constants and never-NULL columns of a plan's rows."""
        entry = self._facts.get(id(plan))
        if entry is None:
            entry = plan, facts_of(plan, [self.facts(child) for child in plan.children])
            self._facts[id(plan)] = entry
        return entry[1]
