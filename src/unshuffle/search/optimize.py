"""The search: Algorithm 1 of ICDE 2010 over a memo.

A goal is a group and the properties required of it. Its winner is the cheapest of

    natural     an operator that delivers what is required, over inputs that are goals in turn
    sorted      a sort over the winner of the same goal without its order
    moved       an exchange over a natural plan of the same group, sorted or not

Winners are kept; a goal is searched again only when it is asked for with a higher limit than it failed at
(branch-and-bound), and then without a limit, so that no goal is searched more than twice. Everything is tried in a fixed
order and a winner is replaced only by a strictly cheaper plan, so the same query gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Protocol

from unshuffle.algebra.operators import FileScan, LocalSort, Move, ReadSpool
from unshuffle.algebra.physical import Amount, Cost, Physical, PhysicalOperator
from unshuffle.errors import InternalError
from unshuffle.properties import (
    Alternative,
    Clustered,
    Covering,
    Covers,
    Delivered,
    Dependencies,
    EveryPartition,
    Exactly,
    Exchange,
    ExchangeError,
    InitialPartitioning,
    LiesWithin,
    OnePartition,
    Partitioned,
    Partitioning,
    Proof,
    RangeFunction,
    RangeOrdered,
    Repartitioning,
    Replicated,
    Required,
    Scattered,
    Serial,
    Within,
    match,
    match_joint,
)
from unshuffle.properties.layouts import reading
from unshuffle.search.enforcers import ANYTHING, Enforcement, exchanges, sort_keys
from unshuffle.search.floors import Shape, find_floors, raise_floors, shape_required
from unshuffle.search.implementation import Implementation
from unshuffle.search.inputs import requests_of
from unshuffle.search.interest import prepare
from unshuffle.search.memo import Group
from unshuffle.search.pruning import copied_amount, projected
from unshuffle.search.ranges import range_share, within_share
from unshuffle.search.requests import (
    simplified,
)
from unshuffle.search.trace import Trace
from unshuffle.search.trees import trees


class CostModel(Protocol):
    def ideal_partitions(self, rows: float, bytes: float) -> int: ...

    def cost(self, operator: PhysicalOperator, inputs: Sequence[Amount], output: Amount) -> Cost: ...

    def lies_well(self, amount: Amount) -> bool: ...

    def fragments(self, partitions: int) -> tuple[int, ...]: ...

    def elapsed(self, work: float, amount: Amount) -> float: ...

    def least(self, operator: PhysicalOperator, inputs: Sequence[Amount], output: Amount) -> float: ...


@dataclass(slots=True)
class _Goal:
    required: Required  # in its simplest form
    shape: Shape
    best: Physical | None = None
    exhausted: float = -1.0  # no plan costs less than this, if there is no best

    @property
    def floor(self) -> float:
        """A cost that no plan is under, of this goal or of one that asks for more."""
        return self.best.cost if self.best is not None else self.exhausted

    def settle(self, best: Physical | None, within: float, limit: float) -> Physical | None:
        """Keeps the outcome of a search for plans under `within`, and answers the one who asked for less than `limit`."""
        self.best = best
        if best is None:
            self.exhausted = max(within, 0.0)
            return None
        return best if best.cost < limit else None


Implement = Callable[[Any, Group], Iterator[Implementation]]
Accepts = Callable[[PhysicalOperator, Sequence[Physical]], bool]
LESS = 1 - 1e-9


class Search:
    def __init__(
        self, implement: Implement, accepts: Accepts, model: CostModel, trace: Trace, steps: int = 200_000
    ) -> None:
        self.model = model
        self.accepts = accepts
        self.trace = trace
        self.spools: dict[int, Physical] = {}  # group number of a shared rowset -> the plan that computes it once
        self._implement = implement
        self._steps = steps
        self._ideals: dict[int, int] = {}

    # --- preparation

    def prepare(self, roots: Sequence[Group]) -> None:
        """Implements every group that the roots reach, and finds out which layouts are interesting."""
        waiting = list(roots)
        while waiting:
            group = waiting.pop()
            if group.implementations is not None:
                continue
            group.implementations = [each for e in group.expressions for each in self._implement(e, group)]
            for each in group.implementations:
                waiting.extend(each.inputs)
        prepare(roots)
        for group in self._bottom_up(roots):
            find_floors(group, self.model, self._whole)
            natural = self.natural(group, ANYTHING)
            group.again = _since_exchange(natural) if natural is not None else 0.0
            # What any plan of a group really costs is the best of floors for whoever uses it.
            self.solve(group)

    @staticmethod
    def _bottom_up(roots: Sequence[Group]) -> Iterator[Group]:
        seen: set[int] = set()

        def visit(group: Group) -> Iterator[Group]:
            if group.number not in seen:
                seen.add(group.number)
                for each in group.implementations or ():
                    for child in each.inputs:
                        yield from visit(child)
                yield group

        for root in roots:
            yield from visit(root)

    def forget(self, groups: Sequence[Group]) -> None:
        """Drops winners and floors, after a decision that they may rest on has changed."""
        for group in self._bottom_up(groups):
            find_floors(group, self.model, self._whole)
        for group in groups:
            group.goals.clear()
            group.natural.clear()
            for each in group.implementations or ():
                each.aligned.clear()

    # --- goals

    def solve(self, group: Group, required: Required = ANYTHING, limit: float = inf) -> Physical | None:
        """The cheapest plan under the limit that delivers what is required, or None."""
        if limit <= group.floors[Shape.ANYHOW]:
            return None
        goal = self._goal(group.goals, group, required)
        if goal.best is not None:
            return goal.best if goal.best.cost < limit else None
        if goal.exhausted >= limit or group.floors[goal.shape] >= limit:
            return None
        if self._floor(group.goals, goal.required) >= limit:
            return None
        required = goal.required
        within = limit if goal.exhausted < 0 else inf
        best, bound = None, within
        for plan in self._ways(group, required, within):
            if plan.cost < bound:
                self.trace.won(group.number, required, plan, best)
                best, bound = plan, plan.cost
        if best is not None:
            raise_floors(group, required, best.cost)
        return goal.settle(best, within, limit)

    def _ways(self, group: Group, required: Required, limit: float) -> Iterator[Physical]:
        bound = limit
        found = self.natural(group, required, bound)
        if found is not None:
            bound = min(bound, found.cost)
            yield found
        if required.local and not isinstance(required.partitioning, EveryPartition | Covers):
            for below in self.laid_out(group, Required(required.partitioning, (), required.largest), bound):
                plan = self.sorted_over(group, below, required)
                if plan is not None and plan.cost < bound:
                    bound = plan.cost
                    yield plan
        if bound <= group.floors[Shape.ANYHOW] + group.least_move or (self._out_of_steps() and bound < inf):
            return
        for each in exchanges(required, group, self.ideal(group)):
            plan = self._moved(group, each, required, bound)
            if plan is not None and plan.cost < bound:
                bound = plan.cost
                yield plan

    def laid_out(self, group: Group, required: Required, limit: float = inf) -> Iterator[Physical]:
        """The cheapest plan that is laid out as required, and where that lies badly, dearer ones that lie better."""
        return self._better_laid_out(self.solve, group, required, limit)

    def _better_laid_out(
        self,
        solve: Callable[[Group, Required, float], Physical | None],
        group: Group,
        required: Required,
        limit: float,
    ) -> Iterator[Physical]:
        plan = solve(group, required, limit)
        while plan is not None:
            yield plan
            smaller = self.smaller(required, plan)
            if smaller is None:
                return
            plan = solve(group, smaller, limit)

    def smaller(self, required: Required, best: Physical) -> Required | None:
        """The same with smaller partitions than the best plan has, if they are too large to work on them well."""
        if isinstance(required.partitioning, OnePartition | EveryPartition | Covers | Exactly | LiesWithin):
            return None
        if isinstance(best.delivered.partitioning, Serial) or self.model.lies_well(best.amount):
            return None
        return Required(required.partitioning, required.local, best.amount.largest * LESS)

    def natural(self, group: Group, required: Required, limit: float = inf) -> Physical | None:
        """The cheapest plan with an operator at its top that delivers what is required by itself."""
        if limit <= group.floors[Shape.ANYHOW]:
            return None
        goal = self._goal(group.natural, group, required)
        if goal.best is not None:
            return goal.best if goal.best.cost < limit else None
        if goal.exhausted >= limit or group.floors[goal.shape] >= limit:
            return None
        if self._floor(group.natural, goal.required) >= limit:
            return None
        required = goal.required
        within = limit if goal.exhausted < 0 else inf
        best, bound = None, within
        for each in group.implementations or ():
            if each.floors[goal.shape] >= bound:
                continue
            if best is not None and self._out_of_steps():
                break
            for alternative, requests in requests_of(self, group, each, required, bound):
                plan = self._over(group, each, alternative, requests, required, bound)
                if plan is not None and plan.cost < bound:
                    self.trace.won(group.number, required, plan, best)
                    best, bound = plan, plan.cost
        return goal.settle(best, within, limit)

    @staticmethod
    def _floor(goals: dict[Required, _Goal], required: Required) -> float:
        """What is known of the same goal without an order."""
        known = goals.get(Required(required.partitioning, (), required.largest)) if required.local else None
        return known.floor if known is not None else 0.0

    def known(self, group: Group, required: Required) -> float:
        """What a goal costs at the least, as far as is known."""
        goal: _Goal | None = group.goals.get(required)
        if goal is not None:
            return max(group.floors[goal.shape], goal.floor)
        # Not in its simplest form, it may ask for less than it seems to.
        may_be_simpler = isinstance(required.partitioning, Clustered | RangeOrdered)
        return group.floors[Shape.ANYHOW if may_be_simpler else shape_required(required)]

    def _goal(self, goals: dict[Required, _Goal], group: Group, required: Required) -> _Goal:
        goal = goals.get(required)
        if goal is None:
            simple = simplified(required, group.facts, group.column_set)
            goal = goals.get(simple)
            if goal is None:
                goal = goals[simple] = _Goal(simple, shape_required(simple))
                self.trace.opened(group.number, simple)
            goals[required] = goal
        return goal

    def _out_of_steps(self) -> bool:
        self._steps -= 1
        if self._steps < 0:
            self.trace.note("the search stopped at its limit of steps; from there on the first plan found was taken")
        return self._steps < 0

    # --- natural plans

    def _over(
        self,
        group: Group,
        each: Implementation,
        alternative: Alternative,
        requests: Sequence[Required],
        required: Required,
        limit: float,
    ) -> Physical | None:
        """The operator over the winners of what is asked of its inputs."""
        floors = [self.known(child, request) for child, request in zip(each.inputs, requests, strict=True)]
        spent = each.least + sum(floors)
        if spent >= limit:
            return None
        inputs: list[Physical] = []
        for child, request, floor in zip(each.inputs, requests, floors, strict=True):
            plan = self.solve(child, request, limit - (spent - floor))
            if plan is None:
                return None
            spent += plan.cost - floor
            inputs.append(plan)
        if not self.accepts(each.operator, inputs):
            inputs = [self._sorted_here(*of) for of in zip(each.inputs, requests, inputs, strict=True)]
        return self.operator_over(group, each, alternative, inputs, required)

    def _sorted_here(self, group: Group, request: Required, plan: Physical) -> Physical:
        """The rows of a plan, sorted once more for the operator that asks for it."""
        unsorted = self.solve(group, Required(request.partitioning, (), request.largest)) if request.local else None
        return (self.sorted_over(group, unsorted, request) if unsorted is not None else None) or plan

    def operator_over(
        self,
        group: Group,
        each: Implementation,
        alternative: Alternative,
        inputs: Sequence[Physical],
        required: Required,
    ) -> Physical | None:
        """The operator over these plans, if it can run so and delivers what is required."""
        if alternative.joint is not None:
            known = [(plan.delivered, child.facts) for plan, child in zip(inputs, each.inputs, strict=True)]
            if not isinstance(match_joint(known, alternative.joint), Proof):
                return None
        delivered = each.operator.deliver([p.delivered for p in inputs], [child.facts for child in each.inputs])
        if required != ANYTHING and not self._is_met(group, delivered, required):
            return None
        if not self.accepts(each.operator, inputs):
            return None
        return self.build(group, each.operator, tuple(inputs), delivered, alternative.name)

    def _is_met(self, group: Group, delivered: Delivered, required: Required) -> bool:
        return self.is_even(group, delivered.partitioning, required) and isinstance(
            match(delivered, required, group.facts), Proof
        )

    def is_even(self, group: Group, layout: Partitioning, required: Required) -> bool:
        """Do its partitions hold as few of the rows as is required?"""
        return required.largest == 1.0 or self.amount(group, layout).largest <= required.largest

    # --- enforcers

    def sorted_over(self, group: Group, plan: Physical, required: Required) -> Physical | None:
        keys = sort_keys(required.local, group.facts)
        if not keys:
            return None
        return self.build(group, LocalSort(keys, group.columns), (plan,), Delivered(plan.delivered.partitioning, keys))

    def _moved(self, group: Group, each: Enforcement, required: Required, limit: float) -> Physical | None:
        if not group.stored and not self.accepts(Move(each.how, group.columns), ()):
            return None  # and what it would move need not be found
        best = None
        for plan in self._in_place(group, each.input, limit - group.least_move):
            inputs = (plan, *trees(self, group, plan, each))
            ways = [self._read_as(group, plan, each, required)]
            for moved in (*ways, *(self.moved_over(group, below, each, required) for below in inputs)):
                if moved is not None and moved.cost < limit:
                    best, limit = moved, moved.cost
        return best

    def _read_as(self, group: Group, plan: Physical, each: Enforcement, required: Required) -> Physical | None:
        """Stored rows, read in the layout that an exchange would make."""
        scheme = each.how.scheme if isinstance(each.how, Repartitioning) else None
        if not isinstance(plan.operator, FileScan) or not isinstance(scheme, Partitioned):
            return None
        operator = plan.operator.read_as(scheme)
        if operator is None or not self._is_met(group, operator.layout, required):
            return None
        return self.build(group, operator, (), operator.layout)

    def moved_over(self, group: Group, plan: Physical, each: Enforcement, required: Required) -> Physical | None:
        """An exchange over this plan, if it can be and delivers what is required."""
        if isinstance(each.how, InitialPartitioning) and not isinstance(plan.delivered.partitioning, Serial):
            return None
        operator = Move(each.how, group.columns, _readers(each.how, plan.delivered, group.facts))
        try:
            delivered = operator.deliver([plan.delivered], [group.facts])
        except ExchangeError:
            return None
        if not self._is_met(group, delivered, required) or not self.accepts(operator, (plan,)):
            return None
        return self.build(group, operator, (plan,), delivered)

    def _in_place(self, group: Group, required: Required, limit: float) -> Iterator[Physical]:
        """Plans with no exchange at their top, sorted if need be."""
        yield from self._better_laid_out(self.natural, group, required, limit)
        if required.local:
            unsorted = Required(required.partitioning, (), required.largest)
            for below in self._better_laid_out(self.natural, group, unsorted, limit):
                plan = self.sorted_over(group, below, required)
                if plan is not None:
                    yield plan

    # --- building

    def ideal(self, group: Group) -> int:
        found = self._ideals.get(group.number)
        if found is None:
            found = self._ideals[group.number] = self.model.ideal_partitions(group.rows, group.bytes)
        return found

    def _whole(self, group: Group) -> Amount:
        return Amount(group.rows, group.bytes, self.ideal(group), 0.0, group.waits)

    def amount(self, group: Group, layout: Partitioning) -> Amount:
        """How a group's rows lie under a layout."""
        match layout:
            case Serial():
                return Amount(group.rows, group.bytes, 1, 1.0, group.waits)
            case Replicated():
                return Amount(group.rows, group.bytes, 0, 1.0, group.waits)
            case Scattered(partitions=count):
                number = count or self.ideal(group)
                return Amount(group.rows, group.bytes, number, 1 / number, group.waits)
            case Covering():
                return copied_amount(group, layout, self._share(group, projected(layout)))
            case Within():
                number = layout.function.partitions
                share = within_share(group, layout)
                return Amount(group.rows, group.bytes, number, min(1.0, max(1 / number, share)), group.waits)
            case Partitioned():
                number = layout.function.partitions
                share = self._share(group, layout)
                return Amount(group.rows, group.bytes, number, min(1.0, max(1 / number, share)), group.waits)

    @staticmethod
    def _share(group: Group, layout: Partitioned) -> float:
        """The share of the largest partition: of ranges, as far as it is known how rows lie, else of the commonest value."""
        mark = layout if isinstance(layout.function, RangeFunction) else layout.columns
        if mark not in group.shares:
            share = range_share(group, layout)
            group.shares[mark] = float(group.estimate.largest_share(layout.columns)) if share is None else share
        return group.shares[mark]

    def build(
        self,
        group: Group,
        operator: PhysicalOperator,
        inputs: tuple[Physical, ...],
        delivered: Delivered,
        alternative: str = "",
        amount: Amount | None = None,
    ) -> Physical:
        if amount is None:
            amount = self.amount(group, delivered.partitioning)
            if isinstance(operator, Move | LocalSort) and inputs[0].amount.rows < group.rows:
                # What was combined on the way is less than the group's rows.
                share = inputs[0].amount.rows / group.rows
                amount = replace(amount, rows=amount.rows * share, bytes=amount.bytes * share)
        own = self.model.cost(operator, [each.amount for each in inputs], amount)
        if isinstance(operator, Move) and (operator.samples or operator.readers is not None):
            again = group.again * self._times_more(operator, inputs[0].amount, amount)
            own = replace(own, seconds=own.seconds + again, cpu=own.cpu + again, again=again)
        total = own.seconds + sum(each.cost for each in inputs)
        return Physical(operator, inputs, delivered, group.facts, amount, own, total, alternative, group=group.number)

    def _times_more(self, operator: Move, given: Amount, output: Amount) -> float:
        """How many times more the rows below an exchange are computed: once to be looked at first, or by each who reads them
        in place. Then they are also computed by the tasks that read them, which may be fewer."""
        if operator.readers is None:
            return 1.0
        slower = self.model.elapsed(1.0, output) / self.model.elapsed(1.0, given)
        return max(0.0, max(1.0, operator.readers) * max(1.0, slower) - 1.0)

    def best(self, group: Group, required: Required = ANYTHING) -> Physical:
        plan = self.solve(group, required)
        if plan is None:
            raise InternalError(f"no plan delivers {required}")
        return plan


def _since_exchange(plan: Physical) -> float:
    """Seconds of what runs in one stage with the plan's last operator."""
    if isinstance(plan.operator, Move | ReadSpool):
        return 0.0
    return plan.own.seconds + sum(map(_since_exchange, plan.inputs))


def _readers(how: Exchange, given: Delivered, facts: Dependencies) -> float | None:
    """How many outputs read an input partition, where the old layout and the new are related: 45 partitions of a hash
    are read twice each to make 90 (SIGMOD 2012, sections 3.1 to 3.3)."""
    old = given.partitioning
    if (
        not isinstance(how, Repartitioning)
        or not isinstance(how.scheme, Partitioned)
        or not isinstance(old, Partitioned)
    ):
        return None
    new = how.scheme
    if old.nulls_apart or not all(facts.equal(a, b) for a, b in zip(old.columns, new.columns, strict=False)):
        return None
    read = reading(old.function, new.function)
    if read is None:
        return None
    average = read.total / old.function.partitions
    return average if average < new.function.partitions else None
