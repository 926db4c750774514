"""Enforcers: the exchanges and sorts that deliver what no operator delivers (Algorithm 2 and section VIII of ICDE 2010;
SIGMOD 2012, section 3.3.1).

An exchange over an exchange, or a sort over a sort, gains nothing over the upper one alone. So the input of an exchange is
a plan without an exchange at its top, and enforcers are stacked in two ways only: a sort over an exchange, and a merging
exchange over a sort. This also keeps a goal from being its own input.

Spark's exchanges do not merge sorted inputs. Merging exchanges are enumerated only for an engine that has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.properties import (
    AnyDistribution,
    Broadcast,
    BroadcastTo,
    Clustered,
    ConcatMerge,
    Dependencies,
    Exactly,
    FullMerge,
    Grouped,
    InitialPartitioning,
    Local,
    Partitioned,
    RandomMerge,
    RangeOrdered,
    Repartitioning,
    Replicated,
    Required,
    SampledBoundaries,
    SinglePartition,
    SortConcatMerge,
    Sorted,
    SortMerge,
    TargetedBroadcast,
    Topology,
    UnknownPartitioning,
    asc,
    hashed,
    ranged,
)
from unshuffle.properties.matching.operator_requirements import PARALLEL, SERIAL
from unshuffle.search.interesting_properties import candidate_sets
from unshuffle.search.layouts.range_layouts import clustering, ordering, unevenness

if TYPE_CHECKING:
    from unshuffle.search.memo import Group

ANYTHING = Required()
IN_PARALLEL = Required(PARALLEL)
IN_ONE_PARTITION = Required(SERIAL)


@dataclass(frozen=True, slots=True)
class Enforcement:
    """An exchange, and what it requires of its input."""

    how: Topology
    input: Required


def sort_keys(local: Local, facts: Dependencies) -> tuple[Sorted, ...]:
    """The keys of a sort that delivers an order. The columns of a grouping may be sorted in any order; the column with the
    smallest number is first."""
    keys: list[Sorted] = []
    have: list[Column] = []
    for action in local:
        news = [action] if isinstance(action, Sorted) else [asc(c) for c in sorted(action.columns, key=lambda c: c.id)]
        for key in news:
            if not facts.determines(have, (key.column,)):
                keys.append(key)
                have.append(key.column)
    return tuple(keys)


def exchanges(required: Required, group: Group, ideal: int, can_merge: bool = True) -> Iterator[Enforcement]:
    """Every exchange that delivers what is required of a group, `ideal` being its ideal number of partitions. `can_merge`
    says whether an exchange can merge sorted inputs."""
    candidates = _Candidates(group, ideal, required.local, can_merge)
    match required.partitioning:
        case SinglePartition():
            yield from candidates.into_one()
        case AnyDistribution(parallel=True):
            unknown = UnknownPartitioning(ideal)
            yield Enforcement(InitialPartitioning(unknown), Required(SERIAL, required.local))
            if group.user_seconds and required.largest < 1.0 and not required.local:
                # User code above may take so long that spreading rows over all cores pays.
                yield Enforcement(Repartitioning(unknown, RandomMerge()), IN_PARALLEL)
        case Clustered(maximum=maximum):
            yield from candidates.clustered(maximum)
        case RangeOrdered(keys=keys):
            yield from candidates.range_ordered(keys)
        case Exactly(layout=layout):
            yield from candidates.by(_with_nulls(layout))
        case Broadcast() if not required.local:
            # The cheapest input is not always the best: broadcasting a serial input is slower than a partitioned one.
            yield Enforcement(Repartitioning(Replicated(), RandomMerge()), IN_PARALLEL)
            yield Enforcement(Repartitioning(Replicated(), RandomMerge()), IN_ONE_PARTITION)
        case BroadcastTo(layout=TargetedBroadcast() as scheme) if not required.local:
            yield Enforcement(Repartitioning(scheme, RandomMerge()), IN_PARALLEL)
            yield Enforcement(InitialPartitioning(scheme), IN_ONE_PARTITION)
        case _:
            return


def layouts_in_place(required: Required, group: Group, ideal: int) -> Iterator[Partitioned]:
    """The layouts that satisfy a requirement and that a leaf may have if it reads stored partitions in place."""
    candidates = _Candidates(group, ideal, required.local, can_merge=False)
    match required.partitioning:
        case Clustered(maximum=maximum):
            yield from candidates.layouts(maximum)
        case RangeOrdered(keys=keys):
            yield from ordering(group, keys, ideal)
        case Exactly(layout=layout):
            yield _with_nulls(layout)
        case _:
            return


def _with_nulls(layout: Partitioned) -> Partitioned:
    """A consumer that accepts NULL keys in any partition also accepts them hashed."""
    return replace(layout, nulls_anywhere=False) if layout.nulls_anywhere else layout


def partition_counts(group: Group, ideal: int) -> Iterator[int]:
    """The ideal number of partitions, and two multiples of each number that the input has: the nearest to the ideal, and the
    double. From 45 partitions, making 90 costs less than making 100 (SIGMOD 2012, section 3.3.1)."""
    counts = {ideal: None}
    for count in group.partition_counts:
        counts[count * max(1, round(ideal / count))] = None
        counts[count * 2] = None
    yield from counts


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The exchanges of one group that deliver an order."""

    group: Group
    ideal: int
    local: Local
    can_merge: bool

    def clustered(self, maximum: frozenset[Column]) -> Iterator[Enforcement]:
        for layout in self.layouts(maximum):
            yield from self.by(layout)

    def layouts(self, maximum: frozenset[Column]) -> Iterator[Partitioned]:
        """Layouts under which rows that agree on the columns are together."""
        for columns in candidate_sets(self.group, maximum):
            for count in partition_counts(self.group, self.ideal):
                yield hashed(sorted(columns, key=lambda c: c.id), count)
        yield from clustering(self.group, maximum, self.ideal)

    def range_ordered(self, keys: tuple[Sorted, ...]) -> Iterator[Enforcement]:
        known = list(ordering(self.group, keys, self.ideal))
        for layout in known:
            yield from self.by(layout)
        shown = ",".join(map(str, keys))
        skews = [skew for layout in known if (skew := unevenness(self.group, layout)) is not None]
        for count in partition_counts(self.group, self.ideal):
            sample = SampledBoundaries(f"{self.group.number}:{shown}:{count}", count, min(skews, default=None))
            yield from self.by(ranged(keys, sample))

    def by(self, layout: Partitioned) -> Iterator[Enforcement]:
        if not self.local:
            yield Enforcement(Repartitioning(layout, RandomMerge()), IN_PARALLEL)
            yield Enforcement(InitialPartitioning(layout), IN_ONE_PARTITION)
            return
        keys = sort_keys(self.local, self.group.facts)
        if keys:
            if self.can_merge:
                yield Enforcement(Repartitioning(layout, SortMerge(keys)), Required(PARALLEL, keys))
            yield Enforcement(InitialPartitioning(layout), Required(SERIAL, self.local))

    def into_one(self) -> Iterator[Enforcement]:
        group, local = self.group, self.local
        if not local:
            yield Enforcement(FullMerge(RandomMerge()), IN_PARALLEL)
            return
        keys = sort_keys(local, group.facts)
        if not keys or not self.can_merge:
            return
        yield Enforcement(FullMerge(SortMerge(keys)), Required(PARALLEL, keys))
        first = local[0]
        if isinstance(first, Sorted) and (group.has_stored_layout or first.column in group.range_ordered):
            yield Enforcement(FullMerge(SortConcatMerge(keys)), Required(RangeOrdered(keys, parallel=True), keys))
        if isinstance(first, Grouped) and (
            group.interesting_above or group.interesting_below or group.has_stored_layout
        ):
            yield Enforcement(FullMerge(ConcatMerge()), Required(Clustered(first.columns, parallel=True), local))
