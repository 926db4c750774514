"""Whether one global property implies another (ICDE 2010, section VII and rules 2, 3, 5, 6, 7).

This too is decided by closures. Let D be the columns of the delivered partitioning.

    D^g or D^o ⇒ X^g   if and only if X determines D, or X is unique, or D is constant: rows that agree on X then agree on
                       the columns that the partition is computed from. Rule 2 may add columns to a partitioning; unlike
                       those of a local property, its columns cannot be truncated.
    D^o ⇒ X^o          if and only if D, without the columns that earlier ones determine, is a prefix of X with the same
                       directions: rows of different partitions differ on D, so their first difference on X must be on
                       one of these columns and in the same direction.
    ⊥ ⇒ X^g, X^o       always
    ⊤ ⇒ any other      never; nor does a `TargetedBroadcast` imply any other property

Worked example: ranges on [a↑, b↓, c↑] with a -> b and c = d. Are they ordered on [a↑, d↑, e↓]? a comes first in both. b is
determined by a and is dropped (rule 7). c equals d. No delivered key is left, so the remaining required keys may be added
(rule 3): proven. Are they clustered on {a, e}? {a, e} determines a and b but not c: not proven, and c is what is missing.

SIGMOD 2012, section 3.3.3, omits a repartitioning on a for data hashed on b "if b -> a". Taken literally that is unsound:
rows that agree on a may have several values of b. The required dependency is a -> b, as in Figure 1 of ICDE 2010. In the
paper's example, a = b + 1, both dependencies hold.
"""

from __future__ import annotations

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties.facts.closure import EVERYTHING
from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.layouts.structure import (
    Global,
    Grouped,
    Ordered,
    Replicated,
    Serial,
    Sorted,
    TargetedBroadcast,
    UnknownPartitioning,
)
from unshuffle.properties.matching.match_local import renamed
from unshuffle.properties.matching.proof import HOLDS, Proof, Rule, Step

# Why an implication does not hold: the columns that are not determined; empty if the kind of partitioning is wrong.
Undetermined = frozenset[Column]
OncePerRow = Grouped | Ordered | UnknownPartitioning


def match_global(delivered: Global, required: Global, facts: Dependencies) -> Proof | Undetermined:
    if isinstance(delivered, UnknownPartitioning) and isinstance(required, UnknownPartitioning):
        return HOLDS
    if delivered == required:
        return HOLDS
    if isinstance(delivered, Replicated | TargetedBroadcast) or isinstance(
        required, Serial | Replicated | TargetedBroadcast
    ):
        return frozenset()
    if isinstance(required, UnknownPartitioning):
        return Proof((Step(Rule.ANY, delivered, required),))
    if isinstance(delivered, Serial):
        return Proof((Step(Rule.SINGLE_PARTITION, delivered, required),))
    if isinstance(required, Grouped):
        return _clustered(delivered, required, facts)
    return _in_order(delivered, required, facts)


def partitioning_columns(delivered: Global) -> frozenset[Column]:
    match delivered:
        case Grouped():
            return delivered.columns
        case Ordered():
            return frozenset(key.column for key in delivered.keys)
        case _:
            return frozenset()


def _single_partition(delivered: Global, required: Global, facts: Dependencies) -> Proof | None:
    columns = partitioning_columns(delivered)
    if not facts.unique(()) and (not columns or not facts.determines((), columns)):
        return None
    return Proof((Step(Rule.SINGLE_PARTITION, delivered, required, Dependency(frozenset(), columns)),))


def _clustered(delivered: OncePerRow, required: Grouped, facts: Dependencies) -> Proof | Undetermined:
    closures = facts.closures
    target = required.columns
    columns = partitioning_columns(delivered)
    mine, reached = closures.mask(columns), closures.close(closures.mask(target))
    if not columns or mine & ~reached:
        if reached == EVERYTHING:
            return Proof((Step(Rule.UNIQUE, delivered, required),))
        return frozenset(c for c in columns if closures.bit(c) & ~reached)
    if not mine & ~closures.constant:
        return Proof((Step(Rule.SINGLE_PARTITION, delivered, required, Dependency(frozenset(), columns)),))
    now = Grouped(columns)
    steps = [Step(Rule.ORDERED_IS_CLUSTERED, delivered, now)] if isinstance(delivered, Ordered) else []
    if not columns <= target:
        now = _to_required_columns(now, target, facts, steps)
    if now != required:
        steps.append(Step(Rule.EXPAND, now, required))
    return Proof(tuple(steps))


def _to_required_columns(now: Grouped, target: frozenset[Column], facts: Dependencies, steps: list[Step]) -> Grouped:
    """Steps to a grouping on required columns only: first replace equal columns, then drop determined ones."""

    def become(rule: Rule, after: frozenset[Column], because: Dependency | None = None) -> None:
        nonlocal now
        if after != now.columns:
            new = Grouped(after)
            steps.append(Step(rule, now, new, because))
            now = new

    become(Rule.EQUAL, renamed(now.columns, target, facts))
    shared, spare = now.columns & target, now.columns - target
    if not shared or not facts.determines(shared, spare):
        become(Rule.EXPAND, now.columns | target)
        shared = target
    become(Rule.DROP_GROUPED, shared, Dependency(shared, spare))
    return now


def _in_order(delivered: OncePerRow, required: Ordered, facts: Dependencies) -> Proof | Undetermined:
    single = _single_partition(delivered, required, facts)
    if single is not None:
        return single
    if not isinstance(delivered, Ordered):
        return frozenset()
    closures = facts.closures
    steps: list[Step] = []
    now = delivered.keys
    seen = closures.constant

    def become(rule: Rule, after: tuple[Sorted, ...], because: Dependency | None = None, turned: bool = False) -> None:
        nonlocal now
        if after != now:
            steps.append(Step(rule, Ordered(now), Ordered(after), because, turned))
            now = after

    def prefix(place: int, column: Column) -> Dependency:
        return Dependency(frozenset(key.column for key in now[:place]), frozenset((column,)))

    place = 0  # now[:place] is required.keys[:place]
    for wanted in required.keys:
        bit = closures.bit(wanted.column)
        while place < len(now) and not closures.bit(now[place].column) & ~seen:
            become(Rule.DROP_SORTED, (*now[:place], *now[place + 1 :]), prefix(place, now[place].column))
        if place == len(now):
            become(Rule.EXPAND_ORDERED, required.keys)
            return Proof(tuple(steps))
        if not bit & ~seen:
            become(Rule.DROP_SORTED, (*now[:place], wanted, *now[place:]), prefix(place, wanted.column), turned=True)
        else:
            given = now[place]
            same_nulls = given.nulls_first == wanted.nulls_first or wanted.column in facts.never_null
            if closures.bit(given.column) != bit or given.descending != wanted.descending or not same_nulls:
                return frozenset((given.column,))
            become(Rule.EQUAL, (*now[:place], given.on(wanted.column), *now[place + 1 :]))
            become(Rule.NULL_ORDER, (*now[:place], wanted, *now[place + 1 :]))
            seen = closures.close(seen | bit)
        place += 1
    while place < len(now):
        if closures.bit(now[place].column) & ~seen:
            return frozenset(key.column for key in now[place:] if closures.bit(key.column) & ~seen)
        become(Rule.DROP_SORTED, (*now[:place], *now[place + 1 :]), prefix(place, now[place].column))
    return Proof(tuple(steps))
