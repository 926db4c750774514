"""What a user did not say of a stream's layout: how many partitions, and where ranges are cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from unshuffle.catalog.statistics import default_width
from unshuffle.partitions import Boundary, Key, Ranges, divide, of_rows
from unshuffle.properties import RangeFunction
from unshuffle.streams.manifest import Schema
from unshuffle.streams.wanted import MOST_PARTITIONS, range_function

PARTITION_BYTES = 256 << 20  # of values as they are in memory; on disk they take a part of that
_BUCKETS = 8  # of a histogram for each range that is wanted
_ROUNDS = 24


def partitions_for(schema: Schema, rows: int) -> int:
    """As many partitions as make tasks of a good size."""
    size = rows * sum(default_width(type) for _, type in schema)
    return max(1, min(MOST_PARTITIONS, ceil(size / PARTITION_BYTES)))


def ranges_for(keys: Sequence[Key], sample: Iterable[Boundary], partitions: int) -> RangeFunction:
    """At most so many ranges, of about equal size: fewer where the sample has no more values to cut at."""
    histogram = of_rows(keys, sample, _BUCKETS * partitions)
    best = Ranges(tuple(keys), ())
    if not histogram.rows:
        return range_function(best)
    # A smaller target makes more ranges, one that a heavy value fills not counted twice: look for the most that are allowed.
    low, high = 0.0, 2.0 * histogram.rows / partitions
    for _ in range(_ROUNDS):
        target = (low + high) / 2
        found = divide(histogram, target).ranges
        if len(best) < len(found) <= partitions:
            best = found
        if len(found) == partitions:
            break
        low, high = (target, high) if len(found) > partitions else (low, target)
    return range_function(best)
