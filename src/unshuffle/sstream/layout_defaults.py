"""Defaults for what a layout request leaves open: the number of partitions, and the boundaries of ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from unshuffle.catalog.statistics.table_statistics import default_width
from unshuffle.partitions import Boundary, KeyColumn, divide_into, histogram_of_rows
from unshuffle.properties import RangeFunction
from unshuffle.sstream.layout_request import MAX_PARTITIONS, range_function
from unshuffle.sstream.manifest import Schema

PARTITION_BYTES = 256 << 20  # in memory; compressed files are smaller
_BUCKETS = 8  # of the histogram, for each requested range


def partitions_for(schema: Schema, rows: int) -> int:
    """The number of partitions that gives each about `PARTITION_BYTES`."""
    size = rows * sum(default_width(type) for _, type in schema)
    return max(1, min(MAX_PARTITIONS, ceil(size / PARTITION_BYTES)))


def ranges_for(keys: Sequence[KeyColumn], sample: Iterable[Boundary], partitions: int) -> RangeFunction:
    """At most `partitions` ranges of about equal size. There are fewer if the sample has too few distinct values."""
    return range_function(divide_into(histogram_of_rows(keys, sample, _BUCKETS * partitions), partitions).ranges)
