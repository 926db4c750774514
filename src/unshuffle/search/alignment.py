"""Operators over inputs that must be laid out alike: which single layouts are worth giving all of them
(SIGMOD 2012, sections 3.3.1 and 3.3.2).

An alignment is a layout for each input, all by the same function, and the layout of the result that follows. Four kinds
of layout are tried:

    asked      what is required of the result, if that is one very function: written in every input's columns
    had        what an input has, stored in ranges or made for the sake of an operator below: pushed to the others
    common     ranges that suit what is known of all inputs together
    wished     a hash of the keys, or of those among them that also serve an operator above or below, into as many
               partitions as an input, or what it is made of, has or would ideally have

They are the same for all algorithms of one join, and are found once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import common_type
from unshuffle.properties import (
    Clustered,
    CoPartitioned,
    Covering,
    Delivered,
    Exactly,
    HashFunction,
    JoinKey,
    Partitioned,
    Partitioning,
    Required,
    Scattered,
    Within,
)
from unshuffle.properties.joint import pushes
from unshuffle.search.enforcers import partition_counts
from unshuffle.search.ranges import common_ranges
from unshuffle.search.requests import restated

if TYPE_CHECKING:
    from unshuffle.algebra.physical import Physical
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group
    from unshuffle.search.optimize import Search

# Sets of keys, and numbers of partitions, that are tried for one operator.
SETS = 8
COUNTS = 6


@dataclass(frozen=True, slots=True)
class Alignment:
    layouts: tuple[Partitioned | Within | Covering, ...]
    result: Partitioning


def alignments(
    search: Search, group: Group, each: Implementation, joint: CoPartitioned, required: Required
) -> list[Alignment]:
    wish = required.partitioning
    mark = wish if isinstance(wish, Exactly) else None
    found = each.aligned.get(mark)
    if found is None:
        layouts = _asked(each, joint, mark) if mark is not None else _offered(search, group, each, joint)
        facts = [child.facts for child in each.inputs]
        found = each.aligned[mark] = [
            Alignment(one, each.operator.deliver([Delivered(layout) for layout in one], facts).partitioning)
            for one in dict.fromkeys(layouts)
        ]
    return found


def _asked(each: Implementation, joint: CoPartitioned, wish: Exactly) -> Iterator[tuple[Partitioned, ...]]:
    wide = each.wide_facts()
    for place, child in enumerate(each.inputs):
        mine = restated(wish, child.column_set, lambda column: each.output_name(column), wide(place))
        if isinstance(mine, Exactly):
            yield from _follow(each, joint, place, Delivered(mine.layout))


def _offered(
    search: Search, group: Group, each: Implementation, joint: CoPartitioned
) -> Iterator[tuple[Partitioned, ...]]:
    had = [
        (place, plan.delivered) for place, child in enumerate(each.inputs) for plan in _had(search, child, place, joint)
    ]
    for place, given in had:
        yield from _follow(each, joint, place, given)
    for place, child in enumerate(each.inputs):
        # Rows that are unique on the keys lie together however they lie: what they lie by is then in no plan that was had.
        for layout in child.lies:
            if isinstance(layout, Partitioned):
                yield from _follow(each, joint, place, Delivered(layout))
    counts = _counts(search, each, had)
    for count in counts:
        yield from common_ranges(each, joint, count)
    for chosen in _key_sets(group, each, joint):
        for types in product(*(_types(each, key, had) for key in chosen)):
            for count in counts:
                function = HashFunction(types, count)
                places = range(len(each.inputs))
                yield tuple(Partitioned(function, tuple(key.columns[place] for key in chosen)) for place in places)


Had = Sequence[tuple[int, Delivered]]


def _had(search: Search, child: Group, place: int, joint: CoPartitioned) -> Iterator[Physical]:
    """What an input would be if it were asked only to be clustered on its keys, where something below has a say in that."""
    if child.stored or child.below:
        keys = Clustered(frozenset(key.columns[place] for key in joint.keys), parallel=True, nulls_meet=False)
        yield from search.laid_out(child, Required(keys))


def _follow(
    each: Implementation, joint: CoPartitioned, leader: int, given: Delivered
) -> Iterator[tuple[Partitioned, ...]]:
    """The layout of one input, pushed to the others."""
    nowhere = Delivered(Scattered())
    inputs = [(given if place == leader else nowhere, child.facts) for place, child in enumerate(each.inputs)]
    for push in pushes(inputs, joint):
        yield push.layouts


def _key_sets(group: Group, each: Implementation, joint: CoPartitioned) -> Iterator[tuple[JoinKey, ...]]:
    """All keys, and those that serve an operator above or below as well. What is constant everywhere says nothing."""
    known = [key for key in joint.keys if key.type is not None]
    usable = [key for key in known if not _is_constant(each, key)] or known
    if not usable:
        return
    found: dict[frozenset[int], None] = {frozenset(range(len(usable))): None}
    cuts = [cut for cut in dict.fromkeys(_cuts(group, each, usable)) if cut]
    for one in cuts:
        for other in cuts:
            if one & other:
                found[one & other] = None
    for chosen in list(found)[:SETS]:
        yield tuple(key for i, key in enumerate(usable) if i in chosen)


def _is_constant(each: Implementation, key: JoinKey) -> bool:
    pairs = zip(each.inputs, key.columns, strict=True)
    return all(child.facts.determines((), (column,)) for child, column in pairs)


def _cuts(group: Group, each: Implementation, keys: list[JoinKey]) -> Iterator[frozenset[int]]:
    wide = each.wide_facts()
    for wish in group.above:
        known = [source for column in wish if (source := each.source_in_facts(0, column)) is not None]
        yield frozenset(i for i, key in enumerate(keys) if wide(0).determines(known, (key.columns[0],)))
    for place, child in enumerate(each.inputs):
        for wish in child.below:
            equals = frozenset(other for column in wish for other in child.facts.equals_of(column))
            yield frozenset(i for i, key in enumerate(keys) if key.columns[place] in equals)
        for origin in child.origins:
            # Rows can be sent by what is there before the rest is computed, or joined to it.
            yield frozenset(i for i, key in enumerate(keys) if key.columns[place] in origin)


def _counts(search: Search, each: Implementation, had: Had) -> list[int]:
    """The ideal of each input and of what it is made of, and what an input has: one exchange below an aggregate may serve
    a join above it."""
    counts: dict[int, None] = {}
    largest = max(each.inputs, key=lambda child: child.bytes)
    counts.update(dict.fromkeys(partition_counts(largest, search.ideal(largest))))
    for child in each.inputs:
        below = [group for one in (child.implementations or ())[:1] for group in one.inputs]
        counts.update(dict.fromkeys(search.ideal(group) for group in (child, *below)))
    stored = [count for child in each.inputs for count in child.counts]
    if len(stored) > 1:
        counts[gcd(*stored)] = None  # whole partitions of all of them are put together
    for _, given in had:
        if isinstance(given.partitioning, Partitioned):
            counts[given.partitioning.function.partitions] = None
    return sorted(counts, reverse=True)[:COUNTS]


def _types(each: Implementation, key: JoinKey, had: Had) -> list[DataType]:
    """The type that a key compares at, and a wider one that an input is sent by for the sake of another join."""
    found = {key.type: None}
    for place, given in had:
        layout, facts = given.partitioning, each.inputs[place].facts
        if isinstance(layout, Partitioned) and isinstance(layout.function, HashFunction):
            for column, type_ in zip(layout.columns, layout.function.types, strict=True):
                if facts.equal(column, key.columns[place]) and common_type(type_, key.type) == type_:
                    found[type_] = None
    return list(found)
