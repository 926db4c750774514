"""What to ask of an operator's inputs, so that it both can run and delivers what is asked of it
(DetermineChildReqProperties in Algorithm 1 of ICDE 2010, sections III and VI).

Two requirements meet at an input: the operator's own (Table VI) and the one from above, restated in the input's columns.
Their conjunction is a requirement again:

    X ≤ G and X ≤ W             X ≤ {c : G -> c and W -> c}, exact, because a layout's columns must be determined by both
    X ≤ G and exactly L         exactly L, if G determines L's columns
    X ≤ G and in order on S     in order on the longest prefix of S that G determines
    S above, G^g of its own     S, and inside it what is left of G

Before any of that a requirement is simplified by what is known of the rows it is made of. It may then be met by any rows,
or speak of fewer columns, and can be passed on where the whole of it could not: above `where a = 7`, an order by (a, b) is
one by b, and below that filter only b is asked for.

Nothing here needs to be right for a plan to be right: what an operator delivers is matched against what was asked. It
needs to be complete, for what is never asked for is never found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import is_

from unshuffle.algebra.physical import PhysicalOperator
from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    Anyhow,
    Clustered,
    Covers,
    Dependencies,
    EveryPartition,
    Exactly,
    Grouped,
    LiesWithin,
    Local,
    OnePartition,
    Partitioned,
    Proof,
    RangeOrdered,
    Required,
    RequiredPartitioning,
    Scattered,
    Sorted,
    match_partitioning,
)
from unshuffle.properties.layouts import keeps_prefix_together
from unshuffle.properties.match_local import implied_local
from unshuffle.properties.structure import columns_of

Restate = Callable[[Column], "Column | None"]


def accepts_serial(wish: RequiredPartitioning) -> bool:
    match wish:
        case OnePartition():
            return True
        case Anyhow() | Clustered() | RangeOrdered():
            return not wish.parallel
        case _:
            return False


def simplified(required: Required, facts: Dependencies, columns: frozenset[Column]) -> Required:
    """A requirement that is met by the same layouts of rows with these facts and columns. Orders are on as few columns as
    possible, and clusters on as many, for an operator below may know only one of two columns that determine each other."""
    place = required.partitioning
    if isinstance(place, RangeOrdered):
        keys = tuple(action for action in _simple_local(place.keys, facts) if isinstance(action, Sorted))
        if keys and keys != place.keys:
            place = RangeOrdered(keys, place.parallel)
        elif not keys:
            # Keys that never differ: all rows in one place, by whatever function.
            place = Clustered(frozenset((place.keys[0].column,)), parallel=place.parallel)
    if isinstance(place, Clustered | RangeOrdered) and isinstance(match_partitioning(Scattered(), place, facts), Proof):
        place = Anyhow(place.parallel)
    if isinstance(place, Clustered) and place.nulls_meet:
        reach = facts.closure(place.maximum, columns) & columns
        place = place if reach == place.maximum else replace(place, maximum=reach)
    local = _simple_local(required.local, facts) if required.local else ()
    if place is required.partitioning and local == required.local:
        return required
    return Required(place, local, required.largest)


def _simple_local(local: Local, facts: Dependencies) -> Local:
    """Without what follows from the actions before."""
    found: list[Sorted | Grouped] = []
    for action in local:
        before = columns_of(found)
        if facts.unique(before):
            break
        if facts.determines(before, columns_of((action,))):
            continue
        if isinstance(action, Grouped):
            if facts.unique(before | action.columns):
                break
            kept = action.columns
            for column in sorted(kept, key=lambda c: -c.id):
                if facts.determines(before | (kept - {column}), (column,)):
                    kept -= {column}
            action = action if len(kept) == len(action.columns) else Grouped(kept)
        found.append(action)
    return local if len(found) == len(local) and all(map(is_, found, local)) else tuple(found)


def restated(
    wish: RequiredPartitioning, columns: frozenset[Column], name: Restate, facts: Dependencies
) -> RequiredPartitioning | None:
    """A requirement on an output as one on the input that its layout comes from; None if it cannot be passed on.

    `name` gives the input's column for an output column, `facts` relate them (of the input; of the result, for a join),
    `columns` are the input's.
    """
    match wish:
        case Anyhow() | OnePartition():
            return wish
        case EveryPartition() | Covers():
            return None
        case Clustered():
            known = [found for column in wish.maximum if (found := name(column)) is not None]
            if not known:
                return None
            reach = facts.closure(known, columns) & columns
            return replace(wish, maximum=reach, minimum=frozenset()) if reach else None
        case RangeOrdered():
            keys = _named_keys(wish.keys, columns, name, facts)
            if keys:
                return RangeOrdered(keys, wish.parallel)
            # What is all in one place is in order. Rows that agree on a constant may be.
            constant = facts.closure((), columns) & columns
            return Clustered(constant, frozenset(), wish.parallel) if constant else None
        case Exactly():
            on = [_input_column(column, columns, name, facts) for column in wish.layout.columns]
            if any(column is None for column in on):
                return None
            named = tuple(column for column in on if column is not None)
            return Exactly(Partitioned(wish.layout.function, named, wish.layout.nulls_apart))
        case LiesWithin(within=within):
            first = [_input_column(column, columns, name, facts) for column in within.columns]
            called = tuple(column for column in first if column is not None)
            return LiesWithin(replace(within, columns=called)) if len(called) == len(first) else None


def _input_column(column: Column, columns: frozenset[Column], name: Restate, facts: Dependencies) -> Column | None:
    """The input's column that is, or equals, an output column."""
    found = name(column)
    if found is None:
        return None
    if found in columns:
        return found
    return min(facts.equals_of(found) & columns, key=lambda c: c.id, default=None)


def _named_keys(
    keys: tuple[Sorted, ...], columns: frozenset[Column], name: Restate, facts: Dependencies
) -> tuple[Sorted, ...]:
    """The longest prefix that the input can be in order on."""
    found: list[Sorted] = []
    for key in keys:
        column = _input_column(key.column, columns, name, facts)
        if column is None:
            if name(key.column) is not None and facts.determines((k.column for k in found), (key.column,)):
                continue
            break
        found.append(key.on(column))
    return tuple(found)


def restated_local(local: Local, columns: frozenset[Column], name: Restate, facts: Dependencies) -> Local | None:
    """An order of the output as one of the input; None where some of it only the operator itself could bring about."""
    result: list[Sorted | Grouped] = []
    for action in local:
        before = columns_of(result)
        if isinstance(action, Sorted):
            column = _input_column(action.column, columns, name, facts)
            if column is None:
                return None
            result.append(action.on(column))
            continue
        found = [_input_column(c, columns, name, facts) for c in sorted(action.columns, key=lambda c: c.id)]
        kept = frozenset(c for c in found if c is not None)
        if len(kept) < len(found) and not facts.determines(before | kept, action.columns):
            return None
        if kept:
            result.append(Grouped(kept))
    return tuple(result)


def both_partitionings(
    own: RequiredPartitioning, wish: RequiredPartitioning, columns: frozenset[Column], facts: Dependencies
) -> RequiredPartitioning | None:
    """What meets an input's own requirement and one passed down to it; None if nothing could."""
    match own, wish:
        case _, Anyhow(parallel=False):
            return own
        case Anyhow(parallel=False), _:
            return wish
        case OnePartition(), _:
            return own if accepts_serial(wish) else None
        case Anyhow() | Clustered(parallel=True), OnePartition():
            return None
        case Clustered(), OnePartition():
            return wish
        case Anyhow(), Anyhow() | Clustered() | RangeOrdered():
            return replace(wish, parallel=True)
        case Anyhow(), _:
            return wish
        case Clustered(), Anyhow():
            return replace(own, parallel=True)
        case Clustered(), Clustered():
            reach = facts.closure(own.maximum, columns) & facts.closure(wish.maximum, columns) & columns
            if not reach:
                return None
            parallel, meet = own.parallel or wish.parallel, own.nulls_meet or wish.nulls_meet
            return Clustered(reach, frozenset(), parallel, meet)
        case Clustered(), RangeOrdered():
            keys: list[Sorted] = []
            for key in wish.keys:
                if not facts.determines(own.maximum, (key.column,)):
                    break
                keys.append(key)
            return RangeOrdered(tuple(keys), own.parallel or wish.parallel) if keys else None
        case Clustered(), Exactly():
            return wish if facts.determines(own.maximum, wish.layout.columns) else None
        case _:
            return None


def both_orders(wish: Local, own: Local, facts: Dependencies, wide: Dependencies) -> Local | None:
    """An order that implies the one asked for from above and the operator's own. The operator's own is asked of rows with
    `facts`; the other may rest on what the operator adds to them, `wide`: after a join on k = 7, [k, b] is [b]."""
    if not wish or not own:
        return wish or own
    if implied_local(wish, own, facts):
        return wish
    if implied_local(own, wish, wide):
        return own
    for found in (_inside(wish, own, facts), _inside(own, wish, facts), (*own, *wish)):
        if found is not None and implied_local(found, wish, wide) and implied_local(found, own, facts):
            return found
    return None


def _inside(first: Local, second: Local, facts: Dependencies) -> Local | None:
    """`first`, then what is left of a grouping that `second` begins with, then the rest of `second`."""
    group = second[0]
    have = columns_of(first)
    if not isinstance(group, Grouped) or not facts.determines(group.columns, have):
        return None
    left = frozenset(column for column in group.columns if not facts.determines(have, (column,)))
    return (*first, *((Grouped(left),) if left else ()), *second[1:])


def _source(operator: PhysicalOperator, wish: RequiredPartitioning) -> Restate:
    """What an operator's columns repeat. For ranges of the first characters of a text, the text does as well."""
    if not isinstance(wish, Exactly):
        return operator.source
    last = wish.layout.columns[-1]
    found = operator.prefix(last)
    if found is None or not keeps_prefix_together(wish.layout, found[1]):
        return operator.source
    return lambda column: found[0] if column == last else operator.source(column)


def pushed(
    operator: PhysicalOperator, required: Required, columns: frozenset[Column], facts: Dependencies
) -> Required | None:
    """The requirement on an operator's output, as one on the input that it carries."""
    if required.local and not operator.keeps_order:
        return None
    place = restated(required.partitioning, columns, _source(operator, required.partitioning), facts)
    if place is None:
        return None
    if not required.local:
        return Required(place)
    local = restated_local(required.local, columns, operator.source, facts)
    return Required(place, local) if local is not None else None
