"""The N cheapest plans of a goal, exactly, in order of their cost.

The search keeps one winner a goal. Here every plan that the search could have made is considered: the same requests, sorts
(but none of what is sorted) and exchanges, over all plans of the inputs and not only their winners. What an operator costs
and delivers depends on its inputs only through how they lie, so plans are kept in classes, one for each layout that a goal
can deliver:

    a recipe   an operator over one class of each input: what it costs itself is one number, and so its cheapest plan is
               over the cheapest plans of the classes, its next one over the next of one of them, and so on
    a class    the plans of all recipes that give its layout

A goal finds its recipes in order of the cost of their cheapest plan. It keeps what may come next in a heap, by a cost that
nothing made of it is under: the floors of branch-and-bound for an operator that was not looked at yet, the cost of the inputs
for one that was not put together. What is taken first from the heap is a recipe, and no other is cheaper, or is opened into
what it stands for. So of the exponentially many plans only those are made whose cost is near the N-th; nothing is cut off.

A dearer input may make a cheaper plan, which the search sees only if it asks for what makes it so: its winner is the first
plan here as long as its requests are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from unshuffle.algebra.logical import PartialGroupBy
from unshuffle.algebra.operators import HashAggregate, LocalSort, Move
from unshuffle.algebra.physical import Physical, PhysicalOperator
from unshuffle.properties import Alternative, Covers, Delivered, EveryPartition, Required
from unshuffle.properties.match_local import implied_local
from unshuffle.search.enforcers import ANYTHING, Enforcement, exchanges
from unshuffle.search.floors import Shape, shape_required
from unshuffle.search.implementation import Implementation
from unshuffle.search.inputs import requests_of
from unshuffle.search.memo import Group
from unshuffle.search.optimize import Search
from unshuffle.search.requests import simplified
from unshuffle.search.trees import trees

Over = Callable[[tuple[Physical, ...]], "Physical | None"]


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """An operator over a class of each input, and the cheapest plan of it."""

    best: Physical
    parts: tuple[Class, ...]
    over: Over

    def plan(self, ranks: tuple[int, ...]) -> Physical | None:
        """The plan over the inputs' plans of these ranks."""
        if not any(ranks):
            return self.best
        found = [part.get(rank) for part, rank in zip(self.parts, ranks, strict=True)]
        inputs = tuple(plan for plan in found if plan is not None)
        return self.over(inputs) if len(inputs) == len(found) else None


Opened = Iterator[tuple[float, "Recipe | Open"]]
Open = Callable[[], Opened]


class Goal:
    """The recipes of a goal in order of cost, and its classes in the order in which they are first met."""

    def __init__(self, same: Same, first: Opened) -> None:
        self.recipes: list[Recipe] = []
        self.same = same
        self._classes: dict[Delivered, Class] = {}
        self._in_order: list[Class] = []
        self._heap: list[tuple[float, int, Recipe | Open]] = []
        self._order = count()
        self._push(first)

    def bound(self, place: int) -> float:
        """What the recipe at a place, and all after it, cost at the least."""
        if place < len(self.recipes):
            return self.recipes[place].best.cost
        return self._heap[0][0] if self._heap else inf

    def step(self) -> None:
        """Finds the next recipe, or opens something that may be one."""
        bound, _, item = heappop(self._heap)
        if not isinstance(item, Recipe):
            self._push((max(bound, lower), made) for lower, made in item())
            return
        self.recipes.append(item)
        if item.best.delivered not in self._classes:
            new = self._classes[item.best.delivered] = Class(self, item.best)
            self._in_order.append(new)

    def at(self, place: int) -> Class | None:
        """The class that is met at a place, counted from 0."""
        while len(self._in_order) <= place and self._heap:
            self.step()
        return self._in_order[place] if place < len(self._in_order) else None

    def plans(self) -> Iterator[Physical]:
        """All plans in order of cost, of whatever class."""
        heap: list[tuple[float, int, int]] = []  # cost, the class's place, rank
        place = 0
        while True:
            for new in self._in_order[place:]:
                heappush(heap, (new.best.cost, place, 0))
                place += 1
            if self._heap and self._heap[0][0] <= (heap[0][0] if heap else inf):
                self.step()  # a class that is still to be met may be cheaper
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

    def _push(self, items: Opened) -> None:
        for bound, item in items:
            if bound < inf:
                heappush(self._heap, (bound, next(self._order), item))


class Class:
    """The plans of a goal that deliver one layout, in order of cost, no two the same."""

    def __init__(self, goal: Goal, best: Physical) -> None:
        self.best = best
        self._goal = goal
        self._found: list[Physical] = []
        self._seen: set[int] = set()
        self._looked_at = 0  # recipes of the goal
        # By cost: a plan, or (None) ranks of a recipe whose plan is still to be made.
        self._heap: list[tuple[float, int, Recipe, tuple[int, ...], int, Physical | None]] = []
        self._order = count()

    def get(self, rank: int) -> Physical | None:
        """The plan at a rank, counted from 0; None if there are not so many."""
        while len(self._found) <= rank:
            if self._goal.bound(self._looked_at) <= (self._heap[0][0] if self._heap else inf):
                if not self._look():
                    return None
            else:
                self._step()
        return self._found[rank]

    def _look(self) -> bool:
        """At the goal's next recipe, if there is one."""
        goal = self._goal
        if self._looked_at == len(goal.recipes):
            if goal.bound(self._looked_at) == inf:
                return False
            goal.step()
            return True
        recipe = goal.recipes[self._looked_at]
        self._looked_at += 1
        if recipe.best.delivered == self.best.delivered:
            self._push(recipe.best.cost, recipe, (0,) * len(recipe.parts), 0, recipe.best)
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
        mark = self._goal.same.mark(plan)
        if mark not in self._seen:
            self._seen.add(mark)
            self._found.append(plan)
        for place in range(last, len(ranks)):
            self._push(plan.cost, recipe, _next(ranks, place), place, None)

    def _push(self, cost: float, recipe: Recipe, ranks: tuple[int, ...], last: int, plan: Physical | None) -> None:
        heappush(self._heap, (cost, next(self._order), recipe, ranks, last, plan))


class Same:
    """Numbers for plans, so that plans of the same operators over the same plans have one number."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._of: dict[int, tuple[Physical, int]] = {}

    def mark(self, plan: Physical) -> int:
        known = self._of.get(id(plan))
        if known is None:
            below = tuple(map(self.mark, plan.inputs))
            number = self._numbers.setdefault((_identity(plan.operator), plan.alternative, below), len(self._numbers))
            known = self._of[id(plan)] = plan, number
        return known[1]


def _identity(operator: PhysicalOperator) -> Any:
    """Operators of the memo are there once; sorts and exchanges are made anew for each plan."""
    match operator:
        case LocalSort(keys=keys):
            return keys
        case Move(how=how):
            return how
        case HashAggregate(phase="combining", keys=keys):
            return "combining", keys
        case _:
            return id(operator)


First = Callable[[Group, Required], Opened]


class Ranking:
    """The goals of a search that is done, with all their plans."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._same = Same()
        self._goals: dict[tuple[str, int, Required], Goal] = {}

    def plans(self, groups: Sequence[Group]) -> Iterator[tuple[float, tuple[Physical, ...]]]:
        """The plans of several roots together, by the sum of their costs."""
        roots = [_Fetched(self._solved(group, ANYTHING).plans()) for group in groups]
        heap: list[tuple[float, tuple[int, ...], int]] = []

        def push(ranks: tuple[int, ...], last: int) -> None:
            found = [root.get(rank) for root, rank in zip(roots, ranks, strict=True)]
            if all(plan is not None for plan in found):
                heappush(heap, (sum(plan.cost for plan in found if plan is not None), ranks, last))

        push((0,) * len(roots), 0)
        while heap:
            cost, ranks, last = heappop(heap)
            found = (root.get(rank) for root, rank in zip(roots, ranks, strict=True))
            yield cost, tuple(plan for plan in found if plan is not None)
            for place in range(last, len(roots)):
                push(_next(ranks, place), place)

    def same(self, plans: Sequence[Physical], others: Sequence[Physical]) -> bool:
        """Are these the same operators over the same inputs?"""
        return [self._same.mark(plan) for plan in plans] == [self._same.mark(plan) for plan in others]

    # --- goals

    def _goal(self, kind: str, group: Group, required: Required, first: First) -> Goal:
        simple = simplified(required, group.facts, group.column_set)
        key = (kind, group.number, simple)
        if key not in self._goals:
            self._goals[key] = Goal(self._same, first(group, simple))
        return self._goals[key]

    def _solved(self, group: Group, required: Required) -> Goal:
        return self._goal("solved", group, required, self._ways)

    def _natural(self, group: Group, required: Required) -> Goal:
        return self._goal("natural", group, required, self._operators)

    def _in_place(self, group: Group, required: Required) -> Goal:
        return self._goal("in place", group, required, self._not_moved)

    def _ways(self, group: Group, required: Required) -> Opened:
        floor = group.floors[shape_required(required)]
        yield floor, _over_classes(lambda: self._natural(group, required), _itself)
        if required.local and not isinstance(required.partitioning, EveryPartition | Covers):
            unsorted = Required(required.partitioning, (), required.largest)
            yield floor, _over_classes(lambda: self._solved(group, unsorted), self._sort(group, required))
        for each in exchanges(required, group, self._search.ideal(group)):
            least = group.floors[Shape.ANYHOW] + group.least_move
            yield least, self._moves(group, each, required)
            if isinstance(group.expressions[0], PartialGroupBy):
                yield least, self._in_trees(group, each, required)

    def _not_moved(self, group: Group, required: Required) -> Opened:
        floor = group.floors[shape_required(required)]
        yield floor, _over_classes(lambda: self._natural(group, required), _itself)
        if required.local:
            unsorted = Required(required.partitioning, (), required.largest)
            yield floor, _over_classes(lambda: self._natural(group, unsorted), self._sort(group, required))

    def _sort(self, group: Group, required: Required) -> Over:
        """A sort of what is in order already is no plan to compare with."""

        def over(inputs: tuple[Physical, ...]) -> Physical | None:
            if implied_local(inputs[0].delivered.local, required.local, group.facts):
                return None
            return self._search.sorted_over(group, inputs[0], required)

        return over

    def _moves(self, group: Group, each: Enforcement, required: Required) -> Open:
        def over(inputs: tuple[Physical, ...]) -> Physical | None:
            return self._search.moved_over(group, inputs[0], each, required)

        return _over_classes(lambda: self._in_place(group, each.input), over, group.least_move)

    def _in_trees(self, group: Group, each: Enforcement, required: Required) -> Open:
        """The same over findings that are combined first, in the cheapest way."""

        def over(inputs: tuple[Physical, ...]) -> Physical | None:
            below = trees(self._search, group, inputs[0], each)
            found = (self._search.moved_over(group, tree, each, required) for tree in below)
            return min((plan for plan in found if plan is not None), key=lambda plan: plan.cost, default=None)

        return _over_classes(lambda: self._in_place(group, each.input), over, group.least_move)

    # --- operators over their inputs

    def _operators(self, group: Group, required: Required) -> Opened:
        shape = shape_required(required)
        for each in group.implementations or ():
            yield each.floors[shape], self._requested(group, each, required)

    def _requested(self, group: Group, each: Implementation, required: Required) -> Open:
        floor = each.floors[shape_required(required)]

        def opened() -> Opened:
            for alternative, requests in requests_of(self._search, group, each, required):
                yield floor, self._combined(group, each, alternative, requests, required)

        return opened

    def _combined(
        self,
        group: Group,
        each: Implementation,
        alternative: Alternative,
        requests: Sequence[Required],
        required: Required,
    ) -> Open:
        """The operator over every combination of its inputs' classes, those with the cheapest plans first."""

        def over(inputs: tuple[Physical, ...]) -> Physical | None:
            return self._search.operator_over(group, each, alternative, inputs, required)

        def at(places: tuple[int, ...], last: int) -> Open:
            def opened() -> Opened:
                asked = zip(each.inputs, requests, places, strict=True)
                found = [self._solved(child, request).at(place) for child, request, place in asked]
                parts = tuple(part for part in found if part is not None)
                if len(parts) < len(found):
                    return
                bound = each.least + sum(part.best.cost for part in parts)
                yield bound, lambda: _made(parts, over)
                for place in range(last, len(places)):
                    yield bound, at(_next(places, place), place)

            return opened

        return at((0,) * len(each.inputs), 0)


class _Fetched:
    """An iterator that can be asked for what it has given before."""

    def __init__(self, plans: Iterator[Physical]) -> None:
        self._plans = plans
        self._found: list[Physical] = []

    def get(self, rank: int) -> Physical | None:
        while len(self._found) <= rank:
            following = next(self._plans, None)
            if following is None:
                return None
            self._found.append(following)
        return self._found[rank]


def _next(ranks: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*ranks[:place], ranks[place] + 1, *ranks[place + 1 :])


def _itself(inputs: tuple[Physical, ...]) -> Physical | None:
    return inputs[0]


def _made(parts: tuple[Class, ...], over: Over) -> Opened:
    plan = over(tuple(part.best for part in parts))
    if plan is not None:
        yield plan.cost, Recipe(plan, parts, over)


def _over_classes(below: Callable[[], Goal], over: Over, least: float = 0.0) -> Open:
    """A recipe over each class of a goal, as far as they are asked for."""

    def at(place: int) -> Open:
        def opened() -> Opened:
            part = below().at(place)
            if part is None:
                return
            yield from _made((part,), over)
            yield part.best.cost + least, at(place + 1)

        return opened

    return at(0)
