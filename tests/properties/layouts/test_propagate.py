"""Propagation of layouts and orders through projections, aggregates and joins, on rows."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from tests.support.property_inputs import KINDS, draw_input
from tests.support.property_joins import LEFT, RIGHT, eq, run_join
from tests.support.property_rows import (
    COLUMNS,
    INT,
    Choices,
    arrange,
    choices,
    draw_local,
    draw_rows,
    hash_leaf,
    place,
)
from tests.support.property_semantics import broken_global, broken_layout, broken_local, seen
from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    Clustered,
    Delivered,
    Dependencies,
    JoinKind,
    Partitioned,
    Proof,
    Required,
    UnknownFunction,
    UnknownPartitioning,
    asc,
    depends,
    formula,
    grouped,
    hashed,
    match,
)
from unshuffle.properties.layouts.propagate import (
    after_pairwise_join,
    order_after_join,
    through_aggregate,
    through_project,
)

A, B, C, D = COLUMNS
NONE = Dependencies()
LEAF = hash_leaf()


def assert_holds(parts, delivered: Delivered) -> None:
    layout = delivered.partitioning
    assert broken_global(parts, formula(layout, NONE)) is None, delivered
    if isinstance(layout, Partitioned) and not isinstance(layout.function, UnknownFunction):
        assert broken_layout(parts, layout, LEAF) is None, delivered
    for part in parts:
        assert broken_local(part, delivered.local) is None, delivered


@given(ch=choices)
def test_project(ch: Choices) -> None:
    facts, given_, parts = draw_input(ch, ch.pick(KINDS))
    kept = ch.subset(COLUMNS)
    copy = Column(20, "copy", INT)
    source = ch.pick(COLUMNS)
    out = [[{**{c: r[c] for c in kept}, copy: r[source]} for r in part] for part in parts]
    assert_holds(out, through_project(given_, facts, kept, {copy: source}))


@pytest.mark.parametrize("streaming", [False, True])
@given(ch=choices)
def test_aggregate(streaming: bool, ch: Choices) -> None:
    facts, given_, parts = draw_input(ch, ch.pick(KINDS))
    groups = sorted(ch.subset(COLUMNS, least=1), key=lambda c: c.id)
    wish = Required(Clustered(frozenset(groups)), (grouped(*groups),) if streaming else ())
    assume(isinstance(match(given_, wish, facts), Proof))
    out = []
    for part in parts:
        first = {seen(r, groups): {c: r[c] for c in groups} for r in reversed(part)}
        order = list(dict.fromkeys(seen(r, groups) for r in part))
        out.append([first[k] for k in (order if streaming else ch.shuffle(order))])
    assert_holds(out, through_aggregate(given_, facts, groups, streaming))


@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.name)
@given(ch=choices)
def test_pairwise_join(kind: JoinKind, ch: Choices) -> None:
    left, right = draw_rows(ch, NONE, LEFT, 6), draw_rows(ch, NONE, RIGHT, 6)
    a, x = ch.pick(LEFT), ch.pick(RIGHT)
    one, other = hashed([a], 3), hashed([x], 3)
    null_safe = ch.flag(3)

    def holds(r, s):
        return r[a] == s[x] if null_safe else eq(r[a], s[x])

    parts = zip(place(left, one), place(right, other), strict=True)
    out = [run_join(kind, some, others, holds) for some, others in parts]
    for layout in after_pairwise_join(kind, one, other):
        assert_holds(out, Delivered(layout))
    if kind is JoinKind.FULL:
        assert all(layout.nulls_anywhere for layout in after_pairwise_join(kind, one, other))


@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.name)
@given(ch=choices)
def test_streamed_order(kind: JoinKind, ch: Choices) -> None:
    local = draw_local(ch, LEFT)
    left = arrange(ch, draw_rows(ch, NONE, LEFT, 6), local)
    right = draw_rows(ch, NONE, RIGHT, 6)
    a, x = ch.pick(LEFT), ch.pick(RIGHT)
    out = []
    for r in left:
        mates = [s for s in right if eq(r[a], s[x])]
        out += run_join(kind, [r], mates, lambda r, s: True) if mates or kind is not JoinKind.RIGHT else []
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        lonely = [s for s in right if not any(eq(r[a], s[x]) for r in left)]
        out += [{**dict.fromkeys(LEFT), **s} for s in lonely]
    assert broken_local(out, order_after_join(kind, local, streamed_left=True)) is None


def test_a_dropped_column_leaves_a_function_of_what_determines_it() -> None:
    facts = Dependencies.of([depends([A], [B])])
    result = through_project(Delivered(hashed([B], 8), (asc(B), asc(A))), facts, kept=(A, C))
    assert result.partitioning == Partitioned(UnknownFunction(1, 8), (A,))
    assert result.local == ()
    assert through_project(Delivered(hashed([D], 8)), facts, kept=(A,)).partitioning == UnknownPartitioning(8)
