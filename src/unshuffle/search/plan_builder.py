"""Builds physical plans: an operator over given input plans, with its size and cost, if it can run and delivers what is
required. The search decides which plans to build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from unshuffle.plan.physical import (
    Cost,
    Exchange,
    FileScan,
    HashJoin,
    LocalSort,
    PhysicalOperator,
    PhysicalPlan,
    ReadSpool,
    SizeEstimate,
)
from unshuffle.properties import (
    Alternative,
    ConcatMerge,
    Delivered,
    Dependencies,
    ExchangeError,
    FullMerge,
    InitialPartitioning,
    Partitioned,
    Partitioning,
    PrefixPartitioned,
    Proof,
    Repartitioning,
    Replicated,
    Required,
    Serial,
    TargetedBroadcast,
    Topology,
    UnknownPartitioning,
    match,
    match_joint,
)
from unshuffle.properties.layouts.related_layouts import read_counts
from unshuffle.search.dynamic_pruning import pruned
from unshuffle.search.enforcers import ANYTHING, Enforcement, exchanges, layouts_in_place, sort_keys
from unshuffle.search.layouts.range_layouts import range_share, within_share
from unshuffle.search.layouts.targeted_broadcast import copied_size, projected

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group


class CostEstimator(Protocol):
    """What the search asks of a cost model."""

    def ideal_partitions(self, rows: float, bytes: float, user_seconds: float = 0.0) -> int: ...

    def cost(self, operator: PhysicalOperator, inputs: Sequence[SizeEstimate], output: SizeEstimate) -> Cost: ...

    def lower_bound(
        self, operator: PhysicalOperator, inputs: Sequence[SizeEstimate], output: SizeEstimate
    ) -> float: ...

    def has_small_partitions(self, size: SizeEstimate) -> bool: ...

    def fragments(self, partitions: int) -> tuple[int, ...]: ...

    def elapsed(self, work: float, size: SizeEstimate) -> float: ...

    def start_tasks(self, partitions: int) -> float: ...

    def spool_seconds(self, size: SizeEstimate) -> float: ...


Accepts = Callable[[PhysicalOperator, Sequence[PhysicalPlan]], bool]


class PlanBuilder:
    def __init__(self, accepts: Accepts, model: CostEstimator) -> None:
        self.accepts = accepts
        self.model = model
        self.can_merge = accepts(Exchange(FullMerge(ConcatMerge()), ()), ())  # sorted inputs, in an exchange
        self._ideal_partitions: dict[int, int] = {}

    # --- operators and enforcers

    def operator_over(
        self,
        group: Group,
        implementation: Implementation,
        alternative: Alternative,
        inputs: Sequence[PhysicalPlan],
        required: Required,
    ) -> PhysicalPlan | None:
        """The operator over these plans, if it can run on them and delivers what is required."""
        operator, groups = implementation.operator, implementation.inputs
        if alternative.joint is not None:
            layouts = [(plan.delivered, child.facts) for plan, child in zip(inputs, groups, strict=True)]
            if not isinstance(match_joint(layouts, alternative.joint), Proof):
                return None
        delivered = operator.deliver([plan.delivered for plan in inputs], [child.facts for child in groups])
        if required != ANYTHING and not self.satisfies(group, delivered, required):
            return None
        if not self.accepts(operator, inputs):
            return None
        return self.build(group, operator, tuple(inputs), delivered, alternative.name)

    def sort_over(self, group: Group, plan: PhysicalPlan, required: Required) -> PhysicalPlan | None:
        """A sort into the required order, if that takes a sort."""
        keys = sort_keys(required.local, group.facts)
        if not keys:
            return None
        return self.build(group, LocalSort(keys, group.columns), (plan,), Delivered(plan.delivered.partitioning, keys))

    def exchange_over(
        self, group: Group, plan: PhysicalPlan, enforcement: Enforcement, required: Required
    ) -> PhysicalPlan | None:
        """An exchange over this plan, if it can run on it and delivers what is required. Where the layouts are related, it is
        the cheaper one of a full exchange and of reading partitions in place: the latter moves nothing, but tasks that read
        several partitions also compute them, and what several tasks read is computed several times."""
        how, given = enforcement.how, plan.delivered
        if isinstance(how, InitialPartitioning) and not isinstance(given.partitioning, Serial):
            return None
        readers = _readers(how, given, group.facts)
        if readers is None:
            return self._exchange_over(group, plan, Exchange(how, group.columns), given, required)
        # In a full exchange no output has one input only, as far as Spark knows, so it keeps no order.
        full = self._exchange_over(group, plan, Exchange(how, group.columns), Delivered(given.partitioning), required)
        in_place = self._exchange_over(group, plan, Exchange(how, group.columns, readers), given, required)
        found = [each for each in (in_place, full) if each is not None]
        return min(found, key=lambda each: each.cost, default=None)

    def _exchange_over(
        self, group: Group, plan: PhysicalPlan, operator: Exchange, given: Delivered, required: Required
    ) -> PhysicalPlan | None:
        try:
            delivered = operator.deliver([given], [group.facts])
        except ExchangeError:
            return None
        if not self.satisfies(group, delivered, required) or not self.accepts(operator, (plan,)):
            return None
        return self.build(group, operator, (plan,), delivered)

    def rescans(self, group: Group, required: Required) -> Iterator[PhysicalPlan]:
        """The leaves of a group, reading stored partitions in other layouts that deliver what is required."""
        scans = {
            id(leaf.scan): leaf for each in group.implementations or () if isinstance(leaf := each.operator, FileScan)
        }
        if not scans or not group.has_stored_layout:
            return
        for layout in layouts_in_place(required, group, self.ideal_partitions(group)):
            for scan in scans.values():
                operator = scan.read_as(layout)
                if operator is not None and self.satisfies(group, delivered := operator.deliver([], []), required):
                    yield self.build(group, operator, (), delivered)

    def exchanges(self, group: Group, required: Required) -> Iterator[Enforcement]:
        """Every exchange that delivers what is required of a group."""
        return exchanges(required, group, self.ideal_partitions(group), self.can_merge)

    # --- requirements

    def satisfies(self, group: Group, delivered: Delivered, required: Required) -> bool:
        return self.has_partitions_within(group, delivered.partitioning, required) and isinstance(
            match(delivered, required, group.facts), Proof
        )

    def has_partitions_within(self, group: Group, layout: Partitioning, required: Required) -> bool:
        """Is the largest partition as small as required?"""
        return required.largest == 1.0 or self.size(group, layout).largest <= required.largest

    # --- sizes and costs

    def ideal_partitions(self, group: Group) -> int:
        count = self._ideal_partitions.get(group.number)
        if count is None:
            user_seconds = group.rows * group.user_seconds
            count = self.model.ideal_partitions(group.rows, group.bytes, user_seconds)
            self._ideal_partitions[group.number] = count
        return count

    def balanced_size(self, group: Group) -> SizeEstimate:
        """The group in its ideal number of partitions, without skew: the cheapest size there is."""
        return SizeEstimate(group.rows, group.bytes, self.ideal_partitions(group), 0.0, group.waits, group.guesses)

    def size(self, group: Group, layout: Partitioning) -> SizeEstimate:
        """The group's size under a layout."""
        match layout:
            case Serial():
                return SizeEstimate(group.rows, group.bytes, 1, 1.0, group.waits, group.guesses)
            case Replicated():
                return SizeEstimate(group.rows, group.bytes, 0, 1.0, group.waits, group.guesses)
            case UnknownPartitioning(partitions=count):
                number = count or self.ideal_partitions(group)
                return SizeEstimate(group.rows, group.bytes, number, 1 / number, group.waits, group.guesses)
            case TargetedBroadcast():
                return copied_size(group, layout, self._largest_share(group, projected(layout)))
            case PrefixPartitioned():
                return _skewed(group, layout.function.partitions, within_share(group, layout))
            case Partitioned():
                return _skewed(group, layout.function.partitions, self._largest_share(group, layout))

    @staticmethod
    def _largest_share(group: Group, layout: Partitioned) -> float:
        """The largest partition's share of the rows: of ranges, by the distribution of rows; else, of the commonest value."""
        key = group.share_key(layout)
        if key not in group.largest_shares:
            share = range_share(group, layout)
            group.largest_shares[key] = float(group.estimate.largest_share(layout.columns)) if share is None else share
        return group.largest_shares[key]

    def build(
        self,
        group: Group,
        operator: PhysicalOperator,
        inputs: tuple[PhysicalPlan, ...],
        delivered: Delivered,
        alternative: str = "",
        size: SizeEstimate | None = None,
    ) -> PhysicalPlan:
        if isinstance(operator, HashJoin) and operator.pruning is not None:
            probed = 1 - operator.build
            inputs = tuple(
                pruned(plan, operator.pruning, self.model) if place == probed else plan
                for place, plan in enumerate(inputs)
            )
        if size is None:
            size = self.size(group, delivered.partitioning)
            if isinstance(operator, Exchange | LocalSort) and inputs[0].size.rows < group.rows:
                # Partial states that an aggregation tree has merged are fewer than the group's rows.
                share = inputs[0].size.rows / group.rows
                size = replace(size, rows=size.rows * share, bytes=size.bytes * share)
        own = self.model.cost(operator, [plan.size for plan in inputs], size)
        if isinstance(operator, Exchange) and (operator.samples or operator.readers is not None):
            recompute = group.recompute_seconds * self._recomputations(operator, inputs[0].size, size)
            own = replace(own, seconds=own.seconds + recompute, cpu=own.cpu + recompute, recompute=recompute)
        total = own.seconds + sum(plan.cost for plan in inputs)
        return PhysicalPlan(operator, inputs, delivered, group.facts, size, own, total, alternative, group=group.number)

    def _recomputations(self, operator: Exchange, given: SizeEstimate, output: SizeEstimate) -> float:
        """How many times more the rows below an exchange are computed: once for a sample, or once per reader. Readers run
        in the exchange's output partitions, which may be fewer."""
        if operator.readers is None:
            return 1.0
        slower = self.model.elapsed(1.0, output) / self.model.elapsed(1.0, given)
        return max(0.0, max(1.0, operator.readers) * max(1.0, slower) - 1.0)


def _skewed(group: Group, partitions: int, largest_share: float) -> SizeEstimate:
    largest = min(1.0, max(1 / partitions, largest_share))
    return SizeEstimate(group.rows, group.bytes, partitions, largest, group.waits, group.guesses)


def seconds_since_exchange(plan: PhysicalPlan) -> float:
    """The cost of the operators that run in one stage with the top operator of the plan."""
    if isinstance(plan.operator, Exchange | ReadSpool):
        return 0.0
    return plan.own.seconds + sum(map(seconds_since_exchange, plan.inputs))


def _readers(how: Topology, given: Delivered, facts: Dependencies) -> float | None:
    """How many output partitions read an input partition, if the old layout and the new one are related: 45 hash partitions
    are read twice each to make 90 (SIGMOD 2012, sections 3.1 to 3.3)."""
    old = given.partitioning
    if (
        not isinstance(how, Repartitioning)
        or not isinstance(how.scheme, Partitioned)
        or not isinstance(old, Partitioned)
    ):
        return None
    new = how.scheme
    if old.nulls_anywhere or not all(facts.equal(a, b) for a, b in zip(old.columns, new.columns, strict=False)):
        return None
    connections = read_counts(old.function, new.function)
    if connections is None:
        return None
    average = connections.total / old.function.partitions
    return average if average < new.function.partitions else None
