"""Bucket elimination: which row groups of a table in hash partitions can have the rows that conditions select.

Rows are in the partition that the hash of some columns gives. Conditions that leave a list of values for each of these
columns select the partitions of the combinations of these values:

    hash(a) into 8      a = 5                   one partition
    hash(a, b) into 8   a in (1, 2) and b = 0   at most two partitions
    hash(a, b) into 8   a = 5                   no elimination: b may be anything
    hash(a) into 8      a > 5                   no elimination

It holds for structured streams and for tables that Spark bucketed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.constants import THRESHOLDS
from unshuffle.partitions import KeyColumn, interval_of_value
from unshuffle.plan.expressions import Call, Expression, Ref, connect
from unshuffle.plan.folder_values import columns_named
from unshuffle.plan.logical import Scan, StoredParts
from unshuffle.plan.part_bounds import PartBounds
from unshuffle.plan.predicate_intervals import intervals_of_column
from unshuffle.properties import HashFunction

Parts = frozenset[int]  # numbers of row groups


def reads(condition: Expression, column: Column) -> bool:
    """Whether a condition compares a column itself."""
    return isinstance(condition, Call) and any(argument == Ref(column) for argument in condition.arguments)


def parts_in_buckets(scan: Scan, conditions: Sequence[Expression]) -> Parts | None:
    """The row groups of the partitions that can have a row which satisfies all conditions; None if that may be any."""
    if scan.bounds is None:
        return None
    found = None
    for stored in (scan.parts, scan.buckets):
        kept = _kept(scan, scan.bounds, stored, conditions) if stored is not None else None
        if kept is not None:
            found = kept if found is None else found & kept
    return found


def _kept(scan: Scan, bounds: PartBounds, stored: StoredParts, conditions: Sequence[Expression]) -> Parts | None:
    """The row groups of the partition of each combination of values."""
    function = stored.layout.function
    columns = columns_named(scan, [each.name for each in stored.layout.clustered_by])
    if not isinstance(function, HashFunction) or columns is None:
        return None
    values = [_values(column, conditions) for column in columns]
    lists = [each for each in values if each is not None]
    if len(lists) < len(columns) or prod(map(len, lists)) > THRESHOLDS.scan_pruning_values:
        return None
    keys = list(product(*lists))
    numbers = _numbers(keys, function)
    if numbers is None:
        return None
    of_partitions = _parts_of_partitions(bounds, stored)
    found = of_partitions.get(None, frozenset())
    for key, number in zip(keys, numbers, strict=True):
        found |= _with_key(bounds, of_partitions.get(number, frozenset()), columns, key)
    return found


def _with_key(bounds: PartBounds, parts: Parts, columns: Sequence[Column], key: Sequence[Any]) -> Parts:
    """The row groups whose bounds have a key. Where rows are sorted inside partitions, these are few."""
    for column, value in zip(columns, key, strict=True):
        of_column = bounds.on(column)
        if of_column is not None:
            parts &= of_column.overlapping((interval_of_value((value,)),))
    return parts


def _values(column: Column, conditions: Sequence[Expression]) -> list[Any] | None:
    """All values that a column can have, NULL included; None if they are not a list."""
    compared = [condition for condition in conditions if reads(condition, column)]
    if not compared or column.type is None:
        return None
    intervals = intervals_of_column(connect("and", compared), column, KeyColumn(column.type))
    if intervals is None or not all(len(each.low.values) == 1 for each in intervals):
        return None
    is_list = all(each == interval_of_value(each.low.values) for each in intervals)
    return [each.low.values[0] for each in intervals] if is_list else None


def _numbers(keys: Sequence[tuple[Any, ...]], function: HashFunction) -> list[int] | None:
    """The number of the partition of each combination of values."""
    from unshuffle.sstream.murmur import partition_numbers  # imports numpy, which few commands need

    if not keys:
        return []
    try:
        columns = [pa.array(values, type) for values, type in zip(zip(*keys, strict=True), function.types, strict=True)]
    except (pa.ArrowException, OverflowError):
        return None  # a value that the column's type cannot have
    return list(map(int, partition_numbers(columns, function.partitions)))


@lru_cache(maxsize=64)
def _parts_of_partitions(bounds: PartBounds, stored: StoredParts) -> Mapping[int | None, Parts]:
    """The row groups of each partition; those of None are in a file that is not one of the stored ones."""
    partitions = enumerate(stored.layout.partitions)
    of_files = {stored.path_of(file): number for number, partition in partitions for file in partition.files}
    found: dict[int | None, set[int]] = defaultdict(set)
    for part, described in enumerate(bounds.parts):
        found[of_files.get(described.path)].add(part)
    return {number: frozenset(parts) for number, parts in found.items()}
