"""Table VI: where the requirements of an alternative are proven, running it partition by partition is correct."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, takewhile

import pyarrow as pa
import pytest
from hypothesis import assume, given

from tests.support.property_inputs import KINDS, draw_input
from tests.support.property_joins import LEFT, RIGHT, eq, multiset, run_join
from tests.support.property_rows import (
    COLUMNS,
    INT,
    Choices,
    arrange,
    choices,
    draw_facts,
    draw_local,
    draw_rows,
    draw_sorted,
    place,
)
from tests.support.property_semantics import broken_local, seen
from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    Action,
    Alternative,
    AnyDistribution,
    Broadcast,
    Clustered,
    Delivered,
    Dependencies,
    Exactly,
    Grouped,
    HashFunction,
    JoinKey,
    JoinKind,
    Partitioned,
    Proof,
    RangeFunction,
    RangeKey,
    RangeOrdered,
    Replicated,
    Required,
    Serial,
    SinglePartition,
    Sorted,
    UnknownPartitioning,
    Unmet,
    asc,
    depends,
    desc,
    equality,
    hashed,
    match,
    match_joint,
    ranged,
)
from unshuffle.properties.layouts.structure import columns_of
from unshuffle.properties.matching import operator_requirements

A, B, C, D = COLUMNS
NONE = Dependencies()


def is_sorted(action: Action) -> bool:
    return isinstance(action, Sorted)


def satisfies(given_: Delivered, alternative: Alternative, facts: Dependencies) -> bool:
    return isinstance(match(given_, alternative.children[0], facts), Proof)


@pytest.mark.parametrize("streaming", [False, True], ids=["hash", "stream"])
@given(ch=choices)
def test_aggregate(streaming: bool, ch: Choices) -> None:
    facts, given_, parts = draw_input(ch, ch.pick(KINDS))
    likely = columns_of(given_.local[: 1 + ch.below(2)]) if ch.flag() else frozenset()
    groups = sorted(likely or ch.subset(COLUMNS, least=1), key=lambda c: c.id)
    make = operator_requirements.stream_aggregate if streaming else operator_requirements.hash_aggregate
    assume(any(satisfies(given_, alternative, facts) for alternative in make(groups)))
    result: list[tuple[object, int]] = []
    for part in parts:
        keys = [seen(row, groups) for row in part]
        if streaming:
            result += [(k, len(list(run))) for k, run in groupby(keys)]
        else:
            result += Counter(keys).items()
    everything = Counter(seen(row, groups) for part in parts for row in part)
    assert sorted(result, key=repr) == sorted(everything.items(), key=repr)


@given(ch=choices)
def test_sort(ch: Choices) -> None:
    facts, given_, parts = draw_input(ch, ch.pick(("serial", "range", "range", "hash")), kept=ch.pick((None, True)))
    # Only the first sort keys of the order are certain to hold, so half of the requirements are on those.
    sorts = takewhile(is_sorted, given_.local) if ch.flag() else filter(is_sorted, given_.local)
    by = tuple(sorts) or (draw_sorted(ch, A),)
    assume(any(satisfies(given_, alternative, facts) for alternative in operator_requirements.sort(by)))
    assert broken_local([row for part in parts for row in part], by) is None


@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.name)
@given(ch=choices)
def test_broadcast_join(kind: JoinKind, ch: Choices) -> None:
    left, right = draw_rows(ch, NONE, LEFT, 5), draw_rows(ch, NONE, RIGHT, 5)
    a, x = ch.pick(LEFT), ch.pick(RIGHT)
    loose = [[], []]
    for alternative in operator_requirements.nested_loop_join(kind):
        if not alternative.name.startswith("broadcast"):
            continue
        copied_left = isinstance(alternative.children[0].partitioning, Broadcast)
        for row in right if copied_left else left:
            loose[ch.below(2)].append(row)
        pairs = [(left, part) if copied_left else (part, right) for part in loose]
        found = [row for some, others in pairs for row in run_join(kind, some, others, lambda r, s: eq(r[a], s[x]))]
        assert multiset(found) == multiset(run_join(kind, left, right, lambda r, s: eq(r[a], s[x])))
        loose = [[], []]


def merge_runs(left, right, keys):
    """An inner merge join with two pointers, which relies only on the order."""

    def value(row, side):
        return tuple(row[k.key.columns[side]] for k in keys)

    def before(one, other) -> bool:
        for k, a, b in zip(keys, one, other, strict=True):
            if a == b:
                continue
            if a is None or b is None:
                return (a is None) == k.nulls_first
            return (a < b) != k.descending
        return False

    out, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        one, other = value(left[i], 0), value(right[j], 1)
        if one == other:
            ends_i, ends_j = i, j
            while ends_i < len(left) and value(left[ends_i], 0) == one:
                ends_i += 1
            while ends_j < len(right) and value(right[ends_j], 1) == one:
                ends_j += 1
            if None not in one:
                out += [{**r, **s} for r in left[i:ends_i] for s in right[j:ends_j]]
            i, j = ends_i, ends_j
        elif before(one, other):
            i += 1
        else:
            j += 1
    return out


@given(ch=choices)
def test_merge_join(ch: Choices) -> None:
    pairs = list(zip(ch.shuffle(LEFT)[: 1 + ch.below(2)], RIGHT, strict=False))
    keys = tuple(operator_requirements.MergeKey(JoinKey(pair, INT), ch.flag(), ch.flag()) for pair in pairs)
    sides = []
    for side, columns in enumerate((LEFT, RIGHT)):
        facts = draw_facts(ch, columns, 2)
        local = tuple(a for k in keys for a in (draw_sorted(ch, k.key.columns[side]),))
        if ch.flag(3) or side:
            local = operator_requirements.merge_join(JoinKind.INNER, keys)[0].children[side].local
        local = (*local, *draw_local(ch, columns, 1))
        layout = hashed([pairs[0][side]], 3) if ch.flag() else Serial()
        rows = draw_rows(ch, facts, columns)
        parts = place(rows, layout) if isinstance(layout, Partitioned) else [rows]
        sides.append((Delivered(layout, local), facts, [arrange(ch, part, local) for part in parts], rows))
    (one, left_facts, left, all_left), (other, right_facts, right, all_right) = sides
    tried = 0
    for alternative in operator_requirements.merge_join(JoinKind.INNER, keys)[:2]:
        if not isinstance(match(one, alternative.children[0], left_facts), Proof):
            continue
        if not isinstance(match(other, alternative.children[1], right_facts), Proof):
            continue
        if alternative.joint is not None and not isinstance(
            match_joint([(one, left_facts), (other, right_facts)], alternative.joint), Proof
        ):
            continue
        found = [row for some, others in zip(left, right, strict=True) for row in merge_runs(some, others, keys)]
        whole = run_join(JoinKind.INNER, all_left, all_right, lambda r, s: all(eq(r[a], s[x]) for a, x in pairs))
        assert multiset(found) == multiset(whole)
        tried += 1
    assume(tried)


def test_table_6_entry_by_entry() -> None:
    """The forms of each operator, serial and partitioned."""
    any_row = (Required(SinglePartition()),), (Required(AnyDistribution(parallel=True)),)
    assert tuple(a.children for a in operator_requirements.row_by_row()) == any_row
    assert [a.children[0] for a in operator_requirements.sort([asc(A), desc(B)])] == [
        Required(SinglePartition(), (asc(A), desc(B))),
        Required(RangeOrdered((asc(A), desc(B)), parallel=True), (asc(A), desc(B))),
    ]
    on = frozenset((A, B))
    assert [a.children[0] for a in operator_requirements.hash_aggregate(on)] == [
        Required(SinglePartition()),
        Required(Clustered(on, parallel=True)),
    ]
    assert [a.children[0] for a in operator_requirements.stream_aggregate(on)] == [
        Required(SinglePartition(), (Grouped(on),)),
        Required(Clustered(on, parallel=True), (Grouped(on),)),
    ]
    assert [a.name for a in operator_requirements.hash_aggregate([])] == ["serial"]
    key = JoinKey((A, C), INT)
    forms = [a.name for a in operator_requirements.hash_join(JoinKind.INNER, [key])]
    copied = ["broadcast left", "broadcast right", "targeted broadcast left", "targeted broadcast right"]
    assert forms == ["serial", "pair-wise", *copied]
    assert [a.name for a in operator_requirements.nested_loop_join(JoinKind.FULL)] == ["serial"]
    left, right = ([a.name for a in operator_requirements.hash_join(k, [key])] for k in (JoinKind.LEFT, JoinKind.RIGHT))
    assert left == ["serial", "pair-wise", *copied[1::2]]
    assert right == ["serial", "pair-wise", *copied[::2]]
    merge = operator_requirements.merge_join(
        JoinKind.INNER, [operator_requirements.MergeKey(key, descending=True, nulls_first=False)]
    )
    assert [a.children[1].local for a in merge] == [(desc(C),)] * 4


def test_no_merge_join_on_columns_that_are_sorted_differently_from_the_comparison() -> None:
    text = Column(9, "s", pa.string())
    odd = operator_requirements.MergeKey(JoinKey((A, text), INT))
    assert operator_requirements.merge_join(JoinKind.INNER, [odd]) == ()
    narrow = Column(9, "i", pa.int32())
    assert operator_requirements.merge_join(JoinKind.INNER, [operator_requirements.MergeKey(JoinKey((A, narrow), INT))])


def test_a_requirement_is_a_range_of_layouts() -> None:
    """Pmin ≤ X ≤ Pmax, in the order that dependencies give."""
    wish = Clustered(frozenset((A, B, C)), minimum=frozenset((A,)))

    def answer(layout, facts=NONE):
        return match(Delivered(layout), Required(wish), facts)

    assert isinstance(answer(hashed([A], 4)), Proof)
    assert isinstance(answer(hashed([B, A], 4)), Proof)
    assert isinstance(answer(hashed([B], 4)), Unmet), "coarser than Pmin"
    assert isinstance(answer(hashed([A, D], 4)), Unmet), "not within Pmax"
    assert isinstance(answer(hashed([A, D], 4), Dependencies.of([depends([B], [D])])), Proof)
    assert isinstance(answer(hashed([B], 4), Dependencies.of([depends([B], [A])])), Proof)
    assert isinstance(answer(Serial()), Unmet)


def test_one_partition_is_enough_unless_parallelism_is_required() -> None:
    assert isinstance(match(Delivered(Serial()), Required(Clustered(frozenset((A,)))), NONE), Proof)
    assert isinstance(match(Delivered(Serial()), Required(Clustered(frozenset((A,)), parallel=True)), NONE), Unmet)
    assert isinstance(match(Delivered(hashed([A], 1)), Required(SinglePartition()), NONE), Proof)
    assert isinstance(match(Delivered(hashed([A], 2)), Required(SinglePartition()), NONE), Unmet)
    assert isinstance(match(Delivered(UnknownPartitioning(2)), Required(AnyDistribution(parallel=True)), NONE), Proof)
    assert isinstance(match(Delivered(Replicated()), Required(AnyDistribution()), NONE), Unmet)
    assert isinstance(match(Delivered(Replicated()), Required(Broadcast()), NONE), Proof)


def test_a_required_function() -> None:
    wish = Required(Exactly(hashed([A], 8)))
    assert isinstance(match(Delivered(hashed([A], 8)), wish, NONE), Proof)
    assert isinstance(match(Delivered(hashed([B], 8)), wish, Dependencies.of(classes=equality(A, B))), Proof)
    both_ways = Dependencies.of([depends([A], [B]), depends([B], [A])])
    assert isinstance(match(Delivered(hashed([B], 8)), wish, both_ways), Unmet)
    assert isinstance(match(Delivered(hashed([A], 4)), wish, NONE), Unmet)


def test_rows_with_misplaced_nulls_are_clustered_for_a_join_and_not_for_a_group_by() -> None:
    stray = Delivered(Partitioned(HashFunction((INT,), 4), (A,), nulls_anywhere=True))
    group = Required(Clustered(frozenset((A, B))))
    join = Required(Clustered(frozenset((A, B)), nulls_meet=False))
    assert isinstance(match(stray, group, NONE), Unmet)
    assert isinstance(match(stray, join, NONE), Proof)
    assert isinstance(match(stray, group, Dependencies.of(never_null=[A])), Proof)
    # b determines a, but b = 1 may mean that a is NULL, and those rows may be in any partition.
    only_b = Required(Clustered(frozenset((B,)), nulls_meet=False))
    assert isinstance(match(stray, only_b, Dependencies.of([depends([B], [A])])), Unmet)


def test_a_range_hashed_after_a_cast_is_not_in_the_columns_order() -> None:
    cast = Partitioned(RangeFunction((RangeKey(pa.string()),), (("5",),)), (A,))
    assert isinstance(match(Delivered(cast), Required(RangeOrdered((asc(A),))), NONE), Unmet)
    assert isinstance(match(Delivered(cast), Required(Clustered(frozenset((A,)))), NONE), Proof)
    own = ranged([asc(A)], [(5,)])
    assert isinstance(match(Delivered(own), Required(RangeOrdered((asc(A), desc(B)))), NONE), Proof)
