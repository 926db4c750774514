"""Scan pruning: row groups of a stored stream, and folders of a table, in which a filter can keep no row are not read.

A stream is sorted within its partitions, and the first and last key of every row group are stored. A folder has one value of
its columns. Conditions that compare the first columns of that order with constants select intervals of it
(`plan.predicate_intervals`).

The filter stays, because row groups have other rows too.
"""

from __future__ import annotations

from dataclasses import replace

from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.plan.logical import Filter, Plan, Scan
from unshuffle.plan.predicate_intervals import intervals
from unshuffle.plan.predicates import conjuncts


@on(Filter)
def prune_scan(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter over a stream lets the scan skip row groups without rows that satisfy it.

    Not for conditions on columns that are not a prefix of the stream's order: their rows may be anywhere.
    """
    match plan:
        case Filter(Scan(parts=parts, within=None) as scan, predicate) if parts is not None:
            from unshuffle.sstream.logical_partitions import logical_partitions

            manifest = parts.layout
            read = {column.name: column for column in scan.columns}
            order = [read.get(name.name) for name in manifest.sorted_by]
            found = intervals(conjuncts(predicate), order, manifest.sort_keys)
            if found is None:
                return None
            kept, all_ = logical_partitions(manifest, within=found).bytes, logical_partitions(manifest).bytes
            share = kept / all_ if all_ else 1.0
            spread = scan.spread
            if spread is not None and manifest.sorted_by[: len(manifest.clustered_by)] == manifest.clustered_by:
                spread = spread.within(found)
            return replace(plan, child=replace(scan, within=found, share=share, spread=spread))
    return None
