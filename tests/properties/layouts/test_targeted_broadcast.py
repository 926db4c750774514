"""Targeted broadcasts: a row is copied to every partition that can hold a match. Where two inputs are proven to be aligned,
a join partition by partition finds the matches of a join of all rows, each once."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import assume, given

from tests.support.property_joins import eq, multiset, run_join
from tests.support.property_rows import (
    VALUES,
    Choices,
    choices,
    draw_boundaries,
    draw_facts,
    draw_rows,
    draw_sorted,
    place,
)
from tests.support.property_semantics import broken_global, broken_prefix_layout
from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    AnyDistribution,
    Broadcast,
    BroadcastAligned,
    BroadcastTo,
    Clustered,
    Delivered,
    Dependencies,
    Exactly,
    ExactlyPrefix,
    ExchangeError,
    FullMerge,
    Grouped,
    InitialPartitioning,
    JoinKey,
    JoinKind,
    Ordered,
    Partitioned,
    PrefixPartitioned,
    Proof,
    RandomMerge,
    RangeFunction,
    Repartitioning,
    Replicated,
    Required,
    Rule,
    SampledBoundaries,
    Serial,
    SinglePartition,
    Step,
    TargetedBroadcast,
    Unaligned,
    UnknownPartitioning,
    Unmet,
    asc,
    check,
    depends,
    desc,
    equality,
    exchange,
    formula,
    match,
    match_global,
    match_joint,
    partitions_of,
    ranged,
)
from unshuffle.properties.layouts.propagate import through_project
from unshuffle.properties.matching import operator_requirements

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
A, B, C = (Column(i, n, LONG) for i, n in ((1, "a"), (2, "b"), (3, "c")))
X, Y, Z = (Column(i, n, LONG) for i, n in ((11, "x"), (12, "y"), (13, "z")))
NONE = Dependencies()
RANGES = ranged([asc(A), asc(B)], [(1, 2), (1, 4), (3,), (4, 0)])
LONGER = ranged([asc(A), asc(B), asc(C)], [(1, 2, 3)])


def targeted(layout: Partitioned, *columns: Column) -> TargetedBroadcast:
    assert isinstance(layout.function, RangeFunction)
    return TargetedBroadcast(layout.function, columns)


def copied(rows, claim: TargetedBroadcast):
    """Copies of the rows in every partition that contains a point with their values, found by trying points instead of
    `reach`."""
    parts: list[list[dict]] = [[] for _ in range(claim.function.partitions)]
    rest = claim.function.arity - len(claim.columns)
    for row in rows:
        values = tuple(row[c] for c in claim.columns)
        known = {claim.function.number((*values, *more)) for more in product((*VALUES, -1, 3), repeat=rest)}
        for at in range(min(known), max(known) + 1):
            parts[at].append(row)
    return parts


def draw_ranges(ch: Choices, columns) -> Partitioned:
    keys = [draw_sorted(ch, column) for column in ch.shuffle(columns)[: 2 + ch.below(2)]]
    return ranged(keys, draw_boundaries(ch, keys))


# --- semantics


@given(ch=choices)
def test_reach_is_every_partition_that_has_a_point_with_these_values(ch: Choices) -> None:
    layout = draw_ranges(ch, (A, B, C))
    function = layout.function
    assert isinstance(function, RangeFunction)
    count = 1 + ch.below(function.arity - 1) if function.arity > 1 else 1
    values = tuple(ch.pick((*VALUES, -1, 3)) for _ in range(count))
    reach = function.reach(values)
    points = product((*VALUES, -1, 3), repeat=function.arity - count)
    assert {function.number((*values, *rest)) for rest in points} <= set(reach)
    for number, (low, high) in enumerate(zip([None, *function.boundaries], [*function.boundaries, None], strict=True)):
        begins = low is None or function.compare(low[:count], values) <= 0
        ends = high is not None and function.compare(high, values) <= 0
        assert (number in reach) == (begins and not ends)


def test_reach_of_values_that_boundaries_fall_between() -> None:
    function = RANGES.function
    assert isinstance(function, RangeFunction)
    assert [function.reach((v,)) for v in (None, 0, 1, 2, 3, 4, 5)] == [
        range(1),
        range(1),
        range(3),
        range(2, 3),
        range(3, 4),
        range(3, 5),
        range(4, 5),
    ]
    with pytest.raises(ValueError, match="only when the plan runs"):
        RangeFunction(function.keys, SampledBoundaries("s", 4)).reach((1,))


@given(ch=choices)
def test_an_exchange_copies_rows_to_their_reach(ch: Choices) -> None:
    layout = draw_ranges(ch, (A, B, C))
    assume(layout.function.arity > 1)
    claim = targeted(layout, *ch.shuffle((X, Y, Z))[: 1 + ch.below(layout.function.arity - 1)])
    rows = draw_rows(ch, NONE, (X, Y, Z))
    how = InitialPartitioning(claim) if ch.flag() else Repartitioning(claim, RandomMerge())
    given_ = Delivered(Serial() if isinstance(how, InitialPartitioning) else UnknownPartitioning(2))
    assert exchange(how, given_, NONE) == Delivered(claim)
    reach = [list(claim.function.reach([row[c] for c in claim.columns])) for row in rows]
    parts = [[row for row, at in zip(rows, reach, strict=True) if i in at] for i in range(claim.function.partitions)]
    assert broken_global(parts, claim) is None
    damaged = [list(part) for part in parts]
    at = ch.pick([i for i, part in enumerate(parts) if part])
    if ch.flag():
        assume(len(reach[rows.index(damaged[at][0])]) > 1)
        damaged[at].pop(0)  # one partition has one copy fewer than the others
        assert broken_global(damaged, claim) is not None
    else:
        outside = [i for i in range(len(parts)) if i not in reach[0]]
        assume(outside)
        damaged[ch.pick(outside)].append(rows[0])
        assert broken_global(damaged, claim) is not None


def test_invalid_targeted_broadcasts() -> None:
    with pytest.raises(ValueError, match="not on all"):
        targeted(RANGES, X, Y)
    with pytest.raises(ValueError, match="not on all"):
        targeted(RANGES)
    with pytest.raises(ValueError, match="known boundaries"):
        targeted(ranged([asc(A), asc(B)], SampledBoundaries("s", 4)), X)


# --- implications


def test_it_implies_nothing_else_and_nothing_else_implies_it() -> None:
    claim = targeted(RANGES, X)
    key = Dependencies.of(keys=[frozenset((X,))])
    one_row = Dependencies.of(keys=[frozenset()])
    for facts in (NONE, key, one_row):
        for other in (Serial(), UnknownPartitioning(), Replicated(), Grouped(frozenset((X,))), Ordered((asc(X),))):
            assert match_global(claim, other, facts) == frozenset()
            assert match_global(other, claim, facts) == frozenset()
        for wish in (
            AnyDistribution(),
            AnyDistribution(parallel=True),
            SinglePartition(),
            Broadcast(),
            Clustered(frozenset((X, Y))),
        ):
            assert isinstance(match(Delivered(claim), Required(wish), facts), Unmet)
        for given_ in (Serial(), UnknownPartitioning(5), Replicated(), RANGES):
            assert isinstance(match(Delivered(given_), Required(BroadcastTo(claim)), facts), Unmet)
            assert isinstance(match(Delivered(given_), Required(BroadcastTo()), facts), Unmet)
        for rule in Rule:
            assert not check(Step(rule, claim, Grouped(frozenset((X,)))), facts)
            assert not check(Step(rule, claim, UnknownPartitioning()), facts)


def test_only_equal_columns_and_the_same_function_satisfy_it() -> None:
    wish = Required(BroadcastTo(targeted(RANGES, X)))
    assert isinstance(match(Delivered(targeted(RANGES, X)), wish, NONE), Proof)
    assert isinstance(match(Delivered(targeted(RANGES, Y)), wish, NONE), Unmet)
    assert isinstance(match(Delivered(targeted(RANGES, Y)), wish, Dependencies.of(classes=equality(X, Y))), Proof)
    both_ways = Dependencies.of([depends([X], [Y]), depends([Y], [X])])
    assert isinstance(match(Delivered(targeted(RANGES, Y)), wish, both_ways), Unmet)
    other = ranged([asc(A), asc(B)], [(1, 2), (1, 5), (3,), (4, 0)])
    assert isinstance(match(Delivered(targeted(other, X)), wish, NONE), Unmet)
    assert isinstance(match(Delivered(targeted(LONGER, X)), Required(BroadcastTo(targeted(LONGER, X, Y))), NONE), Unmet)


def test_exchanges_and_projections_of_a_targeted_broadcast() -> None:
    claim = Delivered(targeted(RANGES, X))
    with pytest.raises(ExchangeError):
        exchange(FullMerge(RandomMerge()), claim, NONE)
    with pytest.raises(ExchangeError):
        exchange(Repartitioning(RANGES, RandomMerge()), claim, NONE)
    assert through_project(claim, NONE, (), {Y: X}) == Delivered(targeted(RANGES, Y))
    with pytest.raises(ValueError, match="cannot be distinguished"):
        through_project(claim, NONE, (Y,))
    assert claim.renamed({X: Z}.__getitem__) == Delivered(targeted(RANGES, Z))
    assert partitions_of(claim.partitioning) == 5


# --- ranges of which only the first keys are known


@given(ch=choices)
def test_ranges_without_their_last_keys(ch: Choices) -> None:
    facts = draw_facts(ch, (A, B, C), 2)
    layout = draw_ranges(ch, (A, B, C))
    apart = ch.flag(4)
    kept = ch.subset((A, B, C), least=1)
    left = through_project(Delivered(Partitioned(layout.function, layout.columns, apart)), facts, kept).partitioning
    assume(isinstance(left, PrefixPartitioned))
    assert isinstance(left, PrefixPartitioned)
    assert not apart
    assert broken_prefix_layout(place(draw_rows(ch, facts, (A, B, C)), layout), left) is None
    further = through_project(Delivered(left), facts, kept[:1]).partitioning
    if isinstance(further, PrefixPartitioned):
        assert broken_prefix_layout(place(draw_rows(ch, facts, (A, B, C)), layout), further) is None
    else:
        assert further == UnknownPartitioning(layout.function.partitions)


def test_it_keeps_the_keys_before_the_first_dropped_one() -> None:
    def left(*kept: Column, apart: bool = False) -> object:
        given_ = Delivered(Partitioned(LONGER.function, LONGER.columns, apart))
        return through_project(given_, NONE, kept).partitioning

    assert left(A, C) == PrefixPartitioned(LONGER.function, (A,))
    assert left(A, B) == PrefixPartitioned(LONGER.function, (A, B))
    assert left(B, C) == UnknownPartitioning(2)
    assert left(A, B, apart=True) == UnknownPartitioning(2), "a row with a NULL c may be anywhere"
    assert left(A, B, C) == LONGER


def test_it_clusters_nothing_and_satisfies_requirements_on_its_keys() -> None:
    within = PrefixPartitioned(LONGER.function, (A, B))
    assert formula(within, NONE) == UnknownPartitioning(2)
    for wish, is_met in (
        (AnyDistribution(parallel=True), True),
        (Clustered(frozenset((A, B))), False),
        (Exactly(LONGER), False),
        (ExactlyPrefix(within), True),
        (ExactlyPrefix(PrefixPartitioned(LONGER.function, (A,))), True),
        (ExactlyPrefix(PrefixPartitioned(LONGER.function, (B,))), False),
        (ExactlyPrefix(PrefixPartitioned(RANGES.function, (A,))), False),
    ):
        assert isinstance(match(Delivered(within), Required(wish), NONE), Proof) == is_met, wish
    assert isinstance(match(Delivered(within), Required(Exactly(LONGER)), NONE), Unmet)
    short = ExactlyPrefix(PrefixPartitioned(LONGER.function, (A,)))
    stray = Partitioned(LONGER.function, LONGER.columns, nulls_anywhere=True)
    assert isinstance(match(Delivered(LONGER), Required(short), NONE), Proof)
    assert isinstance(match(Delivered(stray), Required(short), NONE), Unmet)
    assert isinstance(
        match(Delivered(PrefixPartitioned(LONGER.function, (A,))), Required(ExactlyPrefix(within)), NONE), Unmet
    )


# --- joins


def key(a: Column, x: Column, at=LONG, null_safe: bool = False) -> JoinKey:
    return JoinKey((a, x), at, null_safe)


def joint(left, right, *keys, by=1, left_facts=NONE, right_facts=NONE):
    return match_joint([(Delivered(left), left_facts), (Delivered(right), right_facts)], BroadcastAligned(keys, by))


@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.name)
@given(ch=choices)
def test_a_proven_join_finds_every_match_once(kind: JoinKind, ch: Choices) -> None:
    """Keys are often those of the layout and sometimes others, and NULL keys are sometimes in any partition. Whatever
    is proven of the inputs must be enough."""
    left_columns = tuple(Column(i, n, ch.pick([INT, LONG])) for i, n in ((1, "a"), (2, "b"), (3, "c")))
    right_columns = tuple(Column(i, n, ch.pick([INT, LONG])) for i, n in ((11, "x"), (12, "y"), (13, "z")))
    sides = (left_columns, right_columns)
    facts = [draw_facts(ch, columns, 2) for columns in sides]
    rows = [draw_rows(ch, known, columns, 6) for known, columns in zip(facts, sides, strict=True)]
    ways = {
        a.joint.broadcast: a
        for a in operator_requirements.hash_join(kind, [key(A, X)])
        if isinstance(a.joint, BroadcastAligned)
    }
    if not ways:
        assert kind is JoinKind.FULL
        return
    by = ch.pick(sorted(ways))
    layout = draw_ranges(ch, sides[1 - by])
    assume(layout.function.arity > 1)
    apart = ch.flag(3)
    layout = Partitioned(layout.function, layout.columns, apart)
    count = 1 + ch.below(layout.function.arity - 1)
    on = ch.shuffle(sides[by])[:count]
    claim = targeted(layout, *on)
    pairs = [(stored, mine) if by == 1 else (mine, stored) for stored, mine in zip(layout.columns, on, strict=False)]
    if ch.flag(3):
        pairs[ch.below(len(pairs))] = (ch.pick(left_columns), ch.pick(right_columns))
    null_safe = ch.flag(3)
    keys = tuple(key(a, x, INT if a.type == x.type == INT else LONG, null_safe) for a, x in pairs)
    stored: Partitioned | PrefixPartitioned = layout
    if ch.flag(3) and not apart:
        stored = PrefixPartitioned(layout.function, layout.columns[: 1 + ch.below(layout.function.arity - 1)])
    given_ = (stored, claim) if by == 1 else (claim, stored)
    found = match_joint([(Delivered(g), f) for g, f in zip(given_, facts, strict=True)], BroadcastAligned(keys, by))
    assume(isinstance(found, Proof))

    def holds(r, s):
        return all((r[a] == s[x]) if null_safe else eq(r[a], s[x]) for a, x in pairs)

    lying = place(rows[1 - by], layout)
    if apart:
        strays = [row for part in lying for row in part if None in [row[c] for c in layout.columns]]
        lying = [[row for row in part if row not in strays] for part in lying]
        for row in strays:
            ch.pick(lying).append(row)
    parts = zip(lying, copied(rows[by], claim), strict=True)
    pairs_of_parts = [(some, copies) if by == 1 else (copies, some) for some, copies in parts]
    joined = [row for one, other in pairs_of_parts for row in run_join(kind, one, other, holds)]
    assert multiset(joined) == multiset(run_join(kind, rows[0], rows[1], holds))


def test_which_input_may_be_copied() -> None:
    """Not an input whose unmatched rows the join preserves: every copy would be preserved."""
    sides = {
        kind: [a.name for a in operator_requirements.hash_join(kind, [key(A, X)]) if a.name.startswith("targeted")]
        for kind in JoinKind
    }
    both = ["targeted broadcast left", "targeted broadcast right"]
    assert sides == {
        JoinKind.INNER: both,
        JoinKind.LEFT: both[1:],
        JoinKind.RIGHT: both[:1],
        JoinKind.FULL: [],
        JoinKind.SEMI: both[1:],
        JoinKind.ANTI: both[1:],
    }


def test_a_prefix_of_the_range_keys_is_enough() -> None:
    found = joint(RANGES, targeted(RANGES, X), key(A, X))
    assert isinstance(found, Proof)
    assert "argument 1: a#1, x#11 by a#1 = x#11" in found.notes
    assert isinstance(joint(targeted(RANGES, X), RANGES, key(X, A), by=0), Proof)
    assert isinstance(joint(RANGES, targeted(RANGES, X), key(A, X, null_safe=True)), Proof)
    equal = Dependencies.of(classes=equality(A, C))
    assert isinstance(joint(RANGES, targeted(RANGES, X), key(C, X), left_facts=equal), Proof)


@pytest.mark.parametrize(
    ("left", "right", "on", "why"),
    [
        (RANGES, targeted(RANGES, X), key(B, X), "no key equates"),
        (RANGES, targeted(RANGES, Y), key(A, X), "no key equates"),
        (RANGES, targeted(ranged([asc(A), asc(B)], [(1, 2)]), X), key(A, X), "two functions"),
        (RANGES, targeted(ranged([desc(A), asc(B)], [(3, 2), (1, 4)]), X), key(A, X), "two functions"),
        (ranged([asc(A)], [(1,)]), targeted(RANGES, X), key(A, X), "two functions"),
        (UnknownPartitioning(5), targeted(RANGES, X), key(A, X), "not a function of columns"),
        (PrefixPartitioned(LONGER.function, (A,)), targeted(LONGER, X, Y), key(A, X), "are known only by"),
        (RANGES, Replicated(), key(A, X), "not a targeted broadcast"),
        (RANGES, ranged([asc(X), asc(Y)], RANGES.function.boundaries), key(A, X), "not a targeted broadcast"),
        (Partitioned(RANGES.function, (A, B), nulls_anywhere=True), targeted(RANGES, X), key(A, X), "may be anywhere"),
    ],
)
def test_joins_that_are_not_aligned(left, right, on: JoinKey, why: str) -> None:
    found = joint(left, right, on)
    assert isinstance(found, Unaligned)
    assert why in found.why


def test_misplaced_nulls_matter_in_columns_that_are_not_join_keys() -> None:
    """(1, NULL) matches x = 1 and may be in the last partition, where no copy of it is."""
    stray = Partitioned(RANGES.function, (A, B), nulls_anywhere=True)
    for solid, is_proven in (([A], False), ([B], False), ([A, B], True)):
        facts = Dependencies.of(never_null=solid)
        found = joint(stray, targeted(RANGES, X), key(A, X), left_facts=facts)
        assert isinstance(found, Proof) == is_proven


def test_join_keys_that_compare_differently_from_the_ranges() -> None:
    s, t, u = (Column(i, n, TEXT) for i, n in ((1, "s"), (2, "t"), (11, "u")))
    texts = ranged([asc(s), asc(t)], [("10", "a"), ("9", "b")])
    assert isinstance(joint(texts, targeted(texts, u), key(s, u, TEXT)), Proof)
    assert isinstance(joint(texts, targeted(texts, u), key(s, u, LONG)), Unaligned), "'9' = 9.0, and '10' < '9'"
    assert isinstance(joint(texts, targeted(texts, X), key(s, X, LONG)), Unaligned)
    short = Column(11, "x", INT)
    assert isinstance(joint(RANGES, targeted(RANGES, short), key(A, short, LONG)), Proof)
