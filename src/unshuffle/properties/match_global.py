"""Does one global property imply another? (ICDE 2010, section VII and rules 2, 3, 5, 6, 7)

Again decided on closures. Let D be the columns of the delivered partitioning.

    D^g or D^o ⇒ X^g   exactly if X determines D, or X is unique, or D is constant: rows that agree on X then agree on
                       what the partition was computed from. Global properties grow where local ones shrink: rule 2
                       adds columns and none may be cut off.
    D^o ⇒ X^o          exactly if D, less the columns determined by those before them, is a prefix of X written the
                       same way: rows of two partitions differ on D, so the first difference on X must be on one of
                       those columns and in the same direction.
    ⊥ ⇒ X^g, X^o       always
    ⊤ ⇒ anything else  never, nor does a part of ⊤ (`Covering`)

Worked example: ranges on [a↑, b↓, c↑], with a -> b and c = d. Are they in order on [a↑, d↑, e↓]? a is first on both
sides. b is determined by a and goes (rule 7). c is d under another name. Nothing is left of the delivered keys, so the
rest of the required ones may be added (rule 3): proven. Are they clustered on {a, e}? {a, e} determines a and b, not c:
not proven, and c is what is missing.

SIGMOD 2012, section 3.3.3, drops a repartitioning on a for data hashed on b "if b -> a". Read literally, that is
unsound: rows that agree on a may have several b. The dependency that is needed is a -> b, and Figure 1 of ICDE 2010 has
it that way round; in the example beside the text, a = b + 1, both hold.
"""

from __future__ import annotations

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties.closure import EVERYTHING
from unshuffle.properties.dependencies import Dependencies
from unshuffle.properties.match_local import renamed
from unshuffle.properties.proof import HOLDS, Proof, Rule, Step
from unshuffle.properties.structure import (
    Covering,
    Global,
    Grouped,
    Ordered,
    Replicated,
    Scattered,
    Serial,
    Sorted,
)

# What keeps an implication from holding: the columns that are not determined, none if it is the kind that is wrong.
Undetermined = frozenset[Column]
Placed = Grouped | Ordered | Scattered


def match_global(delivered: Global, required: Global, facts: Dependencies) -> Proof | Undetermined:
    if isinstance(delivered, Scattered) and isinstance(required, Scattered):
        return HOLDS
    if delivered == required:
        return HOLDS
    if isinstance(delivered, Replicated | Covering) or isinstance(required, Serial | Replicated | Covering):
        return frozenset()
    if isinstance(required, Scattered):
        return Proof((Step(Rule.ANYHOW, delivered, required),))
    if isinstance(delivered, Serial):
        return Proof((Step(Rule.ONE_PLACE, delivered, required),))
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


def _one_place(delivered: Global, required: Global, facts: Dependencies) -> Proof | None:
    columns = partitioning_columns(delivered)
    if not facts.unique(()) and (not columns or not facts.determines((), columns)):
        return None
    return Proof((Step(Rule.ONE_PLACE, delivered, required, Dependency(frozenset(), columns)),))


def _clustered(delivered: Placed, required: Grouped, facts: Dependencies) -> Proof | Undetermined:
    closures = facts.closures
    wanted = required.columns
    columns = partitioning_columns(delivered)
    mine, reached = closures.mask(columns), closures.close(closures.mask(wanted))
    if not columns or mine & ~reached:
        if reached == EVERYTHING:
            return Proof((Step(Rule.UNIQUE, delivered, required),))
        return frozenset(c for c in columns if closures.bit(c) & ~reached)
    if not mine & ~closures.constant:
        return Proof((Step(Rule.ONE_PLACE, delivered, required, Dependency(frozenset(), columns)),))
    now = Grouped(columns)
    steps = [Step(Rule.ORDERED_IS_CLUSTERED, delivered, now)] if isinstance(delivered, Ordered) else []
    if not columns <= wanted:
        now = _within(now, wanted, facts, steps)
    if now != required:
        steps.append(Step(Rule.EXPAND, now, required))
    return Proof(tuple(steps))


def _within(now: Grouped, wanted: frozenset[Column], facts: Dependencies, steps: list[Step]) -> Grouped:
    """Steps to a grouping on wanted columns only: first rename, then drop what is determined."""

    def become(rule: Rule, after: frozenset[Column], because: Dependency | None = None) -> None:
        nonlocal now
        if after != now.columns:
            new = Grouped(after)
            steps.append(Step(rule, now, new, because))
            now = new

    become(Rule.EQUAL, renamed(now.columns, wanted, facts))
    shared, spare = now.columns & wanted, now.columns - wanted
    if not shared or not facts.determines(shared, spare):
        become(Rule.EXPAND, now.columns | wanted)
        shared = wanted
    become(Rule.DROP_GROUPED, shared, Dependency(shared, spare))
    return now


def _in_order(delivered: Placed, required: Ordered, facts: Dependencies) -> Proof | Undetermined:
    known = _one_place(delivered, required, facts)
    if known is not None:
        return known
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
