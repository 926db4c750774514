"""Property matching: whether delivered properties satisfy required ones (ICDE 2010, section VII).

Global and local properties are matched separately. This loses nothing: a global implication can be refuted with one row per
partition, where every local property holds, and a local implication can be refuted within one partition.
"""

from __future__ import annotations

from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.layouts.delivered import Delivered, Partitioned, Partitioning, PrefixPartitioned, formula
from unshuffle.properties.layouts.partition_functions import identifiable
from unshuffle.properties.layouts.structure import (
    Global,
    Grouped,
    Replicated,
    Serial,
    TargetedBroadcast,
    UnknownPartitioning,
)
from unshuffle.properties.matching.match_global import match_global, partitioning_columns
from unshuffle.properties.matching.match_local import match_local
from unshuffle.properties.matching.proof import HOLDS, MissingOrder, MissingPartitioning, Proof, Rule, Step, Unmet
from unshuffle.properties.matching.required import (
    AnyDistribution,
    Broadcast,
    BroadcastTo,
    Clustered,
    Exactly,
    ExactlyPrefix,
    RangeOrdered,
    Required,
    RequiredPartitioning,
    SinglePartition,
)


def match(delivered: Delivered, required: Required, facts: Dependencies) -> Proof | Unmet:
    partitioning = match_partitioning(delivered.partitioning, required.partitioning, facts)
    order = match_local(delivered.local, required.local, facts) if required.local else HOLDS
    if isinstance(partitioning, Proof) and isinstance(order, Proof):
        return partitioning + order if order.steps else partitioning
    return Unmet(
        partitioning if isinstance(partitioning, MissingPartitioning) else None,
        order if isinstance(order, MissingOrder) else None,
    )


def match_partitioning(
    delivered: Partitioning, required: RequiredPartitioning, facts: Dependencies
) -> Proof | MissingPartitioning:
    if isinstance(required, Exactly):
        return _exactly(delivered, required, facts)
    if isinstance(required, BroadcastTo):
        return _broadcast_to(delivered, required, facts)
    if isinstance(required, ExactlyPrefix):
        return _exactly_prefix(delivered, required, facts)
    now = formula(_ignoring_nulls(delivered, required, facts), facts)
    if (
        isinstance(now, Serial)
        and isinstance(required, AnyDistribution | Clustered | RangeOrdered)
        and required.parallel
    ):
        return MissingPartitioning(required)
    found = match_global(now, _required_formula(required), facts)
    if not isinstance(found, Proof):
        return MissingPartitioning(required, found)
    if isinstance(required, Clustered) and required.minimum:
        # Pmin: the layout must be at least this fine. That limits skew and partition size; it is not needed for correctness.
        coarse = required.minimum - facts.closure(partitioning_columns(now), required.minimum)
        if coarse:
            return MissingPartitioning(required, coarse)
    return found


def _ignoring_nulls(delivered: Partitioning, required: RequiredPartitioning, facts: Dependencies) -> Partitioning:
    """If NULL keys match nothing in the operator, it does not matter that the layout leaves them anywhere. This holds only
    if the columns of the layout are required ones. A dependency is not enough: x = 1 may determine that d is NULL, and
    then rows with x = 1 are anywhere."""
    if (
        isinstance(delivered, Partitioned)
        and delivered.nulls_anywhere
        and isinstance(required, Clustered)
        and not required.nulls_meet
        and all(any(facts.equal(d, r) for r in required.maximum) for d in delivered.columns)
    ):
        return Partitioned(delivered.function, delivered.columns)
    return delivered


def _required_formula(required: AnyDistribution | SinglePartition | Broadcast | Clustered | RangeOrdered) -> Global:
    match required:
        case AnyDistribution():
            return UnknownPartitioning()
        case SinglePartition():
            return Serial()
        case Broadcast():
            return Replicated()
        case Clustered() | RangeOrdered():
            return required.formula


def _exactly(delivered: Partitioning, required: Exactly, facts: Dependencies) -> Proof | MissingPartitioning:
    layout = required.layout
    if (
        not isinstance(delivered, Partitioned)
        or delivered.function != layout.function
        or not identifiable(layout.function)
        or (
            delivered.nulls_anywhere
            and not layout.nulls_anywhere
            and not facts.never_null.issuperset(delivered.columns)
        )
    ):
        return MissingPartitioning(required)
    # Only equal columns help. Even if a determines b, h(b) is not h(a).
    unequal = [d for d, r in zip(delivered.columns, layout.columns, strict=True) if not facts.equal(d, r)]
    if unequal:
        return MissingPartitioning(required, frozenset(unequal))
    now = Grouped(frozenset(delivered.columns))
    return Proof((Step(Rule.SAME_FUNCTION, now, Grouped(frozenset(layout.columns))),))


def _broadcast_to(delivered: Partitioning, required: BroadcastTo, facts: Dependencies) -> Proof | MissingPartitioning:
    """Only equal columns help. With other columns or another function a row would be missing in a partition that has its
    matches, or have a copy where it has none."""
    layout = required.layout
    if not isinstance(delivered, TargetedBroadcast):
        return MissingPartitioning(required)
    if layout is None or delivered == layout:
        return HOLDS
    if delivered.function != layout.function or len(delivered.columns) != len(layout.columns):
        return MissingPartitioning(required)
    unequal = [d for d, r in zip(delivered.columns, layout.columns, strict=True) if not facts.equal(d, r)]
    return MissingPartitioning(required, frozenset(unequal)) if unequal else HOLDS


def _exactly_prefix(
    delivered: Partitioning, required: ExactlyPrefix, facts: Dependencies
) -> Proof | MissingPartitioning:
    layout = required.layout
    count = len(layout.columns)
    if not isinstance(delivered, Partitioned | PrefixPartitioned) or delivered.function != layout.function:
        return MissingPartitioning(required)
    misplaced_nulls = isinstance(delivered, Partitioned) and delivered.nulls_anywhere
    if len(delivered.columns) < count or (misplaced_nulls and not facts.never_null.issuperset(delivered.columns)):
        return MissingPartitioning(required)
    unequal = [d for d, r in zip(delivered.columns[:count], layout.columns, strict=True) if not facts.equal(d, r)]
    return MissingPartitioning(required, frozenset(unequal)) if unequal else HOLDS
