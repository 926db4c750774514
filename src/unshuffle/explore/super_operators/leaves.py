"""The common input (leaf) of a super-operator: the rowset in which the edges of all branches end.

The leaf is one group of the memo, or files that several scans read: a query that names a table twice has two scans with
different column identities, and often different columns. The leaf is then one scan of all these columns.

A rowset that may differ each time it is computed (after a LIMIT, or from user code) can be a leaf only if the script names
it. It is then computed once and spooled, and the pass reads the spool like all other readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import cast

from unshuffle.catalog.schema import Column
from unshuffle.explore.super_operators.abstract import Edge
from unshuffle.plan.expressions import Expression, Ref
from unshuffle.plan.logical import Plan, Reference, Scan, TableScan
from unshuffle.search.memo import as_group, is_repeatable

Leaf = Scan | TableScan


def common_leaves(ways: Sequence[Sequence[Edge]]) -> Iterator[tuple[Plan, list[Edge]]]:
    """The first rowset in which one edge of every branch ends, with these edges. `ways` has the edges of each branch."""
    below = [{edge.bottom.number for edge in edges} for edges in ways]
    for edge in ways[0]:
        if all(edge.bottom.number in others for others in below[1:]):
            same = [next(e for e in edges if e.bottom is edge.bottom) for edges in ways]
            if is_repeatable(edge.bottom):
                yield edge.bottom, same
            elif edge.shared:
                yield _as_spooled(ways[0], same)
            return
    scans = [[edge for edge in edges if isinstance(edge.bottom.expressions[0], Scan | TableScan)] for edges in ways]
    for chosen in product(*scans):
        found = _scanned_once(chosen)
        if found is not None:
            yield found
            return


def _as_spooled(ways: Sequence[Edge], same: Sequence[Edge]) -> tuple[Plan, list[Edge]]:
    """A shared rowset as the first branch reads it, so that it is not computed again."""
    rowset = same[0].bottom
    use, read = next(
        (edge.bottom, each)
        for edge in ways
        for each in edge.bottom.expressions
        if isinstance(each, Reference) and as_group(each.rowset) is rowset
    )
    names: dict[Column, Expression] = {
        kept: Ref(column) for column, kept in zip(read.columns, rowset.columns, strict=True)
    }
    return use, [replace(edge.over(names), bottom=use) for edge in same]


def _scanned_once(chosen: Sequence[Edge]) -> tuple[Plan, list[Edge]] | None:
    scans = [cast(Leaf, edge.bottom.expressions[0]) for edge in chosen]
    whole: Leaf = scans[0]
    renamed: list[Edge] = [chosen[0]]
    for edge, scan in zip(chosen[1:], scans[1:], strict=True):
        joined = _both(whole, scan)
        if joined is None:
            return None
        whole, names = joined
        renamed.append(edge.over(names))
    return whole, renamed


def _both(one: Leaf, other: Leaf) -> tuple[Leaf, Mapping[Column, Expression]] | None:
    """One scan for two, and the columns of the other scan in terms of its columns."""
    if isinstance(one, TableScan) or isinstance(other, TableScan):
        # Only Spark knows what a table holds, and whether two reads of it agree.
        return None
    if one.files != other.files or one.label != other.label or one.within != other.within:
        return None
    mine = {column.name: column for column in one.columns}
    if len(mine) < len(one.columns):
        return None
    names = {column: mine.get(column.name, column) for column in other.columns}
    more = tuple(column for column in other.columns if column.name not in mine)
    if more and (one.stored is not None or other.stored is not None):
        return None  # the description of stored partitions is limited to the columns that are read
    theirs = other.renamed(names)
    statistics = one.statistics
    if more and statistics is not None and theirs.statistics is not None:
        known = {**dict(theirs.statistics.columns), **dict(statistics.columns)}
        statistics = replace(statistics, columns=tuple(known.items()))
    whole = replace(
        one,
        columns=(*one.columns, *more),
        keys=tuple(dict.fromkeys((*one.keys, *theirs.keys))),
        dependencies=tuple(dict.fromkeys((*one.dependencies, *theirs.dependencies))),
        statistics=statistics,
    )
    return whole, {old: Ref(new) for old, new in names.items()}
