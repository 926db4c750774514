"""Equivalent forms of a set of dependencies: minimal covers, minimal column sets, and projection.

Projection is the hard case. Dropping a column must not drop dependencies that were only implied through it: with a -> b and
b -> c, dropping b leaves a -> c. Columns are eliminated one at a time by resolution: every determinant of the column
replaces it in the determinants it appears in. The result can grow exponentially, so beyond `LIMIT` dependencies further
resolvents are discarded. That loses facts and never invents one.
"""

from __future__ import annotations

from collections.abc import Iterable

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties.facts.dependencies import Dependencies, canonical, minimal_keys
from unshuffle.properties.facts.equality import restrict_classes

LIMIT = 200


def single(dependencies: Iterable[Dependency]) -> list[Dependency]:
    """The same dependencies with one column on each right-hand side, in a fixed order."""
    return [
        Dependency(d.determinant, frozenset((column,)))
        for d in dependencies
        for column in sorted(d.dependent - d.determinant, key=lambda c: c.id)
    ]


def minimal_cover(dependencies: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """An equivalent set without redundant columns on a left-hand side and without redundant dependencies."""
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


def minimize_set(facts: Dependencies, columns: Iterable[Column]) -> frozenset[Column]:
    """A minimal subset that determines the same columns: rule 6, applied until it changes nothing."""
    kept = frozenset(columns)
    for column in sorted(kept, key=lambda c: -c.id):
        if facts.determines(kept - {column}, (column,)):
            kept -= {column}
    return kept


def without(dependencies: Iterable[Dependency], column: Column) -> tuple[Dependency, ...]:
    """The dependencies that follow and do not mention `column`."""
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
    """Drops a dependency if another determines the same column from fewer columns."""
    every = list(dict.fromkeys(dependencies))
    return [d for d in every if not any(o.dependent == d.dependent and o.determinant < d.determinant for o in every)]


def restrict(facts: Dependencies, columns: Iterable[Column]) -> Dependencies:
    """The facts about these columns. The rows do not change."""
    kept = frozenset(columns)
    # If a class loses all its columns, one of them represents the class, so that facts about any member are kept.
    replacement = {
        column: min(each.columns & kept or each.columns, key=lambda c: c.id)
        for each in facts.classes
        for column in each.columns - kept
    }

    def rename(names: frozenset[Column]) -> frozenset[Column]:
        return frozenset(replacement.get(c, c) for c in names)

    constants = frozenset(c for each in facts.classes if each.constant is not None for c in each.columns)
    functional = [Dependency(rename(d.determinant - constants), rename(d.dependent)) for d in facts.functional]
    # A key that loses a column is still unique if it contains a determinant of the column. A dependency on dropped
    # columns may still follow from a key, because a key determines every column.
    keys = {rename(key - constants) for key in facts.keys}
    dropped = {c for d in functional for c in d.determinant | d.dependent} | {c for key in keys for c in key}
    for column in sorted(dropped - kept, key=lambda c: c.id):
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
