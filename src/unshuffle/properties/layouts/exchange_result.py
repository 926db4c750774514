"""The delivered properties of an exchange (ICDE 2010, section V: Tables III, IV and V).

Partition operators preserve the order of rows, so the local property changes only where streams are merged. How it changes
depends on which rows come from the same stream, that is, on the partitioning of the input.

| merge       | if                                                                    | result                       |
|-------------|-----------------------------------------------------------------------|------------------------------|
| any         | the input is one stream, or all rows are in one partition             | the local property           |
| random      |                                                                       | nothing                      |
| sort on S   | local ⇒ S, and the input is clustered on S (ties come from one stream) | the local property          |
|             | local ⇒ S                                                             | S                            |
| concat      | the input is clustered on the columns K of the first i actions        | K grouped, then the rest     |
| sort-concat | the input is ordered on X (up or down), X ⇒ S, and local ⇒ X          | the local property           |
|             | otherwise                                                             | as concat                    |

Table IV is weaker: its K is exactly the partitioning columns, and it keeps nothing where a sort-concat could still be
treated as a concat. Table V is unsound as printed. It says that a concat merge after any input partitioning P delivers
{X^g, Z}, where X are the columns of the new partitioning. Counterexample: P is random and both inputs are sorted on a:

    input 1: 1 2     hash on a into one output, concat:  1 2 1 2     not grouped on a
    input 2: 1 2

Rows that agree on a come from two streams. The input must be clustered on a, as it is in the paper's Example 1. Likewise,
the sort-concat column needs an ordered input. With these conditions, each cell of Table V combines the scheme's
partitioning (Table III) with the merge's local property (Table IV).
"""

from __future__ import annotations

from unshuffle.catalog.schema import Column
from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.layouts.delivered import Delivered, Partitioned, Partitioning, formula, partitions_of
from unshuffle.properties.layouts.exchange import (
    ConcatMerge,
    FullMerge,
    InitialPartitioning,
    Merge,
    PartialMerge,
    PartialPartitioning,
    RandomMerge,
    Repartitioning,
    SortConcatMerge,
    SortMerge,
    Topology,
)
from unshuffle.properties.layouts.related_layouts import merged_layout, read_counts, split_layout
from unshuffle.properties.layouts.structure import (
    Global,
    Grouped,
    Local,
    Ordered,
    Replicated,
    Serial,
    TargetedBroadcast,
    UnknownPartitioning,
    columns_of,
)
from unshuffle.properties.matching.match_global import match_global, partitioning_columns
from unshuffle.properties.matching.match_local import implied_local
from unshuffle.properties.matching.proof import Proof


class ExchangeError(ValueError):
    """The exchange does not fit its input: it would repeat rows, or it expects another number of streams."""


def exchange(how: Topology, given: Delivered, facts: Dependencies) -> Delivered:
    """The delivered properties of an exchange over an input that delivers `given` and satisfies `facts`."""
    if isinstance(given.partitioning, Replicated | TargetedBroadcast):
        raise ExchangeError("an exchange over replicated data would repeat rows; read one copy instead")
    match how:
        case InitialPartitioning():
            if not isinstance(formula(given.partitioning, facts), Serial):
                raise ExchangeError("initial partitioning needs a single input stream")
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
    """The local property after a merge of streams that are the partitions of `given`, or parts of them."""
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
    """Whether the streams are concatenated in their own order and each is sorted that way."""
    in_order = isinstance(match_global(streams, Ordered(merge.keys), facts), Proof)
    return in_order and implied_local(local, streams.keys, facts)


def _both_ways(streams: Global) -> tuple[Ordered, ...]:
    """Sort-concat compares rows, not partition numbers, so ascending ranges can also be concatenated in reverse."""
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
    """Whether every output reads a single input, so that nothing is merged: a hash into p partitions rehashed into kp, or
    ranges with added boundaries (SIGMOD 2012, sections 3.1 and 3.2)."""
    if not isinstance(given, Partitioned) or not isinstance(scheme, Partitioned) or given.nulls_anywhere:
        return False
    if not all(facts.equal(one, other) for one, other in zip(given.columns, scheme.columns, strict=False)):
        return False
    read = read_counts(given.function, scheme.function)
    return read is not None and read.most <= 1


def _split(given: Partitioning, scheme: Partitioned | UnknownPartitioning) -> Partitioning:
    before, each = partitions_of(given), partitions_of(scheme)
    count = before * each if before is not None and each is not None else None
    match given:
        case Serial():
            return scheme
        case Partitioned() if isinstance(scheme, Partitioned):
            return split_layout(given, scheme)
        case _:
            # Equal rows may come from two partitions, or are split without regard to their values.
            return UnknownPartitioning(count)


def _gather(given: Partitioning, groups: tuple[int, ...]) -> Partitioning:
    if (partitions_of(given) or len(groups)) != len(groups):
        raise ExchangeError(f"{partitions_of(given)} partitions do not match {len(groups)} groups")
    if max(groups) == 0:
        return Serial()
    return merged_layout(given, groups) if isinstance(given, Partitioned) else UnknownPartitioning(max(groups) + 1)
