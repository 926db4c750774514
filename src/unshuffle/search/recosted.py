"""What a plan would still cost with other sizes, once a part of it has run.

While a plan runs, exchanges tell how many rows they really have. Every node of the plan is costed again with the estimates
that follow from them. What is below an exchange that is complete is done, and costs nothing any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from unshuffle.plan.physical import PhysicalPlan
from unshuffle.search.memo import Memo
from unshuffle.search.plan_builder import PlanBuilder


class Recosted:
    """Costs of the plans of a memo with its present estimates."""

    def __init__(self, memo: Memo, builder: PlanBuilder) -> None:
        self._memo = memo
        self._builder = builder
        self._again: dict[int, PhysicalPlan] = {}

    def remaining(self, roots: Iterable[PhysicalPlan], done: Collection[PhysicalPlan]) -> float:
        """Seconds that some plans that run together still take, if these exchanges are complete."""
        seconds, seen = 0.0, set(map(id, done))
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if id(node) not in seen:
                seen.add(id(node))
                seconds += self._plan(node).own.seconds
                waiting.extend(node.inputs)
        return seconds

    def _plan(self, node: PhysicalPlan) -> PhysicalPlan:
        found = self._again.get(id(node))
        if found is None:
            inputs = tuple(map(self._plan, node.inputs))
            group = self._memo.groups[node.group]
            found = self._builder.build(group, node.operator, inputs, node.delivered, node.alternative)
            self._again[id(node)] = found
        return found
