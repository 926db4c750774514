"""Soundness by generation: every proof of the matcher, and whether the missing part that it returns is enough."""

from __future__ import annotations

from hypothesis import given, settings

from tests.support.property_formulas import breaks, draw_global, draw_ordered, weakened, with_fact
from tests.support.property_rows import COLUMNS, Choices, choices, draw_facts, draw_local, draw_rows
from unshuffle.catalog.schema import Dependency
from unshuffle.properties import (
    Dependencies,
    Grouped,
    MissingOrder,
    Ordered,
    Proof,
    Replicated,
    Rule,
    Serial,
    Sorted,
    Step,
    UnknownPartitioning,
    check,
    match_global,
    match_local,
)
from unshuffle.properties.matching.inference_rules import first_bad_step


def chained(proof: Proof, start, end, facts) -> None:
    assert first_bad_step(proof, facts) is None
    now = start
    for step in proof.steps:
        assert step.before == now
        assert check(step, facts), step
        now = step.after
    assert now == end or (isinstance(end, UnknownPartitioning) and isinstance(now, UnknownPartitioning))


@given(ch=choices)
def test_local_proofs_hold_and_the_missing_part_is_enough(ch: Choices) -> None:
    facts = draw_facts(ch)
    delivered = draw_local(ch)
    required = weakened(ch, delivered, facts)
    found = match_local(delivered, required, facts)
    if isinstance(found, MissingOrder):
        assert delivered[: len(found.held)] == found.held
        assert isinstance(match_local(found.held + found.missing, required, facts), Proof)
    else:
        chained(found, delivered, required, facts)
        assert breaks(ch, draw_rows(ch, facts), delivered, required) is None


@settings(max_examples=3 * settings().max_examples)
@given(ch=choices)
def test_global_proofs_hold(ch: Choices) -> None:
    facts = draw_facts(ch)
    if ch.flag(3):
        # Ranges of the same columns with NULLs at different ends are rarely drawn by chance.
        delivered = draw_ordered(ch)
        required = Ordered(tuple(Sorted(k.column, k.descending, ch.flag()) for k in delivered.keys))
    else:
        delivered = draw_global(ch)
        required = draw_global(ch)
        if ch.flag() and isinstance(delivered, Ordered):
            keys = weakened(ch, delivered.keys, facts)
            required = Ordered(tuple(k for k in keys if isinstance(k, Sorted)) or delivered.keys)
    found = match_global(delivered, required, facts)
    if isinstance(found, Proof):
        chained(found, delivered, required, facts)
        assert breaks(ch, draw_rows(ch, facts), delivered, required) is None


@given(ch=choices)
def test_undetermined_columns_are_exactly_what_a_dependency_would_have_to_determine(ch: Choices) -> None:
    facts = draw_facts(ch)
    delivered = Grouped(frozenset(ch.subset(COLUMNS, least=1)))
    required = Grouped(frozenset(ch.subset(COLUMNS, least=1)))
    found = match_global(delivered, required, facts)
    if not isinstance(found, Proof):
        assert found
        for one in found:
            rest = with_fact(facts, Dependency(required.columns, found - {one}))
            assert isinstance(
                match_global(delivered, required, with_fact(rest, Dependency(required.columns, found))), Proof
            )
        assert isinstance(
            match_global(delivered, required, with_fact(facts, Dependency(required.columns, found))), Proof
        )


def test_replicated_rows_imply_nothing_else() -> None:
    a = COLUMNS[0]
    for claim in (Serial(), UnknownPartitioning(), Grouped(frozenset((a,))), Ordered((Sorted(a, False, True),))):
        assert match_global(Replicated(), claim, Dependencies()) == frozenset()


def test_a_proof_with_a_gap_or_a_wrong_step_is_rejected() -> None:
    a, b, c, _ = COLUMNS
    good = match_global(Grouped(frozenset((a,))), Grouped(frozenset((a, b))), Dependencies())
    assert isinstance(good, Proof)
    assert first_bad_step(good, Dependencies()) is None
    gap = Step(Rule.EXPAND, Grouped(frozenset((a, c))), Grouped(frozenset((a, b, c))))
    assert first_bad_step(Proof((*good.steps, gap)), Dependencies()) is gap
    wrong = Step(Rule.EXPAND, Grouped(frozenset((a, b))), Grouped(frozenset((a,))))
    assert first_bad_step(Proof((*good.steps, wrong)), Dependencies()) is wrong
    turned = Step(Rule.EXPAND, Grouped(frozenset((a, b))), Grouped(frozenset((a,))), backwards=True)
    assert not check(turned, Dependencies())
