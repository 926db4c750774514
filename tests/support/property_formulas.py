"""Random formulas, weakened formulas, and rows laid out as a formula states."""

from __future__ import annotations

from tests.support.property_rows import COLUMNS, Choices, arrange, draw_local, draw_sorted, place_formula
from tests.support.property_semantics import broken_global, broken_local
from unshuffle.catalog.schema import Dependency
from unshuffle.properties import Dependencies, Grouped, Ordered, Serial, Sorted, UnknownPartitioning
from unshuffle.properties.layouts.structure import columns_of


def with_fact(facts: Dependencies, *more: Dependency) -> Dependencies:
    return Dependencies.of((*facts.functional, *more), facts.classes, facts.keys, facts.never_null, facts.lax)


def rename(ch, column, facts):
    return ch.pick(sorted(facts.equals_of(column), key=lambda c: c.id))


def rename_action(ch, action, facts):
    if isinstance(action, Sorted):
        return action.on(rename(ch, action.column, facts))
    return Grouped(frozenset(rename(ch, c, facts) for c in action.columns))


def draw_ordered(ch: Choices) -> Ordered:
    return Ordered(tuple(draw_sorted(ch, c) for c in ch.shuffle(COLUMNS)[: 1 + ch.below(3)]))


def draw_global(ch: Choices):
    match ch.below(8):
        case 0:
            return Serial()
        case 1:
            return UnknownPartitioning()
        case 2 | 3 | 4:
            return Grouped(frozenset(ch.subset(COLUMNS, least=1)[:3]))
        case _:
            return draw_ordered(ch)


def breaks(ch: Choices, rows, before, after):
    """Rows that are laid out as `before` states and violate `after`."""
    if isinstance(before, tuple):
        sequence = arrange(ch, rows, before)
        assert broken_local(sequence, before) is None
        return broken_local(sequence, after)
    parts = place_formula(ch, rows, before)
    assert broken_global(parts, before) is None
    return broken_global(parts, after)


def weakened(ch: Choices, local, facts):
    """A requirement that may be satisfied: the delivered list with a few small changes."""
    result = [rename_action(ch, a, facts) for a in local]
    for _ in range(ch.below(3)):
        if result and ch.flag():
            del result[ch.below(len(result))]
        elif result and ch.flag():
            spot = ch.below(len(result))
            result[spot] = Grouped(columns_of(result[spot : spot + 1 + ch.below(2)]))
        else:
            result.insert(ch.below(len(result) + 1), ch.pick(draw_local(ch) or (draw_sorted(ch, ch.pick(COLUMNS)),)))
    return tuple(result)
