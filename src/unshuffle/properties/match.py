"""Property matching: what a plan delivers against what is required of it (ICDE 2010, section VII).

Global and local parts are matched apart. Nothing is lost by that: rows that refute a global implication need only one
row in each partition, where every local property holds, and rows that refute a local one need only one partition.
"""

from __future__ import annotations

from unshuffle.properties.delivered import Delivered, Partitioned, Partitioning, Within, formula
from unshuffle.properties.dependencies import Dependencies
from unshuffle.properties.functions import identifiable
from unshuffle.properties.match_global import Undetermined, match_global, partitioning_columns
from unshuffle.properties.match_local import match_local
from unshuffle.properties.proof import HOLDS, MissingOrder, MissingPartitioning, Proof, Rule, Step, Unmet
from unshuffle.properties.required import (
    Anyhow,
    Clustered,
    Covers,
    EveryPartition,
    Exactly,
    LiesWithin,
    OnePartition,
    RangeOrdered,
    Required,
    RequiredPartitioning,
)
from unshuffle.properties.structure import Covering, Global, Grouped, Local, Replicated, Scattered, Serial


def match(delivered: Delivered, required: Required, facts: Dependencies) -> Proof | Unmet:
    place = match_partitioning(delivered.partitioning, required.partitioning, facts)
    order = match_local(delivered.local, required.local, facts) if required.local else HOLDS
    if isinstance(place, Proof) and isinstance(order, Proof):
        return place + order if order.steps else place
    return Unmet(
        place if isinstance(place, MissingPartitioning) else None, order if isinstance(order, MissingOrder) else None
    )


def match_partitioning(
    delivered: Partitioning, required: RequiredPartitioning, facts: Dependencies
) -> Proof | MissingPartitioning:
    if isinstance(required, Exactly):
        return _exactly(delivered, required, facts)
    if isinstance(required, Covers):
        return _covers(delivered, required, facts)
    if isinstance(required, LiesWithin):
        return _lies_within(delivered, required, facts)
    now = formula(_forgiving(delivered, required, facts), facts)
    if isinstance(now, Serial) and isinstance(required, Anyhow | Clustered | RangeOrdered) and required.parallel:
        return MissingPartitioning(required)
    found = match_global(now, _wanted(required), facts)
    if not isinstance(found, Proof):
        return MissingPartitioning(required, found)
    if isinstance(required, Clustered) and required.minimum:
        # Pmin: the layout must be at least as fine. This is a wish about skew and size, not about correctness.
        coarse = required.minimum - facts.closure(partitioning_columns(now), required.minimum)
        if coarse:
            return MissingPartitioning(required, coarse)
    return found


def _forgiving(delivered: Partitioning, required: RequiredPartitioning, facts: Dependencies) -> Partitioning:
    """A layout that leaves NULL keys anywhere is as good as one that does not, to an operator for which NULL meets
    nothing, as long as the layout's columns are the required ones. Through a dependency they are not: x = 1 may
    determine that d is NULL, and then rows with x = 1 are anywhere."""
    if (
        isinstance(delivered, Partitioned)
        and delivered.nulls_apart
        and isinstance(required, Clustered)
        and not required.nulls_meet
        and all(any(facts.equal(d, r) for r in required.maximum) for d in delivered.columns)
    ):
        return Partitioned(delivered.function, delivered.columns)
    return delivered


def _wanted(required: Anyhow | OnePartition | EveryPartition | Clustered | RangeOrdered) -> Global:
    match required:
        case Anyhow():
            return Scattered()
        case OnePartition():
            return Serial()
        case EveryPartition():
            return Replicated()
        case Clustered() | RangeOrdered():
            return required.claim


def _exactly(delivered: Partitioning, required: Exactly, facts: Dependencies) -> Proof | MissingPartitioning:
    layout = required.layout
    if (
        not isinstance(delivered, Partitioned)
        or delivered.function != layout.function
        or not identifiable(layout.function)
        or (delivered.nulls_apart and not layout.nulls_apart and not facts.never_null.issuperset(delivered.columns))
    ):
        return MissingPartitioning(required)
    # Dependencies do not help here: h(b) is not h(a) because a determines b. Only equal columns do.
    unequal = [d for d, r in zip(delivered.columns, layout.columns, strict=True) if not facts.equal(d, r)]
    if unequal:
        return MissingPartitioning(required, frozenset(unequal))
    now = Grouped(frozenset(delivered.columns))
    return Proof((Step(Rule.SAME_FUNCTION, now, Grouped(frozenset(layout.columns))),))


def _covers(delivered: Partitioning, required: Covers, facts: Dependencies) -> Proof | MissingPartitioning:
    """Equal columns have one reach. No dependency helps, and no finer or coarser covering is as good: a row would be missing
    in a partition, or be there for no match."""
    wanted = required.covering
    if not isinstance(delivered, Covering):
        return MissingPartitioning(required)
    if wanted is None or delivered == wanted:
        return HOLDS
    if delivered.function != wanted.function or len(delivered.columns) != len(wanted.columns):
        return MissingPartitioning(required)
    unequal = [d for d, w in zip(delivered.columns, wanted.columns, strict=True) if not facts.equal(d, w)]
    return MissingPartitioning(required, frozenset(unequal)) if unequal else HOLDS


def _lies_within(delivered: Partitioning, required: LiesWithin, facts: Dependencies) -> Proof | MissingPartitioning:
    wanted = required.within
    count = len(wanted.columns)
    if not isinstance(delivered, Partitioned | Within) or delivered.function != wanted.function:
        return MissingPartitioning(required)
    strays = isinstance(delivered, Partitioned) and delivered.nulls_apart
    if len(delivered.columns) < count or (strays and not facts.never_null.issuperset(delivered.columns)):
        return MissingPartitioning(required)
    unequal = [d for d, w in zip(delivered.columns[:count], wanted.columns, strict=True) if not facts.equal(d, w)]
    return MissingPartitioning(required, frozenset(unequal)) if unequal else HOLDS


def implies(
    delivered: tuple[Global, Local], required: tuple[Global, Local], facts: Dependencies
) -> Proof | tuple[Undetermined | None, MissingOrder | None]:
    """The paper's P1 ⇒ P2 between two formulas, with no function named on either side."""
    place = match_global(delivered[0], required[0], facts)
    order = match_local(delivered[1], required[1], facts)
    if isinstance(place, Proof) and isinstance(order, Proof):
        return place + order
    return (None if isinstance(place, Proof) else place, None if isinstance(order, Proof) else order)
