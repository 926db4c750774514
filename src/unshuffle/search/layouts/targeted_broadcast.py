"""Targeted broadcasts: a join leaves its large input in place and copies the small one only to the partitions that can have
matches (SIGMOD 2012, section 3.3.2, "broadcast optimization").

The large input is stored in ranges of (a, b), and the join is on a. Equal values of a may be in several partitions, so the
small input cannot be partitioned alike. But the boundaries say which partitions they are. A row of the small input goes to
each of them (`properties.TargetedBroadcast`): mostly to one, and to several if boundaries fall between rows with its a.

    boundaries (1, 'B'), (1, 'D'), (4, 'A')      a = 1: partitions 0, 1, 2      a = 2: partition 2      a = 4: 2 and 3

It pays between the two other ways. A broadcast sends all of the small input to every machine, which builds a table of it.
Co-partitioning on a reads the large input in other ranges or sends it, and does not help if one a has many rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.plan.physical import SizeEstimate
from unshuffle.properties import (
    BroadcastAligned,
    Delivered,
    Partitioned,
    PrefixPartitioned,
    Proof,
    RangeFunction,
    SampledBoundaries,
    TargetedBroadcast,
    match_joint,
)
from unshuffle.properties.layouts.partition_functions import Boundary
from unshuffle.search.layouts.alignment import Alignment

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group


def prunings(each: Implementation, joint: BroadcastAligned) -> list[Alignment]:
    """The stored layouts of one input, each with the targeted broadcast of the other. They do not depend on the requirement
    on the result."""
    found = each.alignments.get(joint)
    if found is None:
        facts = [child.facts for child in each.inputs]
        found = each.alignments[joint] = [
            Alignment(one, each.operator.deliver([Delivered(layout) for layout in one], facts).partitioning)
            for one in _covered(each, joint)
        ]
    return found


def _covered(
    each: Implementation, joint: BroadcastAligned
) -> Iterator[tuple[Partitioned | PrefixPartitioned | TargetedBroadcast, ...]]:
    stored = 1 - joint.broadcast
    child = each.inputs[stored]
    facts = [one.facts for one in each.inputs]
    for layout in child.stored_ranges:
        columns = tuple(takewhile(lambda column: column is not None, (_key(each, joint, c) for c in layout.columns)))
        # If all columns of the layout are keys, the inputs can be co-partitioned.
        if not 0 < len(columns) < layout.function.arity or not isinstance(layout.function, RangeFunction):
            continue
        covering = TargetedBroadcast(layout.function, tuple(column for column in columns if column is not None))
        layouts: tuple[Partitioned | PrefixPartitioned | TargetedBroadcast, ...] = (
            (layout, covering) if joint.broadcast == 1 else (covering, layout)
        )
        known = [(Delivered(one), of) for one, of in zip(layouts, facts, strict=True)]
        if isinstance(match_joint(known, joint), Proof):
            yield layouts


def _key(each: Implementation, joint: BroadcastAligned, column: Column) -> Column | None:
    """The other input's column of a join key."""
    stored = 1 - joint.broadcast
    facts = each.inputs[stored].facts
    return next((key.columns[joint.broadcast] for key in joint.keys if facts.equal(key.columns[stored], column)), None)


# --- the size of the copies


@lru_cache(maxsize=64)
def projected(covering: TargetedBroadcast) -> Partitioned:
    """The ranges on the join columns only: partitions that only the other columns divide are one."""
    function, count = covering.function, len(covering.columns)
    cuts: list[Boundary] = []
    for boundary in _boundaries(covering):
        if not cuts or function.compare(cuts[-1], boundary[:count]) < 0:
            cuts.append(boundary[:count])
    return Partitioned(RangeFunction(function.keys[:count], tuple(cuts)), covering.columns)


def _boundaries(covering: TargetedBroadcast) -> tuple[Boundary, ...]:
    boundaries = covering.function.boundaries
    assert not isinstance(boundaries, SampledBoundaries)
    return boundaries


def copies(group: Group, covering: TargetedBroadcast) -> float:
    """The average number of partitions that a row is copied to.

    A boundary with more columns than the join has falls between rows that agree on the join columns, so each row with these
    values has one more copy. They are assumed to be as frequent as other values."""
    count = len(covering.columns)
    between = [boundary[:count] for boundary in _boundaries(covering) if len(boundary) > count]
    values = max(float(group.estimate.distinct(covering.columns)), float(len(set(between))), 1.0)
    return 1.0 + len(between) / values


def copied_size(group: Group, covering: TargetedBroadcast, share: float) -> SizeEstimate:
    """The size of a targeted broadcast. `share` is the largest share of rows in a range on the join columns, and no partition
    has more."""
    times, number = copies(group, covering), covering.function.partitions
    largest = min(1.0, max(1 / number, share / times))
    return SizeEstimate(group.rows * times, group.bytes * times, number, largest, group.waits)
