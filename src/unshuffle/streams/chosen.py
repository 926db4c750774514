"""What a user did not say of a stream's layout: how many partitions, and where ranges are cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from unshuffle.catalog.statistics import default_width
from unshuffle.partitions import Boundary, Key, divide_into, of_rows
from unshuffle.properties import RangeFunction
from unshuffle.streams.manifest import Schema
from unshuffle.streams.wanted import MOST_PARTITIONS, range_function

PARTITION_BYTES = 256 << 20  # of values as they are in memory; on disk they take a part of that
_BUCKETS = 8  # of a histogram for each range that is wanted


def partitions_for(schema: Schema, rows: int) -> int:
    """As many partitions as make tasks of a good size."""
    size = rows * sum(default_width(type) for _, type in schema)
    return max(1, min(MOST_PARTITIONS, ceil(size / PARTITION_BYTES)))


def ranges_for(keys: Sequence[Key], sample: Iterable[Boundary], partitions: int) -> RangeFunction:
    """At most so many ranges, of about equal size: fewer where the sample has no more values to cut at."""
    return range_function(divide_into(of_rows(keys, sample, _BUCKETS * partitions), partitions).ranges)
