"""Lower bounds on the cost of plans, for branch-and-bound.

Lower bounds are found bottom-up, without a search: the lower bound of the operator's own cost, plus those of its inputs.
They depend on the shape that is required, as far as a shape takes an exchange somewhere below: only an exchange spreads
serial rows, only an exchange partitions rows by their values, and the result of an operator has the shape of an input. When
a goal is solved, the cost of its plan is a lower bound for every stricter goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Protocol

from unshuffle.constants import SEARCH
from unshuffle.plan.physical import Exchange, HashJoin, PhysicalOperator, PhysicalPlan, SizeEstimate
from unshuffle.properties import (
    AnyDistribution,
    Broadcast,
    BroadcastTo,
    Clustered,
    Exactly,
    ExactlyPrefix,
    FullMerge,
    Partitioned,
    PrefixPartitioned,
    RandomMerge,
    RangeOrdered,
    Repartitioning,
    Replicated,
    Required,
    Serial,
    SinglePartition,
    UnknownPartitioning,
)
from unshuffle.search.dynamic_pruning import pruned_size

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group


class Shape(IntEnum):
    """What a requirement or a layout says about the partitions, without the columns."""

    ANY = 0
    SERIAL = 1
    SPREAD = 2  # several partitions
    PARTITIONED = 3  # several partitions, by the values of the rows
    COPIED = 4  # every row in every partition, or in several


class LowerBound(Protocol):
    def lower_bound(
        self, operator: PhysicalOperator, inputs: Sequence[SizeEstimate], output: SizeEstimate
    ) -> float: ...


class StartsTasks(Protocol):
    def start_tasks(self, partitions: int) -> float: ...


_GATHER = FullMerge(RandomMerge())
_COPY = Repartitioning(Replicated(), RandomMerge())
_READ_IN_PLACE = Repartitioning(UnknownPartitioning(), RandomMerge())


def shape_required(required: Required) -> Shape:
    match required.partitioning:
        case SinglePartition():
            return Shape.SERIAL
        case Broadcast() | BroadcastTo():
            return Shape.COPIED
        case AnyDistribution(parallel=True):
            return Shape.SPREAD
        case AnyDistribution() | Clustered(parallel=False) | RangeOrdered(parallel=False):
            return Shape.ANY
        case _:
            return Shape.PARTITIONED


def find_lower_bounds(group: Group, model: LowerBound, balanced_size: Callable[[Group], SizeEstimate]) -> None:
    """The lower bounds of a group whose inputs have theirs."""
    size = balanced_size(group)
    # Stored partitions may be read in place, which is cheaper than any other exchange.
    gather = Exchange(_READ_IN_PLACE, (), 1.0) if group.has_stored_layout else Exchange(_GATHER, ())
    exchanges = (gather, Exchange(_COPY, ()))
    group.exchange_lower_bound = min(model.lower_bound(each, [size], size) for each in exchanges)
    if any(not each.inputs for each in group.implementations or ()) and group.has_stored_layout:
        group.exchange_lower_bound = 0.0  # no exchange at all: other tasks read the files
    for each in group.implementations or ():
        inputs = [balanced_size(child) for child in each.inputs]
        if isinstance(each.operator, HashJoin) and each.operator.pruning is not None:
            probed = 1 - each.operator.build
            inputs[probed] = pruned_size(inputs[probed], each.operator.pruning)
        each.own_lower_bound = model.lower_bound(each.operator, inputs, size)
        each.lower_bounds = [each.own_lower_bound + below for below in _below(each)]
    unenforced = [
        min((each.lower_bounds[shape] for each in group.implementations or ()), default=0.0) for shape in Shape
    ]
    exchanged = unenforced[Shape.ANY] + group.exchange_lower_bound
    group.lower_bounds = [min(bound, exchanged) for bound in unenforced]


def least_startup(required: Required, model: StartsTasks) -> float:
    """A lower bound on the cost of a requirement: whatever delivers a layout has started a task for each partition."""
    match required.partitioning:
        case Exactly(layout=layout) | ExactlyPrefix(layout=layout):
            return model.start_tasks(layout.function.partitions)
        case _:
            return 0.0


def raise_lower_bounds(group: Group, required: Required, best: PhysicalPlan) -> None:
    """A goal is solved: no stricter goal costs less. The bound has some slack: the number of partitions of an exchange is a
    rule of thumb, and another number, required by an operator above, may turn out a little cheaper. It may also have hash
    tables that fit the cache, so misses of the cache do not count."""
    if (
        not required.local
        and required.largest == 1.0
        and isinstance(required.partitioning, AnyDistribution | SinglePartition)
    ):
        bound = SEARCH.bound_slack * (best.cost - sum(node.own.missed for node in best.walk()))
        for shape in _AT_LEAST[shape_required(required)]:
            group.lower_bounds[shape] = max(group.lower_bounds[shape], bound)


# The shapes that are as strict as a shape, or stricter.
_AT_LEAST = {
    Shape.ANY: tuple(Shape),
    Shape.SERIAL: (Shape.SERIAL,),
    Shape.SPREAD: (Shape.SPREAD, Shape.PARTITIONED),
}


def _below(each: Implementation) -> Iterator[float]:
    """For each shape, the lower bound of the inputs together: one of them has the shape, the others any."""
    if not each.inputs:
        delivered = _leaf_shapes(each)
        yield from (0.0 if shape in delivered else inf for shape in Shape)
        return
    shared = [(child.lower_bounds, each.share(place)) for place, child in enumerate(each.inputs)]
    any_shape = sum(share * bounds[Shape.ANY] for bounds, share in shared)
    for shape in Shape:
        if each.operator.hides_layout:
            yield any_shape
        else:
            yield any_shape + min(share * (bounds[shape] - bounds[Shape.ANY]) for bounds, share in shared)


def _leaf_shapes(leaf: Implementation) -> tuple[Shape, ...]:
    match leaf.operator.deliver([], []).partitioning:
        case Serial():
            return (Shape.ANY, Shape.SERIAL)
        case UnknownPartitioning():
            return (Shape.ANY, Shape.SPREAD)
        case PrefixPartitioned() | Partitioned():
            return (Shape.ANY, Shape.SPREAD, Shape.PARTITIONED)
        case _:
            return tuple(Shape)
