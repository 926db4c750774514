"""Joins that leave a large input as it lies, and bring a small one only to those of its partitions that can have matches
(SIGMOD 2012, section 3.3.2, "broadcast optimization").

The large input lies by ranges of (a, b), the join is on a. Equal values of a may be in several partitions, so that nothing
can be sent to where they are; but which partitions these are, the boundaries tell. A row of the small input goes to each of
them (`properties.Covering`): to one, mostly, and to several where boundaries fall between rows with its a.

    boundaries (1, 'B'), (1, 'D'), (4, 'A')      a = 1: partitions 0, 1, 2      a = 2: partition 2      a = 4: 2 and 3

It pays between the other two ways. A broadcast sends the small input whole to every machine, which builds a table of all of
it; co-partitioning on a reads the large input in other ranges, or moves it, and is no help where one a has many rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from unshuffle.algebra.physical import Amount
from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    Covered,
    Covering,
    Delivered,
    Partitioned,
    Proof,
    RangeFunction,
    Sampled,
    Within,
    match_joint,
)
from unshuffle.properties.functions import Boundary
from unshuffle.search.alignment import Alignment

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group


def prunings(each: Implementation, joint: Covered) -> list[Alignment]:
    """The layouts that one input has, each covered by the other. They are the same whatever is required of the result."""
    found = each.aligned.get(joint)
    if found is None:
        facts = [child.facts for child in each.inputs]
        found = each.aligned[joint] = [
            Alignment(one, each.operator.deliver([Delivered(layout) for layout in one], facts).partitioning)
            for one in _covered(each, joint)
        ]
    return found


def _covered(each: Implementation, joint: Covered) -> Iterator[tuple[Partitioned | Within | Covering, ...]]:
    lies = 1 - joint.by
    child = each.inputs[lies]
    facts = [one.facts for one in each.inputs]
    for layout in child.lies:
        columns = tuple(takewhile(lambda column: column is not None, (_key(each, joint, c) for c in layout.columns)))
        # If all columns of the layout are keys, rows of the other input can be sent to where theirs are.
        if not 0 < len(columns) < layout.function.arity or not isinstance(layout.function, RangeFunction):
            continue
        covering = Covering(layout.function, tuple(column for column in columns if column is not None))
        layouts: tuple[Partitioned | Within | Covering, ...] = (
            (layout, covering) if joint.by == 1 else (covering, layout)
        )
        known = [(Delivered(one), of) for one, of in zip(layouts, facts, strict=True)]
        if isinstance(match_joint(known, joint), Proof):
            yield layouts


def _key(each: Implementation, joint: Covered, column: Column) -> Column | None:
    """What the other input calls a join column."""
    lies = 1 - joint.by
    facts = each.inputs[lies].facts
    return next((key.columns[joint.by] for key in joint.keys if facts.equal(key.columns[lies], column)), None)


# --- how much is copied


@lru_cache(maxsize=64)
def projected(covering: Covering) -> Partitioned:
    """The ranges cut to the columns that are covered: partitions that only the rest divides are one."""
    function, count = covering.function, len(covering.columns)
    cuts: list[Boundary] = []
    for boundary in _boundaries(covering):
        if not cuts or function.compare(cuts[-1], boundary[:count]) < 0:
            cuts.append(boundary[:count])
    return Partitioned(RangeFunction(function.keys[:count], tuple(cuts)), covering.columns)


def _boundaries(covering: Covering) -> tuple[Boundary, ...]:
    boundaries = covering.function.boundaries
    assert not isinstance(boundaries, Sampled)
    return boundaries


def copies(group: Group, covering: Covering) -> float:
    """In how many partitions a row is, on the average.

    Every boundary with more columns than are covered falls between rows that agree on those, and makes one copy more of each
    row with such values. How many rows have them is not known: as many as have any others."""
    count = len(covering.columns)
    between = [boundary[:count] for boundary in _boundaries(covering) if len(boundary) > count]
    values = max(float(group.estimate.distinct(covering.columns)), float(len(set(between))), 1.0)
    return 1.0 + len(between) / values


def copied_amount(group: Group, covering: Covering, share: float) -> Amount:
    """What an exchange makes that copies rows to some partitions. `share` is that of the rows in the largest of the ranges
    that are covered together: one partition has at most those."""
    times, number = copies(group, covering), covering.function.partitions
    largest = min(1.0, max(1 / number, share / times))
    return Amount(group.rows * times, group.bytes * times, number, largest, group.waits)
