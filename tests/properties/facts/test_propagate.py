"""Propagation of facts: each operator runs on rows, and no propagated fact may be violated."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from tests.support.property_joins import LEFT, RIGHT, eq, run_join
from tests.support.property_rows import INT, VALUES, Choices, choices, draw_facts, draw_rows, repaired, same
from tests.support.property_semantics import broken_facts
from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    ComputedColumn,
    ConstantValue,
    Dependencies,
    EqualColumns,
    JoinKind,
    Predicate,
    Side,
    depends,
    group_by,
    join,
    project,
    select,
    union,
)
from unshuffle.properties.facts.cover import restrict


def draw_known(ch: Choices, columns, most: int = 3) -> Dependencies:
    """Facts, some of them lax, so that stacked outer joins are covered too."""
    facts = draw_facts(ch, columns, most)
    if ch.flag(3):
        return Dependencies.of((), facts.classes, facts.keys, facts.never_null, (*facts.functional,))
    return facts


def draw_pairs(ch: Choices):
    return tuple(zip(ch.shuffle(LEFT)[: 1 + ch.below(2)], ch.shuffle(RIGHT), strict=False))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.name)
@given(ch=choices)
def test_join(kind: JoinKind, exact: bool, ch: Choices) -> None:
    one, other = draw_known(ch, LEFT), draw_known(ch, RIGHT)
    left, right = draw_rows(ch, one, LEFT, 5), draw_rows(ch, other, RIGHT, 5)
    pairs = draw_pairs(ch)
    null_safe = ch.flag(4)
    if exact:
        extra = {}
    else:
        extra = {(i, j): ch.flag(3) for i in range(len(left)) for j in range(len(right))}
    places = {id(r): i for i, r in enumerate(left)} | {id(s): j for j, s in enumerate(right)}

    def holds(r, s):
        meets = all((r[a] == s[b]) if null_safe else eq(r[a], s[b]) for a, b in pairs)
        return meets and not extra.get((places[id(r)], places[id(s)]), False)

    rows = run_join(kind, left, right, holds)
    on = Predicate(null_safe=pairs) if null_safe else Predicate(equal=pairs)
    facts = join(kind, Side(frozenset(LEFT), one), Side(frozenset(RIGHT), other), on, exact)
    assert broken_facts(rows, facts) is None


@given(ch=choices)
def test_filter(ch: Choices) -> None:
    facts = draw_known(ch, LEFT)
    rows = draw_rows(ch, facts, LEFT)
    a, b, c = ch.shuffle(LEFT)
    predicate = ch.pick(
        [
            Predicate(equal=((a, b),)),
            Predicate(null_safe=((a, b),)),
            Predicate(constants=((a, 1),), not_null=(c,)),
            Predicate(nulls=(a,)),
        ]
    )
    tests = {
        0: lambda r: eq(r[a], r[b]),
        1: lambda r: r[a] == r[b],
        2: lambda r: r[a] == 1 and r[c] is not None,
        3: lambda r: r[a] is None,
    }
    index = 0 if predicate.equal else 1 if predicate.null_safe else 2 if predicate.constants else 3
    assert broken_facts([r for r in rows if tests[index](r)], select(facts, predicate)) is None


@given(ch=choices)
def test_project(ch: Choices) -> None:
    facts = draw_known(ch, LEFT, 4)
    rows = draw_rows(ch, facts, LEFT)
    kept = ch.subset(LEFT)
    copy, sum_, one = (Column(20 + i, n, INT) for i, n in enumerate(("copy", "sum", "one")))
    source, left, right = ch.pick(LEFT), ch.pick(LEFT), ch.pick(LEFT)
    table = {(x, y): ch.pick(VALUES) for x in VALUES for y in VALUES}
    out = [{**{c: r[c] for c in kept}, copy: r[source], sum_: table[r[left], r[right]], one: 7} for r in rows]
    computed = (ComputedColumn(sum_, frozenset((left, right))),)
    assert broken_facts(out, project(facts, kept, {copy: source}, computed, ((one, 7),))) is None


@given(ch=choices)
def test_group_by(ch: Choices) -> None:
    facts = draw_known(ch, LEFT)
    rows = draw_rows(ch, facts, LEFT)
    groups = ch.subset(LEFT)
    total = Column(20, "total", INT)
    found = {}
    for row in rows:
        found.setdefault(tuple(row[c] for c in groups), []).append(row)
    out = [{**dict(zip(groups, key, strict=True)), total: len(members)} for key, members in found.items()]
    assert broken_facts(out, group_by(facts, groups, (total,))) is None


@given(ch=choices)
def test_union(ch: Choices) -> None:
    one, other = draw_known(ch, LEFT, 4), draw_known(ch, RIGHT, 4)
    if ch.flag():
        tag = ch.below(3)
        one = Dependencies.of(
            one.functional, (*one.classes, EqualColumns(frozenset((LEFT[tag],)), ConstantValue(0))), one.keys
        )
        other = Dependencies.of(
            other.functional,
            (*other.classes, EqualColumns(frozenset((RIGHT[tag],)), ConstantValue(ch.pick([1, None])))),
            other.keys,
        )
    left, right = draw_rows(ch, one, LEFT), draw_rows(ch, other, RIGHT)
    outputs = tuple(Column(20 + i, "out", INT) for i in range(3))
    rows = [{o: r[c] for o, c in zip(outputs, LEFT, strict=True)} for r in left]
    rows += [{o: s[c] for o, c in zip(outputs, RIGHT, strict=True)} for s in right]
    assert broken_facts(rows, union(outputs, one, LEFT, other, RIGHT)) is None


@given(ch=choices)
def test_restriction_keeps_every_implied_dependency(ch: Choices) -> None:
    """Dropping a column keeps every implied dependency among the other columns."""
    columns = (*LEFT, *RIGHT[:2])
    facts = draw_facts(ch, columns, 5)
    kept = ch.subset(columns, least=2)
    after = restrict(facts, kept)
    for left in ([], *([c] for c in kept), kept[:2], kept[1:]):
        for right in kept:
            assert after.determines(left, (right,)) == facts.determines(left, (right,))
        assert after.unique(left) == facts.unique(left)


def test_a_null_extended_side_turns_dependencies_lax_unless_a_column_is_never_null() -> None:
    (a, *_), (x, y, z) = LEFT, RIGHT
    side = Side(frozenset(RIGHT), Dependencies.of([depends([x], [y])]))
    solid = Side(frozenset(RIGHT), Dependencies.of([depends([x], [y])], never_null=[x]))
    left = Side(frozenset(LEFT), Dependencies())
    on = Predicate(equal=((a, z),))
    weak = join(JoinKind.LEFT, left, side, on)
    assert not weak.determines((x,), (y,))
    assert depends([x], [y]) in weak.lax
    assert depends([z], [a]) in weak.lax
    assert join(JoinKind.LEFT, left, solid, on).determines((x,), (y,))
    assert not join(JoinKind.LEFT, left, solid, on).equal(a, z)
    # A condition that rejects NULL restores the dependency, and z ~> a with it.
    again = select(weak, Predicate(not_null=(x, z)))
    assert again.determines((x,), (y,))
    assert again.determines((z,), (a,))


def test_a_dependency_on_the_compared_column_survives_an_outer_join_but_not_a_full_one() -> None:
    """A stored row whose join column is NULL matches nothing. After a left join, every NULL there comes from the
    join."""
    (a, *_), (x, y, _) = LEFT, RIGHT
    side = Side(frozenset(RIGHT), Dependencies.of([depends([x], [y])]))
    left = Side(frozenset(LEFT), Dependencies())
    assert join(JoinKind.LEFT, left, side, Predicate(equal=((a, x),))).determines((x,), (y,))
    assert not join(JoinKind.LEFT, left, side, Predicate(null_safe=((a, x),))).determines((x,), (y,))
    assert not join(JoinKind.FULL, left, side, Predicate(equal=((a, x),))).determines((x,), (y,))
    swapped = join(JoinKind.RIGHT, side, left, Predicate(equal=((x, a),)))
    assert swapped.determines((x,), (y,))


def test_equality_under_a_lossy_cast_does_not_make_columns_equal() -> None:
    number, text = Column(1, "n", INT), Column(2, "s", pa.string())
    sides = Side(frozenset((number,)), Dependencies()), Side(frozenset((text,)), Dependencies())
    on = Predicate(equal=((number, text),))
    rows = [{number: 1, text: "1"}, {number: 1, text: "01"}]
    for kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT):
        facts = join(kind, *sides, on, exact=True)
        assert broken_facts(rows, facts) is None
        assert not facts.equal(number, text)
    unique_text = Side(frozenset((text,)), Dependencies.of(keys=[frozenset((text,))]))
    unique_number = Side(frozenset((number,)), Dependencies.of(keys=[frozenset((number,))]))
    for kind in (JoinKind.INNER, JoinKind.LEFT):
        assert broken_facts(rows, join(kind, unique_number, unique_text, on, exact=True)) is None


def test_repair_makes_rows_that_satisfy_the_facts() -> None:
    a, b, _ = LEFT
    facts = Dependencies.of([depends([a], [b])])
    rows = repaired([dict.fromkeys(LEFT, 0) | {b: 1}, dict.fromkeys(LEFT, 0)], facts)
    assert same(rows[0], rows[1], frozenset((b,)))


def test_the_number_of_keys_stays_small_when_many_tables_are_joined() -> None:
    facts, columns = Dependencies(), frozenset[Column]()
    for table in range(8):
        mine = [Column(100 * table + i, f"c{i}", INT) for i in range(1, 5)]
        side = Side(frozenset(mine), Dependencies.of(keys=[frozenset((c,)) for c in mine[:3]]))
        facts = join(JoinKind.INNER, Side(columns, facts), side, Predicate()) if columns else side.facts
        columns |= side.columns
    assert len(facts.keys) == 16
    assert all(len(key) == 8 for key in facts.keys)
