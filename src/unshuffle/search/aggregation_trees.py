"""Aggregation trees: partial states are merged on the way to the final aggregate (SIGMOD 2012, section 2.4.1).

A task that reads from very many partitions opens a piece of each, fails more often, and loses more when it does. If all
partial states go to one partition, one task does all the work. Above a number of connections (`Machine.fan_in`), partial
states may first be gathered in fragments, whole partitions at a time, and merged there, on as many levels as necessary:

    1,000 x partial  ->  4 fragments of 250 partitions, combined  ->  final

The fragments have no known partitioning. The exchange above them, into one partition or by the keys, delivers what the
final aggregate requires. The tree is one of the plans that compete for that goal.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeGuard

from unshuffle.plan.physical import Exchange, HashAggregate, PhysicalOperator, PhysicalPlan, SizeEstimate
from unshuffle.properties import (
    Delivered,
    FullMerge,
    PartialMerge,
    Partitioned,
    RandomMerge,
    Repartitioning,
    UnknownPartitioning,
)
from unshuffle.search.enforcers import Enforcement
from unshuffle.search.memo import Group, input_groups

if TYPE_CHECKING:
    from unshuffle.search.plan_builder import PlanBuilder


def merged_inputs(builder: PlanBuilder, group: Group, plan: PhysicalPlan, above: Enforcement) -> Iterator[PhysicalPlan]:
    """Inputs of the exchange `above` instead of a partial aggregate in too many partitions: its partial states, merged until
    they are in few enough."""
    if _reads_every_partition(above) and _is_partial(plan.operator):
        yield from _levels(builder, group, plan, plan.operator)


def has_partial_aggregate(group: Group) -> bool:
    """Are there plans of the group that an aggregation tree can merge?"""
    return any(_is_partial(each.operator) for each in group.implementations or ())


def _is_partial(operator: PhysicalOperator) -> TypeGuard[HashAggregate]:
    return isinstance(operator, HashAggregate) and operator.phase == "partial"


def _reads_every_partition(above: Enforcement) -> bool:
    """Does each output partition read from all inputs? An exchange that samples its input would run the tree twice."""
    match above.how:
        case FullMerge(merge=RandomMerge()):
            return True
        case Repartitioning(scheme=Partitioned() as scheme, merge=RandomMerge()):
            return not Exchange(above.how, scheme.columns).samples
        case _:
            return False


def _levels(builder: PlanBuilder, group: Group, plan: PhysicalPlan, partial: HashAggregate) -> Iterator[PhysicalPlan]:
    for number in builder.model.fragments(plan.size.partitions):
        merged = _one_level(builder, group, plan, partial, number)
        if merged is None:
            continue
        if builder.model.fragments(number):
            yield from _levels(builder, group, merged, partial)
        else:
            yield merged


def _one_level(
    builder: PlanBuilder, group: Group, plan: PhysicalPlan, partial: HashAggregate, number: int
) -> PhysicalPlan | None:
    """Partial states are gathered in `number` fragments, and those of a key are merged into one in each."""
    combining = HashAggregate(partial.keys, partial.aggregates, "combining")
    if not builder.accepts(combining, (plan,)):
        return None
    gather = Exchange(_gathering(plan.size.partitions, number), group.columns)
    delivered = Delivered(UnknownPartitioning(number))
    gathered = builder.build(group, gather, (plan,), delivered)
    size = _merged_size(group, partial, gathered.size)
    return builder.build(group, combining, (gathered,), delivered, "partitioned", size)


@lru_cache(maxsize=64)
def _gathering(partitions: int, number: int) -> PartialMerge:
    """Partition i goes to fragment i mod `number`. Kept: there may be tens of thousands of partitions, and many plans."""
    return PartialMerge(tuple(i % number for i in range(partitions)), RandomMerge())


def _merged_size(group: Group, partial: HashAggregate, given: SizeEstimate) -> SizeEstimate:
    """A fragment has each group once at most, and no more groups than rows."""
    below = input_groups(group.expressions[0])[0]
    groups = float(below.estimate.distinct(partial.keys)) if partial.keys else 1.0
    kept = min(1.0, groups * given.partitions / given.rows) if given.rows > 0.0 else 1.0
    return SizeEstimate(given.rows * kept, given.bytes * kept, given.partitions, given.largest, given.waits)
