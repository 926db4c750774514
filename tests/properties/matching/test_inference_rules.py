"""Soundness by generation: every step that a rule accepts is checked on rows with the layout that the step begins with."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.support.property_formulas import breaks, draw_global, draw_ordered, rename_action, weakened, with_fact
from tests.support.property_rows import (
    COLUMNS,
    Choices,
    choices,
    draw_facts,
    draw_local,
    draw_rows,
    draw_sorted,
    subsets,
)
from tests.support.property_semantics import broken_facts
from unshuffle.catalog.schema import Dependency
from unshuffle.properties import (
    Dependencies,
    Grouped,
    Ordered,
    Rule,
    Serial,
    Sorted,
    Step,
    UnknownPartitioning,
    check,
)
from unshuffle.properties.layouts.structure import columns_of


def application(ch: Choices, rule: Rule, facts: Dependencies, plant: bool):
    """(facts, before, after, backwards): an application of the rule; if planted, one whose condition holds."""
    local = draw_local(ch)
    group = ch.pick(subsets(COLUMNS, 2))
    order = draw_ordered(ch)
    some = ch.pick(sorted(group, key=lambda c: c.id))
    if not local:
        local = (draw_sorted(ch, ch.pick(COLUMNS)),)
    spot = ch.below(len(local))
    turned = ch.flag()
    match rule:
        case Rule.TRUNCATE:
            return facts, local, local[:spot], False
        case Rule.EXPAND:
            return facts, Grouped(group - {some}), Grouped(group), False
        case Rule.EXPAND_ORDERED:
            return facts, order, Ordered((*order.keys, draw_sorted(ch, ch.pick(COLUMNS)))), False
        case Rule.SORTED_IS_GROUPED:
            after = tuple(Grouped(columns_of((a,))) if ch.flag() and isinstance(a, Sorted) else a for a in local)
            return facts, local, after, False
        case Rule.ORDERED_IS_CLUSTERED:
            return facts, order, Grouped(columns_of(order.keys)), False
        case Rule.DROP_GROUPED:
            one, other = Grouped(group), Grouped(group - {some})
            context = frozenset()
            if ch.flag():
                context = columns_of(local[:spot])
                one, other = (*local[:spot], one, *local[spot:]), (*local[:spot], other, *local[spot:])
            if plant:
                facts = with_fact(facts, Dependency((group - {some}) | context, frozenset((some,))))
            return (facts, other, one, True) if turned else (facts, one, other, False)
        case Rule.DROP_SORTED:
            column = ch.pick(COLUMNS)
            keys = order.keys
            spot = ch.below(len(keys) + 1)
            longer = (*keys[:spot], draw_sorted(ch, column), *keys[spot:])
            if plant:
                facts = with_fact(facts, Dependency(columns_of(keys[:spot]), frozenset((column,))))
            one, other = (Ordered(longer), Ordered(keys)) if ch.flag() else (longer, keys)
            return (facts, other, one, True) if turned else (facts, one, other, False)
        case Rule.DROP_ACTION:
            extra = ch.pick([draw_sorted(ch, some), Grouped(group)])
            longer = (*local[:spot], extra, *local[spot:])
            if plant:
                facts = with_fact(facts, Dependency(columns_of(local[:spot]), columns_of((extra,))))
            return (facts, local, longer, True) if turned else (facts, longer, local, False)
        case Rule.EQUAL:
            if ch.flag():
                return facts, local, tuple(rename_action(ch, a, facts) for a in local), False
            if ch.flag():
                return facts, Grouped(group), rename_action(ch, Grouped(group), facts), False
            return facts, order, Ordered(tuple(rename_action(ch, k, facts) for k in order.keys)), False
        case Rule.MERGE_GROUPS:
            groups = tuple(Grouped(ch.pick(subsets(COLUMNS, 1))) for _ in range(2 + ch.below(2)))
            return facts, (*local[:spot], *groups, *local[spot:]), (
                *local[:spot], Grouped(columns_of(groups)), *local[spot:],
            ), False  # fmt: skip
        case Rule.UNIQUE:
            if plant:
                facts = Dependencies.of(facts.functional, facts.classes, {*facts.keys, group}, facts.never_null)
            if ch.flag():
                new = Grouped(group)
                if not plant and ch.flag():
                    # A careless rule might accept that rows which are unique on a column are sorted on
                    # it.
                    new = draw_sorted(ch, some)
                    facts = Dependencies.of(facts.functional, facts.classes, {*facts.keys, frozenset((some,))})
                return facts, local, (*local[:spot], new, *local[spot:]), False
            return facts, draw_global(ch), Grouped(group), False
        case Rule.SINGLE_PARTITION:
            claim = ch.pick([Serial(), Grouped(group), order])
            columns = claim.columns if isinstance(claim, Grouped) else columns_of(getattr(claim, "keys", ()))
            if plant:
                facts = with_fact(facts, Dependency(frozenset(), columns))
            return facts, claim, ch.pick([Grouped(frozenset((some,))), draw_ordered(ch)]), False
        case Rule.NULL_ORDER:
            if plant:
                facts = Dependencies.of(facts.functional, facts.classes, facts.keys, COLUMNS)
            swap = tuple(Sorted(k.column, k.descending, ch.flag()) for k in order.keys)
            return (facts, order, Ordered(swap), False) if ch.flag() else (facts, order.keys, swap, False)
        case Rule.ANY:
            return facts, draw_global(ch), UnknownPartitioning(), False
        case Rule.SAME_FUNCTION:
            return facts, Grouped(group), rename_action(ch, Grouped(group), facts), False


def perturbed(ch: Choices, formula, facts: Dependencies):
    """A formula that a careless rule might accept instead."""
    match formula:
        case Grouped():
            return Grouped(frozenset(ch.subset(COLUMNS, least=1)))
        case Ordered():
            return ch.pick([draw_ordered(ch), Ordered(formula.keys[:1]), Ordered(formula.keys[::-1])])
        case tuple():
            return weakened(ch, formula, facts)
        case _:
            return formula


@pytest.mark.parametrize("rule", list(Rule), ids=lambda r: r.name)
@given(ch=choices)
def test_a_step_that_its_rule_accepts_holds_on_rows(rule: Rule, ch: Choices) -> None:
    for case in ("planted", "free", "perturbed"):
        facts, before, after, backwards = application(ch, rule, draw_facts(ch), case != "free")
        if case == "perturbed":
            after = perturbed(ch, after, facts)
        accepted = check(Step(rule, before, after, None, backwards), facts)
        assert accepted or case != "planted"
        if accepted:
            rows = draw_rows(ch, facts)
            assert broken_facts(rows, facts) is None
            assert breaks(ch, rows, before, after) is None
