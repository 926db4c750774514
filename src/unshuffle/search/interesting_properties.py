"""Interesting properties: the column sets and partition counts by which partitioning a group is worth considering.

An operator that needs rows with equal keys together accepts a partitioning on any X with Pmin ≤ X ≤ Pmax. Of these
exponentially many sets only those matter that also serve another operator (ICDE 2010, section VIII): one above, which then
needs no exchange of its own, or one below, which has made such a layout already. For Pmax = M and another operator's keys W,
the largest X that serves both is

    {c in M : W determines c}

because a layout serves W exactly if W determines its columns. A smaller X serves no further operator and is coarser. For
three operators the intersections of such sets count too. So the candidates for M are M itself and its intersections with
the closures of the keys above and below. A group keeps those closures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, takewhile
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.constants import SEARCH
from unshuffle.properties import (
    Dependencies,
    Partitioned,
    PartitionFunction,
    PrefixPartitioned,
    RangeFunction,
    RangeOrdered,
    SampledBoundaries,
)
from unshuffle.properties.facts.cover import minimize_set
from unshuffle.properties.layouts.delivered import prefix_partitioning
from unshuffle.search.layouts.range_layouts import Spread, spreads_above, united

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group

Columns = frozenset[Column]


def find_interesting_properties(roots: Iterable[Group]) -> None:
    """Fills `interesting_above`, `interesting_below`, `partition_counts`, `user_seconds`, `stored_ranges` and `spreads` of
    every group that the roots reach."""
    order = list(bottom_up(roots))
    for group in order:
        _collect_from_below(group)
    for group in reversed(order):
        _pass_down(group)


def bottom_up(roots: Iterable[Group]) -> Iterator[Group]:
    """Every group that the roots reach, inputs first."""
    seen: set[int] = set()

    def visit(group: Group) -> Iterator[Group]:
        if group.number in seen:
            return
        seen.add(group.number)
        for each in group.implementations or ():
            for child in each.inputs:
                yield from visit(child)
        yield group

    for root in roots:
        yield from visit(root)


def _by_expression(group: Group) -> Iterator[Implementation]:
    """One implementation of each expression, with keys and without: those of one expression want the same keys."""
    seen: set[tuple[int, bool]] = set()
    for each in group.implementations or ():
        mark = (id(each.expression), bool(each.keys))
        if mark not in seen:
            seen.add(mark)
            yield each


def _collect_from_below(group: Group) -> None:
    sets: dict[Columns, None] = {}
    counts: dict[int, None] = {}
    spreads: list[Spread] = []
    for each in _by_expression(group):
        if not spreads:
            spreads += spreads_above(each, group)
        for place, child in enumerate(each.inputs):
            group.has_stored_layout = group.has_stored_layout or child.has_stored_layout
            if child.has_stored_layout:
                counts.update(dict.fromkeys(child.partition_counts))
            for reach in _reaches(each, place, child):
                visible = frozenset(column for column in group.columns if each.source(place, column) in reach)
                if each.facts is not None:
                    wide = each.facts()
                    visible |= frozenset(column for column in group.columns if wide.equals_of(column) & reach)
                if visible:
                    sets[visible] = None
        if each.stored_columns:
            group.has_stored_layout = True
            sets[each.stored_columns] = None
    if spreads:
        group.spreads = united(spreads)
    group.interesting_below = _smallest(sets)
    group.stored_ranges = tuple(dict.fromkeys(_stored_ranges(group)))[: SEARCH.interesting_sets]
    group.origins = _origins(group)
    group.partition_counts = (
        *group.partition_counts,
        *(count for count in counts if count not in group.partition_counts),
    )


def _stored_ranges(group: Group) -> Iterator[Partitioned | PrefixPartitioned]:
    """The range layouts that are stored here or below, in the columns of the group."""
    for each in group.implementations or ():
        layout = each.operator.deliver([], []).partitioning if not each.inputs else None
        if isinstance(layout, PrefixPartitioned) or (
            isinstance(layout, Partitioned) and _has_boundaries(layout.function)
        ):
            yield layout
    for each in _by_expression(group):
        for place, child in enumerate(each.inputs):
            names = {each.source(place, column): column for column in reversed(group.columns)}
            for layout in child.stored_ranges:
                known = [names[column] for column in takewhile(names.__contains__, layout.columns)]
                if isinstance(layout, Partitioned) and len(known) == len(layout.columns):
                    yield Partitioned(layout.function, tuple(known), layout.nulls_anywhere)
                elif (first := prefix_partitioning(layout, known)) is not None:
                    yield first


def _has_boundaries(function: PartitionFunction) -> bool:
    return isinstance(function, RangeFunction) and not isinstance(function.boundaries, SampledBoundaries)


def _origins(group: Group) -> tuple[Columns, ...]:
    """The columns that come from one input, and those that come from one input of that input, and so on."""
    sets: dict[Columns, None] = {}
    for each in (group.implementations or ())[:1]:
        for place, child in enumerate(each.inputs):
            for origin in (child.column_set, *child.origins):
                sets[frozenset(column for column in group.columns if each.source(place, column) in origin)] = None
    sets.pop(group.column_set, None)
    sets.pop(frozenset(), None)
    return tuple(sets)[: SEARCH.interesting_sets]


def _reaches(each: Implementation, place: int, child: Group) -> Iterator[Columns]:
    """The columns of an input by which the operator, or one further below, may partition it. The operator's own layout may
    be on everything that its keys determine. A layout from below exists already and is only renamed."""
    for wish in each.wanted_key_sets(place):
        yield child.facts.closure(wish, child.columns)
    for wish in child.interesting_below:
        yield frozenset(other for column in wish for other in child.facts.equals_of(column))


def _pass_down(group: Group) -> None:
    for each in _by_expression(group):
        wide = each.wide_facts()
        for place, child in enumerate(each.inputs):
            sets: dict[Columns, None] = dict.fromkeys(child.interesting_above)
            for wish in each.wanted_key_sets(place):
                sets[wish] = None
            for wish in group.interesting_above:
                sources = [source for column in wish if (source := each.source_in_facts(place, column)) is not None]
                reach = wide(place).closure(sources, child.columns) & child.column_set
                if reach:
                    sets[reach] = None
            child.interesting_above = _smallest(sets)
            child.range_ordered |= _orders(group, each, place)
            child.user_seconds = max(child.user_seconds, _user_seconds(group, each, place, child))


def _user_seconds(group: Group, each: Implementation, place: int, child: Group) -> float:
    """What user code takes for a row of an input: this operator, and those above that get its rows in the same partitions."""
    seconds = each.operator.seconds_per_row
    if each.operator.carried == place and child.rows > 0.0:
        seconds += group.user_seconds * group.rows / child.rows
    return seconds


def _orders(group: Group, each: Implementation, place: int) -> frozenset[Column]:
    """The columns by which this operator, or one above, wants partitions in order."""
    own = [child.partitioning for alternative in each.alternatives for child in alternative.children[place : place + 1]]
    keys = [wish.keys[0].column for wish in own if isinstance(wish, RangeOrdered)]
    passed = [source for column in group.range_ordered if (source := each.source(place, column)) is not None]
    return frozenset((*keys, *passed))


def _smallest(sets: dict[Columns, None]) -> tuple[Columns, ...]:
    """The smallest sets, which serve the most operators."""
    return tuple(
        sorted(sets, key=lambda columns: (len(columns), sorted(c.id for c in columns)))[: SEARCH.interesting_sets]
    )


def candidate_sets(group: Group, maximum: Columns) -> list[Columns]:
    """The column sets by which to partition a group, so that rows which agree on `maximum` are together."""
    facts = group.facts
    useful = frozenset(column for column in maximum if not facts.determines((), (column,))) or maximum
    minimal: dict[Columns, None] = {_minimized(useful, facts): None}
    cuts: dict[Columns, None] = {}
    for closed in (
        *(facts.closure(wish, useful) & useful for wish in group.interesting_above),
        *(frozenset(column for column in useful if facts.equals_of(column) & wish) for wish in group.interesting_below),
    ):
        if closed and closed != useful:
            cuts[closed] = None
    for one, other in combinations(tuple(cuts), 2):
        if one & other:
            cuts[one & other] = None
    for cut in cuts:
        minimal[_minimized(cut, facts)] = None
    return list(minimal)[: SEARCH.candidate_sets]


def _minimized(columns: Columns, facts: Dependencies) -> Columns:
    """As few columns as determine the same; one if all are constant, because a partition function needs a column."""
    return minimize_set(facts, columns) or frozenset((min(columns, key=lambda c: c.id),))
