"""Spools: which shared rowsets are computed once for all their uses, and in which layout (ICDE 2010, section VIII).

A shared rowset is a group that several `Reference`s use. By default each use computes the rowset for itself. A spool replaces
the implementations of every use by a read of one plan of the rowset. No use alone knows which layout serves all of them, so
every requirement that some use had is tried for all, and the whole script is costed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from unshuffle.constants import SEARCH
from unshuffle.frozen import dataclass
from unshuffle.plan.logical import Reference
from unshuffle.plan.physical import Exchange, PhysicalPlan, ReadSpool
from unshuffle.properties import Replicated, Required
from unshuffle.properties.layouts.propagate import through_project
from unshuffle.search.implementation import Implementation
from unshuffle.search.memo import Group, Memo, as_group, is_repeatable
from unshuffle.search.search import Search


@dataclass(frozen=True, slots=True)
class Spool:
    """A shared rowset that is computed once: its plan, and the number of its readers. It need not be persisted (`kept`) if
    its plan ends in an exchange: Spark runs an exchange once for all its readers."""

    name: str
    number: int
    plan: PhysicalPlan
    uses: int
    kept: bool = True


class Spools:
    """The decisions for the shared rowsets of a memo. `roots` are the goals whose cost is minimized together; `can_persist`
    says whether a rowset may be persisted, which takes someone to release it."""

    def __init__(self, memo: Memo, search: Search, roots: Sequence[tuple[Group, Required]], can_persist: bool) -> None:
        self._memo = memo
        self._search = search
        self._roots = roots
        self._can_persist = can_persist
        self._plans: dict[int, PhysicalPlan] = {}  # by the group number of the rowset
        self._recomputing: dict[int, list[Implementation]] = {}  # by the group number of a use: its own implementations

    def decide(self) -> None:
        """For each shared rowset, one plan for all its uses together, if that is cheaper than computing it for each."""
        for group, uses in self._shared():
            if len(uses) > 1:
                self._decide(group, uses)

    def chosen(self) -> Iterator[Spool]:
        for group, uses in self._shared():
            plan = self._plans.get(group.number)
            if plan is not None:
                yield Spool(group.name or "", group.number, plan, len(uses), self._is_persisted(group))

    def cost(self) -> float:
        """Seconds to compute and persist all spools."""
        return sum(plan.cost + self._persisting(number) for number, plan in self._plans.items())

    def total_cost(self, limit: float = inf) -> float:
        """The cost of the spools and of all roots; infinite if it reaches the limit."""
        total = self.cost()
        for group, required in self._roots:
            plan = self._search.solve(group, required, limit - total)
            if plan is None:
                return inf
            total += plan.cost
        return total

    def _shared(self) -> Iterator[tuple[Group, list[Group]]]:
        """The shared rowsets with the groups that use them, inputs of other shared rowsets first."""
        uses: dict[int, list[Group]] = {}
        for group in self._memo.groups:
            for expression in group.expressions:
                if isinstance(expression, Reference):
                    uses.setdefault(as_group(expression.rowset).number, []).append(group)
        for number in sorted(uses):
            yield self._memo.groups[number], uses[number]

    def _decide(self, group: Group, uses: Sequence[Group]) -> None:
        # A rowset whose rows may differ each time is computed once at any cost.
        least = self.total_cost() if is_repeatable(group) else inf
        affected = self._groups_above(uses)
        chosen: PhysicalPlan | None = None
        for plan in self._candidates(group):
            self._read_from(group, uses, plan, affected)
            total = self.total_cost(least)
            if total >= least:
                break  # a more expensive plan of the rowset would have to save even more
            least, chosen = total, plan
        if chosen is not self._plans.get(group.number):
            self._read_from(group, uses, chosen, affected)

    def _candidates(self, group: Group) -> list[PhysicalPlan]:
        """The plans of a shared rowset that are worth trying, the cheapest first."""
        wishes = [Required(), *(wish for wish, goal in group.goals.items() if goal.best is not None)]
        by_layout: dict[Any, PhysicalPlan] = {}
        for wish in wishes:
            plan = self._search.best(group, wish)
            by_layout.setdefault(plan.delivered, plan)
        plans = list(by_layout.values())
        if not self._can_persist and is_repeatable(group):
            plans = [plan for plan in plans if _ends_in_exchange(plan)]
        return sorted(plans, key=lambda plan: plan.cost)[: SEARCH.spool_plans]

    def _read_from(
        self, group: Group, uses: Sequence[Group], plan: PhysicalPlan | None, affected: Sequence[Group]
    ) -> None:
        """Makes all uses read the plan; without one, each use computes the rowset for itself."""
        self._plans.pop(group.number, None)
        if plan is not None:
            self._plans[group.number] = plan
        for use in uses:
            use.implementations = self._recomputing.setdefault(use.number, list(use.implementations or ()))
            if plan is not None:
                names = dict(zip(use.columns, group.columns, strict=True))
                layout = through_project(plan.delivered, group.facts, (), names)
                read = ReadSpool(group.name or "", group.number, use.columns, layout)
                use.implementations = [Implementation(read, (), use.expressions[0], read.alternatives())]
        self._search.reset(affected)

    def _groups_above(self, uses: Sequence[Group]) -> list[Group]:
        """The groups whose plans depend on how a shared rowset is read."""
        users: dict[int, list[Group]] = {}
        for group in self._memo.groups:
            for each in group.implementations or ():
                for child in each.inputs:
                    users.setdefault(child.number, []).append(group)
        above: dict[int, Group] = {}
        waiting = list(uses)
        while waiting:
            group = waiting.pop()
            if group.number not in above:
                above[group.number] = group
                waiting.extend(users.get(group.number, ()))
        return list(above.values())

    def _is_persisted(self, group: Group) -> bool:
        """Spark may not recognize that two exchanges are the same, so rows that may differ each time are persisted."""
        return not is_repeatable(group) or not _ends_in_exchange(self._plans[group.number])

    def _persisting(self, number: int) -> float:
        if not self._is_persisted(self._memo.groups[number]):
            return 0.0
        return self._search.model.spool_seconds(self._plans[number].size)


def _ends_in_exchange(plan: PhysicalPlan) -> bool:
    """Does the plan's last operator write shuffle files?"""
    operator = plan.operator
    if not isinstance(operator, Exchange) or operator.readers is not None:
        return False
    return not isinstance(getattr(operator.how, "scheme", None), Replicated)
