"""Histograms over composite keys. Boundaries are chosen and partition sizes estimated from them.

The metadata of partitions is a coarse histogram with one bucket per partition (SIGMOD 2012, section 3.2.1). The column
histograms of `catalog.statistics` cover a single column, exclude NULL and have buckets that are open on the left. The
histograms here cover composite keys in either direction and treat NULL and NaN as ordinary values. A bucket is any
interval, so a frequent value v can have its own bucket [v, after v). Buckets ascend and are disjoint; there may be gaps.

The basic estimate is `KeyHistogram.rows_below(cut)`. Within a bucket, rows are assumed to be uniformly distributed over the
first column on which the ends of the bucket differ:

    numbers, dates, timestamps   by distance. A countable value has width one: [1, 4) has three values
    strings, binary              by the first bytes that differ
    an end that is unbounded, NULL, NaN or infinite   half of the bucket, since nothing is known

An end with more columns, as in [(1, 'B'), (3, 'D')), is assumed to be in the middle of its value: half of a = 1, all of
a = 2 and half of a = 3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import lru_cache, reduce
from itertools import accumulate, pairwise
from math import isfinite
from typing import Any

import pyarrow as pa

from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.frozen import dataclass
from unshuffle.partitions.intervals import Boundary, Cut, KeyInterval, KeyOrder, Place, interval_of_value
from unshuffle.partitions.values import SortedKey, number, share_of_text

HALF = 0.5


@dataclass(frozen=True, slots=True)
class Bucket:
    interval: KeyInterval
    rows: float


@dataclass(frozen=True, slots=True)
class KeyHistogram:
    """Row counts, or any other additive size such as bytes, by intervals of a composite key."""

    keys: tuple[SortedKey, ...]
    buckets: tuple[Bucket, ...]
    # What is computed from it once, such as the candidates of boundaries.
    prepared: dict[Any, Any] = field(init=False, repr=False, compare=False)
    _order: KeyOrder = field(init=False, repr=False, compare=False)
    _lows: tuple[Place, ...] = field(init=False, repr=False, compare=False)
    _highs: tuple[Place, ...] = field(init=False, repr=False, compare=False)
    _sums: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)  # what is derived from a histogram is looked up by it

    def __post_init__(self) -> None:
        order = KeyOrder(self.keys)
        lows = tuple(order.place(bucket.interval.low) for bucket in self.buckets)
        highs = tuple(order.place(bucket.interval.high) for bucket in self.buckets)
        if any(low >= high for low, high in zip(lows, highs, strict=True)):
            raise ValueError("a bucket must not be empty")
        if any(high > low for high, low in zip(highs, lows[1:], strict=False)):
            raise ValueError("buckets must ascend and be disjoint; combine overlapping histograms with union")
        object.__setattr__(self, "prepared", {})
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_lows", lows)
        object.__setattr__(self, "_highs", highs)
        object.__setattr__(self, "_sums", (0.0, *accumulate(float(bucket.rows) for bucket in self.buckets)))
        object.__setattr__(self, "_hash", hash((self.keys, lows, self._sums)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def rows(self) -> float:
        return self._sums[-1]

    def rows_below(self, cut: Cut) -> float:
        return self.rows_below_place(self._order.place(cut), cut)

    def rows_below_place(self, place: Place, cut: Cut) -> float:
        """`rows_below` for a cut whose place is already computed."""
        at = bisect_right(self._lows, place) - 1
        if at < 0 or self._lows[at] == place:
            return self._sums[max(at, 0)]
        if self._highs[at] <= place:
            return self._sums[at + 1]
        bucket = self.buckets[at]
        if not cut.after:
            cut = Cut(cut.values[: len(place) // 2])  # (1, NULL) is the place of (1,) where NULLs are first
        return self._sums[at] + bucket.rows * share_below(self.keys, bucket.interval, cut)

    def ends(self) -> Iterator[tuple[Place, Cut]]:
        """Where buckets begin and end."""
        for low, high, bucket in zip(self._lows, self._highs, self.buckets, strict=True):
            yield low, bucket.interval.low
            yield high, bucket.interval.high

    def rows_in(self, where: KeyInterval) -> float:
        return max(0.0, self.rows_below(where.high) - self.rows_below(where.low))

    def union(self, *others: KeyHistogram) -> KeyHistogram:
        """The sum of histograms on the same keys, with the bucket ends of all of them."""
        return reduce(_united, others, self)

    def within(self, where: Iterable[KeyInterval]) -> KeyHistogram:
        """The histogram of the rows in some intervals. Ends with more columns than the histogram are widened."""
        return _within(self, tuple(where))

    def _within(self, where: Iterable[KeyInterval]) -> KeyHistogram:
        columns = len(self.keys)
        made: list[Bucket] = []
        reached: Place = ()
        for low, high in sorted({(_low(each.low, columns), _high(each.high, columns)) for each in where}, key=self._at):
            start, end = self._order.place(low), self._order.place(high)
            cuts = {start: low, end: high}
            cuts |= {place: cut for place, cut in self.ends() if start < place < end}
            inside = [each for each in sorted(cuts.items()) if each[0] >= reached]
            for one, other in pairwise(inside):
                rows = self.rows_below_place(*other) - self.rows_below_place(*one)
                made += [Bucket(KeyInterval(one[1], other[1]), rows)] if rows > 0 else []
                reached = other[0]
        return KeyHistogram(self.keys, tuple(made))

    def _at(self, ends: tuple[Cut, Cut]) -> Place:
        return self._order.place(ends[0])

    def scaled(self, factor: float) -> KeyHistogram:
        return KeyHistogram(self.keys, tuple(Bucket(each.interval, each.rows * factor) for each in self.buckets))


# What is computed of a table's histogram is kept for the next query over the table.
@lru_cache(maxsize=64)
def _within(histogram: KeyHistogram, where: tuple[KeyInterval, ...]) -> KeyHistogram:
    return histogram._within(where)


def _low(cut: Cut, columns: int) -> Cut:
    return cut if len(cut.values) <= columns else Cut(cut.values[:columns])


def _high(cut: Cut, columns: int) -> Cut:
    return cut if len(cut.values) <= columns else Cut(cut.values[:columns], after=True)


@lru_cache(maxsize=64)
def _united(one: KeyHistogram, other: KeyHistogram) -> KeyHistogram:
    if one.keys != other.keys:
        raise ValueError("histograms on different keys have no union")
    ends = {place: cut for each in (one, other) for place, cut in each.ends()}
    cuts = sorted(ends.items())
    below = [one.rows_below_place(*each) + other.rows_below_place(*each) for each in cuts]
    return KeyHistogram(
        one.keys,
        tuple(
            Bucket(KeyInterval(cuts[i][1], cuts[i + 1][1]), below[i + 1] - below[i])
            for i in range(len(cuts) - 1)
            if below[i + 1] > below[i]
        ),
    )


# ------------------------------------------------------------------------------------------------- inside of a bucket


def share_below(keys: Sequence[SortedKey], within: KeyInterval, cut: Cut) -> float:
    """The share of the rows of an interval that is below a cut inside it. It must not decrease as the cut rises, or a union
    would have more rows than its parts."""
    column = first_difference(within)
    if column is None or len(cut.values) <= column:
        return HALF
    key = keys[column]
    ends = within.low.values[column], within.high.values[column]
    least, greatest = reversed(ends) if key.descending else ends
    if isinstance(least, str | bytes):
        here = cut.values[column]
        if here is None:
            return 0.0 if key.nulls_first else 1.0
        share = share_of_text(least, greatest, here)
        return min(1.0, max(0.0, 1 - share if key.descending else share))
    start, end, at = (position(key, each, column) for each in (within.low, within.high, cut))
    if start is None or end is None or at is None or start == end or not isfinite(end - start):
        return HALF
    return min(1.0, max(0.0, (at - start) / (end - start)))


def first_difference(within: KeyInterval) -> int | None:
    """The first column on which the ends differ; None if one end has no value for it."""
    for column, (low, high) in enumerate(zip(within.low.values, within.high.values, strict=False)):
        if low != high:
            return column
    return None


def position(key: SortedKey, cut: Cut, column: int) -> float | int | None:
    """The position of a cut among the values of one column, increasing in the order of the key."""
    value = number(key.type, cut.values[column])
    if value is None:
        return None
    step = 1 if isinstance(value, int) else 0
    inside = step * HALF if len(cut.values) > column + 1 else step if cut.after else 0
    return (-value if key.descending else value) + inside


# --------------------------------------------------------------------------------------------------- where they come from


def histogram_of_partitions(keys: Sequence[SortedKey], partitions: Iterable[tuple[KeyInterval, float]]) -> KeyHistogram:
    """One bucket per partition that is not empty. Partitions may be in any order and must be disjoint."""
    order = KeyOrder(keys)
    placed = ((order.place(where.low), order.place(where.high), where, rows) for where, rows in partitions if rows > 0)
    there = sorted((each for each in placed if each[0] < each[1]), key=lambda each: each[:2])
    return KeyHistogram(tuple(keys), tuple(Bucket(where, rows) for _, _, where, rows in there))


def histogram_of_rows(keys: Sequence[SortedKey], rows: Iterable[Sequence[Any]], buckets: int = 64) -> KeyHistogram:
    """An equi-depth histogram. A value that fills at least half a bucket gets its own bucket."""
    order = KeyOrder(keys)
    counts: Counter[Place] = Counter()
    values: dict[Place, Boundary] = {}
    for row in rows:
        place = order.row(row)
        counts[place] += 1
        values.setdefault(place, tuple(row))
    depth = counts.total() / max(1, buckets)
    made: list[Bucket] = []
    open_from: Boundary | None = None
    last: Boundary = ()
    held = 0

    def close() -> None:
        if open_from is not None:
            made.append(Bucket(KeyInterval(Cut(open_from), Cut(last, after=True)), held))

    for place in sorted(counts):
        value, count = values[place], counts[place]
        if count * 2 >= depth:
            close()
            made.append(Bucket(interval_of_value(value), count))
            open_from, held = None, 0
            continue
        if open_from is None or held + count / 2 > depth:
            close()
            open_from, held = value, 0
        held, last = held + count, value
    close()
    return KeyHistogram(tuple(keys), tuple(made))


def histogram_of_column(key: SortedKey, known: ColumnStatistics, rows: float) -> KeyHistogram | None:
    """From the statistics of `unshuffle analyze`. Its buckets are (low, high]; one with a single distinct value is
    narrowed to that value."""
    found = known.histogram
    if found is None:
        return None
    values = rows * (1 - known.null_fraction)
    scale = values / (sum(found.rows) or 1.0)
    made = []
    for i, count in enumerate(found.rows):
        low, high = Cut((found.bounds[i],), after=i > 0), Cut((found.bounds[i + 1],), after=True)
        if found.distinct[i] == 1:
            low = Cut((found.bounds[i + 1],))
        if key.descending:
            low, high = Cut(high.values), Cut(low.values, after=not low.after)
        made.append(Bucket(KeyInterval(low, high), count * scale))
    if key.descending:
        made.reverse()
    if known.null_fraction:
        made.insert(0 if key.nulls_first else len(made), Bucket(interval_of_value((None,)), rows * known.null_fraction))
    return KeyHistogram((key,), tuple(each for each in made if each.rows > 0))


def interpolates(type: pa.DataType | None) -> bool:
    """Whether values between two others can be computed. Not for strings (as in the paper) or unknown types."""
    t = pa.types
    return type is not None and (
        t.is_integer(type) or t.is_floating(type) or t.is_decimal(type) or t.is_date(type) or t.is_timestamp(type)
    )
