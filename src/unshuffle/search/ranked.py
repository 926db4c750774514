"""The N cheapest plans of a goal, exactly, in order of their cost.

The search keeps one winner a goal. Here a goal is a stream of plans, each found when it is asked for, and every plan that the
search could have made is in it: the same requests, sorts and exchanges, over all plans of the inputs and not only their
winners. A stream keeps what may come next in a heap, by a cost that nothing made of it is under:

    an operator that was not looked at yet     what it and all below it cost at the least (the floors of branch-and-bound)
    an operator over its inputs' i-th plans    what those cost, and the operator at the least
    a plan                                     what it costs

and takes the first. What is taken is either a plan, and no other is cheaper, or is opened into what it stands for. So of the
exponentially many plans only those are made whose cost is near the N-th, and nothing is cut off.

What an operator costs depends on how its inputs lie, so a dearer input may make a cheaper plan: the winner of the search is
the first plan here as long as its requests ask for what matters, and a test that finds otherwise has found a request that
is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from unshuffle.algebra.operators import LocalSort, Move
from unshuffle.algebra.physical import Physical, PhysicalOperator
from unshuffle.properties import (
    Alternative,
    EveryPartition,
    Required,
)
from unshuffle.search.enforcers import Enforcement, exchanges
from unshuffle.search.memo import Group
from unshuffle.search.optimize import ANYTHING, Implementation, Search
from unshuffle.search.requests import simplified

Opened = Iterator[tuple[float, "Physical | Open"]]
Open = Callable[[], Opened]
First = Callable[[Group, Required], Opened]


class Stream:
    """Plans in order of cost, no two the same. What is not a plan yet is a function that yields what it stands for."""

    def __init__(self, known: Same, first: Opened) -> None:
        self._known = known
        self._order = count()
        self._heap: list[tuple[float, int, Physical | Open]] = []
        self._found: list[Physical] = []
        self._seen: set[int] = set()
        self._push(first)

    def get(self, rank: int) -> Physical | None:
        """The plan at a rank, counted from 0; None if there are not so many."""
        while len(self._found) <= rank and self._heap:
            self._step()
        return self._found[rank] if rank < len(self._found) else None

    def _step(self) -> None:
        bound, _, item = heappop(self._heap)
        if not isinstance(item, Physical):
            self._push((max(bound, lower), made) for lower, made in item())
        elif (mark := self._known.mark(item)) not in self._seen:
            self._seen.add(mark)
            self._found.append(item)

    def _push(self, items: Opened) -> None:
        for bound, item in items:
            if bound < inf:
                heappush(self._heap, (bound, next(self._order), item))


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
        case _:
            return id(operator)


class Ranking:
    """Streams for the goals of a search that is done."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._same = Same()
        self._streams: dict[tuple[str, int, Required], Stream] = {}

    def plans(self, groups: Sequence[Group]) -> Iterator[tuple[float, tuple[Physical, ...]]]:
        """The plans of several roots together, by the sum of their costs."""
        streams = [self._solved(group, ANYTHING) for group in groups]
        heap: list[tuple[float, tuple[int, ...], int]] = [(0.0, (0,) * len(streams), 0)]
        fetched: set[tuple[int, ...]] = set()
        while heap:
            _, ranks, last = heappop(heap)
            found = [stream.get(rank) for stream, rank in zip(streams, ranks, strict=True)]
            plans = tuple(plan for plan in found if plan is not None)
            if len(plans) < len(streams):
                continue
            total = sum(plan.cost for plan in plans)
            if ranks not in fetched:
                fetched.add(ranks)
                heappush(heap, (total, ranks, last))
                continue
            yield total, plans
            for place in range(last, len(streams)):
                heappush(heap, (total, _next(ranks, place), place))

    # --- goals

    def _stream(self, kind: str, group: Group, required: Required, first: First) -> Stream:
        simple = simplified(required, group.facts)
        key = (kind, group.number, simple)
        if key not in self._streams:
            self._streams[key] = Stream(self._same, first(group, simple))
        return self._streams[key]

    def _solved(self, group: Group, required: Required) -> Stream:
        return self._stream("solved", group, required, self._ways)

    def _natural(self, group: Group, required: Required) -> Stream:
        return self._stream("natural", group, required, self._operators)

    def _in_place(self, group: Group, required: Required) -> Stream:
        return self._stream("in place", group, required, self._not_moved)

    def _ways(self, group: Group, required: Required) -> Opened:
        yield group.floor, _each(lambda: self._natural(group, required))
        if required.local and not isinstance(required.partitioning, EveryPartition):
            unsorted = Required(required.partitioning)
            yield group.floor, self._sorts(group, required, lambda: self._solved(group, unsorted))
        for each in exchanges(required, group, self._search.ideal(group)):
            yield group.floor + group.least_move, self._moves(group, each, required)

    def _not_moved(self, group: Group, required: Required) -> Opened:
        yield group.floor, _each(lambda: self._natural(group, required))
        if required.local:
            unsorted = Required(required.partitioning)
            yield group.floor, self._sorts(group, required, lambda: self._natural(group, unsorted))

    # --- enforcers

    def _sorts(self, group: Group, required: Required, below: Callable[[], Stream]) -> Open:
        def over(plan: Physical) -> Physical | None:
            return self._search.sorted_over(group, plan, required)

        return _each(below, over)

    def _moves(self, group: Group, each: Enforcement, required: Required) -> Open:
        def over(plan: Physical) -> Physical | None:
            return self._search.moved_over(group, plan, each, required)

        return _each(lambda: self._in_place(group, each.input), over, group.least_move)

    # --- operators over their inputs

    def _operators(self, group: Group, required: Required) -> Opened:
        for each in group.implementations or ():
            yield each.floor, self._requested(group, each, required)

    def _requested(self, group: Group, each: Implementation, required: Required) -> Open:
        def opened() -> Opened:
            for alternative, requests in self._search.requests(group, each, required):
                yield each.floor, self._combined(group, each, alternative, requests, required)

        return opened

    def _combined(
        self,
        group: Group,
        each: Implementation,
        alternative: Alternative,
        requests: Sequence[Required],
        required: Required,
    ) -> Open:
        """The operator over every combination of its inputs' plans, the cheapest inputs first."""

        def at(ranks: tuple[int, ...], last: int) -> Open:
            def opened() -> Opened:
                asked = zip(each.inputs, requests, ranks, strict=True)
                found = [self._solved(child, request).get(rank) for child, request, rank in asked]
                inputs = tuple(plan for plan in found if plan is not None)
                if len(inputs) < len(found):
                    return
                bound = each.least + sum(plan.cost for plan in inputs)
                yield bound, lambda: made(inputs)
                for place in range(last, len(ranks)):
                    yield bound, at(_next(ranks, place), place)

            return opened

        def made(inputs: tuple[Physical, ...]) -> Opened:
            plan = self._search.operator_over(group, each, alternative, inputs, required)
            if plan is not None:
                yield plan.cost, plan

        return at((0,) * len(each.inputs), 0)


def _next(ranks: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*ranks[:place], ranks[place] + 1, *ranks[place + 1 :])


def _each(
    below: Callable[[], Stream], over: Callable[[Physical], Physical | None] = lambda plan: plan, least: float = 0.0
) -> Open:
    """One plan over each plan of a stream, opened as far as it is asked for."""

    def at(rank: int) -> Open:
        def opened() -> Opened:
            plan = below().get(rank)
            if plan is None:
                return
            made = over(plan)
            if made is not None:
                yield made.cost, made
            yield plan.cost + least, at(rank + 1)

        return opened

    return at(0)
