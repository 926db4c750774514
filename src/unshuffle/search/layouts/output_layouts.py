"""The layout in which an output is stored, where its OUTPUT leaves something open: the number of partitions, or the
boundaries of ranges (SIGMOD 2012, section 3.2.1 and Figure 7).

Candidates are the layouts that rows below are stored in, and one of as many partitions as the estimated rows fill. The search
finds the cost of each: rows that lie right are not sent.

The other way is to compute the whole query once to count its rows, or for a sample of them, and again to store them. It is
taken for ranges whose distribution of rows is unknown or skewed, and where the number of rows is a guess. Otherwise rows are
computed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from unshuffle.constants import SEARCH
from unshuffle.plan.expressions import Ref, SortKey
from unshuffle.plan.logical import Output, StreamTarget
from unshuffle.plan.physical import Exchange
from unshuffle.properties import (
    Delivered,
    Exactly,
    HashFunction,
    Partitioned,
    RandomMerge,
    RangeFunction,
    RangeKey,
    Repartitioning,
    Required,
    SampledBoundaries,
    SinglePartition,
    Sorted,
    ranged,
)
from unshuffle.search.layouts.range_layouts import counted, in_common

if TYPE_CHECKING:
    from unshuffle.search.memo import Group
    from unshuffle.search.search import Search

Keys = tuple[Sorted, ...]


def chosen_layout(search: Search, output: Output, group: Group) -> Delivered | None:
    """The layout of an output that leaves it open; None if it is better chosen at run time, or is not open."""
    target = output.target
    if not isinstance(target, StreamTarget) or output.layout is not None or target.reference is not None:
        return None
    keys, order = _sorted(target.clustered_by), _sorted(target.sorted_by or target.clustered_by)
    if not keys or any(column.type is None for column in group.columns):
        return None
    count = target.partitions or _expected_partitions(group)
    best, least = None, inf
    if target.range_partitioned:
        candidates = _ranges(group, keys, count, is_fixed=target.partitions is not None)
        least = _twice(search, group, ranged(keys, SampledBoundaries("stored", count)), order)
    else:
        candidates = _hashes(group, keys, count)
        if _is_a_guess(group):
            least = _twice(search, group, _hashed(keys, count), order)
    for layout in candidates:
        wanted = Delivered(layout, order)
        plan = search.solve(group, stored_in(wanted), least)
        if plan is not None:
            best, least = wanted, plan.cost
    return best


def stored_in(layout: Delivered | None) -> Required:
    """The requirement on an output that is to be stored in a layout. Into one partition, no row can be in a wrong one."""
    if layout is None or not isinstance(layout.partitioning, Partitioned):
        return Required()
    is_single = layout.partitioning.function.partitions == 1
    return Required(SinglePartition() if is_single else Exactly(layout.partitioning), layout.local)


def _expected_partitions(group: Group) -> int:
    from unshuffle.sstream.layout_defaults import partitions_for  # only scripts that write streams need it

    return partitions_for(tuple((column.name, column.type) for column in group.columns), round(group.rows))


def _is_a_guess(group: Group) -> bool:
    return bool(group.estimate.guesses > 0)


def _twice(search: Search, group: Group, layout: Partitioned, order: Keys) -> float:
    """Seconds to compute the rows once to count them or for a sample, and again to send, sort and store them."""
    rows = search.best(group)
    send = Exchange(Repartitioning(layout, RandomMerge()), group.columns)
    sent = search.builder.build(group, send, (rows,), Delivered(layout))
    stored = search.builder.sort_over(group, sent, Required(local=order)) or sent
    return rows.cost + stored.cost - sent.own.recompute


# --- hash


def _hashes(group: Group, keys: Keys, count: int) -> Iterator[Partitioned]:
    """Into the expected number of partitions, unless the rows are a guess, and into as many as rows below are stored in."""
    counts = [] if _is_a_guess(group) else [count]
    for each in (*counts, *group.partition_counts[: SEARCH.aligned_partition_counts]):
        if each * SEARCH.output_partition_growth >= count:
            yield _hashed(keys, each)


def _hashed(keys: Keys, count: int) -> Partitioned:
    columns = tuple(key.column for key in keys)
    return Partitioned(HashFunction(tuple(column.type for column in columns), count), columns)


# --- ranges


def _ranges(group: Group, keys: Keys, count: int, is_fixed: bool) -> Iterator[Partitioned]:
    least = count / SEARCH.output_partition_growth
    for layout in () if is_fixed else group.stored_ranges:
        if isinstance(layout, Partitioned) and _are_ranges_of(layout, keys) and layout.function.partitions >= least:
            yield layout
    if not is_fixed and _is_a_guess(group):
        return
    if count == 1:
        yield ranged(keys, ())
    else:
        yield from _divided(group, keys, count)


def _are_ranges_of(layout: Partitioned, keys: Keys) -> bool:
    """Whether a layout is by the first of these keys, in their order."""
    first = keys[: len(layout.columns)]
    wanted = tuple(RangeKey(key.column.type, key.descending, key.nulls_first) for key in first)
    is_same = layout.columns == tuple(key.column for key in first) and not layout.nulls_anywhere
    return is_same and isinstance(layout.function, RangeFunction) and layout.function.keys == wanted


def _divided(group: Group, keys: Keys, most: int) -> Iterator[Partitioned]:
    first = keys[0].column
    if group.estimate.kept(first) < SEARCH.known_range_share:
        return
    for spread in group.spreads:
        serves = in_common(spread, keys)
        if serves and group.estimate.counted_on(first) >= SEARCH.known_range_share * spread.histogram.rows:
            layout = spread.divided_evenly(most, serves)
            if layout is not None:
                yield layout
    known = counted(group, keys[0])
    layout = known.divided_evenly(most) if known is not None else None
    if layout is not None:
        yield layout


def _sorted(keys: tuple[SortKey, ...]) -> Keys:
    columns = ((key, key.expression.column) for key in keys if isinstance(key.expression, Ref))
    return tuple(Sorted(column, key.descending, key.nulls_first) for key, column in columns)
