"""Operators over co-partitioned inputs: which layouts are worth giving all inputs (SIGMOD 2012, sections 3.3.1 and 3.3.2).

An alignment is a layout for each input, all with the same function, and the resulting layout of the output. Four kinds of
layout are tried:

    required   the layout required of the result, if it is an exact one, in every input's columns
    existing   the layout of one input, stored in ranges or made for an operator below, pushed to the others
    common     ranges that suit the distributions of all inputs together
    hashed     a hash of the keys, or of those keys that also serve an operator above or below, into as many partitions as
               an input, or an input of it, has or would ideally have

They are the same for all algorithms of one join, and are found once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.type_coercion import common_type
from unshuffle.constants import SEARCH
from unshuffle.frozen import dataclass
from unshuffle.properties import (
    Clustered,
    CoPartitioned,
    Delivered,
    Exactly,
    HashFunction,
    JoinKey,
    Partitioned,
    Partitioning,
    PrefixPartitioned,
    Required,
    TargetedBroadcast,
    UnknownPartitioning,
)
from unshuffle.properties.matching.joint import pushes
from unshuffle.search.enforcers import partition_counts
from unshuffle.search.layouts.range_layouts import common_ranges
from unshuffle.search.requirement_pushdown import restated

if TYPE_CHECKING:
    from unshuffle.plan.physical import PhysicalPlan
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group
    from unshuffle.search.search import Search


@dataclass(frozen=True, slots=True)
class Alignment:
    layouts: tuple[Partitioned | PrefixPartitioned | TargetedBroadcast, ...]
    result: Partitioning


def alignments(
    search: Search, group: Group, each: Implementation, joint: CoPartitioned, required: Required
) -> list[Alignment]:
    wish = required.partitioning
    mark = wish if isinstance(wish, Exactly) else None
    found = each.alignments.get(mark)
    if found is None:
        layouts = _required_layouts(each, joint, mark) if mark is not None else _own_layouts(search, group, each, joint)
        facts = [child.facts for child in each.inputs]
        found = each.alignments[mark] = [
            Alignment(one, each.operator.deliver([Delivered(layout) for layout in one], facts).partitioning)
            for one in dict.fromkeys(layouts)
        ]
    return found


def _required_layouts(each: Implementation, joint: CoPartitioned, wish: Exactly) -> Iterator[tuple[Partitioned, ...]]:
    wide = each.wide_facts()
    for place, child in enumerate(each.inputs):
        mine = restated(wish, child.column_set, lambda column: each.output_name(column), wide(place))
        if isinstance(mine, Exactly):
            yield from _follow(each, joint, place, Delivered(mine.layout))


def _own_layouts(
    search: Search, group: Group, each: Implementation, joint: CoPartitioned
) -> Iterator[tuple[Partitioned, ...]]:
    existing = [
        (place, plan.delivered)
        for place, child in enumerate(each.inputs)
        for plan in _existing_layouts(search, child, place, joint)
    ]
    for place, given in existing:
        yield from _follow(each, joint, place, given)
    for place, child in enumerate(each.inputs):
        # Rows that are unique on the keys satisfy `Clustered` under any layout, so no existing plan shows the stored ranges.
        for layout in child.stored_ranges:
            if isinstance(layout, Partitioned):
                yield from _follow(each, joint, place, Delivered(layout))
    counts = _counts(search, each, existing)
    yield from common_ranges(each, joint, counts)
    for chosen in _key_sets(group, each, joint):
        for types in product(*(_types(each, key, existing) for key in chosen)):
            for count in counts:
                function = HashFunction(types, count)
                places = range(len(each.inputs))
                yield tuple(Partitioned(function, tuple(key.columns[place] for key in chosen)) for place in places)


Existing = Sequence[tuple[int, Delivered]]


def _existing_layouts(search: Search, child: Group, place: int, joint: CoPartitioned) -> Iterator[PhysicalPlan]:
    """The plans of an input that is only required to be clustered on its keys, if something below has a layout."""
    if child.has_stored_layout or child.interesting_below:
        keys = Clustered(frozenset(key.columns[place] for key in joint.keys), parallel=True, nulls_meet=False)
        yield from search.with_smaller_partitions(child, Required(keys))


def _follow(
    each: Implementation, joint: CoPartitioned, leader: int, given: Delivered
) -> Iterator[tuple[Partitioned, ...]]:
    """The layout of one input, pushed to the others."""
    nowhere = Delivered(UnknownPartitioning())
    inputs = [(given if place == leader else nowhere, child.facts) for place, child in enumerate(each.inputs)]
    for push in pushes(inputs, joint):
        yield push.layouts


def _key_sets(group: Group, each: Implementation, joint: CoPartitioned) -> Iterator[tuple[JoinKey, ...]]:
    """All keys, and those that serve an operator above or below as well. Keys that are constant everywhere are left out."""
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
    for chosen in list(found)[: SEARCH.aligned_key_sets]:
        yield tuple(key for i, key in enumerate(usable) if i in chosen)


def _is_constant(each: Implementation, key: JoinKey) -> bool:
    pairs = zip(each.inputs, key.columns, strict=True)
    return all(child.facts.determines((), (column,)) for child, column in pairs)


def _cuts(group: Group, each: Implementation, keys: list[JoinKey]) -> Iterator[frozenset[int]]:
    wide = each.wide_facts()
    for wish in group.interesting_above:
        known = [source for column in wish if (source := each.source_in_facts(0, column)) is not None]
        yield frozenset(i for i, key in enumerate(keys) if wide(0).determines(known, (key.columns[0],)))
    for place, child in enumerate(each.inputs):
        for wish in child.interesting_below:
            equals = frozenset(other for column in wish for other in child.facts.equals_of(column))
            yield frozenset(i for i, key in enumerate(keys) if key.columns[place] in equals)
        for origin in child.origins:
            # Rows can be partitioned by these columns before the others are computed or joined.
            yield frozenset(i for i, key in enumerate(keys) if key.columns[place] in origin)


def _counts(search: Search, each: Implementation, existing: Existing) -> list[int]:
    """The ideal number of partitions of each input and of its own inputs, and the numbers that inputs have: one exchange
    below an aggregate may serve a join above it."""
    counts: dict[int, None] = {}
    # Smaller partitions than the ideal of the largest input are worth their tasks if their hash tables fit the cache.
    for child in sorted(each.inputs, key=lambda child: -child.bytes):
        counts.update(dict.fromkeys(partition_counts(child, search.builder.ideal_partitions(child))))
        below = [group for one in (child.implementations or ())[:1] for group in one.inputs]
        counts.update(dict.fromkeys(search.builder.ideal_partitions(group) for group in (child, *below)))
    stored = [count for child in each.inputs for count in child.partition_counts]
    if len(stored) > 1:
        counts[gcd(*stored)] = None  # whole partitions of every input are gathered
    for _, given in existing:
        if isinstance(given.partitioning, Partitioned):
            counts[given.partitioning.function.partitions] = None
    return sorted(counts, reverse=True)[: SEARCH.aligned_partition_counts]


def _types(each: Implementation, key: JoinKey, existing: Existing) -> list[DataType]:
    """The type at which a key is compared, and a wider one by which an input is hashed for another join."""
    found = {key.type: None}
    for place, given in existing:
        layout, facts = given.partitioning, each.inputs[place].facts
        if isinstance(layout, Partitioned) and isinstance(layout.function, HashFunction):
            for column, type_ in zip(layout.columns, layout.function.types, strict=True):
                if facts.equal(column, key.columns[place]) and common_type(type_, key.type) == type_:
                    found[type_] = None
    return list(found)
