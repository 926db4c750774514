"""The requirements of each physical operator, serial and partitioned: Table VI of ICDE 2010.

| operator               | non-partitioned  | partitioned                                                              |
|------------------------|------------------|--------------------------------------------------------------------------|
| scan, select, project  | {⊥; *}           | {any; *}                                                                 |
| sort on S              | {⊥; S}           | {X^o; S}, X a prefix of S                                                |
| hash aggregate on G    | {⊥; *}           | {X; *}, {} < X ≤ G                                                       |
| stream aggregate on G  | {⊥; G^g}         | {X; G^g}, {} < X ≤ G                                                     |
| nested-loop, hash join | both {⊥; *}      | both co-partitioned on some of J; or one {⊤; *}, the other {any; *}      |
| hash join              |                  | or one {X^o; *}, X starting with some of J, and the other targeted at it |
| merge join             | {⊥; S1}, {⊥; S2} | the same with S1, S2 inside each partition; J is a prefix of both        |

For scan, select and project the table says {X; *} with X ≠ ∅, although ∅ elsewhere means random partitioning and the paper's
own example filters randomly partitioned files. We take it to mean "partitioned in any way".

The last form of the hash join is not in the table. It is the "broadcast optimization" of SIGMOD 2012, section 3.3.2.

Three conditions are implicit in the table. An input whose unmatched rows the join keeps must not be broadcast, in full or to
some partitions: every copy would be output. Both inputs of a merge join are sorted alike, including the order of NULLs. And
they are sorted as the join compares, which a column is not if the join casts it to a type that sorts differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.properties.facts.equality import interchangeable
from unshuffle.properties.layouts.structure import Grouped, Local, Sorted
from unshuffle.properties.matching.required import (
    Alternative,
    AnyDistribution,
    Broadcast,
    BroadcastAligned,
    BroadcastTo,
    Clustered,
    CoPartitioned,
    JoinKey,
    RangeOrdered,
    Required,
    SinglePartition,
)

SERIAL = SinglePartition()
PARALLEL = AnyDistribution(parallel=True)


def row_by_row() -> tuple[Alternative, ...]:
    """Scan, select and project process one row at a time."""
    return (
        Alternative("serial", (Required(SERIAL),)),
        Alternative("partitioned", (Required(PARALLEL),)),
    )


def sort(keys: Iterable[Sorted]) -> tuple[Alternative, ...]:
    """A total order: within each partition, and from one partition to the next."""
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
        # The result is one row, so there is nothing to partition by.
        return (serial,)
    return (serial, Alternative("partitioned", (Required(Clustered(groups, parallel=True), local),)))


@dataclass(frozen=True, slots=True)
class MergeKey:
    """A join key with its sort direction in a merge join."""

    key: JoinKey
    descending: bool = False
    nulls_first: bool = True


def nested_loop_join(kind: JoinKind, keys: Iterable[JoinKey] = ()) -> tuple[Alternative, ...]:
    """Without equalities, only the serial and the broadcast forms apply."""
    return tuple(_join(kind, tuple(keys), (), ()))


def hash_join(kind: JoinKind, keys: Iterable[JoinKey]) -> tuple[Alternative, ...]:
    on = tuple(keys)
    if not on:
        raise ValueError("a hash join needs an equality")
    return (*_join(kind, on, (), ()), *_targeted(kind, on))


def merge_join(kind: JoinKind, keys: Iterable[MergeKey]) -> tuple[Alternative, ...]:
    """The alternatives for one order of the keys.

    Empty if a key compares at a type that sorts differently from its columns: as strings, 10 is before 9. Such a join must
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
    if _may_be_broadcast(kind, 0):
        yield Alternative("broadcast left", (Required(Broadcast(), left), Required(PARALLEL, right)))
    if _may_be_broadcast(kind, 1):
        yield Alternative("broadcast right", (Required(PARALLEL, left), Required(Broadcast(), right)))


def _targeted(kind: JoinKind, keys: tuple[JoinKey, ...]) -> Iterator[Alternative]:
    """The forms that broadcast one input only to the partitions of the other that can have matches."""
    if _may_be_broadcast(kind, 0):
        yield Alternative(
            "targeted broadcast left", (Required(BroadcastTo()), Required(PARALLEL)), BroadcastAligned(keys, 0)
        )
    if _may_be_broadcast(kind, 1):
        yield Alternative(
            "targeted broadcast right", (Required(PARALLEL), Required(BroadcastTo())), BroadcastAligned(keys, 1)
        )


def _may_be_broadcast(kind: JoinKind, side: int) -> bool:
    """Whether this input may be broadcast. It may not if the join keeps its unmatched rows: every copy would be output."""
    return kind in (JoinKind.INNER, JoinKind.RIGHT) if side == 0 else kind not in (JoinKind.RIGHT, JoinKind.FULL)


def union_partitionwise(keys: Iterable[JoinKey]) -> tuple[Alternative, ...]:
    """UNION ALL of partition i of each input with partition i of the others. It preserves a layout that all inputs share."""
    on = tuple(keys)
    count = len(on[0].columns)
    return (Alternative("partition-wise", (Required(),) * count, CoPartitioned(on)),)
