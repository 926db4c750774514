"""Tables III, IV and V and the five topologies: every cell, on rows that are really exchanged."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.support.property_inputs import KINDS, MERGES, draw_input, draw_merge, draw_scheme, split
from tests.support.property_rows import (
    COLUMNS,
    Choices,
    choices,
    draw_boundaries,
    hash_leaf,
    merge_streams,
)
from tests.support.property_semantics import broken_global, broken_layout, broken_local
from unshuffle.properties import (
    ConcatMerge,
    Delivered,
    Dependencies,
    ExchangeError,
    FullMerge,
    InitialPartitioning,
    Ordered,
    PartialMerge,
    PartialPartitioning,
    Partitioned,
    RandomMerge,
    Repartitioning,
    Replicated,
    Serial,
    SortConcatMerge,
    Sorted,
    UnknownPartitioning,
    exchange,
    formula,
    hashed,
    ranged,
)

LEAF = hash_leaf()
NONE = Dependencies()


def keeps(kind: str, merge: str) -> bool:
    """Must part of an order that begins like the layout be preserved? Case 1 of each cell."""
    return kind == "serial" or (merge == "sort" if kind == "random" else merge != "random")


def assert_delivered(parts, delivered: Delivered, facts: Dependencies) -> None:
    layout = delivered.partitioning
    assert broken_global(parts, formula(layout, facts)) is None, delivered
    if isinstance(layout, Partitioned):
        assert broken_layout(parts, layout, LEAF) is None, delivered
    for part in parts:
        assert broken_local(part, delivered.local) is None, delivered


@pytest.mark.parametrize("kind", ["hash", "range", "random", "broadcast"])
@given(ch=choices)
def test_table_3_partitioning(kind: str, ch: Choices) -> None:
    facts, given_, parts = draw_input(ch, "serial")
    scheme = draw_scheme(ch, kind)
    result = exchange(InitialPartitioning(scheme), given_, facts)
    assert result == Delivered(scheme, given_.local)
    assert_delivered(split(ch, parts[0], scheme), result, facts)


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("kind", KINDS)
@given(ch=choices)
def test_table_4_full_merge(kind: str, merge: str, ch: Choices) -> None:
    for kept in (True, False):
        facts, given_, parts = draw_input(ch, kind, kept)
        how = draw_merge(ch, merge, given_, kept)
        result = exchange(FullMerge(how), given_, facts)
        assert result.partitioning == Serial()
        assert result.local or not kept or not keeps(kind, merge)
        assert_delivered([merge_streams(ch, parts, how)], result, facts)


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("scheme", ["hash", "range", "random", "broadcast"])
@given(ch=choices)
def test_table_5_repartitioning(scheme: str, merge: str, ch: Choices) -> None:
    for kept in (True, False):
        kind = ch.pick(("hash", "range")) if kept else ch.pick(KINDS)
        facts, given_, parts = draw_input(ch, kind, kept)
        how = draw_merge(ch, merge, given_, kept)
        to = draw_scheme(ch, scheme)
        source = given_.partitioning
        if isinstance(source, Partitioned) and scheme == "hash" and ch.flag():
            # The neighbouring case of SIGMOD 2012: the same columns, into another number of partitions.
            to = hashed(source.columns, ch.pick([2, 3, 4, 6, 8]))
        result = exchange(Repartitioning(to, how), given_, facts)
        assert result.local or not kept or not keeps(kind, merge)
        pieces = [split(ch, part, to) for part in parts]
        outputs = [merge_streams(ch, streams, how) for streams in zip(*pieces, strict=True)]
        assert_delivered(outputs, result, facts)


@pytest.mark.parametrize("scheme", ["hash", "range", "random"])
@given(ch=choices)
def test_partial_partitioning(scheme: str, ch: Choices) -> None:
    facts, given_, parts = draw_input(ch, ch.pick(KINDS))
    to = draw_scheme(ch, scheme)
    own = formula(given_.partitioning, NONE)
    if scheme == "range" and isinstance(own, Ordered) and ch.flag():
        keys = own.keys[: 1 + ch.below(len(own.keys))]
        to = ranged(keys, draw_boundaries(ch, keys))
    result = exchange(PartialPartitioning(to), given_, facts)
    assert result.local == given_.local
    assert_delivered([piece for part in parts for piece in split(ch, part, to)], result, facts)


@pytest.mark.parametrize("merge", MERGES)
@given(ch=choices)
def test_partial_merge(merge: str, ch: Choices) -> None:
    facts, given_, parts = draw_input(ch, ch.pick(KINDS))
    how = draw_merge(ch, merge, given_)
    count = 1 + ch.below(len(parts))
    groups = tuple(i % count for i in range(len(parts))) if ch.flag() else tuple(
        min(i, count - 1) for i in range(len(parts))
    )  # fmt: skip
    result = exchange(PartialMerge(groups, how), given_, facts)
    outputs = [
        merge_streams(ch, [part for part, to in zip(parts, groups, strict=True) if to == group], how)
        for group in range(count)
    ]
    assert_delivered(outputs, result, facts)


def test_table_5_as_printed_is_not_sound() -> None:
    """Concat after repartitioning random input does not group, whatever the new partitioning columns are."""
    a = COLUMNS[0]
    given_ = Delivered(UnknownPartitioning(2), (Sorted(a, False, True),))
    result = exchange(Repartitioning(hashed([a], 2), ConcatMerge()), given_, Dependencies())
    assert result == Delivered(hashed([a], 2), ())
    ranges = Repartitioning(ranged([Sorted(a, False, True)], [(1,)]), SortConcatMerge((Sorted(a, False, True),)))
    assert exchange(ranges, given_, Dependencies()).local == ()


def test_illegal_exchanges_are_rejected() -> None:
    a = COLUMNS[0]
    with pytest.raises(ExchangeError):
        exchange(FullMerge(RandomMerge()), Delivered(Replicated()), Dependencies())
    with pytest.raises(ExchangeError):
        exchange(InitialPartitioning(UnknownPartitioning(2)), Delivered(hashed([a], 2)), Dependencies())
    with pytest.raises(ExchangeError):
        exchange(PartialMerge((0, 0, 1), RandomMerge()), Delivered(hashed([a], 2)), Dependencies())
