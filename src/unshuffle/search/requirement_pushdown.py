"""Requirements passed down through an operator (DetermineChildReqProperties in Algorithm 1 of ICDE 2010, sections III and
VI).

An input has two requirements: the operator's own (Table VI) and the one on the operator's result, restated in the input's
columns. Their conjunction is a requirement again:

    X ≤ G and X ≤ W             X ≤ {c : G -> c and W -> c}, exact, because both must determine a layout's columns
    X ≤ G and exactly L         exactly L, if G determines L's columns
    X ≤ G and in order on S     in order on the longest prefix of S that G determines
    S above, G^g of its own     S, and inside it what is left of G

First a requirement is simplified by the facts of the rows. It may then hold for any rows, or name fewer columns, and can be
passed down where the original could not: above `where a = 7`, an order by (a, b) is one by b, and below the filter only b
is required.

The correctness of a plan does not depend on this module: what an operator delivers is matched against the requirement. The
quality of plans does, because a layout that is never required is never found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from operator import is_

from unshuffle.catalog.schema import Column
from unshuffle.plan.physical import PhysicalOperator
from unshuffle.properties import (
    AnyDistribution,
    Broadcast,
    BroadcastTo,
    Clustered,
    Dependencies,
    Exactly,
    ExactlyPrefix,
    Grouped,
    Local,
    Partitioned,
    Proof,
    RangeOrdered,
    Required,
    RequiredPartitioning,
    SinglePartition,
    Sorted,
    UnknownPartitioning,
    match_partitioning,
)
from unshuffle.properties.layouts.related_layouts import keeps_prefix_together
from unshuffle.properties.layouts.structure import columns_of
from unshuffle.properties.matching.match_local import implied_local

Restate = Callable[[Column], "Column | None"]


def accepts_serial(wish: RequiredPartitioning) -> bool:
    match wish:
        case SinglePartition():
            return True
        case AnyDistribution() | Clustered() | RangeOrdered():
            return not wish.parallel
        case _:
            return False


def simplified(required: Required, facts: Dependencies, columns: frozenset[Column]) -> Required:
    """A requirement that the same layouts satisfy, for rows with these facts and columns. Orders are on as few columns as
    possible and clusters on as many, because an operator below may have only one of two columns that determine each other."""
    place = required.partitioning
    if isinstance(place, RangeOrdered):
        keys = tuple(action for action in _simple_local(place.keys, facts) if isinstance(action, Sorted))
        if keys and keys != place.keys:
            place = RangeOrdered(keys, place.parallel)
        elif not keys:
            # Constant keys: all rows are in one partition under any function.
            place = Clustered(frozenset((place.keys[0].column,)), parallel=place.parallel)
    if isinstance(place, Clustered | RangeOrdered) and isinstance(
        match_partitioning(UnknownPartitioning(), place, facts), Proof
    ):
        place = AnyDistribution(place.parallel)
    if isinstance(place, Clustered) and place.nulls_meet:
        reach = facts.closure(place.maximum, columns) & columns
        place = place if reach == place.maximum else replace(place, maximum=reach)
    local = _simple_local(required.local, facts) if required.local else ()
    if place is required.partitioning and local == required.local:
        return required
    return Required(place, local, required.largest)


def _simple_local(local: Local, facts: Dependencies) -> Local:
    """Without the actions that follow from earlier ones."""
    kept_actions: list[Sorted | Grouped] = []
    for action in local:
        before = columns_of(kept_actions)
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
        kept_actions.append(action)
    is_same = len(kept_actions) == len(local) and all(map(is_, kept_actions, local))
    return local if is_same else tuple(kept_actions)


def restated(
    wish: RequiredPartitioning, columns: frozenset[Column], name: Restate, facts: Dependencies
) -> RequiredPartitioning | None:
    """A requirement on an output as one on the input that has the same layout; None if it cannot be passed down.

    `name` maps an output column to the input's column. `facts` relate the two: those of the input, or of a join's result.
    `columns` are the input's.
    """
    match wish:
        case AnyDistribution() | SinglePartition():
            return wish
        case Broadcast() | BroadcastTo():
            return None
        case Clustered():
            sources = [source for column in wish.maximum if (source := name(column)) is not None]
            if not sources:
                return None
            reach = facts.closure(sources, columns) & columns
            return replace(wish, maximum=reach, minimum=frozenset()) if reach else None
        case RangeOrdered():
            keys = _named_keys(wish.keys, columns, name, facts)
            if keys:
                return RangeOrdered(keys, wish.parallel)
            # Rows in one partition are in order, and rows clustered on constants are in one partition.
            constant = facts.closure((), columns) & columns
            return Clustered(constant, frozenset(), wish.parallel) if constant else None
        case Exactly():
            on = [_input_column(column, columns, name, facts) for column in wish.layout.columns]
            if any(column is None for column in on):
                return None
            named = tuple(column for column in on if column is not None)
            return Exactly(Partitioned(wish.layout.function, named, wish.layout.nulls_anywhere))
        case ExactlyPrefix(layout=within):
            prefix = [_input_column(column, columns, name, facts) for column in within.columns]
            known = tuple(column for column in prefix if column is not None)
            return ExactlyPrefix(replace(within, columns=known)) if len(known) == len(prefix) else None


def _input_column(column: Column, columns: frozenset[Column], name: Restate, facts: Dependencies) -> Column | None:
    """The input's column that is, or equals, an output column."""
    source = name(column)
    if source is None or source in columns:
        return source
    return min(facts.equals_of(source) & columns, key=lambda c: c.id, default=None)


def _named_keys(
    keys: tuple[Sorted, ...], columns: frozenset[Column], name: Restate, facts: Dependencies
) -> tuple[Sorted, ...]:
    """The longest prefix of the keys that the input can be ordered by."""
    prefix: list[Sorted] = []
    for key in keys:
        column = _input_column(key.column, columns, name, facts)
        if column is None:
            if name(key.column) is not None and facts.determines((k.column for k in prefix), (key.column,)):
                continue
            break
        prefix.append(key.on(column))
    return tuple(prefix)


def restated_local(local: Local, columns: frozenset[Column], name: Restate, facts: Dependencies) -> Local | None:
    """An order of the output as one of the input; None if only the operator itself could make part of it."""
    result: list[Sorted | Grouped] = []
    for action in local:
        before = columns_of(result)
        if isinstance(action, Sorted):
            column = _input_column(action.column, columns, name, facts)
            if column is None:
                return None
            result.append(action.on(column))
            continue
        sources = [_input_column(c, columns, name, facts) for c in sorted(action.columns, key=lambda c: c.id)]
        kept = frozenset(c for c in sources if c is not None)
        if len(kept) < len(sources) and not facts.determines(before | kept, action.columns):
            return None
        if kept:
            result.append(Grouped(kept))
    return tuple(result)


def both_partitionings(
    own: RequiredPartitioning, wish: RequiredPartitioning, columns: frozenset[Column], facts: Dependencies
) -> RequiredPartitioning | None:
    """The conjunction of an input's own requirement and one passed down to it; None if nothing satisfies both."""
    match own, wish:
        case _, AnyDistribution(parallel=False):
            return own
        case AnyDistribution(parallel=False), _:
            return wish
        case SinglePartition(), _:
            return own if accepts_serial(wish) else None
        case AnyDistribution(), _:
            return _in_parallel(wish)
        case Clustered(), _:
            return _clustered_and(own, wish, columns, facts)
        case _:
            return None


def _in_parallel(wish: RequiredPartitioning) -> RequiredPartitioning | None:
    """The requirement, of more than one partition."""
    match wish:
        case SinglePartition():
            return None
        case AnyDistribution() | Clustered() | RangeOrdered():
            return replace(wish, parallel=True)
        case _:
            return wish


def _clustered_and(
    own: Clustered, wish: RequiredPartitioning, columns: frozenset[Column], facts: Dependencies
) -> RequiredPartitioning | None:
    match wish:
        case SinglePartition():
            return None if own.parallel else wish
        case AnyDistribution():
            return replace(own, parallel=True)
        case Clustered():
            reach = facts.closure(own.maximum, columns) & facts.closure(wish.maximum, columns) & columns
            if not reach:
                return None
            parallel, meet = own.parallel or wish.parallel, own.nulls_meet or wish.nulls_meet
            return Clustered(reach, frozenset(), parallel, meet)
        case RangeOrdered():
            keys = tuple(takewhile(lambda key: facts.determines(own.maximum, (key.column,)), wish.keys))
            return RangeOrdered(keys, own.parallel or wish.parallel) if keys else None
        case Exactly():
            return wish if facts.determines(own.maximum, wish.layout.columns) else None
        case _:
            return None


def both_orders(wish: Local, own: Local, facts: Dependencies, wide: Dependencies) -> Local | None:
    """An order that implies both the one passed down and the operator's own. The operator's own must hold for rows with
    `facts`; the other may also use what the operator adds to them, `wide`: after a join on k = 7, [k, b] is [b]."""
    if not wish or not own:
        return wish or own
    if implied_local(wish, own, facts):
        return wish
    if implied_local(own, wish, wide):
        return own
    for both in (_inside(wish, own, facts), _inside(own, wish, facts), (*own, *wish)):
        if both is not None and implied_local(both, wish, wide) and implied_local(both, own, facts):
            return both
    return None


def _inside(first: Local, second: Local, facts: Dependencies) -> Local | None:
    """`first`, then the rest of the grouping that `second` begins with, then the rest of `second`."""
    group = second[0]
    have = columns_of(first)
    if not isinstance(group, Grouped) or not facts.determines(group.columns, have):
        return None
    left = frozenset(column for column in group.columns if not facts.determines(have, (column,)))
    return (*first, *((Grouped(left),) if left else ()), *second[1:])


def _source(operator: PhysicalOperator, wish: RequiredPartitioning) -> Restate:
    """The column that an output column copies. For ranges of a text's prefix, the text itself serves as well."""
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
    """The requirement on an operator's output as one on its carried input; None if it cannot be passed down."""
    if required.local and not operator.keeps_order:
        return None
    place = restated(required.partitioning, columns, _source(operator, required.partitioning), facts)
    if place is None:
        return None
    if not required.local:
        return Required(place)
    local = restated_local(required.local, columns, operator.source, facts)
    return Required(place, local) if local is not None else None
