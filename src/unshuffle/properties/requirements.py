"""What each physical operator requires of its inputs: Table VI of ICDE 2010, each operator serial and partitioned.

| operator               | non-partitioned  | partitioned                                                              |
|------------------------|------------------|--------------------------------------------------------------------------|
| scan, select, project  | {⊥; *}           | {anyhow; *}                                                              |
| sort on S              | {⊥; S}           | {X^o; S}, X a prefix of S                                                |
| hash aggregate on G    | {⊥; *}           | {X; *}, {} < X ≤ G                                                       |
| stream aggregate on G  | {⊥; G^g}         | {X; G^g}, {} < X ≤ G                                                     |
| nested-loop, hash join | both {⊥; *}      | both co-partitioned on some of J; or one {⊤; *}, the other {anyhow; *}   |
| hash join              |                  | or one {X^o; *}, X beginning with some of J, and the other covering it   |
| merge join             | {⊥; S1}, {⊥; S2} | the same with S1, S2 inside each partition; J is a prefix of both        |

The table writes {X; *} with X ≠ ∅ for scan, select and project, where ∅ elsewhere is random partitioning; the paper's
own sample plan filters randomly partitioned files. We read it as "partitioned, in any way".

The last form of the hash join is not in the table: it is the "broadcast optimization" of SIGMOD 2012, section 3.3.2.

Three things the table leaves to the reader. A broadcast input must not be the side whose unmatched rows the join keeps:
every partition would output them. Nor must one that covers the other. Both inputs of a merge join are sorted alike, NULL
order included. And they are sorted as the join compares, which a column is not if the join casts it to something that
orders otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.properties.dependencies import Dependencies
from unshuffle.properties.equality import interchangeable
from unshuffle.properties.required import (
    Alternative,
    Anyhow,
    Clustered,
    CoPartitioned,
    Covered,
    Covers,
    EveryPartition,
    JoinKey,
    OnePartition,
    RangeOrdered,
    Required,
)
from unshuffle.properties.structure import Grouped, Local, Sorted, columns_of

SERIAL = OnePartition()
PARALLEL = Anyhow(parallel=True)


def row_by_row() -> tuple[Alternative, ...]:
    """Scan, select and project look at one row at a time."""
    return (
        Alternative("serial", (Required(SERIAL),)),
        Alternative("partitioned", (Required(PARALLEL),)),
    )


scan = select = project = row_by_row


def sort(keys: Iterable[Sorted]) -> tuple[Alternative, ...]:
    """A total order: inside each partition, and from one partition to the next."""
    by = tuple(keys)
    return (
        Alternative("serial", (Required(SERIAL, by),)),
        Alternative("partitioned", (Required(RangeOrdered(by, parallel=True), by),)),
    )


def hash_aggregate(groups: Iterable[Column]) -> tuple[Alternative, ...]:
    return _aggregate(frozenset(groups), ordered=False)


def stream_aggregate(groups: Iterable[Column]) -> tuple[Alternative, ...]:
    return _aggregate(frozenset(groups), ordered=True)


def _aggregate(groups: frozenset[Column], ordered: bool) -> tuple[Alternative, ...]:
    local: Local = (Grouped(groups),) if ordered and groups else ()
    serial = Alternative("serial", (Required(SERIAL, local),))
    if not groups:
        # One result row: there is nothing to partition by.
        return (serial,)
    return (serial, Alternative("partitioned", (Required(Clustered(groups, parallel=True), local),)))


@dataclass(frozen=True, slots=True)
class MergeKey:
    """A join key in the place it has in a merge join's order."""

    key: JoinKey
    descending: bool = False
    nulls_first: bool = True


def nested_loop_join(kind: JoinKind, keys: Iterable[JoinKey] = ()) -> tuple[Alternative, ...]:
    """Without equalities only the serial and the broadcast form are left."""
    return tuple(_join(kind, tuple(keys), (), ()))


def hash_join(kind: JoinKind, keys: Iterable[JoinKey]) -> tuple[Alternative, ...]:
    on = tuple(keys)
    if not on:
        raise ValueError("a hash join needs an equality")
    return (*_join(kind, on, (), ()), *_pruned(kind, on))


def merge_join(kind: JoinKind, keys: Iterable[MergeKey]) -> tuple[Alternative, ...]:
    """For one order of the keys; the optimizer asks again for another order.

    None where a key compares at a type that its columns are not sorted by: as strings, 10 is before 9. Such a join must
    sort on the cast columns.
    """
    by = tuple(keys)
    if not by:
        raise ValueError("a merge join needs an equality")
    if not all(interchangeable(column.type, each.key.type) for each in by for column in each.key.columns):
        return ()
    left, right = (
        tuple(Sorted(each.key.columns[side], each.descending, each.nulls_first) for each in by) for side in (0, 1)
    )
    return tuple(_join(kind, tuple(each.key for each in by), left, right))


def _join(kind: JoinKind, keys: tuple[JoinKey, ...], left: Local, right: Local) -> Iterator[Alternative]:
    yield Alternative("serial", (Required(SERIAL, left), Required(SERIAL, right)))
    if keys:
        meet = any(key.null_safe for key in keys)
        one, other = (Clustered(frozenset(k.columns[side] for k in keys), nulls_meet=meet) for side in (0, 1))
        yield Alternative("pair-wise", (Required(one, left), Required(other, right)), CoPartitioned(keys))
    if _may_be_copied(kind, 0):
        yield Alternative("broadcast left", (Required(EveryPartition(), left), Required(PARALLEL, right)))
    if _may_be_copied(kind, 1):
        yield Alternative("broadcast right", (Required(PARALLEL, left), Required(EveryPartition(), right)))


def _pruned(kind: JoinKind, keys: tuple[JoinKey, ...]) -> Iterator[Alternative]:
    """Copied only to the partitions of the other input that can have matches."""
    if _may_be_copied(kind, 0):
        yield Alternative("pruned broadcast left", (Required(Covers()), Required(PARALLEL)), Covered(keys, 0))
    if _may_be_copied(kind, 1):
        yield Alternative("pruned broadcast right", (Required(PARALLEL), Required(Covers())), Covered(keys, 1))


def _may_be_copied(kind: JoinKind, side: int) -> bool:
    """May rows of this input be in several partitions? Not if those without a match are kept: every copy would be."""
    return kind in (JoinKind.INNER, JoinKind.RIGHT) if side == 0 else kind not in (JoinKind.RIGHT, JoinKind.FULL)


def order_offered(given: Local, facts: Dependencies, keys: Iterable[JoinKey], side: int) -> tuple[MergeKey, ...] | None:
    """The order of the keys in which this input is already sorted, if it is: the one to ask of the other input."""
    waiting = list(keys)
    order: list[MergeKey] = []
    for action in given:
        if not waiting:
            break
        if facts.determines(columns_of(given[: given.index(action)]), columns_of((action,))):
            continue
        if not isinstance(action, Sorted):
            return None
        mine = [key for key in waiting if facts.equal(key.columns[side], action.column)]
        if not mine:
            break
        waiting = [key for key in waiting if key not in mine]
        order += [MergeKey(key, action.descending, action.nulls_first) for key in mine]
    known = columns_of(Sorted(each.key.columns[side], False, True) for each in order)
    free = [key for key in waiting if facts.determines(known, (key.columns[side],))]
    return (*order, *(MergeKey(key) for key in free)) if len(free) == len(waiting) else None


def layouts_allowed(wish: Clustered, facts: Dependencies) -> Iterator[frozenset[Column]]:
    """Every set of columns to repartition on that meets the requirement (Algorithm 2 of ICDE 2010), fewest first.

    Columns that add nothing are left out: constants, and all but one of each class of equal columns.
    """
    useful = sorted({facts.representative(c): c for c in sorted(wish.maximum, key=lambda c: -c.id)}.values(), key=_id)
    useful = [c for c in useful if not facts.determines((), (c,))] or useful[:1]
    needed = [c for c in useful if any(facts.equal(c, m) for m in wish.minimum)]
    for size in range(1, len(useful) + 1):
        for chosen in combinations(useful, size):
            if set(needed) <= set(chosen):
                yield frozenset(chosen)


def _id(column: Column) -> int:
    return column.id


def union_partitionwise(keys: Iterable[JoinKey]) -> tuple[Alternative, ...]:
    """UNION ALL of partition i with partition i: needed only to *keep* a layout, which then all inputs must share."""
    on = tuple(keys)
    count = len(on[0].columns)
    return (Alternative("partition-wise", (Required(),) * count, CoPartitioned(on)),)
