"""What a user did not say of a stream's layout: how many partitions, and where ranges are cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from unshuffle.catalog.statistics import default_width
from unshuffle.partitions import Boundary, Division, Key, Ranges, divide, of_rows
from unshuffle.properties import RangeFunction
from unshuffle.streams.manifest import Schema
from unshuffle.streams.wanted import MOST_PARTITIONS, range_function

PARTITION_BYTES = 256 << 20  # of values as they are in memory; on disk they take a part of that
_BUCKETS = 8  # of a histogram for each range that is wanted
_ROUNDS = 12
_EVEN = 1.1  # the largest range over the average: good enough


def partitions_for(schema: Schema, rows: int) -> int:
    """As many partitions as make tasks of a good size."""
    size = rows * sum(default_width(type) for _, type in schema)
    return max(1, min(MOST_PARTITIONS, ceil(size / PARTITION_BYTES)))


def ranges_for(keys: Sequence[Key], sample: Iterable[Boundary], partitions: int) -> RangeFunction:
    """At most so many ranges, of about equal size: fewer where the sample has no more values to cut at."""
    histogram = of_rows(keys, sample, _BUCKETS * partitions)
    best: Division | None = None
    # A smaller target makes more ranges. That of an equal share comes first, and then what is between too many and too few.
    few, many, target = 2.0 * histogram.rows / partitions, 0.0, histogram.rows / partitions
    for _ in range(_ROUNDS if histogram.rows else 0):
        found = divide(histogram, target)
        if len(found.sizes) > partitions:
            many = target
        elif best is None or (len(found.sizes), -found.skew) > (len(best.sizes), -best.skew):
            best = found
        if len(found.sizes) == partitions and found.skew <= _EVEN:
            break
        few = target if len(found.sizes) <= partitions else few
        target = (few + many) / 2
    return range_function(best.ranges if best is not None else Ranges(tuple(keys), ()))
