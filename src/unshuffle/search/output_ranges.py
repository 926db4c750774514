"""Ranges that rows are to be stored in: where they are cut is chosen when the plan is made, or when it runs
(SIGMOD 2012, section 3.2.1 and Figure 7).

When it runs, the whole query is computed once for a sample of its rows, and then again to be stored. When the plan is made,
what is stored or counted below tells how rows lie. Then rows that lie in related ranges already are read in place, and no
row is looked at twice; but the ranges may be uneven, which the cost of the plan says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unshuffle.algebra.expressions import Ref, SortKey
from unshuffle.algebra.logical import Output, StreamTarget
from unshuffle.algebra.operators import Move
from unshuffle.properties import (
    Delivered,
    Exactly,
    Partitioned,
    RandomMerge,
    Repartitioning,
    Required,
    Sampled,
    Sorted,
    ranged,
)
from unshuffle.search.ranges import counted, in_common

if TYPE_CHECKING:
    from unshuffle.search.memo import Group
    from unshuffle.search.optimize import Search


# How stored rows lie tells how those lie that are left of them if most are: groups of them, or few of them, may not.
MOST = 0.5


def known_ranges(search: Search, output: Output, group: Group) -> Delivered | None:
    """The layout to store an output in, if it is better chosen now; None if rows are to be looked at first."""
    target = output.target
    if not isinstance(target, StreamTarget) or not target.range_partitioned or output.layout is not None:
        return None
    if target.partitions is None or target.reference is not None:
        return None
    keys, order = _sorted(target.clustered_by), _sorted(target.sorted_by or target.clustered_by)
    if not keys or any(key.column.type is None for key in keys):
        return None
    best, least = None, _looked_at(search, group, keys, order, target.partitions)
    for layout in _known(group, keys, target.partitions):
        plan = search.solve(group, Required(Exactly(layout), order), least)
        if plan is not None:
            best, least = Delivered(layout, order), plan.cost
    return best


def _looked_at(
    search: Search, group: Group, keys: tuple[Sorted, ...], order: tuple[Sorted, ...], partitions: int
) -> float:
    """Seconds to compute the rows for a sample, and again to send them, sort them and store them."""
    rows = search.best(group)
    layout = ranged(keys, Sampled("stored", partitions))
    send = Move(Repartitioning(layout, RandomMerge()), group.columns)
    sent = search.build(group, send, (rows,), Delivered(layout))
    stored = search.sorted_over(group, sent, Required(local=order)) or sent
    return rows.cost + stored.cost - sent.own.again


def _known(group: Group, keys: tuple[Sorted, ...], most: int) -> Iterator[Partitioned]:
    first = keys[0].column
    if group.estimate.kept(first) < MOST:
        return
    for spread in group.spreads:
        serves = in_common(spread, keys)
        if serves and group.estimate.counted_on(first) >= MOST * spread.histogram.rows:
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
