"""The distribution of a stream's rows by the first keys of its row groups: the entries of its B+-tree (SIGMOD 2012, section
2.5.1).

A manifest has a histogram of 256 buckets, from a sample. A large stream in ranges has more row groups than that. In the order
of their keys, a row group has the rows from its first key to the first key of the next, and their number is exact:

    row groups     [a, c] 100 rows    [d, f] 100    [f, f] 100    [f, h] 100
    buckets        [a, d) 100         [d, f) 100    (f) 100       after f to h 100

Rows of a group with the first key of the next one are counted to the group, not to that key.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from unshuffle.partitions import Bucket, Cut, KeyHistogram, KeyInterval, KeyOrder, interval_of_value
from unshuffle.properties import RangeFunction
from unshuffle.sstream.manifest import Manifest, RowGroup


def finest_histogram(manifest: Manifest) -> KeyHistogram:
    """The distribution over the columns that the stream is clustered by, from row groups if these are more than the buckets
    of the sampled histogram."""
    count = sum(len(file.groups) for file in manifest.files())
    is_in_order = manifest.sorted_by[: len(manifest.clustered_by)] == manifest.clustered_by
    if not is_in_order or not isinstance(manifest.function, RangeFunction) or count <= len(manifest.histogram.buckets):
        return manifest.histogram
    return _of_row_groups(manifest)


# Cached, because a large stream is read by many queries.
@lru_cache(maxsize=32)
def _of_row_groups(manifest: Manifest) -> KeyHistogram:
    keys = manifest.histogram.keys
    order, columns = KeyOrder(keys), len(keys)
    groups = [group for file in manifest.files() for group in file.groups]
    made: list[Bucket] = []
    for group, after in pairwise([*groups, None]):
        assert group is not None
        within = _interval(group, after, columns, order)
        covered = order.place(made[-1].interval.high) if made else ()
        if order.place(within.high) <= covered:  # more rows of one value
            made[-1] = Bucket(made[-1].interval, made[-1].rows + group.rows)
            continue
        if order.place(within.low) < covered:
            within = KeyInterval(made[-1].interval.high, within.high)
        made.append(Bucket(within, group.rows))
    return KeyHistogram(keys, tuple(made))


def _interval(group: RowGroup, after: RowGroup | None, columns: int, order: KeyOrder) -> KeyInterval:
    """From the first key of a row group to that of the next. A group of one value has that value."""
    first, last = group.first[:columns], group.last[:columns]
    if order.row(first) == order.row(last):
        return interval_of_value(first)
    return KeyInterval(Cut(first), Cut(after.first[:columns]) if after is not None else Cut(last, after=True))
