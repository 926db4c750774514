"""Enforcers: the exchanges and sorts that bring about what no operator delivers (Algorithm 2 and section VIII of
ICDE 2010; SIGMOD 2012, section 3.3.1).

An exchange over an exchange, or a sort over a sort, gains nothing over the upper one alone. So the input of an exchange is
a plan with no exchange at its top, and the two enforcers that can stand above one another are a sort over an exchange and
an exchange that merges in order over a sort. This also keeps goals from asking for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    Anyhow,
    Clustered,
    ConcatMerge,
    Covering,
    Covers,
    Dependencies,
    EveryPartition,
    Exactly,
    Exchange,
    FullMerge,
    Grouped,
    InitialPartitioning,
    Local,
    OnePartition,
    Partitioned,
    RandomMerge,
    RangeOrdered,
    Repartitioning,
    Replicated,
    Required,
    Sampled,
    Scattered,
    SortConcatMerge,
    Sorted,
    SortMerge,
    asc,
    hashed,
    ranged,
)
from unshuffle.properties.requirements import PARALLEL, SERIAL
from unshuffle.search.interest import candidates
from unshuffle.search.ranges import clustering, ordering, unevenness

if TYPE_CHECKING:
    from unshuffle.search.memo import Group

ANYTHING = Required()
SCATTERED = Required(PARALLEL)
GATHERED = Required(SERIAL)


@dataclass(frozen=True, slots=True)
class Enforcement:
    """An exchange, and what it needs of its input."""

    how: Exchange
    input: Required


def sort_keys(local: Local, facts: Dependencies) -> tuple[Sorted, ...]:
    """A sort that brings about an order: a grouping is a sort in any order of its columns, the smallest number first."""
    keys: list[Sorted] = []
    have: list[Column] = []
    for action in local:
        news = [action] if isinstance(action, Sorted) else [asc(c) for c in sorted(action.columns, key=lambda c: c.id)]
        for key in news:
            if not facts.determines(have, (key.column,)):
                keys.append(key)
                have.append(key.column)
    return tuple(keys)


def exchanges(required: Required, group: Group, ideal: int) -> Iterator[Enforcement]:
    """Every exchange that would bring about what is required of a group."""
    wish, local = required.partitioning, required.local
    match wish:
        case OnePartition():
            yield from _gather(local, group)
        case Anyhow(parallel=True):
            yield Enforcement(InitialPartitioning(Scattered(ideal)), Required(SERIAL, local))
        case Clustered():
            for columns in candidates(group, wish.maximum):
                for count in partition_counts(group, ideal):
                    yield from _send(hashed(sorted(columns, key=lambda c: c.id), count), local, group)
            for layout in clustering(group, wish.maximum, ideal):
                yield from _send_by_ranges(layout, local, group)
        case RangeOrdered():
            known = list(ordering(group, wish.keys, ideal))
            for layout in known:
                yield from _send_by_ranges(layout, local, group)
            shown = ",".join(map(str, wish.keys))
            instead = min((each for layout in known if (each := unevenness(group, layout)) is not None), default=None)
            for count in partition_counts(group, ideal):
                sample = Sampled(f"{group.number}:{shown}:{count}", count, instead)
                yield from _send(ranged(wish.keys, sample), local, group)
        case Exactly(layout=layout):
            # Who bears NULL keys anywhere bears them in their place.
            yield from _send(replace(layout, nulls_apart=False) if layout.nulls_apart else layout, local, group)
        case EveryPartition():
            if not local:
                # One stream is dearer to send than many: the cheaper input is not always the better.
                yield Enforcement(Repartitioning(Replicated(), RandomMerge()), SCATTERED)
                yield Enforcement(Repartitioning(Replicated(), RandomMerge()), GATHERED)
        case Covers(covering=Covering() as scheme) if not local:
            yield Enforcement(Repartitioning(scheme, RandomMerge()), SCATTERED)
            yield Enforcement(InitialPartitioning(scheme), GATHERED)
        case _:
            return


def partition_counts(group: Group, ideal: int) -> Iterator[int]:
    """The ideal number, and multiples of what the input already has, the nearest to the ideal and the next: from 45
    partitions, 90 are made for less than 100 (SIGMOD 2012, section 3.3.1)."""
    tried = {ideal: None}
    for count in group.counts:
        tried[count * max(1, round(ideal / count))] = None
        tried[count * 2] = None
    yield from tried


def _send(layout: Partitioned, local: Local, group: Group) -> Iterator[Enforcement]:
    keys = sort_keys(local, group.facts)
    if not local:
        yield Enforcement(Repartitioning(layout, RandomMerge()), SCATTERED)
        yield Enforcement(InitialPartitioning(layout), GATHERED)
    elif keys:
        yield Enforcement(Repartitioning(layout, SortMerge(keys)), Required(PARALLEL, keys))
        yield Enforcement(InitialPartitioning(layout), Required(SERIAL, local))


def _send_by_ranges(layout: Partitioned, local: Local, group: Group) -> Iterator[Enforcement]:
    yield from _send(layout, local, group)
    if local:
        # What is stored in ranges, sorted, is still sorted after it was read in place, whatever is asked of the order.
        yield Enforcement(Repartitioning(layout, RandomMerge()), SCATTERED)


def _gather(local: Local, group: Group) -> Iterator[Enforcement]:
    if not local:
        yield Enforcement(FullMerge(RandomMerge()), SCATTERED)
        return
    keys = sort_keys(local, group.facts)
    if not keys:
        return
    yield Enforcement(FullMerge(SortMerge(keys)), Required(PARALLEL, keys))
    first = local[0]
    if isinstance(first, Sorted) and (group.stored or first.column in group.ordered):
        yield Enforcement(FullMerge(SortConcatMerge(keys)), Required(RangeOrdered(keys, parallel=True), keys))
    if isinstance(first, Grouped) and (group.above or group.below or group.stored):
        yield Enforcement(FullMerge(ConcatMerge()), Required(Clustered(first.columns, parallel=True), local))
