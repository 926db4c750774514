"""The one input of a super-operator: the same rowset at the end of all edges.

It is the same group of the memo, or files that are read twice: a query that names a table twice has two scans of it, under
different columns and often with different ones. Then the leaf is a scan of all of them.

What may have other rows each time it is computed (after a LIMIT, from a user's code) is an input only as a rowset that a
script names. That is computed once and kept, and the pass reads it from there, as all its other readers do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import cast

from unshuffle.algebra.expressions import Expression, Ref
from unshuffle.algebra.logical import Plan, Reference, Scan, TableScan
from unshuffle.catalog.schema import Column
from unshuffle.rules.super_operators.abstract import Edge
from unshuffle.search.memo import Group, is_repeatable

Leaf = Scan | TableScan


def common_leaves(ways: Sequence[Sequence[Edge]]) -> Iterator[tuple[Plan, list[Edge]]]:
    """From the edges that each branch has, the first choice of one for each that all end in one rowset; with it, the edges
    over that rowset."""
    below = [{edge.bottom.number for edge in edges} for edges in ways]
    for edge in ways[0]:
        if all(edge.bottom.number in others for others in below[1:]):
            same = [next(e for e in edges if e.bottom is edge.bottom) for edges in ways]
            if is_repeatable(edge.bottom):
                yield cast(Plan, edge.bottom), same
            elif edge.shared:
                yield _as_kept(ways[0], same)
            return
    scans = [[edge for edge in edges if isinstance(edge.bottom.expressions[0], Scan | TableScan)] for edges in ways]
    for chosen in product(*scans):
        found = _scanned_once(chosen)
        if found is not None:
            yield found
            return


def _as_kept(ways: Sequence[Edge], same: Sequence[Edge]) -> tuple[Plan, list[Edge]]:
    """A shared rowset as the first branch reads it, and not computed anew."""
    rowset = same[0].bottom
    use, read = next(
        (edge.bottom, each)
        for edge in ways
        for each in edge.bottom.expressions
        if isinstance(each, Reference) and cast(Group, each.rowset) is rowset
    )
    names: dict[Column, Expression] = {
        kept: Ref(column) for column, kept in zip(read.columns, rowset.columns, strict=True)
    }
    return cast(Plan, use), [replace(edge.over(names), bottom=use) for edge in same]


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
    """A scan of what either reads, and what the columns of the other are in it."""
    if isinstance(one, TableScan) or isinstance(other, TableScan):
        # Only Spark knows what a table is, and whether it is the same twice.
        return None
    if one.files != other.files or one.label != other.label or one.within != other.within:
        return None
    mine = {column.name: column for column in one.columns}
    if len(mine) < len(one.columns):
        return None
    names = {column: mine.get(column.name, column) for column in other.columns}
    more = tuple(column for column in other.columns if column.name not in mine)
    if more and (one.stored is not None or other.stored is not None):
        return None  # what is known of stored partitions is said in the columns that are read
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
