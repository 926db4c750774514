"""Statistics of the parts of a table that a query needs: their own rows and bounds, not the averages of the table.

    orders of 12 months, o_key ascends with time, o_customer does not
    three months are needed     rows of these months; o_key within their bounds; o_customer as before, but at most the rows

The bounds and row counts of parts are also a histogram, for columns that have no better one.
"""

from __future__ import annotations

from dataclasses import replace

from unshuffle.cardinality.distributions import ValueRange, only_range, range_fraction
from unshuffle.cardinality.literal_values import INCOMPARABLE
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, EquiDepthHistogram, TableStatistics
from unshuffle.partitions import KeyHistogram
from unshuffle.partitions.values import number
from unshuffle.plan.logical import Scan
from unshuffle.plan.predicate_intervals import NULLS, is_closed
from unshuffle.plan.stored_reads import needed_partitions
from unshuffle.properties import HashFunction, Partitioned

Columns = tuple[tuple[Column, ColumnStatistics], ...]


def statistics_of_parts(scan: Scan, known: TableStatistics) -> TableStatistics:
    """The statistics of the parts that a scan needs."""
    if scan.bounds is None:
        return known
    rows = known.rows if scan.needed is None else float(sum(scan.bounds.rows[part] for part in scan.needed))
    share = rows / known.rows if known.rows else 1.0
    columns = tuple((column, _of_parts(scan, column, statistics, rows)) for column, statistics in known.columns)
    if rows < known.rows:
        columns = _of_buckets(scan, columns)
    size = None if known.bytes is None else known.bytes * share
    return TableStatistics(rows, size, columns, known.order_dependencies)


def _of_buckets(scan: Scan, known: Columns) -> Columns:
    """The statistics of rows in some of the partitions of a hash. Every value of its column is in one partition, so these
    have fewer values, each in a larger share of the rows. (Of several columns, this is counted for the first.)"""
    hashed = scan.stored.partitioning if scan.stored is not None else None
    if scan.parts is None or not isinstance(hashed, Partitioned) or not isinstance(hashed.function, HashFunction):
        return known
    partitions = scan.parts.layout.partitions
    share = sum(partitions[number].rows for number in needed_partitions(scan)) / max(1, scan.parts.layout.rows)
    return tuple(
        (column, _of_fewer_values(each, share) if column == hashed.columns[0] and 0.0 < share < 1.0 else each)
        for column, each in known
    )


def _of_fewer_values(known: ColumnStatistics, share: float) -> ColumnStatistics:
    histogram = known.histogram
    if histogram is not None:
        histogram = replace(histogram, distinct=tuple(max(1.0, count * share) for count in histogram.distinct))
    distinct = None if known.distinct is None else max(1.0, known.distinct * share)
    common = tuple((value, min(1.0, fraction / share)) for value, fraction in known.common)
    return replace(known, distinct=distinct, common=common, histogram=histogram)


def _of_parts(scan: Scan, column: Column, known: ColumnStatistics, rows: float) -> ColumnStatistics:
    assert scan.bounds is not None
    fewer = replace(known, distinct=None if known.distinct is None else min(known.distinct, rows))
    bounds = scan.bounds.on(column)
    if bounds is None or not bounds.are_useful:
        return fewer
    ends = bounds.ends(scan.needed) if scan.needed is not None else None
    if ends is not None:
        values = ValueRange(ends[0], True, ends[1], True)
        try:
            fraction = range_fraction(known, values)
            within = only_range(known, values, 1.0 if fraction is None else fraction)
        except INCOMPARABLE:
            return fewer
        distinct = None if within.distinct is None else min(within.distinct, rows)
        fewer = replace(within, distinct=distinct, null_fraction=known.null_fraction)
    if fewer.histogram is not None or fewer.common or fewer.distinct is None:
        return fewer
    counted = bounds.histogram(scan.needed)
    return fewer if counted is None else replace(fewer, histogram=_equi_depth(counted, fewer.distinct))


def _equi_depth(counted: KeyHistogram, distinct: float) -> EquiDepthHistogram | None:
    """The rows between bounds as the histogram of a column. Its buckets have as many values as are between their bounds, or
    proportionally fewer."""
    (key,) = counted.keys
    buckets = [each for each in counted.buckets if each.interval != NULLS]
    if not all(is_closed(each.interval) for each in buckets):
        return None
    ends = [(each.interval.low.values[0], each.interval.high.values[0]) for each in buckets]
    widths = []
    for (low, high), bucket in zip(ends, buckets, strict=True):
        first, last = number(key.type, low), number(key.type, high)
        if first is None or last is None:
            return None
        widths.append(max(1.0, min(float(last - first + 1), bucket.rows)))
    if not buckets:
        return None
    scale = min(1.0, distinct / sum(widths))
    bounds = (ends[0][0], *(high for _, high in ends))
    return EquiDepthHistogram(bounds, tuple(each.rows for each in buckets), tuple(width * scale for width in widths))
