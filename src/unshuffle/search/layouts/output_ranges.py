"""The ranges in which an output is stored: their boundaries are chosen at planning time or at run time (SIGMOD 2012,
section 3.2.1 and Figure 7).

At run time, the whole query is computed once for a sample of its rows, and again to store them. At planning time, stored
layouts and histograms give the distribution of the rows. Rows in related stored ranges are then read in place and computed
once; but the ranges may be skewed, which the cost of the plan includes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unshuffle.constants import SEARCH
from unshuffle.plan.expressions import Ref, SortKey
from unshuffle.plan.logical import Output, StreamTarget
from unshuffle.plan.physical import Exchange
from unshuffle.properties import (
    Delivered,
    Exactly,
    Partitioned,
    RandomMerge,
    Repartitioning,
    Required,
    SampledBoundaries,
    Sorted,
    ranged,
)
from unshuffle.search.layouts.range_layouts import counted, in_common

if TYPE_CHECKING:
    from unshuffle.search.memo import Group
    from unshuffle.search.search import Search


def known_ranges(search: Search, output: Output, group: Group) -> Delivered | None:
    """The layout of an output, if its boundaries are better chosen now; None if they are better sampled at run time."""
    target = output.target
    if not isinstance(target, StreamTarget) or not target.range_partitioned or output.layout is not None:
        return None
    if target.partitions is None or target.reference is not None:
        return None
    keys, order = _sorted(target.clustered_by), _sorted(target.sorted_by or target.clustered_by)
    if not keys or any(key.column.type is None for key in keys):
        return None
    best, least = None, _sampled_cost(search, group, keys, order, target.partitions)
    for layout in _known(group, keys, target.partitions):
        plan = search.solve(group, Required(Exactly(layout), order), least)
        if plan is not None:
            best, least = Delivered(layout, order), plan.cost
    return best


def _sampled_cost(
    search: Search, group: Group, keys: tuple[Sorted, ...], order: tuple[Sorted, ...], partitions: int
) -> float:
    """Seconds to compute the rows for a sample, and again to send, sort and store them."""
    rows = search.best(group)
    layout = ranged(keys, SampledBoundaries("stored", partitions))
    send = Exchange(Repartitioning(layout, RandomMerge()), group.columns)
    sent = search.builder.build(group, send, (rows,), Delivered(layout))
    stored = search.builder.sort_over(group, sent, Required(local=order)) or sent
    return rows.cost + stored.cost - sent.own.recompute


def _known(group: Group, keys: tuple[Sorted, ...], most: int) -> Iterator[Partitioned]:
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


def _sorted(keys: tuple[SortKey, ...]) -> tuple[Sorted, ...]:
    columns = ((key, key.expression.column) for key in keys if isinstance(key.expression, Ref))
    return tuple(Sorted(column, key.descending, key.nulls_first) for key, column in columns)
