"""Rewriting a set of dependencies without changing what follows from it: covers, candidate keys, projection.

The hard one is projection. Dropping a column must not drop what was only known through it: with a -> b and b -> c,
dropping b leaves a -> c. We eliminate one column at a time by resolution: every way of determining the column is put in
place of it wherever it helps determine something else. That can grow exponentially, so past `LIMIT` dependencies the
column's remaining resolvents are let go, which forgets facts and never invents one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from unshuffle.catalog.schema import Column, Dependency, Key
from unshuffle.properties.dependencies import Dependencies, canonical, minimal_keys
from unshuffle.properties.equality import restrict_classes

LIMIT = 200


def single(dependencies: Iterable[Dependency]) -> list[Dependency]:
    """One column on each right-hand side, in a fixed order."""
    return [
        Dependency(d.determinant, frozenset((column,)))
        for d in dependencies
        for column in sorted(d.dependent - d.determinant, key=lambda c: c.id)
    ]


def minimal_cover(dependencies: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """An equivalent set: no column to spare on a left-hand side, and no dependency that follows from the others."""
    cover = list(dict.fromkeys(single(dependencies)))
    for index, each in enumerate(cover):
        facts = Dependencies.of(cover)
        left = each.determinant
        for column in sorted(left, key=lambda c: c.id):
            if facts.determines(left - {column}, each.dependent):
                left = left - {column}
        cover[index] = Dependency(left, each.dependent)
    cover = list(dict.fromkeys(cover))
    for each in tuple(cover):
        others = [d for d in cover if d is not each]
        if Dependencies.of(others).determines(each.determinant, each.dependent):
            cover = others
    return canonical(cover)


def candidate_keys(facts: Dependencies, columns: Iterable[Column]) -> tuple[Key, ...]:
    """The minimal sets that determine all the given columns, smallest first. Of equal columns, any may serve.

    Tries every combination of the columns that others determine: for a table's columns, not for a hundred of them.
    """
    every = sorted(frozenset(columns), key=lambda c: c.id)
    # A column that nothing else determines is in every key; only the rest need trying.
    core = frozenset(c for c in every if not facts.determines((o for o in every if o != c), (c,)))
    found: list[Key] = []
    optional = [c for c in every if c not in core]
    for size in range(len(optional) + 1):
        for extra in combinations(optional, size):
            key = core | frozenset(extra)
            if not any(smaller <= key for smaller in found) and facts.determines(key, every):
                found.append(key)
    return tuple(found)


def minimize_set(facts: Dependencies, columns: Iterable[Column]) -> frozenset[Column]:
    """Rule 6 to its end: a smallest-number-first subset that determines the same columns."""
    kept = frozenset(columns)
    for column in sorted(kept, key=lambda c: -c.id):
        if facts.determines(kept - {column}, (column,)):
            kept -= {column}
    return kept


def without(dependencies: Iterable[Dependency], column: Column) -> tuple[Dependency, ...]:
    """What follows without mentioning `column`."""
    every = single(dependencies)
    sources = [d.determinant for d in every if column in d.dependent]
    kept = [d for d in every if column not in d.determinant and column not in d.dependent]
    for each in every:
        if column not in each.determinant or column in each.dependent:
            continue
        for source in sources:
            left = (each.determinant - {column}) | source
            if column not in left and not each.dependent <= left and len(kept) < LIMIT:
                kept.append(Dependency(left, each.dependent))
    return tuple(prune(kept))


def prune(dependencies: Iterable[Dependency]) -> list[Dependency]:
    """Drop a dependency where another reaches the same column from fewer."""
    every = list(dict.fromkeys(dependencies))
    return [d for d in every if not any(o.dependent == d.dependent and o.determinant < d.determinant for o in every)]


def restrict(facts: Dependencies, columns: Iterable[Column]) -> Dependencies:
    """The facts about the given columns alone, rows unchanged."""
    kept = frozenset(columns)
    # Of a class that is lost altogether one column stands for all, so that what is known of any is known of it.
    instead = {
        column: min(each.columns & kept or each.columns, key=lambda c: c.id)
        for each in facts.classes
        for column in each.columns - kept
    }

    def rename(names: frozenset[Column]) -> frozenset[Column]:
        return frozenset(instead.get(c, c) for c in names)

    constants = frozenset(c for each in facts.classes if each.constant is not None for c in each.columns)
    functional = [Dependency(rename(d.determinant - constants), rename(d.dependent)) for d in facts.functional]
    # A unique set that loses a column may still be known unique through one that determines the column, and a
    # dependency on columns that leave may be seen through a key: key -> c for each column kept.
    keys = {rename(key - constants) for key in facts.keys}
    gone = {c for d in functional for c in d.determinant | d.dependent} | {c for key in keys for c in key}
    for column in sorted(gone - kept, key=lambda c: c.id):
        sources = [d.determinant for d in single(functional) if column in d.dependent]
        keys |= {(key - {column}) | source for key in keys if column in key for source in sources}
        keys = set(minimal_keys(key for key in keys if column not in key))
        functional = list(without(functional, column))
    lax = [Dependency(rename(d.determinant), rename(d.dependent) & kept) for d in facts.lax]
    return Dependencies.of(
        (Dependency(d.determinant, d.dependent & kept) for d in functional),
        restrict_classes(facts.classes, kept),
        keys,
        facts.never_null & kept,
        (d for d in lax if d.determinant <= kept),
    )
