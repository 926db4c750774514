"""Partitions of stored and intermediate data: which feed which, where they are cut, how large they are.

    values, intervals   typed values in Spark's order; cuts, intervals and ranges of composite keys
    connection          for each output partition the inputs that it reads, whole or through a filter
    histograms          how many rows lie where
    boundaries          where to cut for ranges of about equal size
    flow                what a repartitioning reads and keeps: the numbers a cost is made from
    stored              all of it as JSON, for manifests

Pure Python; nothing here knows an operator or an engine. The algebra of layouts (`properties`) reasons about functions and
what follows from them; here are the numbers. `Ranges` has the fields of its `RangeFunction`, and takes its keys as they are.
"""

from unshuffle.partitions.boundaries import Division, divide, divide_into
from unshuffle.partitions.connection import (
    Connections,
    Filter,
    HashConnections,
    RangeConnections,
    Read,
    Residue,
    connect,
    near_counts,
)
from unshuffle.partitions.flow import Flow, hash_flow, range_flow
from unshuffle.partitions.histograms import Bucket, Histogram, of_column, of_partitions, of_rows
from unshuffle.partitions.intervals import (
    END,
    EVERYTHING,
    START,
    Boundary,
    Cut,
    Interval,
    Key,
    Order,
    Ranges,
    interval,
    only,
    spanning,
)
from unshuffle.partitions.stored import (
    decoded_histogram,
    decoded_interval,
    decoded_ranges,
    encoded_histogram,
    encoded_interval,
    encoded_ranges,
)

__all__ = [
    "END",
    "EVERYTHING",
    "START",
    "Boundary",
    "Bucket",
    "Connections",
    "Cut",
    "Division",
    "Filter",
    "Flow",
    "HashConnections",
    "Histogram",
    "Interval",
    "Key",
    "Order",
    "RangeConnections",
    "Ranges",
    "Read",
    "Residue",
    "connect",
    "decoded_histogram",
    "decoded_interval",
    "decoded_ranges",
    "divide",
    "divide_into",
    "encoded_histogram",
    "encoded_interval",
    "encoded_ranges",
    "hash_flow",
    "interval",
    "near_counts",
    "of_column",
    "of_partitions",
    "of_rows",
    "only",
    "range_flow",
    "spanning",
]
