"""The common input (leaf) of a super-operator: the rowset in which the edges of all branches end.

The leaf is one group of the memo, or files that several scans read: a query that names a table twice has two scans with
different column identities, and often different columns. The leaf is then one scan of all these columns. An inner join that
is written twice is a leaf, too: conditions that were moved below one of the two are moved up again.

A rowset that may differ each time it is computed (after a LIMIT, or from user code) can be a leaf only if the script names
it. It is then computed once and spooled, and the pass reads the spool like all other readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import cast

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.explore.super_operators.abstract import Edge
from unshuffle.explore.super_operators.abstract import edges as walked
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Call, Expression, Ref
from unshuffle.plan.logical import Join, Plan, Reference, Scan, TableScan
from unshuffle.plan.movable_conditions import is_movable, substitute
from unshuffle.plan.predicates import conjunction, conjuncts
from unshuffle.plan.safe_expressions import never_fails
from unshuffle.search.memo import Group, as_group, is_repeatable

Leaf = Scan | TableScan
MAX_JOINS = 3  # of a leaf that is written several times, one above the other
MAX_TRIED = 4  # ways to join a leaf's inputs, of each branch


def common_leaves(ways: Sequence[Sequence[Edge]], depth: int = MAX_JOINS) -> Iterator[tuple[Plan, list[Edge]]]:
    """The first rowset in which one edge of every branch ends, with these edges. `ways` has the edges of each branch, and a
    leaf that is joined of others has at most `depth` joins."""
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
    if depth:
        yield from islice(_joined_once(ways, depth), 1)


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


# --- joins that are written several times


@dataclass(frozen=True, slots=True)
class _InnerJoin:
    """An inner join that an edge ends in, with its inputs in one of their two orders."""

    edge: Edge
    inputs: tuple[Group, Group]
    condition: Expression


def _joined_once(ways: Sequence[Sequence[Edge]], depth: int) -> Iterator[tuple[Plan, list[Edge]]]:
    """One inner join for those of all branches, if these join the same inputs by the same conditions."""
    first, *others = (list(islice(_inner_joins(edges), MAX_TRIED)) for edges in ways)
    turned = ([turn for each in found for turn in (each, _turned(each))] for found in others)
    for chosen in product(first, *turned):
        left = _leaf_of_side(chosen, 0, depth)
        right = _leaf_of_side(chosen, 1, depth) if left is not None else None
        found = _joined(chosen, left, right) if left is not None and right is not None else None
        if found is not None:
            yield found


def _leaf_of_side(chosen: Sequence[_InnerJoin], side: int, depth: int) -> tuple[Plan, list[Edge]] | None:
    return next(common_leaves([list(walked(each.inputs[side])) for each in chosen], depth - 1), None)


def _inner_joins(edges: Sequence[Edge]) -> Iterator[_InnerJoin]:
    for edge in edges:
        for each in () if edge.shared else edge.bottom.expressions:
            if isinstance(each, Join) and each.kind is JoinKind.INNER and each.condition is not None:
                yield _InnerJoin(edge, (as_group(each.left), as_group(each.right)), each.condition)


def _turned(join: _InnerJoin) -> _InnerJoin:
    one, other = join.inputs
    return replace(join, inputs=(other, one))


def _joined(
    chosen: Sequence[_InnerJoin], left: tuple[Plan, list[Edge]], right: tuple[Plan, list[Edge]]
) -> tuple[Plan, list[Edge]] | None:
    """The join of two leaves, and the edges of the branches to it. A condition that only some branches have becomes a
    predicate of their edges, and so do those below the join: an inner join keeps the same rows either way. What the join
    compares must be safe for the rows of all branches."""
    names = [{**one.outputs, **other.outputs} for one, other in zip(left[1], right[1], strict=True)]
    conditions = [
        tuple(_in_one_order(substitute(part, named)) for part in conjuncts(each.condition))
        for each, named in zip(chosen, names, strict=True)
    ]
    shared = [part for part in conditions[0] if all(part in each for each in conditions[1:])]
    if not any(isinstance(part, Call) and part.function in ("=", "<=>") for part in shared):
        return None
    if not all(is_movable(part) and never_fails(part) for each in conditions for part in each):
        return None
    whole = Join(JoinKind.INNER, left[0], right[0], conjunction(shared))
    edges = []
    for each, named, condition, one, other in zip(chosen, names, conditions, left[1], right[1], strict=True):
        own = tuple(part for part in condition if part not in shared)
        above = each.edge.over(named)
        edges.append(replace(above, predicates=(*one.predicates, *other.predicates, *own, *above.predicates)))
    return whole, edges


def _in_one_order(condition: Expression) -> Expression:
    """`a = b` and `b = a` are the same condition."""
    match condition:
        case Call("=" | "<=>", (one, other)) if repr(other) < repr(one):
            return replace(condition, arguments=(other, one))
        case _:
            return condition
