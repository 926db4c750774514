"""What an exchange delivers (ICDE 2010, section V: Tables III, IV and V).

Partition operators keep the order of rows, so the local property changes only where streams are merged, and how it
changes depends on one thing: what is known of *which stream a row comes from*, that is, the partitioning of the input.

| merge       | if                                                                    | result                       |
|-------------|-----------------------------------------------------------------------|------------------------------|
| any         | the input is one stream, or all rows are in one partition             | the local property itself    |
| random      |                                                                       | nothing                      |
| sort on S   | local ⇒ S, and the input is clustered on S (ties come from one stream) | the local property itself   |
|             | local ⇒ S                                                             | S                            |
| concat      | the input is clustered on the columns K of the first i actions        | K grouped, then the rest     |
| sort-concat | the input is ordered on X (up or down), X ⇒ S, and local ⇒ X          | the local property itself    |
|             | otherwise                                                             | as concat                    |

Table IV is this table with K narrowed to the partitioning columns themselves, and with nothing kept where sort-concat
could still be read as a concat. Table V cannot be taken as printed. It lets a concat merge after *any* input
partitioning P give {X^g, Z}, X being the columns of the new partitioning. Take P random, both inputs sorted on a:

    input 1: 1 2     hash on a into one output, concat:  1 2 1 2     not grouped on a
    input 2: 1 2

Rows that agree on a come from two streams. What is needed is that the *input* be clustered on them, as it is in the
paper's Example 1; its sort-concat column needs an ordered input in the same way. With that, a cell of Table V is the
scheme's partitioning (Table III) beside the merge's local property (Table IV).
"""

from __future__ import annotations

from unshuffle.catalog.schema import Column
from unshuffle.properties.delivered import Delivered, Partitioned, Partitioning, formula, partitions_of
from unshuffle.properties.dependencies import Dependencies
from unshuffle.properties.exchange import (
    ConcatMerge,
    Exchange,
    FullMerge,
    InitialPartitioning,
    Merge,
    PartialMerge,
    PartialPartitioning,
    RandomMerge,
    Repartitioning,
    SortConcatMerge,
    SortMerge,
)
from unshuffle.properties.layouts import merged_layout, reading, split_layout
from unshuffle.properties.match_global import match_global, partitioning_columns
from unshuffle.properties.match_local import implied_local
from unshuffle.properties.proof import Proof
from unshuffle.properties.structure import (
    Covering,
    Global,
    Grouped,
    Local,
    Ordered,
    Replicated,
    Scattered,
    Serial,
    columns_of,
)


class ExchangeError(ValueError):
    """This exchange cannot be put over that input: it would repeat rows, or split what is already split."""


def exchange(how: Exchange, given: Delivered, facts: Dependencies) -> Delivered:
    """The delivered properties of an exchange over an input that delivers `given` and satisfies `facts`."""
    if isinstance(given.partitioning, Replicated | Covering):
        raise ExchangeError("an exchange over replicated data would repeat its rows; read one copy instead")
    match how:
        case InitialPartitioning():
            if not isinstance(formula(given.partitioning, facts), Serial):
                raise ExchangeError("initial partitioning takes one stream")
            return Delivered(how.scheme, given.local)
        case FullMerge():
            return Delivered(Serial(), merged_local(how.merge, given, facts))
        case Repartitioning():
            alone = _one_input_each(given.partitioning, how.scheme, facts)
            return Delivered(how.scheme, given.local if alone else merged_local(how.merge, given, facts))
        case PartialPartitioning():
            return Delivered(_split(given.partitioning, how.scheme), given.local)
        case PartialMerge():
            return Delivered(_gather(given.partitioning, how.groups), merged_local(how.merge, given, facts))


def merged_local(merge: Merge, given: Delivered, facts: Dependencies) -> Local:
    """The order of rows after a merge of streams that are the partitions of `given`, or parts of them."""
    streams = formula(given.partitioning, facts)
    local = given.local
    if isinstance(streams, Serial) or _constant(streams, facts):
        return local
    match merge:
        case RandomMerge():
            return ()
        case SortMerge():
            if not implied_local(local, merge.keys, facts):
                return ()
            return local if _clustered_on(streams, columns_of(merge.keys), facts) else merge.keys
        case SortConcatMerge():
            if any(_stacked(way, merge, local, facts) for way in _both_ways(streams)):
                return local
            return _concatenated(streams, local, facts)
        case ConcatMerge():
            return _concatenated(streams, local, facts)


def _stacked(streams: Ordered, merge: SortConcatMerge, local: Local, facts: Dependencies) -> bool:
    """Are the streams put one after another in their own order, each in that order inside?"""
    put = isinstance(match_global(streams, Ordered(merge.keys), facts), Proof)
    return put and implied_local(local, streams.keys, facts)


def _both_ways(streams: Global) -> tuple[Ordered, ...]:
    """Sort-concat looks at rows, not at partition numbers: ascending ranges can also be read from the far end."""
    return (streams, streams.reversed()) if isinstance(streams, Ordered) else ()


def _concatenated(streams: Global, local: Local, facts: Dependencies) -> Local:
    for count in range(1, len(local) + 1):
        columns = columns_of(local[:count])
        if _clustered_on(streams, columns, facts):
            return (Grouped(columns), *local[count:])
    return ()


def _clustered_on(streams: Global, columns: frozenset[Column], facts: Dependencies) -> bool:
    return bool(columns) and isinstance(match_global(streams, Grouped(columns), facts), Proof)


def _constant(streams: Global, facts: Dependencies) -> bool:
    columns = partitioning_columns(streams)
    return bool(columns) and facts.determines((), columns)


def _one_input_each(given: Partitioning, scheme: Partitioning, facts: Dependencies) -> bool:
    """Does every output get rows from one input only? Then nothing is really merged: hash into p, rehashed into kp, or
    ranges with boundaries added (SIGMOD 2012, sections 3.1 and 3.2)."""
    if not isinstance(given, Partitioned) or not isinstance(scheme, Partitioned) or given.nulls_apart:
        return False
    if not all(facts.equal(one, other) for one, other in zip(given.columns, scheme.columns, strict=False)):
        return False
    read = reading(given.function, scheme.function)
    return read is not None and read.most <= 1


def _split(given: Partitioning, scheme: Partitioned | Scattered) -> Partitioning:
    before, each = partitions_of(given), partitions_of(scheme)
    count = before * each if before is not None and each is not None else None
    match given:
        case Serial():
            return scheme
        case Partitioned() if isinstance(scheme, Partitioned):
            return split_layout(given, scheme)
        case _:
            # Equal rows may come from two partitions, or are sent on without being looked at.
            return Scattered(count)


def _gather(given: Partitioning, groups: tuple[int, ...]) -> Partitioning:
    if (partitions_of(given) or len(groups)) != len(groups):
        raise ExchangeError(f"{partitions_of(given)} partitions cannot be gathered in {len(groups)} places")
    if max(groups) == 0:
        return Serial()
    return merged_layout(given, groups) if isinstance(given, Partitioned) else Scattered(max(groups) + 1)
