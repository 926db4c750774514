"""Layouts derived from layouts (SIGMOD 2012, section 3): where rows go, which partitions are read, what is
co-partitioned."""

from __future__ import annotations

from functools import cmp_to_key

import pyarrow as pa
import pytest
from hypothesis import given

from tests.support.property_inputs import folded
from tests.support.property_rows import (
    COLUMNS,
    Choices,
    choices,
    draw_boundaries,
    draw_facts,
    draw_layout,
    draw_rows,
    draw_sorted,
    hash_leaf,
)
from tests.support.property_rows import place as placed
from tests.support.property_semantics import broken_layout, partition_number
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
    RegroupedFunction,
    Required,
    SampledBoundaries,
    Unaligned,
    UnknownPartitioning,
    asc,
    depends,
    desc,
    hashed,
    match,
    match_joint,
    ranged,
)
from unshuffle.properties.layouts.propagate import through_project
from unshuffle.properties.layouts.related_layouts import (
    ReadCounts,
    connections,
    keeps_prefix_together,
    merged_layout,
    read_counts,
)

A, B, C, D = COLUMNS
S = Column(5, "s", pa.string())
NONE = Dependencies()
LEAF = hash_leaf()


def at(layout: Partitioned, row) -> int:
    return partition_number(layout.function, tuple(row[c] for c in layout.columns), LEAF)


def reads(source: Partitioned, target: Partitioned) -> tuple[tuple[int, ...], ...]:
    """For each output of `target`, the partitions of `source` that it reads."""
    found = connections(source.function, target.function)
    assert found is not None
    return tuple(map(tuple, found))


def assert_reads_enough(rows, source: Partitioned, target: Partitioned) -> None:
    connected = reads(source, target)
    for row in rows:
        assert at(source, row) in connected[at(target, row)]


def raw_hash(function, values) -> int:
    """A hash with a real modulus, so that h mod 4 and h mod 2 are related as in Spark."""
    return LEAF(HashFunction(function.types, 2**20, function.family), values) % function.partitions


@given(ch=choices)
def test_rehashing_reads_only_partitions_equal_modulo_the_gcd(ch: Choices) -> None:
    source, target = hashed([A, B], 1 + ch.below(12)), hashed([A, B], 1 + ch.below(12))
    connected = reads(source, target)
    for row in draw_rows(ch, NONE):
        values = (row[A], row[B])
        assert raw_hash(source.function, values) in connected[raw_hash(target.function, values)]


def test_example_1_of_sigmod_four_partitions_from_two_and_two_from_four() -> None:
    assert reads(hashed([A], 4), hashed([A], 2)) == ((0, 2), (1, 3))
    assert reads(hashed([A], 2), hashed([A], 4)) == ((0,), (1,), (0,), (1,))
    assert sum(map(len, reads(hashed([A], 3), hashed([A], 2)))) == 6
    assert read_counts(hashed([A], 3).function, hashed([A], 2).function) == ReadCounts(3, 6)


def test_example_2_of_sigmod_range_on_a_b_refined_to_a() -> None:
    source = ranged([asc(A), asc(S)], [(1, "B"), (2, "D")])
    refined = ranged([asc(A)], [(1,), (2,)])
    # Rows with a = 1 come from the first two partitions, rows with a >= 2 from the last two.
    assert reads(source, refined) == ((0,), (0, 1), (1, 2))
    merged = merged_layout(refined, (0, 0, 1))
    assert merged == ranged([asc(A)], [(2,)])
    assert reads(source, merged) == ((0, 1), (1, 2))
    assert not isinstance(match(Delivered(source), Required(Clustered(frozenset((A,)))), NONE), Proof)
    assert isinstance(match(Delivered(refined), Required(Clustered(frozenset((A,)))), NONE), Proof)


@given(ch=choices)
def test_refining_a_range_to_its_first_column(ch: Choices) -> None:
    keys = [draw_sorted(ch, A), draw_sorted(ch, B)]
    boundaries = draw_boundaries(ch, keys)
    source = ranged(keys, boundaries)
    refined = ranged(keys[:1], dict.fromkeys(each[:1] for each in boundaries))
    assert refined.columns == (A,)
    rows = draw_rows(ch, NONE)
    assert_reads_enough(rows, source, refined)
    assert broken_layout(placed(rows, refined), refined, LEAF) is None
    assert isinstance(match(Delivered(refined), Required(RangeOrdered((keys[0],))), NONE), Proof)


WORDS = (None, "", "a", "ab", "abc", "abd", "b", "ba", "bab")
PREFIX = Column(6, "prefix", pa.string())


@given(ch=choices)
def test_refining_a_string_range_to_a_prefix(ch: Choices) -> None:
    key = RangeKey(pa.string(), False, ch.flag())
    words = [
        each
        for (each,) in sorted({(ch.pick(WORDS),) for _ in range(3)}, key=cmp_to_key(RangeFunction((key,), ()).compare))
    ]
    source = Partitioned(RangeFunction((key,), tuple((word,) for word in words)), (S,))
    length = 1 + ch.below(2)
    cut = dict.fromkeys(word if word is None else word[:length] for word in words)
    refined = Partitioned(RangeFunction((key,), tuple((word,) for word in cut)), (S,))
    assert keeps_prefix_together(refined, length)
    through = through_project(Delivered(refined), NONE, prefixes={PREFIX: (S, length)}).partitioning
    assert through == Partitioned(refined.function, (PREFIX,))
    connected = reads(source, refined)
    for word in WORDS:
        home = at(refined, {S: word})
        assert at(source, {S: word}) in connected[home]
        assert at(through, {PREFIX: word if word is None else word[:length]}) == home
        for other in WORDS:
            if (word is None) == (other is None) and (word or "")[:length] == (other or "")[:length]:
                assert at(refined, {S: other}) == home


def test_a_descending_string_key_keeps_no_prefix_together() -> None:
    source = ranged([desc(S)], [("ab",)])
    assert not keeps_prefix_together(source, 2)
    assert through_project(Delivered(source), NONE, prefixes={PREFIX: (S, 2)}).partitioning == UnknownPartitioning(2)
    assert at(source, {S: "ab"}) != at(source, {S: "abc"})


def test_a_prefix_layout_is_co_partitioned_with_the_same_range_written_plainly() -> None:
    other = Column(15, "t", pa.string())
    refined = ranged([asc(S)], [("ab",), ("x",)])
    through = through_project(Delivered(refined), NONE, prefixes={PREFIX: (S, 2)})
    plain = ranged([asc(other)], [("ab",), ("x",)])
    keys = CoPartitioned((JoinKey((PREFIX, other), pa.string()),))
    assert isinstance(match_joint([(through, NONE), (Delivered(plain), NONE)], keys), Proof)
    unrefined = ranged([asc(other)], [("abc",), ("abd",), ("x",)])
    assert isinstance(match_joint([(through, NONE), (Delivered(unrefined), NONE)], keys), Unaligned)


@given(ch=choices)
def test_partitions_merged_in_groups(ch: Choices) -> None:
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
            assert partition_number(result.function, values, raw_hash) == groups[raw_hash(layout.function, values)]
    else:
        for row in rows:
            assert at(result, row) == groups[at(layout, row)]


def test_a_folded_hash_is_a_hash_only_if_the_number_divides() -> None:
    assert folded(hashed([A], 6), 3) == hashed([A], 3)
    own = folded(hashed([A], 6), 4)
    assert isinstance(own.function, RegroupedFunction)
    # Both cluster; only the first is co-partitioned with a plain hash.
    for layout in (folded(hashed([A], 6), 3), own):
        assert isinstance(match(Delivered(layout), Required(Clustered(frozenset((A, B)))), NONE), Proof)
    keys = CoPartitioned((JoinKey((A, B), A.type),))
    plain = [(Delivered(folded(hashed([A], 6), 3)), NONE), (Delivered(hashed([B], 3)), NONE)]
    assert isinstance(match_joint(plain, keys), Proof)
    assert isinstance(match_joint([(Delivered(own), NONE), (Delivered(hashed([B], 4)), NONE)], keys), Unaligned)
    twin = folded(hashed([B], 6), 4)
    assert isinstance(match_joint([(Delivered(own), NONE), (Delivered(twin), NONE)], keys), Proof)


def test_merged_neighbouring_ranges_are_still_in_order() -> None:
    sampled = ranged([asc(A)], SampledBoundaries("s", 4))
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
    assert_reads_enough(draw_rows(ch, draw_facts(ch)), source, target)


def test_unrelated_functions_have_no_connections() -> None:
    assert connections(hashed([A], 4).function, ranged([asc(A)], [(1,)]).function) is None
    assert connections(ranged([asc(A)], [(1,)]).function, ranged([desc(A)], [(1,)]).function) is None
    assert connections(ranged([asc(A)], SampledBoundaries("s", 2)).function, ranged([asc(A)], [(1,)]).function) is None
    assert connections(ranged([asc(A)], [(1,)]).function, hashed([A], 2).function) is None


@pytest.mark.parametrize(
    ("keys", "boundaries"),
    [
        ((), ()),
        ((RangeKey(A.type),), ((2,), (1,))),
        ((RangeKey(A.type),), ((1, 2),)),
        ((RangeKey(A.type),) * 2, ((1,),)),
    ],
)
def test_invalid_range_functions(keys, boundaries) -> None:
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
