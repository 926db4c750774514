"""Which layouts are worth asking for: the interesting column sets and partition counts of each group.

An operator that needs equal keys together accepts any X with Pmin ≤ X ≤ Pmax. Of the exponentially many only those matter
that also serve someone else (ICDE 2010, section VIII): an operator above, which would need no exchange of its own, or one
below, which has made such a layout already. For Pmax = M and another operator's W, the largest X that serves both is

    {c in M : W determines c}

because a layout serves W exactly if W determines its columns. A smaller X serves nobody more and is coarser. Where three
operators meet, the intersections of such sets count too. So the candidates for M are M itself and its intersections with
the closures of what is wanted above and below; all that is needed of a group is those closures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, takewhile
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    Dependencies,
    Partitioned,
    PartitionFunction,
    RangeFunction,
    RangeOrdered,
    Sampled,
    Within,
)
from unshuffle.properties.cover import minimize_set
from unshuffle.properties.delivered import seen_by
from unshuffle.search.ranges import Spread, spreads_above, united

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group

Columns = frozenset[Column]
# How many sets a group remembers each way, and how many candidates an exchange tries.
KEPT = 8
TRIED = 8


def prepare(roots: Iterable[Group]) -> None:
    """Fills `above`, `below`, `counts`, `stored`, `lies` and `spreads` of every group that can be reached."""
    order = list(_bottom_up(roots))
    for group in order:
        _look_below(group)
    for group in reversed(order):
        _tell_below(group)


def _bottom_up(roots: Iterable[Group]) -> Iterator[Group]:
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
    """One implementation of each expression that says which keys it wants: all of an expression want the same."""
    seen: set[tuple[int, bool]] = set()
    for each in group.implementations or ():
        mark = (id(each.expression), bool(each.keys))
        if mark not in seen:
            seen.add(mark)
            yield each


def _look_below(group: Group) -> None:
    found: dict[Columns, None] = {}
    counts: dict[int, None] = {}
    spreads: list[Spread] = []
    for each in _by_expression(group):
        if not spreads:
            spreads += spreads_above(each, group)
        for place, child in enumerate(each.inputs):
            group.stored = group.stored or child.stored
            if child.stored:
                counts.update(dict.fromkeys(child.counts))
            for reach in _reaches(each, place, child):
                visible = frozenset(column for column in group.columns if each.source(place, column) in reach)
                if each.facts is not None:
                    wide = each.facts()
                    visible |= frozenset(column for column in group.columns if wide.equals_of(column) & reach)
                if visible:
                    found[visible] = None
        if each.stored_columns:
            group.stored = True
            found[each.stored_columns] = None
    if spreads:
        group.spreads = united(spreads)
    group.below = _bounded(found)
    group.lies = tuple(dict.fromkeys(_lies(group)))[:KEPT]
    group.origins = _origins(group)
    group.counts = (*group.counts, *(count for count in counts if count not in group.counts))


def _lies(group: Group) -> Iterator[Partitioned | Within]:
    """Layouts by ranges that rows are stored in, here or below, in the columns that they have here."""
    for each in group.implementations or ():
        layout = each.operator.deliver([], []).partitioning if not each.inputs else None
        if isinstance(layout, Within) or (isinstance(layout, Partitioned) and _has_boundaries(layout.function)):
            yield layout
    for each in _by_expression(group):
        for place, child in enumerate(each.inputs):
            names = {each.source(place, column): column for column in reversed(group.columns)}
            for layout in child.lies:
                known = [names[column] for column in takewhile(names.__contains__, layout.columns)]
                if isinstance(layout, Partitioned) and len(known) == len(layout.columns):
                    yield Partitioned(layout.function, tuple(known), layout.nulls_apart)
                elif (first := seen_by(layout, known)) is not None:
                    yield first


def _has_boundaries(function: PartitionFunction) -> bool:
    return isinstance(function, RangeFunction) and not isinstance(function.boundaries, Sampled)


def _origins(group: Group) -> tuple[Columns, ...]:
    """The columns that come from one input, and of those, the ones that come from one input of it."""
    found: dict[Columns, None] = {}
    for each in (group.implementations or ())[:1]:
        for place, child in enumerate(each.inputs):
            for origin in (child.column_set, *child.origins):
                found[frozenset(column for column in group.columns if each.source(place, column) in origin)] = None
    found.pop(group.column_set, None)
    found.pop(frozenset(), None)
    return tuple(found)[:KEPT]


def _reaches(each: Implementation, place: int, child: Group) -> Iterator[Columns]:
    """The columns of an input that a layout for the operator, or for one further below, can be on. The operator's own may
    be on all that its keys determine; what lies below it is made already, and only has other names."""
    for wish in each.wants(place):
        yield child.facts.closure(wish, child.columns)
    for wish in child.below:
        yield frozenset(other for column in wish for other in child.facts.equals_of(column))


def _tell_below(group: Group) -> None:
    for each in _by_expression(group):
        wide = each.wide_facts()
        for place, child in enumerate(each.inputs):
            found: dict[Columns, None] = dict.fromkeys(child.above)
            for wish in each.wants(place):
                found[wish] = None
            for wish in group.above:
                known = [source for column in wish if (source := each.source_in_facts(place, column)) is not None]
                reach = wide(place).closure(known, child.columns) & child.column_set
                if reach:
                    found[reach] = None
            child.above = _bounded(found)
            child.ordered |= _orders(group, each, place)


def _orders(group: Group, each: Implementation, place: int) -> frozenset[Column]:
    """Columns that partitions are wanted in order on, by this operator or one above."""
    own = [child.partitioning for alternative in each.alternatives for child in alternative.children[place : place + 1]]
    keys = [wish.keys[0].column for wish in own if isinstance(wish, RangeOrdered)]
    passed = [source for column in group.ordered if (source := each.source(place, column)) is not None]
    return frozenset((*keys, *passed))


def _bounded(found: dict[Columns, None]) -> tuple[Columns, ...]:
    """The smallest sets first: they are the hardest to serve, and serve the most."""
    return tuple(sorted(found, key=lambda columns: (len(columns), sorted(c.id for c in columns)))[:KEPT])


def candidates(group: Group, maximum: Columns) -> list[Columns]:
    """The column sets worth laying a group out by, to have rows that agree on `maximum` together."""
    facts = group.facts
    useful = frozenset(column for column in maximum if not facts.determines((), (column,))) or maximum
    found: dict[Columns, None] = {_fewest(useful, facts): None}
    cuts: dict[Columns, None] = {}
    for closed in (
        *(facts.closure(wish, useful) & useful for wish in group.above),
        *(frozenset(column for column in useful if facts.equals_of(column) & wish) for wish in group.below),
    ):
        if closed and closed != useful:
            cuts[closed] = None
    for one, other in combinations(tuple(cuts), 2):
        if one & other:
            cuts[one & other] = None
    for cut in cuts:
        found[_fewest(cut, facts)] = None
    return list(found)[:TRIED]


def _fewest(columns: Columns, facts: Dependencies) -> Columns:
    """As few columns as determine the same; of constants, one, for a function must be of something."""
    return minimize_set(facts, columns) or frozenset((min(columns, key=lambda c: c.id),))
