"""Co-partitioning: where it is proven, a join partition by partition finds the matches of a join of all rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import assume, given

from tests.support.property_inputs import folded
from tests.support.property_joins import eq, multiset, run_join
from tests.support.property_rows import (
    Choices,
    choices,
    draw_boundaries,
    draw_facts,
    draw_rows,
    draw_sorted,
    place,
)
from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    ConstantValue,
    CoPartitioned,
    Delivered,
    Dependencies,
    EqualColumns,
    HashFunction,
    JoinKey,
    JoinKind,
    Partitioned,
    Proof,
    Push,
    SampledBoundaries,
    Serial,
    Unaligned,
    UnknownFunction,
    UnknownPartitioning,
    asc,
    depends,
    equality,
    hashed,
    match_joint,
    ranged,
)

INT, LONG = pa.int32(), pa.int64()
A, B, C = (Column(i, n, LONG) for i, n in ((1, "a"), (2, "b"), (3, "c")))
X, Y, Z = (Column(i, n, LONG) for i, n in ((11, "x"), (12, "y"), (13, "z")))
NONE = Dependencies()


def key(a: Column, x: Column, at=LONG, null_safe: bool = False) -> JoinKey:
    return JoinKey((a, x), at, null_safe)


def joint(left, right, *keys, left_facts=NONE, right_facts=NONE):
    return match_joint([(Delivered(left), left_facts), (Delivered(right), right_facts)], CoPartitioned(keys))


@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.name)
@given(ch=choices)
def test_a_proven_pairwise_join_finds_every_match(kind: JoinKind, ch: Choices) -> None:
    left_columns = tuple(Column(i, n, ch.pick([INT, LONG])) for i, n in ((1, "a"), (2, "b"), (3, "c")))
    right_columns = tuple(Column(i, n, ch.pick([INT, LONG])) for i, n in ((11, "x"), (12, "y"), (13, "z")))
    one, other = draw_facts(ch, left_columns, 2), draw_facts(ch, right_columns, 2)
    left, right = draw_rows(ch, one, left_columns, 6), draw_rows(ch, other, right_columns, 6)
    null_safe = ch.flag(3)
    pairs = list(zip(ch.shuffle(left_columns)[: 1 + ch.below(2)], right_columns, strict=False))
    keys = tuple(JoinKey((a, x), INT if a.type == INT and x.type == INT else LONG, null_safe) for a, x in pairs)
    on = [(ch.pick(left_columns), ch.pick(right_columns)) for _ in range(1 + ch.below(2))] if ch.flag(3) else pairs
    if ch.flag():
        types = tuple(ch.pick([INT, LONG]) for _ in on)
        function = HashFunction(types, 3)
        layouts = Partitioned(function, tuple(a for a, _ in on)), Partitioned(function, tuple(x for _, x in on))
    elif ch.flag():
        layouts = hashed([a for a, _ in on], 3), hashed([x for _, x in on], ch.pick([3, 3, 2]))
    else:
        sorts = [draw_sorted(ch, a) for a, _ in on]
        bounds = draw_boundaries(ch, sorts)
        layouts = ranged(sorts, bounds), ranged([s.on(x) for s, (_, x) in zip(sorts, on, strict=True)], bounds)
    found = match_joint([(Delivered(layouts[0]), one), (Delivered(layouts[1]), other)], CoPartitioned(keys))
    assume(isinstance(found, Proof))

    def holds(r, s):
        return all((r[a] == s[x]) if null_safe else eq(r[a], s[x]) for a, x in pairs)

    def run(some, others):
        return run_join(kind, some, others, holds)

    whole = run(left, right)
    parts = zip(place(left, layouts[0]), place(right, layouts[1]), strict=True)
    assert multiset([row for some, others in parts for row in run(some, others)]) == multiset(whole)


def test_same_function_same_columns() -> None:
    found = joint(hashed([A, B], 8), hashed([X, Y], 8), key(A, X), key(B, Y))
    assert isinstance(found, Proof)
    assert "argument 2: b#2, y#12 by b#2 = y#12" in found.notes


@pytest.mark.parametrize(
    ("left", "right", "why"),
    [
        (hashed([A, B], 8), hashed([Y, X], 8), "no key equates"),
        (hashed([A], 8), hashed([X], 4), "two functions"),
        (hashed([A], 8), hashed([A], 8, [INT]), "two functions"),
        (hashed([A], 8), ranged([asc(X)], [(1,)]), "two functions"),
        (ranged([asc(A)], [(1,)]), ranged([asc(X)], [(2,)]), "two functions"),
        (ranged([asc(A)], [(1,)]), ranged([asc(X, nulls_first=False)], [(1,)]), "two functions"),
        (ranged([asc(A)], SampledBoundaries("one", 4)), ranged([asc(X)], SampledBoundaries("two", 4)), "two functions"),
        (Partitioned(UnknownFunction(1, 8), (A,)), Partitioned(UnknownFunction(1, 8), (X,)), "may differ from itself"),
        (UnknownPartitioning(8), hashed([X], 8), "not a function of columns"),
        (Serial(), hashed([X], 8), "not a function of columns"),
        (folded(hashed([A], 6), 4), hashed([X], 4), "two functions"),
    ],
)
def test_inputs_that_are_not_co_partitioned(left, right, why: str) -> None:
    found = joint(left, right, key(A, X), key(B, Y))
    assert isinstance(found, Unaligned)
    assert why in found.why


def test_a_dependency_clusters_but_does_not_co_partition() -> None:
    """SIGMOD 2012, section 3.3.3: h(b) mod 100 is not h(a) mod 100, though a determines b."""
    facts = Dependencies.of([depends([X], [Z]), depends([Z], [X])])
    assert isinstance(joint(hashed([A], 100), hashed([Z], 100), key(A, X), right_facts=facts), Unaligned)
    same = Dependencies.of(classes=equality(X, Z))
    assert isinstance(joint(hashed([A], 100), hashed([Z], 100), key(A, X), right_facts=same), Proof)


def test_a_constant_argument_is_the_same_on_both_sides_only_if_it_is_the_same_constant() -> None:
    def fixed(column: Column, value: object) -> Dependencies:
        return Dependencies.of(classes=[EqualColumns(frozenset((column,)), ConstantValue(value))])

    both = (hashed([A, C], 8), hashed([X, Z], 8), key(A, X))
    assert isinstance(joint(*both, left_facts=fixed(C, 5), right_facts=fixed(Z, 5)), Proof)
    assert isinstance(joint(*both, left_facts=fixed(C, 5), right_facts=fixed(Z, 6)), Unaligned)
    assert isinstance(joint(hashed([A], 8), hashed([X, Z], 8), key(A, X), right_facts=fixed(Z, 5)), Unaligned)


def test_int_and_bigint_are_co_partitioned_only_in_their_common_type() -> None:
    short = Column(1, "a", INT)
    own = joint(hashed([short], 8), hashed([X], 8), key(short, X))
    assert isinstance(own, Unaligned)
    assert isinstance(joint(hashed([short], 8, [LONG]), hashed([X], 8), key(short, X)), Proof)
    # The same function, int, on both: a bigint cast to int still equals the int that it matched. The general rule would
    # be unsound for lossy casts, so this is not claimed.
    assert isinstance(joint(hashed([short], 8), hashed([X], 8, [INT]), key(short, X)), Unaligned)


def test_ranges_of_int_and_bigint_are_one_function() -> None:
    short = Column(1, "a", INT)
    assert isinstance(joint(ranged([asc(short)], [(5,)]), ranged([asc(X)], [(5,)]), key(short, X)), Proof)
    lone = joint(ranged([asc(short)], [(5,)]), UnknownPartitioning(2), key(short, X))
    assert isinstance(lone, Unaligned)
    assert lone.pushes[0].layouts[1] == ranged([asc(X)], [(5,)])
    small = Column(11, "x", INT)
    both = joint(ranged([asc(short)], [(5,)]), UnknownPartitioning(2), key(short, small, INT))
    assert isinstance(both, Unaligned)
    assert len(both.pushes) == 1


def test_strings_that_compare_as_numbers_are_not_co_partitioned() -> None:
    s, t = Column(1, "s", pa.string()), Column(11, "t", pa.string())
    assert isinstance(joint(hashed([s], 8), hashed([t], 8), key(s, t, LONG)), Unaligned)
    assert isinstance(joint(hashed([s], 8), hashed([t], 8), key(s, t, pa.string())), Proof)


def test_misplaced_nulls_matter_to_null_safe_equality_only() -> None:
    stray = Partitioned(HashFunction((LONG,), 8), (A,), nulls_anywhere=True)
    assert isinstance(joint(stray, hashed([X], 8), key(A, X)), Proof)
    assert isinstance(joint(stray, hashed([X], 8), key(A, X, null_safe=True)), Unaligned)
    solid = Dependencies.of(never_null=[A])
    assert isinstance(joint(stray, hashed([X], 8), key(A, X, null_safe=True), left_facts=solid), Proof)


def test_a_constant_null_key_may_be_in_any_partition_with_misplaced_nulls() -> None:
    stray = Partitioned(HashFunction((LONG, LONG), 8), (A, C), nulls_anywhere=True)
    null = [Dependencies.of(classes=[EqualColumns(frozenset((c,)), ConstantValue(None))]) for c in (C, Z)]
    sides = {"left_facts": null[0], "right_facts": null[1]}
    assert isinstance(joint(hashed([A, C], 8), hashed([X, Z], 8), key(A, X), **sides), Proof)
    assert isinstance(joint(stray, hashed([X, Z], 8), key(A, X), **sides), Unaligned)


def test_the_missing_part_is_a_layout_to_push() -> None:
    """SIGMOD 2012, section 3.3.2: keep one input, repartition the others by its function."""
    found = joint(hashed([A], 8), UnknownPartitioning(3), key(A, X), key(B, Y))
    assert isinstance(found, Unaligned)
    assert found.pushes == (Push(0, (hashed([A], 8), hashed([X], 8))),)
    both = joint(hashed([A], 8), ranged([asc(Y)], [(1,)]), key(A, X), key(B, Y))
    assert isinstance(both, Unaligned)
    assert [push.leader for push in both.pushes] == [0, 1]
    for push in both.pushes:
        assert isinstance(joint(*push.layouts, key(A, X), key(B, Y)), Proof)


def test_three_inputs() -> None:
    p = Column(21, "p", LONG)
    keys = CoPartitioned((JoinKey((A, X, p), LONG),))
    inputs = [(Delivered(hashed([c], 8)), NONE) for c in (A, X, p)]
    assert isinstance(match_joint(inputs, keys), Proof)
    inputs[2] = (Delivered(hashed([p], 9)), NONE)
    assert isinstance(match_joint(inputs, keys), Unaligned)
    assert isinstance(match_joint([(Delivered(Serial()), NONE)] * 3, keys), Proof)
