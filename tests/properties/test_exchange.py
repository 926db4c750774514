"""Tables III, IV and V and the five topologies: every cell, on rows that are really moved."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given

from unshuffle.properties import (
    ConcatMerge,
    Delivered,
    Dependencies,
    ExchangeError,
    FullMerge,
    Grouped,
    InitialPartitioning,
    Merge,
    Ordered,
    PartialMerge,
    PartialPartitioning,
    Partitioned,
    RandomMerge,
    Repartitioning,
    Replicated,
    Scattered,
    Serial,
    SortConcatMerge,
    Sorted,
    SortMerge,
    exchange,
    formula,
    hashed,
    ranged,
)
from unshuffle.properties.functions import number
from unshuffle.properties.meaning import broken_global, broken_layout, broken_local

from .rows import (
    COLUMNS,
    Choices,
    arrange,
    choices,
    draw_boundaries,
    draw_facts,
    draw_local,
    draw_rows,
    draw_sorted,
    hash_leaf,
    merge_streams,
    place,
)

LEAF = hash_leaf()
NONE = Dependencies()
KINDS = ("hash", "range", "random", "serial")
MERGES = ("random", "sort", "concat", "sort-concat")


def draw_scheme(ch: Choices, kind: str, columns=COLUMNS):
    on = ch.shuffle(columns)[: 1 + ch.below(2)]
    match kind:
        case "hash":
            return hashed(on, 2 + ch.below(3))
        case "range":
            keys = [draw_sorted(ch, column) for column in on]
            return ranged(keys, draw_boundaries(ch, keys))
        case "random":
            return Scattered(3)
        case "broadcast":
            return Replicated()
        case _:
            return Serial()


def draw_input(ch: Choices, kind: str, kept: bool | None = None):
    """Facts, what is delivered, and partitions that are as delivered. The order often begins with the layout's own, and
    always does if something is to be kept of it."""
    facts = draw_facts(ch, most=2)
    layout = draw_scheme(ch, kind)
    local = draw_local(ch)
    claim = formula(layout, Dependencies())
    if isinstance(layout, Partitioned) and (ch.flag(3) if kept is None else kept):
        if isinstance(claim, Grouped):
            sorts = tuple(draw_sorted(ch, c) for c in ch.shuffle(layout.columns))
            head = sorts if kept else ch.pick([(claim,), sorts])
        else:
            head = claim.keys if ch.flag() else claim.reversed().keys
        local = (*head, *local)
    elif kept:
        local = (draw_sorted(ch, ch.pick(COLUMNS)), *local)
    rows = draw_rows(ch, facts)
    if isinstance(layout, Partitioned):
        parts = place(rows, layout)
    else:
        parts = [[] for _ in range(3 if isinstance(layout, Scattered) else 1)]
        for row in rows:
            parts[ch.below(len(parts))].append(row)
    return facts, Delivered(layout, local), [arrange(ch, part, local) for part in parts]


def draw_merge(ch: Choices, kind: str, given: Delivered, kept: bool = False, columns=COLUMNS) -> Merge:
    local = [a for a in given.local if isinstance(a, Sorted)]
    if kept:
        run = list(takewhile(lambda action: isinstance(action, Sorted), given.local))
        own = formula(given.partitioning, Dependencies())
        least = len(own.keys) if isinstance(own, Ordered) and kind == "sort-concat" else 1
        keys = tuple(run[: least + ch.below(len(run) - least + 1)])
        return {"random": RandomMerge(), "sort": SortMerge(keys), "concat": ConcatMerge()}.get(
            kind, SortConcatMerge(keys)
        )
    own = formula(given.partitioning, Dependencies())
    options = [tuple(local[: 1 + ch.below(3)]), getattr(own, "keys", ()), (draw_sorted(ch, ch.pick(columns)),)]
    if ch.flag(3) and hasattr(own, "keys"):
        options = [own.keys, own.reversed().keys, (*own.keys, draw_sorted(ch, ch.pick(columns)))]
    keys = ch.pick([o for o in options if o])
    match kind:
        case "random":
            return RandomMerge()
        case "sort":
            return SortMerge(keys)
        case "concat":
            return ConcatMerge()
        case _:
            return SortConcatMerge(keys)


def keeps(kind: str, merge: str) -> bool:
    """Must something be left of an order that begins as the layout does? Case 1 of each cell."""
    return kind == "serial" or (merge == "sort" if kind == "random" else merge != "random")


def split(ch: Choices, part, scheme):
    """One input of a partition operator, first in first out."""
    match scheme:
        case Partitioned():
            outputs = [[] for _ in range(scheme.function.partitions)]
            for row in part:
                outputs[number(scheme.function, tuple(row[c] for c in scheme.columns), LEAF)].append(row)
            return outputs
        case Replicated():
            return [list(part) for _ in range(2)]
        case _:
            outputs = [[] for _ in range(3)]
            for row in part:
                outputs[ch.below(3)].append(row)
            return outputs


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
            # The neighbouring case of SIGMOD 2012: the same columns again, into another number.
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
    """Concat after repartitioning random input does not group, whatever the new partitioning is on."""
    a = COLUMNS[0]
    given_ = Delivered(Scattered(2), (Sorted(a, False, True),))
    result = exchange(Repartitioning(hashed([a], 2), ConcatMerge()), given_, Dependencies())
    assert result == Delivered(hashed([a], 2), ())
    ranges = Repartitioning(ranged([Sorted(a, False, True)], [(1,)]), SortConcatMerge((Sorted(a, False, True),)))
    assert exchange(ranges, given_, Dependencies()).local == ()


def test_illegal_exchanges_are_refused() -> None:
    a = COLUMNS[0]
    with pytest.raises(ExchangeError):
        exchange(FullMerge(RandomMerge()), Delivered(Replicated()), Dependencies())
    with pytest.raises(ExchangeError):
        exchange(InitialPartitioning(Scattered(2)), Delivered(hashed([a], 2)), Dependencies())
    with pytest.raises(ExchangeError):
        exchange(PartialMerge((0, 0, 1), RandomMerge()), Delivered(hashed([a], 2)), Dependencies())
