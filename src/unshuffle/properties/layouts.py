"""Layouts made from other layouts with little or no movement (SIGMOD 2012, sections 3.1, 3.2 and 3.3).

| from                | to                              | each output reads    | the new layout                    |
|---------------------|---------------------------------|----------------------|-----------------------------------|
| hash into p         | hash into q                     | p / gcd(p, q) inputs | the plain hash into q             |
| hash into p         | partition i to i mod q          | whole partitions     | the plain hash if q divides p,    |
|                     |                                 |                      | else a function of its own        |
| range on (a, b)     | range on a                      | neighbours, filtered | the boundaries cut to a           |
| range on a string s | range on the first k characters | neighbours, filtered | the boundaries cut to k characters |

Whether the result still *clusters* follows from its columns alone. Whether it is still *co-partitioned* with another
layout follows from its function being the same value, so each of these returns a function in its plainest form.

Worked example. T is stored hashed on a into 100. An expensive operator wants 200: each input splits in two, no row
leaves its input, and the result is the hash on a into 200, co-partitioned with any other. Its output goes to 50: output
i gathers inputs i, i + 50, i + 100 and i + 150 whole. Wanting 150 from the stored 100, gcd(100, 150) = 50 and output i
reads inputs i and i + 50 modulo 100, taking part of each; but sending partition i of 200 whole to i mod 150 makes a
layout that no plain hash shares, good for GROUP BY a and for no join with another layout.

A range refined to a prefix needs no new kind of function. Boundaries are points in the order of the key, a short one is
the first point with that prefix, and the layout on (a, b) cut at (1,) and (2,) is the layout on a cut at 1 and 2. With
strings likewise: s >= 'ab' exactly if left(s, 2) >= 'ab', so a range on s whose boundaries have at most two characters
is also a range on left(s, 2). That fails when the order descends (s <= 'ab' splits 'ab' from 'abc'), so a descending
string key is not refined.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from math import gcd

from unshuffle.catalog.schema import Column
from unshuffle.properties.delivered import Delivered, Partitioned
from unshuffle.properties.functions import (
    Boundary,
    HashFunction,
    PartitionFunction,
    RangeFunction,
    Sampled,
    Split,
    regroup,
)
from unshuffle.properties.structure import Local, Ordered


@dataclass(frozen=True, slots=True)
class Reachable:
    """A layout that a partial repartitioning makes: `reads[i]` are the input partitions that output i reads."""

    layout: Partitioned
    reads: tuple[Sequence[int], ...]

    @property
    def connections(self) -> int:
        return sum(map(len, self.reads))


@dataclass(frozen=True, slots=True)
class NotReachable:
    why: str


def merged_layout(layout: Partitioned, groups: Sequence[int]) -> Partitioned:
    """Partitions gathered in groups. Rows that shared a partition still do; only the function changes."""
    function = regroup(layout.function, groups)
    return Partitioned(function, layout.columns[: function.arity], layout.nulls_apart)


def split_layout(layout: Partitioned, by: Partitioned) -> Partitioned:
    """Each partition split by another function: clustered on both lists of columns together. An order is left only of
    ranges split by ranges of the same keys; split by anything else, the parts of one range all span it."""
    return Partitioned(
        Split(layout.function, by.function), layout.columns + by.columns, layout.nulls_apart or by.nulls_apart
    )


def folded(layout: Partitioned, partitions: int) -> Partitioned:
    """Partition i goes to i mod `partitions`."""
    return merged_layout(layout, [i % partitions for i in range(layout.function.partitions)])


def rehashed(layout: Partitioned, partitions: int) -> Reachable | NotReachable:
    """The same hash into another number: output i needs input j only if i = j modulo the greatest common divisor."""
    function = layout.function
    if not isinstance(function, HashFunction):
        return NotReachable("only a plain hash can be taken modulo another number")
    step = gcd(function.partitions, partitions)
    reads = tuple(range(i % step, function.partitions, step) for i in range(partitions))
    target = HashFunction(function.types, partitions, function.family)
    return Reachable(Partitioned(target, layout.columns, layout.nulls_apart), reads)


def refined_to_columns(layout: Partitioned, count: int) -> Reachable | NotReachable:
    """A range on more columns, refined to its first `count`."""
    function = layout.function
    if not isinstance(function, RangeFunction) or isinstance(function.boundaries, Sampled):
        return NotReachable("only a range with known boundaries can be refined")
    if not 0 < count < function.arity:
        return NotReachable(f"a range on {function.arity} columns has no prefix of {count}")
    return _refined(layout, function, [b[:count] for b in function.boundaries])


def refined_to_prefix(layout: Partitioned, length: int) -> Reachable | NotReachable:
    """A range whose last key is a string, refined to the first `length` characters of it."""
    function = layout.function
    if not isinstance(function, RangeFunction) or isinstance(function.boundaries, Sampled):
        return NotReachable("only a range with known boundaries can be refined")
    last = function.arity - 1
    if function.keys[last].descending:
        return NotReachable("a descending order does not keep a prefix together")
    if any(len(b) > last and not isinstance(b[last], str | None) for b in function.boundaries) or length < 1:
        return NotReachable("only a string has a prefix")
    return _refined(layout, function, [_cut(b, last, length) for b in function.boundaries])


def keeps_prefix_together(layout: Partitioned, length: int) -> bool:
    """Do rows that agree on every key but the last, and on the first `length` characters of that one, share a
    partition? Then a column left(s, length) may stand for s in the layout."""
    function = layout.function
    if not isinstance(function, RangeFunction) or isinstance(function.boundaries, Sampled):
        return False
    last = function.arity - 1
    return not function.keys[last].descending and all(
        len(b) <= last or b[last] is None or (isinstance(b[last], str) and len(b[last]) <= length)
        for b in function.boundaries
    )


def seen_through_prefix(layout: Partitioned, prefix: Column, length: int) -> Partitioned | NotReachable:
    """The same layout written on a column that holds left(s, length) of the last key. Numbers do not change,
    because no boundary is longer. The other way round needs only the dependency s -> prefix."""
    if not keeps_prefix_together(layout, length):
        return NotReachable("some boundary falls inside a prefix")
    return Partitioned(layout.function, (*layout.columns[:-1], prefix), layout.nulls_apart)


def connections(source: PartitionFunction, target: PartitionFunction) -> tuple[Sequence[int], ...] | None:
    """For each output of `target`, the partitions of `source` that can hold rows for it, both applied to the same
    columns; None where nothing relates the two and every output reads every input."""
    match source, target:
        case HashFunction(), HashFunction() if _same_hash(source, target):
            step = gcd(source.partitions, target.partitions)
            return tuple(range(i % step, source.partitions, step) for i in range(target.partitions))
        case RangeFunction(), RangeFunction():
            return _overlaps(source, target)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Reading:
    """How much of one layout another is made from: input partitions that an output reads at most, and all reads."""

    most: int
    total: int


def reading(source: PartitionFunction, target: PartitionFunction) -> Reading | None:
    """`connections`, counted: of two hashes without listing them, for they may have thousands of partitions."""
    if isinstance(source, HashFunction) and isinstance(target, HashFunction):
        if not _same_hash(source, target):
            return None
        each = source.partitions // gcd(source.partitions, target.partitions)
        return Reading(each, each * target.partitions)
    reads = connections(source, target)
    return None if reads is None else Reading(max(map(len, reads)), sum(map(len, reads)))


@dataclass(frozen=True, slots=True)
class InPlace:
    """Partitions that are read where they lie by those who need them: how many read each, on the average, and in what
    order rows come."""

    readers: float
    local: Local


# Of a partition that is in order on the columns that divide it, only the parts that are needed are read, and a little more.
READ_TWICE = 0.1


def read_in_place(given: Delivered, layout: Partitioned) -> InPlace | None:
    """A layout made from another without moving rows; None where nothing tells which partitions can be needed."""
    old = given.partitioning
    if not isinstance(old, Partitioned) or old.nulls_apart:
        return None
    if any(one != other for one, other in zip(old.columns, layout.columns, strict=False)):
        return None
    read = reading(old.function, layout.function)
    if read is None:
        return None
    readers = read.total / old.function.partitions
    in_order = _is_in_order(given)
    if in_order and readers > 1:
        readers = 1 + READ_TWICE * (readers - 1)
    return InPlace(readers, given.local if in_order or read.most == 1 else ())


def _is_in_order(given: Delivered) -> bool:
    """Are rows sorted in the order of the ranges that they lie in, so that neighbours are in order one after another?"""
    claim = given.partitioning.claim if isinstance(given.partitioning, Partitioned) else None
    return isinstance(claim, Ordered) and all(a == b for a, b in zip(claim.keys, given.local, strict=False))


def _same_hash(one: HashFunction, other: HashFunction) -> bool:
    return one.types == other.types and one.family == other.family and all(t is not None for t in one.types)


def _refined(layout: Partitioned, function: RangeFunction, cut: list[Boundary]) -> Reachable | NotReachable:
    kept = list(dict.fromkeys(cut))
    if not kept:
        return NotReachable("one partition cannot be refined")
    target = RangeFunction(function.keys[: max(map(len, kept))], tuple(kept))
    reads = _overlaps(function, target)
    if reads is None:
        return NotReachable("the boundaries do not compare")
    return Reachable(Partitioned(target, layout.columns[: target.arity], layout.nulls_apart), reads)


def _cut(boundary: Boundary, last: int, length: int) -> Boundary:
    if len(boundary) <= last or boundary[last] is None:
        return boundary
    return (*boundary[:last], boundary[last][:length])


def _overlaps(source: RangeFunction, target: RangeFunction) -> tuple[range, ...] | None:
    """Which ranges meet. Both must order their common columns alike; the longer list decides how points compare."""
    common = min(source.arity, target.arity)
    if source.keys[:common] != target.keys[:common] or any(key.type is None for key in source.keys[:common]):
        return None
    if isinstance(source.boundaries, Sampled) or isinstance(target.boundaries, Sampled):
        return None
    order = cmp_to_key((source if source.arity >= target.arity else target).compare)
    cuts = [order(boundary) for boundary in source.boundaries]
    # A range begins in the source that has its first point, and ends in the one that has the points just before its end.
    starts = [0, *(bisect_right(cuts, order(boundary)) for boundary in target.boundaries)]
    ends = [*(bisect_left(cuts, order(boundary)) for boundary in target.boundaries), source.partitions - 1]
    return tuple(range(start, end + 1) for start, end in zip(starts, ends, strict=True))
