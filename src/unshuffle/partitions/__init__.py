"""Partitions of stored and intermediate data: which partitions feed which, where ranges are cut, how many rows they have.

    values, intervals   typed values in Spark's order; cuts, intervals and ranges of composite keys
    connection_map      for each output partition, the input partitions it reads, whole or through a filter
    histograms          row counts by intervals of a composite key
    boundaries          boundaries of ranges of about equal size
    partition_index     the parts of a table that can have rows in an interval
    matching            the parts of two tables that can meet in a join
    child_joins         the ranges of two tables that one method of joining suits
    serialization       all of it as JSON, for manifests

The package is pure Python and knows no operator and no engine. `properties` reasons about partition functions and what
follows from them; this package computes the numbers. `Ranges` has the fields of `properties.RangeFunction` and accepts its
keys.
"""

from unshuffle.partitions.boundaries import Division, divide, divide_into
from unshuffle.partitions.child_joins import ChildJoin, SizedPart, Sizes, child_joins
from unshuffle.partitions.connection_map import (
    HashConnections,
    PartitionRead,
    RangeConnections,
    Residue,
    RowFilter,
    cheaper_partition_counts,
    connect,
)
from unshuffle.partitions.histograms import (
    Bucket,
    KeyHistogram,
    histogram_of_column,
    histogram_of_partitions,
    histogram_of_rows,
)
from unshuffle.partitions.intervals import (
    END,
    EVERYTHING,
    START,
    Boundary,
    Cut,
    KeyColumn,
    KeyInterval,
    KeyOrder,
    Ranges,
    closed_interval,
    intersected,
    interval,
    interval_of_value,
    merged,
)
from unshuffle.partitions.matching import AllOf, AnyOf, Compared, Condition, TableParts, meeting_parts
from unshuffle.partitions.partition_index import PartitionIndex
from unshuffle.partitions.serialization import (
    histogram_from_json,
    histogram_to_json,
    interval_from_json,
    interval_to_json,
    ranges_from_json,
    ranges_to_json,
)

__all__ = [
    "END",
    "EVERYTHING",
    "START",
    "AllOf",
    "AnyOf",
    "Boundary",
    "Bucket",
    "ChildJoin",
    "Compared",
    "Condition",
    "Cut",
    "Division",
    "HashConnections",
    "KeyColumn",
    "KeyHistogram",
    "KeyInterval",
    "KeyOrder",
    "PartitionIndex",
    "PartitionRead",
    "RangeConnections",
    "Ranges",
    "Residue",
    "RowFilter",
    "SizedPart",
    "Sizes",
    "TableParts",
    "cheaper_partition_counts",
    "child_joins",
    "closed_interval",
    "connect",
    "divide",
    "divide_into",
    "histogram_from_json",
    "histogram_of_column",
    "histogram_of_partitions",
    "histogram_of_rows",
    "histogram_to_json",
    "intersected",
    "interval",
    "interval_from_json",
    "interval_of_value",
    "interval_to_json",
    "meeting_parts",
    "merged",
    "ranges_from_json",
    "ranges_to_json",
]
