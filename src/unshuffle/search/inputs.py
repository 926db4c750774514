"""What to ask of the inputs of an operator (DetermineChildReqProperties in Algorithm 1 of ICDE 2010).

Each way to run the operator has needs of its own, and with them goes what is required of its result, restated for the input
whose layout comes out of it (search.requests). Operators over inputs that are laid out alike ask for whole layouts
(search.alignment).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf
from typing import TYPE_CHECKING

from unshuffle.properties import (
    Alternative,
    Clustered,
    Covered,
    Covering,
    Covers,
    EveryPartition,
    Exactly,
    Joint,
    LiesWithin,
    Local,
    OnePartition,
    Partitioned,
    Proof,
    RangeOrdered,
    Required,
    RequiredPartitioning,
    Scattered,
    Within,
    hashed,
    match_partitioning,
)
from unshuffle.properties.structure import columns_of
from unshuffle.search.alignment import Alignment, alignments
from unshuffle.search.enforcers import ANYTHING, SCATTERED, sort_keys
from unshuffle.search.floors import Shape
from unshuffle.search.interest import candidates
from unshuffle.search.pruning import prunings
from unshuffle.search.ranges import clustering
from unshuffle.search.requests import accepts_serial, both_orders, both_partitionings, pushed

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group
    from unshuffle.search.optimize import Search


def requests_of(
    search: Search, group: Group, each: Implementation, required: Required, limit: float = inf
) -> Iterator[tuple[Alternative, tuple[Required, ...]]]:
    """What to ask of the inputs: the operator's own needs and what is asked of it, together. Nothing is asked that
    would surely cost more than the limit."""
    serial = accepts_serial(required.partitioning)
    only_serial = isinstance(required.partitioning, OnePartition)
    for alternative in each.alternatives:
        own = alternative.children
        if not own:
            yield alternative, ()
        elif alternative.joint is not None:
            if isinstance(alternative.joint, Covered) and not each.inputs[1 - alternative.joint.by].lies:
                continue
            if each.least + sum(_joint_floors(each, alternative.joint)) >= limit:
                continue
            for requests in _joint_requests(search, group, each, alternative, alternative.joint, required):
                yield alternative, requests
        elif not (serial if alternative.name == "serial" else not only_serial):
            continue
        elif each.operator.carried is None:
            if not required.local and (alternative.name == "serial" or _anyhow_serves(required, group)):
                yield alternative, own
                if alternative.name != "serial" and not serial:
                    # Inputs that are each best in one stream are one stream together: one of them must not be.
                    for place, wish in enumerate(own):
                        if wish == ANYTHING:
                            yield alternative, (*own[:place], SCATTERED, *own[place + 1 :])
        else:
            carried = each.operator.carried
            if each.least + sum(_floors(search, each, own, carried)) >= limit:
                continue
            request = _at_carried(each, own[carried], required)
            if request is not None:
                for asked in _kept_by(search, group, each, request, required):
                    yield alternative, (*own[:carried], asked, *own[carried + 1 :])
            for asked in _by_prefix(search, group, each, own[carried], required):
                yield alternative, (*own[:carried], asked, *own[carried + 1 :])


def _floors(search: Search, each: Implementation, own: tuple[Required, ...], carried: int) -> Iterator[float]:
    """What the inputs cost at the least, whatever more is asked of the one that is carried."""
    for place, child in enumerate(each.inputs):
        yield child.floors[Shape.ANYHOW] if place == carried else search.known(child, own[place])


def _joint_floors(each: Implementation, joint: Joint) -> Iterator[float]:
    """The same where inputs lie by their values, but for one that is copied to some partitions of the other."""
    for place, child in enumerate(each.inputs):
        is_copied = isinstance(joint, Covered) and joint.by == place
        yield child.floors[Shape.COPIED if is_copied else Shape.PLACED]


def _at_carried(each: Implementation, own: Required, required: Required) -> Required | None:
    carried = each.operator.carried
    assert carried is not None
    if required == ANYTHING:
        return own
    child = each.inputs[carried]
    facts = each.facts() if each.facts is not None else child.facts
    wish = pushed(each.operator, required, child.column_set, facts)
    if wish is None:
        return _brought(each, own, required)
    place = both_partitionings(own.partitioning, wish.partitioning, child.column_set, child.facts)
    local = both_orders(wish.local, own.local, child.facts, facts)
    if place is None or local is None:
        return None
    return Required(place, local, required.largest)


def _by_prefix(
    search: Search, group: Group, each: Implementation, own: Required, required: Required
) -> Iterator[Required]:
    """Of rows that are to be together by the first characters of a text, what the operator makes these of may lie by ranges
    of the whole text, if no boundary is longer (SIGMOD 2012, section 3.3.4). Clustered on some columns does not say that."""
    place = required.partitioning
    if not isinstance(place, Clustered) or not any(spread.characters for spread in group.spreads):
        return
    for layout in clustering(group, place.maximum, search.ideal(group)):
        if each.operator.prefix(layout.columns[-1]) is not None:
            request = _at_carried(each, own, replace(required, partitioning=Exactly(layout)))
            if request is not None:
                yield request


def _kept_by(
    search: Search, group: Group, each: Implementation, request: Required, required: Required
) -> Iterator[Required]:
    """What to ask of the carried input: what is required, and something more definite where the cheapest plan that
    meets the requirement may not be the best to have.

    Rows that are unique lie together and are grouped however they lie, but a join repeats them: then a layout must be
    made that says where, and an order. And a layout that costs nothing, stored or left by an operator below, may have
    too few partitions to work on at once, or too many rows in one of them."""
    yield request
    child, place = each.inputs[each.operator.carried or 0], request.partitioning
    if isinstance(place, RangeOrdered):
        # What is all in one place is in order, and the operator may make it so: it may fix a column.
        fixed = group.facts.closure((), child.columns) & child.column_set - child.facts.closure((), child.columns)
        if fixed:
            yield Required(Clustered(fixed, parallel=place.parallel), request.local)
    if request.largest < 1.0:
        # A bound that comes from above holds of the result; the operator may bring it about itsearch.
        request = Required(place, request.local)
        yield request
    yield from _more_even(search, child, request)
    if each.facts is None:
        return
    places: list[RequiredPartitioning] = [place]
    meets = required.partitioning
    if (
        isinstance(place, Clustered)
        and isinstance(meets, Clustered)
        and child.facts.unique(place.maximum)
        and not group.facts.unique(meets.maximum)
    ):
        sets = [sorted(columns, key=lambda c: c.id) for columns in candidates(child, place.maximum)]
        places += [Exactly(hashed(columns, search.ideal(child))) for columns in sets]
    for one, local in list(product(places, _kept_orders(group, child, request.local, required)))[1:]:
        yield Required(one, local)


def _more_even(search: Search, child: Group, request: Required) -> Iterator[Required]:
    """Requests for the same with smaller partitions, as long as the best plan of the one before has large ones. Each
    has been solved, if there is a plan, when the next is asked for."""
    smaller: Required | None = request
    while smaller is not None:
        found = child.goals.get(smaller)
        smaller = search.smaller(smaller, found.best) if found is not None and found.best is not None else None
        if smaller is not None:
            yield smaller


def _brought(each: Implementation, own: Required, required: Required) -> Required | None:
    """An order that the operator makes itself (a heap of first rows): asked of nobody."""
    if not required.local or each.operator.keeps_order:
        return None
    return _at_carried(each, own, Required(required.partitioning, (), required.largest))


# --- operators over inputs laid out alike


def _joint_requests(
    search: Search,
    group: Group,
    each: Implementation,
    alternative: Alternative,
    joint: Joint,
    required: Required,
) -> Iterator[tuple[Required, ...]]:
    if isinstance(required.partitioning, OnePartition | EveryPartition | Covers):
        return
    orders = list(_joint_orders(group, each, alternative, required))
    for each_way in _ways(search, group, each, joint, required) if orders else ():
        if isinstance(each_way.result, Scattered) and not search.is_even(group, each_way.result, required):
            continue
        if required == ANYTHING or isinstance(
            match_partitioning(each_way.result, required.partitioning, group.facts), Proof
        ):
            for locals_ in orders:
                pairs = zip(each_way.layouts, locals_, strict=True)
                yield tuple(Required(_just(layout), local) for layout, local in pairs)


def _ways(search: Search, group: Group, each: Implementation, joint: Joint, required: Required) -> list[Alignment]:
    if isinstance(joint, Covered):
        return prunings(each, joint)
    return alignments(search, group, each, joint, required)


def _just(layout: Partitioned | Within | Covering) -> RequiredPartitioning:
    match layout:
        case Covering():
            return Covers(layout)
        case Within():
            return LiesWithin(layout)
        case Partitioned():
            return Exactly(layout)


def _joint_orders(
    group: Group, each: Implementation, alternative: Alternative, required: Required
) -> Iterator[tuple[Local, ...]]:
    own = [child.local for child in alternative.children]
    if not required.local:
        yield tuple(own)
        return
    carried = each.operator.carried
    if carried is None or not each.operator.keeps_order:
        return
    child = each.inputs[carried]
    wide = each.wide_facts()(carried)
    wish = pushed(each.operator, Required(local=required.local), child.column_set, wide)
    local = both_orders(wish.local, own[carried], child.facts, wide) if wish is not None else None
    if local is not None:
        for asked in _kept_orders(group, child, local, required):
            yield (*own[:carried], asked, *own[carried + 1 :])


def _kept_orders(group: Group, child: Group, local: Local, required: Required) -> Iterator[Local]:
    """The order to ask of an input of a join: rows that are unique are grouped however they lie, until repeated."""
    yield local
    was, now = columns_of(local), columns_of(required.local)
    if was and child.facts.unique(was) and not group.facts.unique(now):
        yield sort_keys(local, child.facts)


def _anyhow_serves(required: Required, group: Group) -> bool:
    return isinstance(match_partitioning(Scattered(), required.partitioning, group.facts), Proof)
