"""Normal forms are equivalent, have fewer columns, and are stable."""

from __future__ import annotations

from hypothesis import given

from tests.support.property_formulas import draw_global
from tests.support.property_rows import COLUMNS, Choices, choices, draw_facts, draw_local, subsets
from unshuffle.properties import Dependencies, Proof, asc, depends, desc, equality, grouped, match_global, match_local
from unshuffle.properties.matching.normal_forms import normal_facts, normal_global, normal_local

A, B, C, D = COLUMNS


@given(ch=choices)
def test_a_local_property_and_its_normal_form_imply_each_other(ch: Choices) -> None:
    facts = draw_facts(ch)
    local = draw_local(ch)
    normal = normal_local(local, facts)
    assert isinstance(match_local(local, normal, facts), Proof)
    assert isinstance(match_local(normal, local, facts), Proof)
    assert normal_local(normal, facts) == normal


@given(ch=choices)
def test_a_global_property_and_its_normal_form_imply_each_other(ch: Choices) -> None:
    facts = draw_facts(ch)
    claim = draw_global(ch)
    normal = normal_global(claim, facts)
    assert isinstance(match_global(claim, normal, facts), Proof)
    assert isinstance(match_global(normal, claim, facts), Proof)
    assert normal_global(normal, facts) == normal


@given(ch=choices)
def test_normal_facts_imply_the_same_as_the_facts(ch: Choices) -> None:
    facts = draw_facts(ch, most=5)
    normal = normal_facts(facts)
    for left in subsets(COLUMNS):
        assert normal.closure(left, COLUMNS) == facts.closure(left, COLUMNS)
        assert normal.unique(left) == facts.unique(left)


def test_example_4_normalized() -> None:
    facts = Dependencies.of([depends([D, B], [C])], equality(A, D))
    assert normal_facts(facts).functional == (depends([A, B], [C]),)
    assert normal_global(grouped(B, D, C), facts) == grouped(A, B)
    assert normal_local((asc(D), desc(B), asc(C)), facts) == (asc(A), desc(B))
