"""The N cheapest plans of a goal, exactly, in order of their cost.

The search keeps one winner per goal. Here every plan that the search could have made is considered: the same child
requirements, sorts (of input that is not sorted yet) and exchanges, but over all plans of the inputs and not only their
winners. `search.top_k.ranked_goals` says how only the cheapest of them are built.

A more expensive input may make a cheaper plan, which the search finds only if it requires the property that makes it so.
Its winner is the first plan here as long as its child requirements are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Alternative, Broadcast, BroadcastTo, Required
from unshuffle.properties.matching.match_local import implied_local
from unshuffle.search.aggregation_trees import has_partial_aggregate, merged_inputs
from unshuffle.search.child_requirements import child_requirements
from unshuffle.search.enforcers import ANYTHING, Enforcement
from unshuffle.search.goals import unsorted
from unshuffle.search.implementation import Implementation
from unshuffle.search.lower_bounds import Shape, shape_required
from unshuffle.search.memo import Group
from unshuffle.search.requirement_pushdown import simplified
from unshuffle.search.search import Search
from unshuffle.search.top_k.ranked_goals import (
    Build,
    Candidates,
    Expand,
    PlanNumbers,
    RankedGoal,
    increment,
    over_best,
    over_classes,
)


class TopKPlans:
    """The goals of a finished search, with all their plans."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._builder = search.builder
        self._numbers = PlanNumbers()
        self._goals: dict[tuple[str, int, Required], RankedGoal] = {}

    def plans(self, groups: Sequence[Group]) -> Iterator[tuple[float, tuple[PhysicalPlan, ...]]]:
        """The plans of several roots together, by the sum of their costs."""
        roots = [_Fetched(self._solved(group, ANYTHING).plans()) for group in groups]
        heap: list[tuple[float, tuple[int, ...], int]] = []

        def push(ranks: tuple[int, ...], last: int) -> None:
            plans = [root.get(rank) for root, rank in zip(roots, ranks, strict=True)]
            if all(plan is not None for plan in plans):
                heappush(heap, (sum(plan.cost for plan in plans if plan is not None), ranks, last))

        push((0,) * len(roots), 0)
        while heap:
            cost, ranks, last = heappop(heap)
            plans = (root.get(rank) for root, rank in zip(roots, ranks, strict=True))
            yield cost, tuple(plan for plan in plans if plan is not None)
            for place in range(last, len(roots)):
                push(increment(ranks, place), place)

    def are_same(self, plans: Sequence[PhysicalPlan], others: Sequence[PhysicalPlan]) -> bool:
        """Are these the same operators over the same inputs?"""
        return [self._numbers.number(plan) for plan in plans] == [self._numbers.number(plan) for plan in others]

    # --- goals

    def _goal(
        self, kind: str, group: Group, required: Required, candidates: Callable[[Group, Required], Candidates]
    ) -> RankedGoal:
        simple = simplified(required, group.facts, group.column_set)
        key = (kind, group.number, simple)
        if key not in self._goals:
            self._goals[key] = RankedGoal(self._numbers, candidates(group, simple))
        return self._goals[key]

    def _solved(self, group: Group, required: Required) -> RankedGoal:
        return self._goal("solved", group, required, self._plans_of_goal)

    def _unenforced(self, group: Group, required: Required) -> RankedGoal:
        return self._goal("unenforced", group, required, self._operators)

    def _unexchanged(self, group: Group, required: Required) -> RankedGoal:
        return self._goal("unexchanged", group, required, self._operators_and_sorts)

    def _plans_of_goal(self, group: Group, required: Required) -> Candidates:
        bound = group.lower_bounds[shape_required(required)]
        yield bound, over_classes(lambda: self._unenforced(group, required), _itself)
        if required.local and not isinstance(required.partitioning, Broadcast | BroadcastTo):
            yield bound, over_classes(lambda: self._solved(group, unsorted(required)), self._sort(group, required))
        for each in self._builder.exchanges(group, required):
            cheapest = group.lower_bounds[Shape.ANY] + group.exchange_lower_bound
            yield cheapest, self._exchange(group, each, required)
            if has_partial_aggregate(group):
                yield cheapest, self._exchange_over_trees(group, each, required)

    def _operators_and_sorts(self, group: Group, required: Required) -> Candidates:
        bound = group.lower_bounds[shape_required(required)]
        yield bound, over_classes(lambda: self._unenforced(group, required), _itself)
        if required.local:
            yield bound, over_classes(lambda: self._unenforced(group, unsorted(required)), self._sort(group, required))

    # --- enforcers

    def _sort(self, group: Group, required: Required) -> Build:
        """A sort of rows that are sorted already is not an alternative."""

        def build(inputs: tuple[PhysicalPlan, ...]) -> PhysicalPlan | None:
            if implied_local(inputs[0].delivered.local, required.local, group.facts):
                return None
            return self._builder.sort_over(group, inputs[0], required)

        return build

    def _exchange(self, group: Group, each: Enforcement, required: Required) -> Expand:
        def build(inputs: tuple[PhysicalPlan, ...]) -> PhysicalPlan | None:
            return self._builder.exchange_over(group, inputs[0], each, required)

        return over_classes(lambda: self._unexchanged(group, each.input), build, group.exchange_lower_bound)

    def _exchange_over_trees(self, group: Group, each: Enforcement, required: Required) -> Expand:
        """The exchange over the cheapest aggregation tree that merges the partial states."""

        def build(inputs: tuple[PhysicalPlan, ...]) -> PhysicalPlan | None:
            trees = merged_inputs(self._builder, group, inputs[0], each)
            plans = (self._builder.exchange_over(group, tree, each, required) for tree in trees)
            return min((plan for plan in plans if plan is not None), key=lambda plan: plan.cost, default=None)

        return over_classes(lambda: self._unexchanged(group, each.input), build, group.exchange_lower_bound)

    # --- operators over their inputs

    def _operators(self, group: Group, required: Required) -> Candidates:
        shape = shape_required(required)
        for each in group.implementations or ():
            yield each.lower_bounds[shape], self._by_child_requirements(group, each, required)

    def _by_child_requirements(self, group: Group, each: Implementation, required: Required) -> Expand:
        bound = each.lower_bounds[shape_required(required)]

        def expand() -> Candidates:
            for alternative, requirements in child_requirements(self._search, group, each, required):
                yield bound, self._combinations(group, each, alternative, requirements, required)

        return expand

    def _combinations(
        self,
        group: Group,
        each: Implementation,
        alternative: Alternative,
        requirements: Sequence[Required],
        required: Required,
    ) -> Expand:
        """The operator over every combination of its inputs' classes, those with the cheapest plans first."""

        def build(inputs: tuple[PhysicalPlan, ...]) -> PhysicalPlan | None:
            return self._builder.operator_over(group, each, alternative, inputs, required)

        def at(places: tuple[int, ...], last: int) -> Expand:
            def expand() -> Candidates:
                goals = zip(each.inputs, requirements, places, strict=True)
                found = [self._solved(child, wish).class_at(place) for child, wish, place in goals]
                classes = tuple(one for one in found if one is not None)
                if len(classes) < len(found):
                    return
                costs = (each.share(place) * one.best.cost for place, one in enumerate(classes))
                bound = each.own_lower_bound + sum(costs)
                yield bound, lambda: over_best(classes, build)
                for place in range(last, len(places)):
                    yield bound, at(increment(places, place), place)

            return expand

        return at((0,) * len(each.inputs), 0)


class _Fetched:
    """An iterator with random access to what it has yielded."""

    def __init__(self, plans: Iterator[PhysicalPlan]) -> None:
        self._plans = plans
        self._fetched: list[PhysicalPlan] = []

    def get(self, rank: int) -> PhysicalPlan | None:
        while len(self._fetched) <= rank:
            following = next(self._plans, None)
            if following is None:
                return None
            self._fetched.append(following)
        return self._fetched[rank]


def _itself(inputs: tuple[PhysicalPlan, ...]) -> PhysicalPlan | None:
    return inputs[0]
