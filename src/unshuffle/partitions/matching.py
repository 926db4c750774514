"""Which parts of two tables can meet in a join (Herodotou, Borisov and Babu, section 4).

Each comparison of a column of one table with a column of the other is answered by the partition indexes of the two columns:

    x = y     intervals that overlap, without NULLs     x <=> y   with them
    x < y     x begins before y ends                    x > y     y begins before x ends

Conditions that are connected by `and` must all be possible for a pair of parts, and one of those that are connected by `or`.
Parts can meet if nothing excludes it: a column without bounds excludes no pair.

    R in ranges of a: [0,10) [10,20) [20,30)        S in ranges of (a, b): a in [0,20) or [20,30), b in [0,5) or [5,9)
    R.a = S.a                                       4 of 12 pairs are excluded, by a
    R.a = S.a and R.c < S.b, R.c from 6             also the pairs with b in [0,5)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unshuffle.frozen import dataclass
from unshuffle.partitions.intervals import Place
from unshuffle.partitions.partition_index import PartitionIndex
from unshuffle.partitions.values import AFTER

Pairs = list[frozenset[int]]  # the parts of the right table that each part of the left can meet
FLIPPED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of a column of the left table with a column of the right."""

    left: str
    operator: str  # one of `FLIPPED`
    right: str


@dataclass(frozen=True, slots=True)
class AllOf:
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    conditions: tuple[Condition, ...]


Condition = Compared | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class TableParts:
    """The number of parts of a table, and the indexes of the columns that have bounds."""

    count: int
    columns: Mapping[str, PartitionIndex]


def meeting_parts(left: TableParts, right: TableParts, condition: Condition) -> Pairs:
    """For each part of the left table, the parts of the right one that it can meet."""
    match condition:
        case AllOf(conditions):
            pairs = [meeting_parts(left, right, each) for each in conditions]
            return [frozenset.intersection(*each) for each in zip(*pairs, strict=True)] if pairs else _all(left, right)
        case AnyOf(conditions):
            pairs = [meeting_parts(left, right, each) for each in conditions]
            return [frozenset[int]().union(*each) for each in zip(*pairs, strict=True)]
        case Compared(one, operator, other):
            if one not in left.columns or other not in right.columns:
                return _all(left, right)
            return _compared(left.columns[one], operator, right.columns[other])


def _all(left: TableParts, right: TableParts) -> Pairs:
    return [frozenset(range(right.count))] * left.count


def _compared(left: PartitionIndex, operator: str, right: PartitionIndex) -> Pairs:
    if operator in ("=", "<=>"):
        known = left if operator == "<=>" else left.without_nulls
        return list(map(frozenset, right.meeting_parts_of(known)))
    if operator in ("<", "<="):
        # The least value of the left part against the greatest of the right.
        ends = [max((high for low, high in each), default=None) for each in right.without_nulls.ends]
        starts = [min((low for low, _ in each), default=None) for each in left.without_nulls.ends]
        return [_later(start, ends, operator == "<=") for start in starts]
    turned = _compared(right, FLIPPED[operator], left)
    found: list[set[int]] = [set() for _ in range(len(left))]
    for part, others in enumerate(turned):
        for other in others:
            found[other].add(part)
    return list(map(frozenset, found))


def _later(start: Place | None, ends: Sequence[Place | None], is_closed: bool) -> frozenset[int]:
    if start is None:
        return frozenset()
    return frozenset(
        part for part, end in enumerate(ends) if end is not None and (start < end if is_closed else start < _value(end))
    )


def _value(end: Place) -> Place:
    """The place of the greatest value of an interval that ends after it. Of another interval, its end."""
    return end[:-1] if end and end[-1] == AFTER and len(end) % 2 == 1 and len(end) > 1 else end
