"""Layouts that are derived from another layout by moving few rows or none (SIGMOD 2012, sections 3.1, 3.2 and 3.3).

| from                | to                              | each output reads    | the new layout                    |
|---------------------|---------------------------------|----------------------|-----------------------------------|
| hash into p         | hash into q                     | p / gcd(p, q) inputs | the plain hash into q             |
| hash into p         | partition i to i mod q          | whole partitions     | the plain hash if q divides p,    |
|                     |                                 |                      | otherwise a function of its own   |
| range on (a, b)     | range on a                      | neighbours, filtered | boundaries truncated to a         |
| range on a string s | range on the first k characters | neighbours, filtered | boundaries truncated to k         |
|                     |                                 |                      | characters                        |

Whether the result is clustered follows from its columns. Whether it is co-partitioned with another layout depends on the
functions being equal values, so every function is returned in its plainest form.

Worked example. T is stored hashed on a into 100 partitions. An expensive operator needs 200: each input is split in two, and
the result is the hash on a into 200, co-partitioned with any other such layout. Its output is needed in 50: output i
merges the whole inputs i, i + 50, i + 100 and i + 150. From the stored 100 to 150, gcd(100, 150) = 50, and output i reads
parts of the inputs i and i + 50 modulo 100. Sending partition i of 200 whole to i mod 150, however, produces a layout that
equals no plain hash. It serves GROUP BY a, but no join with another layout.

A range on a prefix of the keys is an ordinary range function. A short boundary is the first point with that prefix, so the
layout on (a, b) with boundaries (1,) and (2,) is the layout on a with boundaries 1 and 2. Strings are similar: s >= 'ab' if
and only if left(s, 2) >= 'ab', so a range on s whose boundaries have at most two characters is also a range on
left(s, 2). This does not hold in descending order, where the boundary 'ab' separates 'ab' from 'abc'.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cmp_to_key, lru_cache
from math import gcd

from unshuffle.frozen import dataclass
from unshuffle.properties.layouts.delivered import Delivered, Partitioned
from unshuffle.properties.layouts.partition_functions import (
    HashFunction,
    PartitionFunction,
    RangeFunction,
    SampledBoundaries,
    SplitFunction,
    regroup,
)
from unshuffle.properties.layouts.structure import Local, Ordered


def merged_layout(layout: Partitioned, groups: Sequence[int]) -> Partitioned:
    """The layout after merging whole partitions in groups. Rows that shared a partition still do."""
    function = regroup(layout.function, groups)
    return Partitioned(function, layout.columns[: function.arity], layout.nulls_anywhere)


def split_layout(layout: Partitioned, by: Partitioned) -> Partitioned:
    """The layout after splitting each partition by a second function. It is clustered on the columns of both. Partitions
    ascend only if ranges are split by ranges of the same keys: otherwise every part spans its whole range."""
    return Partitioned(
        SplitFunction(layout.function, by.function),
        layout.columns + by.columns,
        layout.nulls_anywhere or by.nulls_anywhere,
    )


def keeps_prefix_together(layout: Partitioned, length: int) -> bool:
    """Whether rows that agree on all keys but the last, and on the first `length` characters of the last, share a partition.
    If so, a column left(s, length) can replace s in the layout."""
    function = layout.function
    if not isinstance(function, RangeFunction) or isinstance(function.boundaries, SampledBoundaries):
        return False
    last = function.arity - 1
    return not function.keys[last].descending and all(
        len(b) <= last or b[last] is None or (isinstance(b[last], str) and len(b[last]) <= length)
        for b in function.boundaries
    )


def connections(source: PartitionFunction, target: PartitionFunction) -> tuple[Sequence[int], ...] | None:
    """For each output of `target`, the partitions of `source` that can have rows for it, if both are applied to the same
    columns. None if the functions are unrelated and every output reads every input."""
    match source, target:
        case HashFunction(), HashFunction() if _same_hash(source, target):
            step = gcd(source.partitions, target.partitions)
            return tuple(range(i % step, source.partitions, step) for i in range(target.partitions))
        case RangeFunction(), RangeFunction():
            return _overlaps(source, target)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """The most input partitions that any output reads, and the total number of reads."""

    most: int
    total: int


def read_counts(source: PartitionFunction, target: PartitionFunction) -> ReadCounts | None:
    """The counts of `connections`. For hashes they are not enumerated, since there may be thousands of partitions."""
    if isinstance(source, HashFunction) and isinstance(target, HashFunction):
        if not _same_hash(source, target):
            return None
        each = source.partitions // gcd(source.partitions, target.partitions)
        return ReadCounts(each, each * target.partitions)
    reads = connections(source, target)
    return None if reads is None else ReadCounts(max(map(len, reads)), sum(map(len, reads)))


@dataclass(frozen=True, slots=True)
class InPlace:
    """A layout that is read from stored partitions without an exchange: how many outputs read each partition on average, and
    the order of the rows."""

    readers: float
    local: Local


# If a partition is sorted on the columns that split it, each output reads its own part and this share of a neighbour's.
READ_TWICE = 0.1


def read_in_place(given: Delivered, layout: Partitioned) -> InPlace | None:
    """How to read `layout` from the delivered one without moving rows; None if the two are unrelated."""
    old = given.partitioning
    if not isinstance(old, Partitioned) or old.nulls_anywhere:
        return None
    if any(one != other for one, other in zip(old.columns, layout.columns, strict=False)):
        return None
    read = read_counts(old.function, layout.function)
    if read is None:
        return None
    readers = read.total / old.function.partitions
    in_order = _is_in_order(given)
    if in_order and readers > 1:
        readers = 1 + READ_TWICE * (readers - 1)
    return InPlace(readers, given.local if in_order or read.most == 1 else ())


def _is_in_order(given: Delivered) -> bool:
    """Whether rows are sorted in the order of their ranges, so that neighbouring ranges concatenate in order."""
    claim = given.partitioning.formula if isinstance(given.partitioning, Partitioned) else None
    return isinstance(claim, Ordered) and all(a == b for a, b in zip(claim.keys, given.local, strict=False))


def _same_hash(one: HashFunction, other: HashFunction) -> bool:
    return one.types == other.types and one.family == other.family and all(t is not None for t in one.types)


@lru_cache(maxsize=512)
def _overlaps(source: RangeFunction, target: RangeFunction) -> tuple[range, ...] | None:
    """Which ranges overlap. Common keys must have the same order; points compare by the longer list of keys."""
    common = min(source.arity, target.arity)
    if source.keys[:common] != target.keys[:common] or any(key.type is None for key in source.keys[:common]):
        return None
    if isinstance(source.boundaries, SampledBoundaries) or isinstance(target.boundaries, SampledBoundaries):
        return None
    order = cmp_to_key((source if source.arity >= target.arity else target).compare)
    cuts = [order(boundary) for boundary in source.boundaries]
    # A target range starts in the source range of its first point and ends in that of the points just below its end.
    starts = [0, *(bisect_right(cuts, order(boundary)) for boundary in target.boundaries)]
    ends = [*(bisect_left(cuts, order(boundary)) for boundary in target.boundaries), source.partitions - 1]
    return tuple(range(start, end + 1) for start, end in zip(starts, ends, strict=True))
