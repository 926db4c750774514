"""Layouts made from layouts (SIGMOD 2012, section 3): where rows go, what is read, what is co-partitioned."""

from __future__ import annotations

from functools import cmp_to_key

import pyarrow as pa
import pytest
from hypothesis import given

from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    Clustered,
    CoPartitioned,
    Delivered,
    Dependencies,
    HashFunction,
    JoinKey,
    Partitioned,
    Proof,
    RangeFunction,
    RangeKey,
    RangeOrdered,
    Regrouped,
    Required,
    Sampled,
    Unaligned,
    asc,
    depends,
    desc,
    hashed,
    match,
    match_joint,
    ranged,
)
from unshuffle.properties.functions import number
from unshuffle.properties.layouts import (
    NotReachable,
    Reachable,
    connections,
    folded,
    keeps_prefix_together,
    merged_layout,
    refined_to_columns,
    refined_to_prefix,
    rehashed,
    seen_through_prefix,
)
from unshuffle.properties.meaning import broken_layout

from .rows import COLUMNS, Choices, choices, draw_boundaries, draw_facts, draw_layout, draw_rows, draw_sorted, hash_leaf
from .rows import place as placed

A, B, C, D = COLUMNS
S = Column(5, "s", pa.string())
NONE = Dependencies()
LEAF = hash_leaf()


def at(layout: Partitioned, row) -> int:
    return number(layout.function, tuple(row[c] for c in layout.columns), LEAF)


def assert_reads_enough(rows, source: Partitioned, reach: Reachable) -> None:
    for row in rows:
        assert at(source, row) in reach.reads[at(reach.layout, row)]


def raw_hash(function, values) -> int:
    """A hash whose modulus is really taken, so that h mod 4 and h mod 2 are related as they are in Spark."""
    return hash_leaf()(HashFunction(function.types, 2**20, function.family), values) % function.partitions


@given(ch=choices)
def test_rehashing_reads_only_partitions_equal_modulo_the_gcd(ch: Choices) -> None:
    before, after = 1 + ch.below(12), 1 + ch.below(12)
    source = hashed([A, B], before)
    reach = rehashed(source, after)
    assert isinstance(reach, Reachable)
    assert reach.layout == hashed([A, B], after)
    for row in draw_rows(ch, NONE):
        values = (row[A], row[B])
        assert raw_hash(source.function, values) in reach.reads[raw_hash(reach.layout.function, values)]


def test_example_1_of_sigmod_four_partitions_from_two_and_two_from_four() -> None:
    down = rehashed(hashed([A], 4), 2)
    assert isinstance(down, Reachable)
    assert tuple(map(tuple, down.reads)) == ((0, 2), (1, 3))
    up = rehashed(hashed([A], 2), 4)
    assert isinstance(up, Reachable)
    assert tuple(map(tuple, up.reads)) == ((0,), (1,), (0,), (1,))
    coprime = rehashed(hashed([A], 3), 2)
    assert isinstance(coprime, Reachable)
    assert coprime.connections == 6


def test_example_2_of_sigmod_range_on_a_b_refined_to_a() -> None:
    source = ranged([asc(A), asc(S)], [(1, "B"), (2, "D")])
    reach = refined_to_columns(source, 1)
    assert isinstance(reach, Reachable)
    assert reach.layout == ranged([asc(A)], [(1,), (2,)])
    # Rows with a = 1 come from the first two partitions, rows with a >= 2 from the last two.
    assert tuple(map(tuple, reach.reads)) == ((0,), (0, 1), (1, 2))
    merged = merged_layout(reach.layout, (0, 0, 1))
    assert merged == ranged([asc(A)], [(2,)])
    found = connections(source.function, merged.function)
    assert found is not None
    assert tuple(map(tuple, found)) == ((0, 1), (1, 2))
    assert not isinstance(match(Delivered(source), Required(Clustered(frozenset((A,)))), NONE), Proof)
    assert isinstance(match(Delivered(reach.layout), Required(Clustered(frozenset((A,)))), NONE), Proof)


@given(ch=choices)
def test_refining_a_range_to_its_first_column(ch: Choices) -> None:
    keys = [draw_sorted(ch, A), draw_sorted(ch, B)]
    source = ranged(keys, draw_boundaries(ch, keys))
    reach = refined_to_columns(source, 1)
    assert isinstance(reach, Reachable)
    assert reach.layout.columns == (A,)
    rows = draw_rows(ch, NONE)
    assert_reads_enough(rows, source, reach)
    assert broken_layout(placed(rows, reach.layout), reach.layout, LEAF) is None
    assert isinstance(match(Delivered(reach.layout), Required(RangeOrdered((keys[0],))), NONE), Proof)


WORDS = (None, "", "a", "ab", "abc", "abd", "b", "ba", "bab")


@given(ch=choices)
def test_refining_a_string_range_to_a_prefix(ch: Choices) -> None:
    key = RangeKey(pa.string(), False, ch.flag())
    points = sorted({(ch.pick(WORDS),) for _ in range(3)}, key=cmp_to_key(RangeFunction((key,), ()).compare))
    source = Partitioned(RangeFunction((key,), tuple(points)), (S,))
    length = 1 + ch.below(2)
    reach = refined_to_prefix(source, length)
    assert isinstance(reach, Reachable)
    assert keeps_prefix_together(reach.layout, length)
    short = Column(6, "prefix", pa.string())
    through = seen_through_prefix(reach.layout, short, length)
    assert isinstance(through, Partitioned)
    for word in WORDS:
        home = at(reach.layout, {S: word})
        assert at(source, {S: word}) in reach.reads[home]
        assert at(through, {short: word if word is None else word[:length]}) == home
        for other in WORDS:
            if (word is None) == (other is None) and (word or "")[:length] == (other or "")[:length]:
                assert at(reach.layout, {S: other}) == home


def test_a_descending_string_key_keeps_no_prefix_together() -> None:
    source = ranged([desc(S)], [("ab",)])
    assert isinstance(refined_to_prefix(source, 2), NotReachable)
    assert not keeps_prefix_together(source, 2)
    assert isinstance(seen_through_prefix(source, S, 2), NotReachable)
    assert at(source, {S: "ab"}) != at(source, {S: "abc"})


def test_a_prefix_layout_is_co_partitioned_with_the_same_range_written_plainly() -> None:
    other = Column(15, "t", pa.string())
    reach = refined_to_prefix(ranged([asc(S)], [("abc",), ("abd",), ("x",)]), 2)
    assert isinstance(reach, Reachable)
    plain = ranged([asc(other)], [("ab",), ("x",)])
    keys = CoPartitioned((JoinKey((S, other), pa.string()),))
    inputs = [(Delivered(reach.layout), NONE), (Delivered(plain), NONE)]
    assert isinstance(match_joint(inputs, keys), Proof)
    unrefined = ranged([asc(other)], [("abc",), ("abd",), ("x",)])
    assert isinstance(match_joint([inputs[0], (Delivered(unrefined), NONE)], keys), Unaligned)


@given(ch=choices)
def test_partitions_gathered_in_groups(ch: Choices) -> None:
    layout = draw_layout(ch)
    count = 1 + ch.below(layout.function.partitions)
    groups = [min(i, count - 1) for i in range(layout.function.partitions)]
    if ch.flag():
        groups = [i % count for i in range(layout.function.partitions)]
    if count == 1:
        return
    result = merged_layout(layout, groups)
    rows = draw_rows(ch, NONE)
    if isinstance(layout.function, HashFunction):
        for row in rows:
            values = tuple(row[c] for c in layout.columns)
            assert number(result.function, values, raw_hash) == groups[raw_hash(layout.function, values)]
    else:
        for row in rows:
            assert at(result, row) == groups[at(layout, row)]


def test_a_folded_hash_is_a_hash_only_if_the_number_divides() -> None:
    assert folded(hashed([A], 6), 3) == hashed([A], 3)
    own = folded(hashed([A], 6), 4)
    assert isinstance(own.function, Regrouped)
    # Both cluster; only the first is co-partitioned with a plain hash.
    for layout in (folded(hashed([A], 6), 3), own):
        assert isinstance(match(Delivered(layout), Required(Clustered(frozenset((A, B)))), NONE), Proof)
    keys = CoPartitioned((JoinKey((A, B), A.type),))
    plain = [(Delivered(folded(hashed([A], 6), 3)), NONE), (Delivered(hashed([B], 3)), NONE)]
    assert isinstance(match_joint(plain, keys), Proof)
    assert isinstance(match_joint([(Delivered(own), NONE), (Delivered(hashed([B], 4)), NONE)], keys), Unaligned)
    twin = folded(hashed([B], 6), 4)
    assert isinstance(match_joint([(Delivered(own), NONE), (Delivered(twin), NONE)], keys), Proof)


def test_neighbouring_ranges_gathered_are_still_in_order() -> None:
    sampled = ranged([asc(A)], Sampled("s", 4))
    in_order = Required(RangeOrdered((asc(A),)))
    assert isinstance(match(Delivered(merged_layout(sampled, (0, 0, 1, 1))), in_order, NONE), Proof)
    assert not isinstance(match(Delivered(merged_layout(sampled, (0, 1, 0, 1))), in_order, NONE), Proof)


def test_section_3_3_3_a_hash_on_b_is_clustered_on_a_if_a_determines_b() -> None:
    wish = Required(Clustered(frozenset((A,))))
    assert isinstance(match(Delivered(hashed([B], 100)), wish, Dependencies.of([depends([A], [B])])), Proof)
    # As printed, with b -> a, it is unsound: two b for one a are two partitions.
    assert not isinstance(match(Delivered(hashed([B], 100)), wish, Dependencies.of([depends([B], [A])])), Proof)
    constant = Dependencies.of([depends([], [B])])
    assert isinstance(match(Delivered(hashed([A, B], 100)), wish, constant), Proof)


@given(ch=choices)
def test_connections_between_ranges_miss_no_row(ch: Choices) -> None:
    keys = [draw_sorted(ch, A), draw_sorted(ch, B)]
    one, other = keys[: 1 + ch.below(2)], keys[: 1 + ch.below(2)]
    source, target = ranged(one, draw_boundaries(ch, one)), ranged(other, draw_boundaries(ch, other))
    reads = connections(source.function, target.function)
    assert reads is not None
    assert_reads_enough(draw_rows(ch, draw_facts(ch)), source, Reachable(target, reads))


def test_unrelated_functions_have_no_map_of_connections() -> None:
    assert connections(hashed([A], 4).function, ranged([asc(A)], [(1,)]).function) is None
    assert connections(ranged([asc(A)], [(1,)]).function, ranged([desc(A)], [(1,)]).function) is None
    assert connections(ranged([asc(A)], Sampled("s", 2)).function, ranged([asc(A)], [(1,)]).function) is None
    assert isinstance(rehashed(ranged([asc(A)], [(1,)]), 2), NotReachable)


@pytest.mark.parametrize(
    ("keys", "boundaries"),
    [
        ((), ()),
        ((RangeKey(A.type),), ((2,), (1,))),
        ((RangeKey(A.type),), ((1, 2),)),
        ((RangeKey(A.type),) * 2, ((1,),)),
    ],
)
def test_range_functions_that_cannot_be_written(keys, boundaries) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        RangeFunction(keys, boundaries)


def test_a_range_on_a_b_cut_only_at_values_of_a_is_the_range_on_a() -> None:
    assert ranged([asc(A), desc(B)], [(1,), (2,)]) == ranged([asc(A)], [(1,), (2,)])


def test_range_numbers_are_closed_on_the_left_and_put_null_where_the_key_says() -> None:
    first = ranged([asc(A)], [(1,), (3,)]).function
    assert [first.number((v,)) for v in (None, 0, 1, 2, 3)] == [0, 0, 1, 1, 2]
    last = ranged([asc(A, nulls_first=False)], [(1,), (3,)]).function
    assert last.number((None,)) == 2
    down = ranged([desc(A)], [(3,), (1,)]).function
    assert [down.number((v,)) for v in (4, 3, 2, 1, 0, None)] == [0, 1, 1, 2, 2, 2]
    assert ranged([asc(A)], [(1.5,), (float("nan"),)]).function.number((float("nan"),)) == 2
