"""The search: Algorithm 1 of ICDE 2010 over a memo.

A goal is a group and the properties required of it. Its winner is the cheapest of

    unenforced  an operator that delivers what is required, over inputs that are goals in turn
    sorted      a sort over the winner of the same goal without its order
    exchanged   an exchange over an unenforced plan of the same group, sorted or not

Winners are kept. A goal that failed is searched again only for a higher limit (branch-and-bound), and then for one several
times as high, so that no goal is searched often. Everything is tried in a fixed order and only a strictly cheaper plan
replaces a winner, so the same query always gets the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any

from unshuffle.constants import SEARCH
from unshuffle.errors import InternalError
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    Alternative,
    Broadcast,
    BroadcastTo,
    Exactly,
    ExactlyPrefix,
    InitialPartitioning,
    Partitioned,
    Repartitioning,
    Required,
    Serial,
    SinglePartition,
)
from unshuffle.search.aggregation_trees import merged_inputs
from unshuffle.search.child_requirements import child_requirements
from unshuffle.search.dynamic_pruning import with_scan_of_spark
from unshuffle.search.enforcers import ANYTHING, Enforcement
from unshuffle.search.goals import Goal, goal_for, lower_bound, unsorted, unsorted_lower_bound
from unshuffle.search.implementation import Implementation
from unshuffle.search.interesting_properties import bottom_up, find_interesting_properties
from unshuffle.search.lower_bounds import Shape, find_lower_bounds, least_startup, raise_lower_bounds
from unshuffle.search.memo import Group
from unshuffle.search.plan_builder import Accepts, CostEstimator, PlanBuilder, seconds_since_exchange
from unshuffle.search.trace import Trace

Implement = Callable[[Any, Group], Iterator[Implementation]]


class Search:
    def __init__(
        self, implement: Implement, accepts: Accepts, model: CostEstimator, trace: Trace, steps: int = SEARCH.steps
    ) -> None:
        self.model = model
        self.trace = trace
        self.builder = PlanBuilder(accepts, model)
        self._implement = implement
        self._steps = steps

    # --- preparation

    def prepare(self, roots: Sequence[Group]) -> None:
        """Implements every group that the roots reach, and finds its interesting properties and lower bounds."""
        waiting = list(roots)
        while waiting:
            group = waiting.pop()
            if group.implementations is not None:
                continue
            group.implementations = [each for e in group.expressions for each in self._implement(e, group)]
            for each in group.implementations:
                waiting.extend(each.inputs)
        find_interesting_properties(roots)
        for group in bottom_up(roots):
            find_lower_bounds(group, self.model, self.builder.balanced_size)
            plan = self.solve_unenforced(group, ANYTHING)
            group.recompute_seconds = seconds_since_exchange(plan) if plan is not None else 0.0
            # The cost of the cheapest plan is the best lower bound for the groups above.
            self.solve(group)

    def reset(self, groups: Sequence[Group]) -> None:
        """Drops winners and lower bounds that rest on a decision which has changed."""
        for group in bottom_up(groups):
            find_lower_bounds(group, self.model, self.builder.balanced_size)
        for group in groups:
            group.goals.clear()
            group.unenforced_goals.clear()
            for each in group.implementations or ():
                each.alignments.clear()

    # --- goals

    def best(self, group: Group, required: Required = ANYTHING) -> PhysicalPlan:
        plan = self.solve(group, required)
        if plan is None:
            raise InternalError(f"no plan delivers {required}")
        return plan

    def solve(self, group: Group, required: Required = ANYTHING, limit: float = inf) -> PhysicalPlan | None:
        """The cheapest plan that delivers what is required, if it costs less than the limit."""
        if limit <= group.lower_bounds[Shape.ANY]:
            return None
        goal = goal_for(group.goals, group, required, self.trace)
        if goal.best is not None:
            return goal.best if goal.best.cost < limit else None
        if self._is_hopeless(group, group.goals, goal, limit):
            return None
        required = goal.required
        searched = goal.next_limit(limit)
        best, bound = None, searched
        for plan in self._plans(group, required, searched):
            if plan.cost < bound:
                self.trace.won(group.number, required, plan, best)
                best, bound = plan, plan.cost
        if best is not None:
            raise_lower_bounds(group, required, best)
        return goal.settle(best, searched, limit)

    def solve_unenforced(self, group: Group, required: Required, limit: float = inf) -> PhysicalPlan | None:
        """The cheapest plan whose top operator delivers what is required without an enforcer, if it costs less than the
        limit."""
        if limit <= group.lower_bounds[Shape.ANY]:
            return None
        goal = goal_for(group.unenforced_goals, group, required, self.trace)
        if goal.best is not None:
            return goal.best if goal.best.cost < limit else None
        if self._is_hopeless(group, group.unenforced_goals, goal, limit):
            return None
        required = goal.required
        searched = goal.next_limit(limit)
        best, bound = None, searched
        for each in group.implementations or ():
            if each.lower_bounds[goal.shape] >= bound:
                continue
            if best is not None and self._out_of_steps():
                break
            for alternative, requirements in child_requirements(self, group, each, required, bound):
                plan = self._over_winners(group, each, alternative, requirements, required, bound)
                if plan is not None and plan.cost < bound:
                    self.trace.won(group.number, required, plan, best)
                    best, bound = plan, plan.cost
        return goal.settle(best, searched, limit)

    def _is_hopeless(self, group: Group, goals: dict[Required, Goal], goal: Goal, limit: float) -> bool:
        return (
            goal.exhausted >= limit
            or group.lower_bounds[goal.shape] >= limit
            or unsorted_lower_bound(goals, goal.required) >= limit
            or least_startup(goal.required, self.model) >= limit
        )

    def _plans(self, group: Group, required: Required, limit: float) -> Iterator[PhysicalPlan]:
        """Plans of a goal, each cheaper than the one before."""
        bound = limit
        plan = self.solve_unenforced(group, required, bound)
        if plan is not None:
            bound = min(bound, plan.cost)
            yield plan
        if required.local and not isinstance(required.partitioning, Broadcast | BroadcastTo):
            for plan in self._sorted(group, required, bound):
                bound = plan.cost
                yield plan
        for plan in self.builder.rescans(group, required):
            if plan.cost < bound:
                bound = plan.cost
                yield plan
        cheapest_exchange = group.lower_bounds[Shape.ANY] + group.exchange_lower_bound
        if bound <= cheapest_exchange or (self._out_of_steps() and bound < inf):
            return
        for each in self.builder.exchanges(group, required):
            if self._starting(each) >= bound:
                continue
            plan = self._best_exchange(group, each, required, bound)
            if plan is not None and plan.cost < bound:
                bound = plan.cost
                yield plan

    def _sorted(self, group: Group, required: Required, bound: float) -> Iterator[PhysicalPlan]:
        """Sorts, each cheaper than the one before. Small partitions are sorted faster, so finer ones are tried while that
        pays."""
        below = self.solve(group, unsorted(required), bound)
        while below is not None:
            plan = self.builder.sort_over(group, below, required)
            pays = plan is not None and plan.cost < bound
            if plan is not None and pays:
                bound = plan.cost
                yield plan
            smaller = self.smaller_partitions(unsorted(required), below)
            if smaller is None and pays:
                smaller = _finer(unsorted(required), below)
            if smaller is None:
                return
            below = self.solve(group, smaller, bound)

    def _out_of_steps(self) -> bool:
        self._steps -= 1
        if self._steps < 0:
            self.trace.note("the search stopped at its limit of steps; from there on the first plan found was taken")
        return self._steps < 0

    # --- plans with smaller partitions

    def with_smaller_partitions(self, group: Group, required: Required, limit: float = inf) -> Iterator[PhysicalPlan]:
        """The cheapest plan, and while its partitions are too large, the cheapest one with smaller partitions."""
        return self._with_smaller_partitions(self.solve, group, required, limit)

    def _with_smaller_partitions(
        self,
        solve: Callable[[Group, Required, float], PhysicalPlan | None],
        group: Group,
        required: Required,
        limit: float,
    ) -> Iterator[PhysicalPlan]:
        plan = solve(group, required, limit)
        while plan is not None:
            yield plan
            smaller = self.smaller_partitions(required, plan)
            if smaller is None:
                return
            plan = solve(group, smaller, limit)

    def smaller_partitions(self, required: Required, plan: PhysicalPlan) -> Required | None:
        """The same requirement with smaller partitions than the plan's; None if these are small enough to work on."""
        return None if self.model.has_small_partitions(plan.size) else _finer(required, plan)

    # --- operators over winners

    def _over_winners(
        self,
        group: Group,
        each: Implementation,
        alternative: Alternative,
        requirements: Sequence[Required],
        required: Required,
        limit: float,
    ) -> PhysicalPlan | None:
        """The operator over the winners of its child requirements."""
        bounds = [lower_bound(child, wish, self.model) for child, wish in zip(each.inputs, requirements, strict=True)]
        shares = [each.share(place) for place in range(len(bounds))]
        spent = each.own_lower_bound + sum(share * bound for share, bound in zip(shares, bounds, strict=True))
        if spent >= limit:
            return None
        inputs: list[PhysicalPlan] = []
        for child, wish, bound, share in zip(each.inputs, requirements, bounds, shares, strict=True):
            plan = self.solve(child, wish, bound + (limit - spent) / share)
            if plan is None:
                return None
            spent += share * (plan.cost - bound)
            inputs.append(plan)
        if not self.builder.accepts(each.operator, inputs):
            inputs = [self._resorted(*of) for of in zip(each.inputs, requirements, inputs, strict=True)]
            inputs = with_scan_of_spark(each, inputs, self.builder)
        return self.builder.operator_over(group, each, alternative, inputs, required)

    def _resorted(self, group: Group, required: Required, plan: PhysicalPlan) -> PhysicalPlan:
        """A plan of the same goal with an explicit sort at its top. Spark may not know that the winner is sorted."""
        below = self.solve(group, unsorted(required)) if required.local else None
        return (self.builder.sort_over(group, below, required) if below is not None else None) or plan

    # --- exchanges

    def _starting(self, each: Enforcement) -> float:
        """A lower bound on the cost of a plan with this exchange: its partitions are tasks."""
        scheme = each.how.scheme if isinstance(each.how, Repartitioning | InitialPartitioning) else None
        return self.model.start_tasks(scheme.function.partitions) if isinstance(scheme, Partitioned) else 0.0

    def _best_exchange(self, group: Group, each: Enforcement, required: Required, limit: float) -> PhysicalPlan | None:
        best = None
        for plan in self._unexchanged(group, each.input, limit - group.exchange_lower_bound):
            if plan.cost + group.exchange_lower_bound >= limit:
                continue
            inputs = (plan, *merged_inputs(self.builder, group, plan, each))
            for below in inputs:
                candidate = self.builder.exchange_over(group, below, each, required)
                if candidate is not None and candidate.cost < limit:
                    best, limit = candidate, candidate.cost
        return best

    def _unexchanged(self, group: Group, required: Required, limit: float) -> Iterator[PhysicalPlan]:
        """Plans without an exchange at their top, sorted if necessary."""
        yield from self._with_smaller_partitions(self.solve_unenforced, group, required, limit)
        if required.local:
            for below in self._with_smaller_partitions(self.solve_unenforced, group, unsorted(required), limit):
                plan = self.builder.sort_over(group, below, required)
                if plan is not None:
                    yield plan


def _finer(required: Required, plan: PhysicalPlan) -> Required | None:
    """The same requirement with smaller partitions than the plan's; None if their number is given."""
    if isinstance(required.partitioning, SinglePartition | Broadcast | BroadcastTo | Exactly | ExactlyPrefix):
        return None
    if isinstance(plan.delivered.partitioning, Serial):
        return None
    return Required(required.partitioning, required.local, plan.size.largest * SEARCH.smaller_partition)
