"""The plans of a goal in order of their cost, found lazily.

What an operator costs and delivers depends on its inputs only through their layouts. So the plans of a goal are kept in
classes, one for each layout that the goal can deliver:

    a recipe   an operator over one class of each input. Its own cost is one number, so its cheapest plan is over the
               cheapest plans of the classes, its next one over the next plan of one of them, and so on
    a class    the plans of all recipes that deliver its layout

A goal finds its recipes in order of the cost of their cheapest plan. A heap holds what may come next, by a lower bound: the
bounds of branch-and-bound for an operator that is not expanded yet, the cost of the inputs for a recipe that is not built
yet. What is popped is either a recipe, and no other one is cheaper, or it is expanded into smaller parts. So of the
exponentially many plans only those are built whose cost is near the N-th, and none is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from unshuffle.frozen import dataclass
from unshuffle.plan.physical import Exchange, HashAggregate, LocalSort, PhysicalOperator, PhysicalPlan
from unshuffle.properties import Delivered

Build = Callable[[tuple[PhysicalPlan, ...]], "PhysicalPlan | None"]


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """An operator over a class of each input, and its cheapest plan."""

    best: PhysicalPlan
    classes: tuple[PlanClass, ...]
    build: Build

    def plan(self, ranks: tuple[int, ...]) -> PhysicalPlan | None:
        """The plan over the inputs' plans of these ranks."""
        if not any(ranks):
            return self.best
        plans = [each.get(rank) for each, rank in zip(self.classes, ranks, strict=True)]
        inputs = tuple(plan for plan in plans if plan is not None)
        return self.build(inputs) if len(inputs) == len(plans) else None


# What a goal still has to look at, each with a lower bound on the cost of its plans.
Candidates = Iterator[tuple[float, "Recipe | Expand"]]
Expand = Callable[[], Candidates]


class RankedGoal:
    """The recipes of a goal in order of cost, and its classes in the order in which they are found."""

    def __init__(self, numbers: PlanNumbers, candidates: Candidates) -> None:
        self.recipes: list[Recipe] = []
        self.numbers = numbers
        self._classes: dict[Delivered, PlanClass] = {}
        self._in_order: list[PlanClass] = []
        self._heap: list[tuple[float, int, Recipe | Expand]] = []
        self._order = count()
        self._push(candidates)

    def bound(self, place: int) -> float:
        """A lower bound on the cost of the recipe at a place, and of all after it."""
        if place < len(self.recipes):
            return self.recipes[place].best.cost
        return self._heap[0][0] if self._heap else inf

    def step(self) -> None:
        """Finds the next recipe, or expands a candidate."""
        bound, _, candidate = heappop(self._heap)
        if not isinstance(candidate, Recipe):
            self._push((max(bound, lower), part) for lower, part in candidate())
            return
        self.recipes.append(candidate)
        if candidate.best.delivered not in self._classes:
            new = self._classes[candidate.best.delivered] = PlanClass(self, candidate.best)
            self._in_order.append(new)

    def class_at(self, place: int) -> PlanClass | None:
        """The class that is found at a place, counted from 0."""
        while len(self._in_order) <= place and self._heap:
            self.step()
        return self._in_order[place] if place < len(self._in_order) else None

    def plans(self) -> Iterator[PhysicalPlan]:
        """All plans of all classes in order of cost."""
        heap: list[tuple[float, int, int]] = []  # cost, the class's place, rank
        place = 0
        while True:
            for new in self._in_order[place:]:
                heappush(heap, (new.best.cost, place, 0))
                place += 1
            if self._heap and self._heap[0][0] <= (heap[0][0] if heap else inf):
                self.step()  # a class that is not found yet may be cheaper
                continue
            if not heap:
                return
            bound, at, rank = heappop(heap)
            plan = self._in_order[at].get(rank)
            if plan is not None and plan.cost > bound:
                heappush(heap, (plan.cost, at, rank))
            elif plan is not None:
                yield plan
                heappush(heap, (plan.cost, at, rank + 1))

    def _push(self, candidates: Candidates) -> None:
        for bound, candidate in candidates:
            if bound < inf:
                heappush(self._heap, (bound, next(self._order), candidate))


class PlanClass:
    """The plans of a goal that deliver one layout, in order of cost, without duplicates."""

    def __init__(self, goal: RankedGoal, best: PhysicalPlan) -> None:
        self.best = best
        self._goal = goal
        self._plans: list[PhysicalPlan] = []
        self._seen: set[int] = set()
        self._next_recipe = 0  # of the goal
        # By cost: a plan, or None with the ranks of a recipe whose plan is not built yet.
        self._heap: list[tuple[float, int, Recipe, tuple[int, ...], int, PhysicalPlan | None]] = []
        self._order = count()

    def get(self, rank: int) -> PhysicalPlan | None:
        """The plan at a rank, counted from 0; None if there are fewer plans."""
        while len(self._plans) <= rank:
            if self._goal.bound(self._next_recipe) <= (self._heap[0][0] if self._heap else inf):
                if not self._take_recipe():
                    return None
            else:
                self._step()
        return self._plans[rank]

    def _take_recipe(self) -> bool:
        """Takes the goal's next recipe. False if there is none."""
        goal = self._goal
        if self._next_recipe == len(goal.recipes):
            if goal.bound(self._next_recipe) == inf:
                return False
            goal.step()
            return True
        recipe = goal.recipes[self._next_recipe]
        self._next_recipe += 1
        if recipe.best.delivered == self.best.delivered:
            self._push(recipe.best.cost, recipe, (0,) * len(recipe.classes), 0, recipe.best)
        return True

    def _step(self) -> None:
        bound, _, recipe, ranks, last, plan = heappop(self._heap)
        if plan is None:
            plan = recipe.plan(ranks)
            if plan is not None and plan.cost > bound:
                self._push(plan.cost, recipe, ranks, last, plan)
                return
        if plan is None:
            return
        number = self._goal.numbers.number(plan)
        if number not in self._seen:
            self._seen.add(number)
            self._plans.append(plan)
        for place in range(last, len(ranks)):
            self._push(plan.cost, recipe, increment(ranks, place), place, None)

    def _push(self, cost: float, recipe: Recipe, ranks: tuple[int, ...], last: int, plan: PhysicalPlan | None) -> None:
        heappush(self._heap, (cost, next(self._order), recipe, ranks, last, plan))


class PlanNumbers:
    """Numbers plans, so that plans of the same operators over the same plans have the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._of: dict[int, tuple[PhysicalPlan, int]] = {}

    def number(self, plan: PhysicalPlan) -> int:
        known = self._of.get(id(plan))
        if known is None:
            below = tuple(map(self.number, plan.inputs))
            number = self._numbers.setdefault((_identity(plan.operator), plan.alternative, below), len(self._numbers))
            known = self._of[id(plan)] = plan, number
        return known[1]


def _identity(operator: PhysicalOperator) -> Any:
    """The memo has each operator once. Sorts, exchanges and combining aggregates are made anew for each plan."""
    match operator:
        case LocalSort(keys=keys):
            return keys
        case Exchange(how=how):
            return how
        case HashAggregate(phase="combining", keys=keys):
            return "combining", keys
        case _:
            return id(operator)


def increment(ranks: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*ranks[:place], ranks[place] + 1, *ranks[place + 1 :])


def over_best(classes: tuple[PlanClass, ...], build: Build) -> Candidates:
    """The recipe over these classes, if its cheapest plan can be built."""
    plan = build(tuple(each.best for each in classes))
    if plan is not None:
        yield plan.cost, Recipe(plan, classes, build)


def over_classes(goal: Callable[[], RankedGoal], build: Build, own_bound: float = 0.0) -> Expand:
    """A recipe over each class of a goal, as far as they are needed."""

    def at(place: int) -> Expand:
        def expand() -> Candidates:
            input_class = goal().class_at(place)
            if input_class is None:
                return
            yield from over_best((input_class,), build)
            yield input_class.best.cost + own_bound, at(place + 1)

        return expand

    return at(0)
