"""What to require of the inputs of an operator (DetermineChildReqProperties in Algorithm 1 of ICDE 2010).

Each alternative of the operator has requirements of its own. They are combined with the requirement on the operator's
result, restated for the input whose layout the result has (search.requirement_pushdown). Operators that need co-partitioned
inputs require exact layouts (search.layouts.alignment).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf
from typing import TYPE_CHECKING

from unshuffle.frozen import dataclass
from unshuffle.properties import (
    Alternative,
    Broadcast,
    BroadcastAligned,
    BroadcastTo,
    Clustered,
    Exactly,
    ExactlyPrefix,
    Joint,
    Local,
    Partitioned,
    PrefixPartitioned,
    Proof,
    RangeOrdered,
    Required,
    RequiredPartitioning,
    SinglePartition,
    TargetedBroadcast,
    UnknownPartitioning,
    hashed,
    match_partitioning,
)
from unshuffle.properties.layouts.structure import columns_of
from unshuffle.search.enforcers import ANYTHING, IN_PARALLEL, sort_keys
from unshuffle.search.goals import lower_bound, unsorted
from unshuffle.search.interesting_properties import candidate_sets
from unshuffle.search.layouts.alignment import Alignment, alignments
from unshuffle.search.layouts.range_layouts import clustering
from unshuffle.search.layouts.targeted_broadcast import prunings
from unshuffle.search.lower_bounds import Shape
from unshuffle.search.requirement_pushdown import accepts_serial, both_orders, both_partitionings, pushed

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group
    from unshuffle.search.search import Search

Requirements = tuple[Required, ...]  # one per input


def child_requirements(
    search: Search, group: Group, implementation: Implementation, required: Required, limit: float = inf
) -> Iterator[tuple[Alternative, Requirements]]:
    """The requirements on the inputs under which the operator can run and may deliver what is required of it. Those are
    left out whose lower bound reaches the limit."""
    context = _Context(search, group, implementation, required, limit)
    for alternative in implementation.alternatives:
        for requirements in _of_alternative(context, alternative):
            yield alternative, requirements


@dataclass(frozen=True, slots=True)
class _Context:
    search: Search
    group: Group
    implementation: Implementation
    required: Required
    limit: float


def _of_alternative(context: _Context, alternative: Alternative) -> Iterator[Requirements]:
    if not alternative.children:
        yield ()
    elif alternative.joint is not None:
        yield from _joint_requirements(context, alternative, alternative.joint)
    elif not _fits_serial(alternative, context.required.partitioning):
        return
    elif context.implementation.operator.carried is None:
        yield from _uncarried_requirements(context, alternative)
    else:
        yield from _carried_requirements(context, alternative, context.implementation.operator.carried)


def _is_serial(alternative: Alternative) -> bool:
    return alternative.name == "serial"


def _fits_serial(alternative: Alternative, wish: RequiredPartitioning) -> bool:
    """A serial alternative delivers one partition, any other one may deliver several."""
    return accepts_serial(wish) if _is_serial(alternative) else not isinstance(wish, SinglePartition)


# --- operators whose result has the layout of no input


def _uncarried_requirements(context: _Context, alternative: Alternative) -> Iterator[Requirements]:
    required, own = context.required, alternative.children
    if required.local or not (_is_serial(alternative) or _any_layout_serves(required, context.group)):
        return
    yield own
    if not _is_serial(alternative) and not accepts_serial(required.partitioning):
        # If the best plan of every input is serial, so is the result. One input must be partitioned.
        for place, wish in enumerate(own):
            if wish == ANYTHING:
                yield (*own[:place], IN_PARALLEL, *own[place + 1 :])


def _any_layout_serves(required: Required, group: Group) -> bool:
    return isinstance(match_partitioning(UnknownPartitioning(), required.partitioning, group.facts), Proof)


# --- operators whose result has the layout of one input


def _carried_requirements(context: _Context, alternative: Alternative, carried: int) -> Iterator[Requirements]:
    implementation, own = context.implementation, alternative.children
    # A lower bound whatever is required of the carried input.
    bounds = (
        implementation.share(place)
        * (child.lower_bounds[Shape.ANY] if place == carried else lower_bound(child, own[place], context.search.model))
        for place, child in enumerate(implementation.inputs)
    )
    if implementation.own_lower_bound + sum(bounds) >= context.limit:
        return
    passed = _passed_down(implementation, own[carried], context.required)
    if passed is not None:
        for wish in _stricter(context, passed):
            yield (*own[:carried], wish, *own[carried + 1 :])
    for wish in _by_prefix(context, own[carried]):
        yield (*own[:carried], wish, *own[carried + 1 :])


def _passed_down(implementation: Implementation, own: Required, required: Required) -> Required | None:
    """The conjunction of the carried input's own requirement and the one on the result; None if nothing satisfies both."""
    carried = implementation.operator.carried
    assert carried is not None
    if required == ANYTHING:
        return own
    child = implementation.inputs[carried]
    facts = implementation.facts() if implementation.facts is not None else child.facts
    wish = pushed(implementation.operator, required, child.column_set, facts)
    if wish is None:
        return _order_by_operator(implementation, own, required)
    partitioning = both_partitionings(own.partitioning, wish.partitioning, child.column_set, child.facts)
    local = both_orders(wish.local, own.local, child.facts, facts)
    if partitioning is None or local is None:
        return None
    return Required(partitioning, local, required.largest)


def _order_by_operator(implementation: Implementation, own: Required, required: Required) -> Required | None:
    """The operator itself makes the required order (as a top-N heap does), so no input needs it."""
    if not required.local or implementation.operator.keeps_order:
        return None
    return _passed_down(implementation, own, unsorted(required))


def _by_prefix(context: _Context, own: Required) -> Iterator[Required]:
    """Rows that agree on a prefix of a text may be brought together by ranges of the whole text, if no boundary is longer
    than the prefix (SIGMOD 2012, section 3.3.4). A `Clustered` requirement does not express that."""
    group, required, wish = context.group, context.required, context.required.partitioning
    if not isinstance(wish, Clustered) or not any(spread.characters for spread in group.spreads):
        return
    for layout in clustering(group, wish.maximum, context.search.builder.ideal_partitions(group)):
        if context.implementation.operator.prefix(layout.columns[-1]) is not None:
            passed = _passed_down(context.implementation, own, replace(required, partitioning=Exactly(layout)))
            if passed is not None:
                yield passed


def _stricter(context: _Context, passed: Required) -> Iterator[Required]:
    """The requirement on the carried input, and stricter ones where the cheapest plan of it may not serve best.

    Unique rows are clustered and grouped under any layout, but a join repeats them: the layout and the order must then be
    explicit. And a layout that costs nothing, stored or left by an operator below, may have too few partitions or too much
    skew."""
    yield passed
    group, implementation = context.group, context.implementation
    child, partitioning = implementation.inputs[implementation.operator.carried or 0], passed.partitioning
    if isinstance(partitioning, RangeOrdered):
        # Rows in one partition are in order, and the operator may make a column constant.
        fixed = group.facts.closure((), child.columns) & child.column_set - child.facts.closure((), child.columns)
        if fixed:
            yield Required(Clustered(fixed, parallel=partitioning.parallel), passed.local)
    if passed.largest < 1.0:
        # The bound is on the result's partitions. The operator itself may meet it.
        passed = Required(partitioning, passed.local)
        yield passed
    yield from _with_smaller_partitions(context.search, child, passed)
    if implementation.facts is not None:
        yield from _explicit_layouts(context, child, passed)


def _with_smaller_partitions(search: Search, child: Group, required: Required) -> Iterator[Required]:
    """The same requirement with ever smaller partitions, while the best plan of the last one has large ones. The consumer
    has solved each requirement before it takes the next one."""
    smaller: Required | None = required
    while smaller is not None:
        goal = child.goals.get(smaller)
        smaller = search.smaller_partitions(smaller, goal.best) if goal is not None and goal.best is not None else None
        if smaller is not None:
            yield smaller


def _explicit_layouts(context: _Context, child: Group, passed: Required) -> Iterator[Required]:
    """Explicit layouts and orders for rows that are unique below a join and repeated by it."""
    group, required = context.group, context.required
    wish, below = required.partitioning, passed.partitioning
    partitionings: list[RequiredPartitioning] = [below]
    if (
        isinstance(below, Clustered)
        and isinstance(wish, Clustered)
        and child.facts.unique(below.maximum)
        and not group.facts.unique(wish.maximum)
    ):
        count = context.search.builder.ideal_partitions(child)
        for columns in candidate_sets(child, below.maximum):
            partitionings.append(Exactly(hashed(sorted(columns, key=lambda c: c.id), count)))
    for one, local in list(product(partitionings, _explicit_orders(group, child, passed.local, required)))[1:]:
        yield Required(one, local)


def _explicit_orders(group: Group, child: Group, local: Local, required: Required) -> Iterator[Local]:
    """Orders to require below a join: unique rows are grouped in any order, until the join repeats them."""
    yield local
    below, above = columns_of(local), columns_of(required.local)
    if below and child.facts.unique(below) and not group.facts.unique(above):
        yield sort_keys(local, child.facts)


# --- operators over co-partitioned inputs


def _joint_requirements(context: _Context, alternative: Alternative, joint: Joint) -> Iterator[Requirements]:
    group, implementation, required = context.group, context.implementation, context.required
    if isinstance(joint, BroadcastAligned) and not implementation.inputs[1 - joint.broadcast].stored_ranges:
        return
    if implementation.own_lower_bound + sum(_joint_lower_bounds(implementation, joint)) >= context.limit:
        return
    if isinstance(required.partitioning, SinglePartition | Broadcast | BroadcastTo):
        return
    orders = list(_joint_orders(context, alternative))
    for alignment in _alignments(context, joint) if orders else ():
        result = alignment.result
        if isinstance(result, UnknownPartitioning) and not context.search.builder.has_partitions_within(
            group, result, required
        ):
            continue
        if required == ANYTHING or isinstance(match_partitioning(result, required.partitioning, group.facts), Proof):
            for locals_ in orders:
                pairs = zip(alignment.layouts, locals_, strict=True)
                yield tuple(Required(_exactly(layout), local) for layout, local in pairs)


def _joint_lower_bounds(implementation: Implementation, joint: Joint) -> Iterator[float]:
    """Every input is partitioned by its values, except one that is copied to some partitions of the other."""
    for place, child in enumerate(implementation.inputs):
        is_copied = isinstance(joint, BroadcastAligned) and joint.broadcast == place
        yield child.lower_bounds[Shape.COPIED if is_copied else Shape.PARTITIONED]


def _alignments(context: _Context, joint: Joint) -> list[Alignment]:
    if isinstance(joint, BroadcastAligned):
        return prunings(context.implementation, joint)
    return alignments(context.search, context.group, context.implementation, joint, context.required)


def _exactly(layout: Partitioned | PrefixPartitioned | TargetedBroadcast) -> RequiredPartitioning:
    match layout:
        case TargetedBroadcast():
            return BroadcastTo(layout)
        case PrefixPartitioned():
            return ExactlyPrefix(layout)
        case Partitioned():
            return Exactly(layout)


def _joint_orders(context: _Context, alternative: Alternative) -> Iterator[tuple[Local, ...]]:
    implementation, required = context.implementation, context.required
    own = [child.local for child in alternative.children]
    if not required.local:
        yield tuple(own)
        return
    carried = implementation.operator.carried
    if carried is None or not implementation.operator.keeps_order:
        return
    child = implementation.inputs[carried]
    wide = implementation.wide_facts()(carried)
    wish = pushed(implementation.operator, Required(local=required.local), child.column_set, wide)
    local = both_orders(wish.local, own[carried], child.facts, wide) if wish is not None else None
    if local is not None:
        for order in _explicit_orders(context.group, child, local, required):
            yield (*own[:carried], order, *own[carried + 1 :])
