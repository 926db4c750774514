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
from dataclasses import dataclass, field
from itertools import product
from math import inf
from typing import Any, Protocol

from unshuffle.algebra.operators import LocalSort, Move
from unshuffle.algebra.physical import Amount, Cost, Physical, PhysicalOperator
from unshuffle.catalog.schema import Column
from unshuffle.errors import InternalError
from unshuffle.properties import (
    Alternative,
    Clustered,
    CoPartitioned,
    Delivered,
    Dependencies,
    EveryPartition,
    Exactly,
    Exchange,
    ExchangeError,
    FullMerge,
    InitialPartitioning,
    JoinKey,
    Local,
    OnePartition,
    Partitioned,
    Proof,
    RandomMerge,
    RangeOrdered,
    Repartitioning,
    Replicated,
    Required,
    RequiredPartitioning,
    Scattered,
    Serial,
    hashed,
    match,
    match_joint,
    match_partitioning,
)
from unshuffle.properties.layouts import reading
from unshuffle.properties.structure import columns_of
from unshuffle.search.alignment import alignments
from unshuffle.search.enforcers import SCATTERED, Enforcement, exchanges, sort_keys
from unshuffle.search.interest import candidates, prepare
from unshuffle.search.memo import Group
from unshuffle.search.requests import (
    accepts_serial,
    both_orders,
    both_partitionings,
    pushed,
    simplified,
)
from unshuffle.search.trace import Trace


class CostModel(Protocol):
    def ideal_partitions(self, rows: float, bytes: float) -> int: ...

    def cost(self, operator: PhysicalOperator, inputs: Sequence[Amount], output: Amount) -> Cost: ...

    def lies_well(self, amount: Amount) -> bool: ...

    def least(self, operator: PhysicalOperator, inputs: Sequence[Amount], output: Amount) -> float: ...


@dataclass(slots=True)
class Implementation:
    """A physical operator for an expression of a group. `keys` are the equalities of a join or union, if it has some."""

    operator: PhysicalOperator
    inputs: tuple[Group, ...]
    expression: Any
    alternatives: tuple[Alternative, ...]
    keys: tuple[JoinKey, ...] = ()
    facts: Callable[[], Dependencies] | None = None  # of a join before it drops columns
    stored_columns: frozenset[Column] = frozenset()
    aligned: dict[Any, Any] = field(default_factory=dict)  # shared by all algorithms of one expression
    least: float = 0.0  # what the operator itself costs at the least
    floor: float = 0.0  # the same, with all that is below it

    def wants(self, place: int) -> Iterator[frozenset[Column]]:
        if self.keys:
            yield frozenset(key.columns[place] for key in self.keys)
            return
        for each in self.alternatives:
            wish = each.children[place].partitioning
            if isinstance(wish, Clustered):
                yield wish.maximum

    def source(self, place: int, column: Column) -> Column | None:
        """The column of an input that an output column repeats, if that input's layout can come out."""
        if self.facts is not None:
            return column if column in self.inputs[place].column_set else None
        if self.operator.carried != place:
            return None
        return self.operator.source(column)

    def output_name(self, column: Column) -> Column | None:
        """What an output column is called in the facts that relate output and inputs."""
        return column if self.facts is not None else self.operator.source(column)

    def source_in_facts(self, place: int, column: Column) -> Column | None:
        return column if self.facts is not None else self.source(place, column)

    def wide_facts(self) -> Callable[[int], Dependencies]:
        """The facts that relate the output's columns with those of an input."""
        if self.facts is not None:
            wide = self.facts()
            return lambda place: wide
        return lambda place: self.inputs[place].facts


@dataclass(slots=True)
class _Goal:
    required: Required  # in its simplest form
    best: Physical | None = None
    exhausted: float = -1.0  # no plan costs less than this, if there is no best

    def settle(self, best: Physical | None, within: float, limit: float) -> Physical | None:
        """Keeps the outcome of a search for plans under `within`, and answers the one who asked for less than `limit`."""
        self.best = best
        if best is None:
            self.exhausted = max(within, 0.0)
            return None
        return best if best.cost < limit else None


Implement = Callable[[Any, Group], Iterator[Implementation]]
ANYTHING = Required()
LESS = 1 - 1e-9
_GATHER = FullMerge(RandomMerge())
_COPY = Repartitioning(Replicated(), RandomMerge())
_READ_IN_PLACE = Repartitioning(Scattered(), RandomMerge())


class Search:
    def __init__(self, implement: Implement, model: CostModel, trace: Trace, steps: int = 200_000) -> None:
        self.model = model
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
            self._find_floor(group)

    def _find_floor(self, group: Group) -> None:
        """A cost that no plan of the group is under, whatever is required of it: for branch-and-bound."""
        floor = inf
        for each in group.implementations or ():
            each.least = self.model.least(each.operator, [self._whole(g) for g in each.inputs], self._whole(group))
            each.floor = each.least + sum(child.floor for child in each.inputs)
            floor = min(floor, each.floor)
        group.floor = 0.0 if floor == inf else floor
        whole = [self._whole(group)]
        # A stored layout may be read in place, for less than any other exchange.
        moves = (Move(_READ_IN_PLACE, (), 1.0) if group.stored else Move(_GATHER, ()), Move(_COPY, ()))
        group.least_move = min(self.model.least(each, whole, whole[0]) for each in moves)

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
            self._find_floor(group)
        for group in groups:
            group.goals.clear()
            group.natural.clear()
            for each in group.implementations or ():
                each.aligned.clear()

    # --- goals

    def solve(self, group: Group, required: Required = ANYTHING, limit: float = inf) -> Physical | None:
        """The cheapest plan under the limit that delivers what is required, or None."""
        if limit <= group.floor:
            return None
        goal = self._goal(group.goals, group, required)
        if goal.best is not None:
            return goal.best if goal.best.cost < limit else None
        if goal.exhausted >= limit:
            return None
        required = goal.required
        within = limit if goal.exhausted < 0 else inf
        best, bound = None, within
        for plan in self._ways(group, required, within):
            if plan.cost < bound:
                self.trace.won(group.number, required, plan, best)
                best, bound = plan, plan.cost
        return goal.settle(best, within, limit)

    def _ways(self, group: Group, required: Required, limit: float) -> Iterator[Physical]:
        bound = limit
        found = self.natural(group, required, bound)
        if found is not None:
            bound = min(bound, found.cost)
            yield found
        if required.local and not isinstance(required.partitioning, EveryPartition):
            for below in self.laid_out(group, Required(required.partitioning, (), required.largest), bound):
                plan = self.sorted_over(group, below, required)
                if plan is not None and plan.cost < bound:
                    bound = plan.cost
                    yield plan
        if bound <= group.floor + group.least_move or (self._out_of_steps() and bound < inf):
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
            smaller = self._smaller(required, plan)
            if smaller is None:
                return
            plan = solve(group, smaller, limit)

    def _smaller(self, required: Required, best: Physical) -> Required | None:
        """The same with smaller partitions than the best plan has, if they are too large to work on them well."""
        if isinstance(required.partitioning, OnePartition | EveryPartition | Exactly):
            return None
        if isinstance(best.delivered.partitioning, Serial) or self.model.lies_well(best.amount):
            return None
        return Required(required.partitioning, required.local, best.amount.largest * LESS)

    def natural(self, group: Group, required: Required, limit: float = inf) -> Physical | None:
        """The cheapest plan with an operator at its top that delivers what is required by itself."""
        if limit <= group.floor:
            return None
        goal = self._goal(group.natural, group, required)
        if goal.best is not None:
            return goal.best if goal.best.cost < limit else None
        if goal.exhausted >= limit:
            return None
        required = goal.required
        within = limit if goal.exhausted < 0 else inf
        best, bound = None, within
        for each in group.implementations or ():
            if each.floor >= bound:
                continue
            if best is not None and self._out_of_steps():
                break
            for alternative, requests in self.requests(group, each, required):
                plan = self._over(group, each, alternative, requests, required, bound)
                if plan is not None and plan.cost < bound:
                    self.trace.won(group.number, required, plan, best)
                    best, bound = plan, plan.cost
        return goal.settle(best, within, limit)

    def _goal(self, goals: dict[Required, _Goal], group: Group, required: Required) -> _Goal:
        goal = goals.get(required)
        if goal is None:
            simple = simplified(required, group.facts, group.column_set)
            goal = goals.get(simple)
            if goal is None:
                goal = goals[simple] = _Goal(simple)
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
        spent = each.floor
        inputs: list[Physical] = []
        for child, request in zip(each.inputs, requests, strict=True):
            plan = self.solve(child, request, limit - (spent - child.floor))
            if plan is None:
                return None
            spent += plan.cost - child.floor
            inputs.append(plan)
        return self.operator_over(group, each, alternative, inputs, required)

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
        return self.build(group, each.operator, tuple(inputs), delivered, alternative.name)

    def _is_met(self, group: Group, delivered: Delivered, required: Required) -> bool:
        if required.largest < 1.0 and self.amount(group, delivered).largest > required.largest:
            return False
        return isinstance(match(delivered, required, group.facts), Proof)

    def requests(
        self, group: Group, each: Implementation, required: Required
    ) -> Iterator[tuple[Alternative, tuple[Required, ...]]]:
        """What to ask of the inputs: the operator's own needs and what is asked of it, together."""
        serial = accepts_serial(required.partitioning)
        only_serial = isinstance(required.partitioning, OnePartition)
        for alternative in each.alternatives:
            own = alternative.children
            if not own:
                yield alternative, ()
            elif alternative.joint is not None:
                for requests in self._joint_requests(group, each, alternative, alternative.joint, required):
                    yield alternative, requests
            elif not (serial if alternative.name == "serial" else not only_serial):
                continue
            elif each.operator.carried is None:
                if not required.local and (alternative.name == "serial" or _anyhow_serves(required, group)):
                    yield alternative, own
                    if alternative.name != "serial" and not serial:
                        # Inputs that are each best in one stream are one stream together: one of them must not be.
                        for place, wish in enumerate(own):
                            if wish == ANYTHING:
                                yield alternative, (*own[:place], SCATTERED, *own[place + 1 :])
            else:
                carried = each.operator.carried
                request = self._at_carried(each, own[carried], required)
                if request is not None:
                    for asked in self._kept_by(group, each, request, required):
                        yield alternative, (*own[:carried], asked, *own[carried + 1 :])

    def _at_carried(self, each: Implementation, own: Required, required: Required) -> Required | None:
        carried = each.operator.carried
        assert carried is not None
        if required == ANYTHING:
            return own
        child = each.inputs[carried]
        facts = each.facts() if each.facts is not None else child.facts
        wish = pushed(each.operator, required, child.column_set, facts)
        if wish is None:
            return self._brought(each, own, required)
        place = both_partitionings(own.partitioning, wish.partitioning, child.column_set, child.facts)
        local = both_orders(wish.local, own.local, child.facts, facts)
        if place is None or local is None:
            return None
        return Required(place, local, required.largest)

    def _kept_by(self, group: Group, each: Implementation, request: Required, required: Required) -> Iterator[Required]:
        """What to ask of the carried input: what is required, and something more definite where the cheapest plan that
        meets the requirement may not be the best to have.

        Rows that are unique lie together and are grouped however they lie, but a join repeats them: then a layout must be
        made that says where, and an order. And a layout that costs nothing, stored or left by an operator below, may have
        too few partitions to work on at once, or too many rows in one of them."""
        yield request
        child, place = each.inputs[each.operator.carried or 0], request.partitioning
        if isinstance(place, RangeOrdered):
            # What is all in one place is in order, and the operator may make it so: it may fix a column.
            fixed = group.facts.closure((), child.columns) & child.column_set - child.facts.closure((), child.columns)
            if fixed:
                yield Required(Clustered(fixed, parallel=place.parallel), request.local)
        if request.largest < 1.0:
            # A bound that comes from above holds of the result; the operator may bring it about itself.
            request = Required(place, request.local)
            yield request
        yield from self._more_even(child, request)
        if each.facts is None:
            return
        places: list[RequiredPartitioning] = [place]
        meets = required.partitioning
        if (
            isinstance(place, Clustered)
            and isinstance(meets, Clustered)
            and child.facts.unique(place.maximum)
            and not group.facts.unique(meets.maximum)
        ):
            sets = [sorted(columns, key=lambda c: c.id) for columns in candidates(child, place.maximum)]
            places += [Exactly(hashed(columns, self.ideal(child))) for columns in sets]
        for one, local in list(product(places, self._kept_orders(group, child, request.local, required)))[1:]:
            yield Required(one, local)

    def _more_even(self, child: Group, request: Required) -> Iterator[Required]:
        """Requests for the same with smaller partitions, as long as the best plan of the one before has large ones. Each
        has been solved, if there is a plan, when the next is asked for."""
        smaller: Required | None = request
        while smaller is not None:
            found = child.goals.get(smaller)
            smaller = self._smaller(smaller, found.best) if found is not None and found.best is not None else None
            if smaller is not None:
                yield smaller

    def _brought(self, each: Implementation, own: Required, required: Required) -> Required | None:
        """An order that the operator makes itself (a heap of first rows): asked of nobody."""
        if not required.local or each.operator.keeps_order:
            return None
        return self._at_carried(each, own, Required(required.partitioning, (), required.largest))

    # --- operators over inputs laid out alike

    def _joint_requests(
        self, group: Group, each: Implementation, alternative: Alternative, joint: CoPartitioned, required: Required
    ) -> Iterator[tuple[Required, ...]]:
        if isinstance(required.partitioning, OnePartition | EveryPartition):
            return
        orders = list(self._joint_orders(group, each, alternative, required))
        for each_way in alignments(self, group, each, joint, required) if orders else ():
            if required == ANYTHING or isinstance(
                match_partitioning(each_way.result, required.partitioning, group.facts), Proof
            ):
                for locals_ in orders:
                    pairs = zip(each_way.layouts, locals_, strict=True)
                    yield tuple(Required(Exactly(layout), local) for layout, local in pairs)

    def _joint_orders(
        self, group: Group, each: Implementation, alternative: Alternative, required: Required
    ) -> Iterator[tuple[Local, ...]]:
        own = [child.local for child in alternative.children]
        if not required.local:
            yield tuple(own)
            return
        carried = each.operator.carried
        if carried is None or not each.operator.keeps_order:
            return
        child = each.inputs[carried]
        wide = each.wide_facts()(carried)
        wish = pushed(each.operator, Required(local=required.local), child.column_set, wide)
        local = both_orders(wish.local, own[carried], child.facts, wide) if wish is not None else None
        if local is not None:
            for asked in self._kept_orders(group, child, local, required):
                yield (*own[:carried], asked, *own[carried + 1 :])

    @staticmethod
    def _kept_orders(group: Group, child: Group, local: Local, required: Required) -> Iterator[Local]:
        """The order to ask of an input of a join: rows that are unique are grouped however they lie, until repeated."""
        yield local
        was, now = columns_of(local), columns_of(required.local)
        if was and child.facts.unique(was) and not group.facts.unique(now):
            yield sort_keys(local, child.facts)

    # --- enforcers

    def sorted_over(self, group: Group, plan: Physical, required: Required) -> Physical | None:
        keys = sort_keys(required.local, group.facts)
        if not keys:
            return None
        return self.build(group, LocalSort(keys, group.columns), (plan,), Delivered(plan.delivered.partitioning, keys))

    def _moved(self, group: Group, each: Enforcement, required: Required, limit: float) -> Physical | None:
        best = None
        for plan in self._in_place(group, each.input, limit - group.least_move):
            moved = self.moved_over(group, plan, each, required)
            if moved is not None and moved.cost < limit:
                best, limit = moved, moved.cost
        return best

    def moved_over(self, group: Group, plan: Physical, each: Enforcement, required: Required) -> Physical | None:
        """An exchange over this plan, if it can be and delivers what is required."""
        if isinstance(each.how, InitialPartitioning) and not isinstance(plan.delivered.partitioning, Serial):
            return None
        operator = Move(each.how, group.columns, _readers(each.how, plan.delivered, group.facts))
        try:
            delivered = operator.deliver([plan.delivered], [group.facts])
        except ExchangeError:
            return None
        if not self._is_met(group, delivered, required):
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
        return Amount(group.rows, group.bytes, self.ideal(group), 0.0)

    def amount(self, group: Group, delivered: Delivered) -> Amount:
        """How a group's rows lie under a layout."""
        match delivered.partitioning:
            case Serial():
                return Amount(group.rows, group.bytes, 1, 1.0)
            case Replicated():
                return Amount(group.rows, group.bytes, 0, 1.0)
            case Scattered(partitions=count):
                number = count or self.ideal(group)
                return Amount(group.rows, group.bytes, number, 1 / number)
            case Partitioned() as layout:
                number = layout.function.partitions
                share = group.shares.get(layout.columns)
                if share is None:
                    share = group.shares[layout.columns] = float(group.estimate.largest_share(layout.columns))
                return Amount(group.rows, group.bytes, number, min(1.0, max(1 / number, share)))

    def build(
        self,
        group: Group,
        operator: PhysicalOperator,
        inputs: tuple[Physical, ...],
        delivered: Delivered,
        alternative: str = "",
    ) -> Physical:
        amount = self.amount(group, delivered)
        own = self.model.cost(operator, [each.amount for each in inputs], amount)
        total = own.seconds + sum(each.cost for each in inputs)
        return Physical(operator, inputs, delivered, group.facts, amount, own, total, alternative, group=group.number)

    def best(self, group: Group, required: Required = ANYTHING) -> Physical:
        plan = self.solve(group, required)
        if plan is None:
            raise InternalError(f"no plan delivers {required}")
        return plan


def _anyhow_serves(required: Required, group: Group) -> bool:
    return isinstance(match_partitioning(Scattered(), required.partitioning, group.facts), Proof)


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
