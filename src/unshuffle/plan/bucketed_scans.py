"""A table in folders and in buckets is scanned by either (`plan.stored_tables` finds both layouts)."""

from __future__ import annotations

from dataclasses import replace

from unshuffle.plan.folder_values import columns_named
from unshuffle.plan.logical import Scan
from unshuffle.properties import Delivered, Partitioned


def read_by_buckets(scan: Scan) -> Scan | None:
    """The scan of a table by its buckets instead of its folders; None if it has none, or reads not all of their columns."""
    if scan.buckets is None:
        return None
    layout = scan.buckets.layout
    columns = columns_named(scan, [each.name for each in layout.clustered_by])
    if columns is None:
        return None
    delivered = Delivered(Partitioned(layout.function, columns))
    return replace(
        scan, layout=delivered, stored=delivered, parts=scan.buckets, buckets=None, spread=None, spread_on=()
    )
