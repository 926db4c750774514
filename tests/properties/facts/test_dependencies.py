"""Closure, keys, covers and classes, against brute force."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given

from tests.support.property_rows import COLUMNS, Choices, choices, draw_facts, subsets
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties import (
    ConstantValue,
    Dependencies,
    EqualColumns,
    depends,
    equality,
    minimal_cover,
    of_table,
)
from unshuffle.properties.facts.cover import minimize_set
from unshuffle.properties.facts.equality import interchangeable

A, B, C, D = COLUMNS


def naive_closure(functional, start):
    found = set(start)
    while True:
        more = {c for d in functional if d.determinant <= found for c in d.dependent}
        if more <= found:
            return frozenset(found)
        found |= more


@given(ch=choices)
def test_closure_is_the_least_fixed_point(ch: Choices) -> None:
    facts = draw_facts(ch, most=5)
    plain = Dependencies.of(facts.functional)
    for start in subsets(COLUMNS):
        assert plain.closure(start) & (start | plain.mentioned) == naive_closure(plain.functional, start)


def test_the_five_sources_of_dependencies() -> None:
    """Section IV-A: trivial, key, column equality, constant, grouping columns."""
    assert Dependencies().determines((A, B), (A,))
    table = of_table(COLUMNS, keys=[frozenset((A,))])
    assert table.determines((A,), COLUMNS)
    assert table.unique((A, B))
    assert not table.unique((B,))
    joined = Dependencies.of(classes=equality(A, B))
    assert joined.determines((A,), (B,))
    assert joined.determines((B,), (A,))
    fixed = Dependencies.of(classes=[EqualColumns(frozenset((A,)), ConstantValue(3))])
    assert fixed.determines((), (A,))
    assert Dependencies.of([depends([], [B])]).determines((), (B,))


def test_a_dependency_is_not_a_key_because_rows_may_repeat() -> None:
    facts = Dependencies.of([depends([A], [B, C, D])])
    assert facts.determines((A,), COLUMNS)
    assert not facts.unique((A,))


def test_merged_classes_keep_their_constant_and_smallest_name() -> None:
    facts = Dependencies.of(classes=[*equality(D, C), *equality(B, C), EqualColumns(frozenset((D,)), ConstantValue(5))])
    assert facts.classes == (EqualColumns(frozenset((B, C, D)), ConstantValue(5)),)
    assert facts.representative(D) == B
    assert facts.constant(C) == ConstantValue(5)
    assert facts.never_null == {B, C, D}


def test_integers_of_two_widths_are_interchangeable_and_strings_with_numbers_are_not() -> None:
    assert interchangeable(pa.int32(), pa.int64())
    assert not interchangeable(pa.int64(), pa.string())
    assert not interchangeable(None, None)
    assert equality(A, Column(9, "s", pa.string())) == ()


def test_unique_does_not_apply_to_rows_with_nulls() -> None:
    facts = Dependencies.of(lax=[depends([A], [B, C, D])])
    assert not facts.determines((A,), (B,))
    assert Dependencies.of(lax=facts.lax, never_null=[A]).determines((A,), (B,))


@given(ch=choices)
def test_minimal_cover_is_equivalent_and_minimal(ch: Choices) -> None:
    functional = draw_facts(ch, most=5).functional
    cover = minimal_cover(functional)
    before, after = Dependencies.of(functional), Dependencies.of(cover)
    for left in subsets(COLUMNS):
        assert after.closure(left, COLUMNS) == before.closure(left, COLUMNS)
    single = [Dependency(d.determinant, frozenset((c,))) for d in cover for c in d.dependent]
    for each in single:
        others = Dependencies.of(d for d in single if d is not each)
        assert not others.determines(each.determinant, each.dependent)
        for column in each.determinant:
            assert not after.determines(each.determinant - {column}, each.dependent)


@given(ch=choices)
def test_a_minimized_set_determines_the_same_columns(ch: Choices) -> None:
    facts = draw_facts(ch, most=4)
    whole = frozenset(ch.subset(COLUMNS))
    small = minimize_set(facts, whole)
    assert small <= whole
    assert facts.determines(small, whole)


def test_facts_print_in_one_order() -> None:
    one = Dependencies.of([depends([B], [C]), depends([A], [B])], equality(C, D), [frozenset((A, B))], [A])
    two = Dependencies.of([depends([A], [B]), depends([B], [C])], equality(D, C), [frozenset((B, A))], [A])
    assert one == two
    assert str(one) == "a#1 -> b#2; b#2 -> c#3; c#3 = d#4; unique a#1, b#2; never NULL: a#1"
