"""Buckets that plain Spark uses too: rows of a table that is bucketed by some columns, wherever they are still those rows."""

from __future__ import annotations

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan import physical
from unshuffle.plan.bucketed_scans import read_by_buckets
from unshuffle.plan.logical import Scan
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import HashFunction, Partitioned

_KEEP = (physical.Filter, physical.Project, physical.HashJoin, physical.MergeJoin)


@dataclass(frozen=True, slots=True)
class KnownBuckets:
    """`columns` are the bucket columns, as an operator above the table names them."""

    columns: tuple[Column, ...]
    count: int


def buckets_known_to_spark(plan: PhysicalPlan) -> KnownBuckets | None:
    """The buckets that the rows of a plan come in without any exchange; None if there are none."""
    if isinstance(plan.operator, physical.FileScan):
        return _of_table(plan.operator.scan)
    carried = plan.operator.carried
    if carried is None or not isinstance(plan.operator, _KEEP):
        return None
    below = buckets_known_to_spark(plan.inputs[carried])
    if below is None:
        return None
    made = {plan.operator.source(column): column for column in reversed(plan.columns)}
    columns = [made[column] for column in below.columns if column in made]
    return KnownBuckets(tuple(columns), below.count) if len(columns) == len(below.columns) else None


def _of_table(scan: Scan) -> KnownBuckets | None:
    table = read_by_buckets(scan) or scan
    layout = table.stored.partitioning if table.stored is not None and table.stream is None else None
    if not isinstance(layout, Partitioned) or not isinstance(layout.function, HashFunction):
        return None
    return (
        KnownBuckets(layout.columns, layout.function.partitions) if set(layout.columns) <= set(scan.columns) else None
    )
