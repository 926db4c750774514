"""Normal forms of properties (ICDE 2010, section VII): columns are replaced by their representatives, and redundant columns
and actions are removed.

A property and its normal form imply each other: given c1 = c6 and c1, c2 -> c3, [c6↑, c2↓, c3↑] becomes [c1↑, c2↓]. The
matcher compares closures and does not need normal forms. A normal form is not unique if two columns determine each other
without being equal; the column with the smaller number is then kept.
"""

from __future__ import annotations

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties.facts.cover import minimal_cover
from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.layouts.structure import Action, Global, Grouped, Local, Ordered, Sorted, columns_of


def normal_local(local: Local, facts: Dependencies) -> Local:
    result: list[Action] = []
    for action in local:
        before = columns_of(result)
        if facts.unique(before) or facts.determines(before, columns_of((action,))):
            continue
        if isinstance(action, Sorted):
            result.append(_sorted(action, facts))
        else:
            result.append(Grouped(_smallest(action.columns, before, facts)))
    return tuple(result)


def normal_global(claim: Global, facts: Dependencies) -> Global:
    """A partitioning on constants keeps one of them, because it differs from a single partition."""
    match claim:
        case Grouped():
            kept = _smallest(claim.columns, frozenset(), facts)
            return Grouped(kept or frozenset((_first(claim.columns, facts),)))
        case Ordered():
            keys = [key for key in normal_local(claim.keys, facts) if isinstance(key, Sorted)]
            return Ordered(tuple(keys) or (_sorted(claim.keys[0], facts),))
        case _:
            return claim


def normal_facts(facts: Dependencies) -> Dependencies:
    """Equivalent facts: a minimal cover of the dependencies between representatives."""

    def representatives(columns: frozenset[Column]) -> frozenset[Column]:
        return frozenset(facts.representative(column) for column in columns)

    cover = minimal_cover(
        Dependency(representatives(d.determinant), representatives(d.dependent)) for d in facts.functional
    )
    return Dependencies.of(cover, facts.classes, map(representatives, facts.keys), facts.never_null, facts.lax)


def _sorted(key: Sorted, facts: Dependencies) -> Sorted:
    """For a column without NULLs, the order of NULLs is set to the default of the direction."""
    first = not key.descending if key.column in facts.never_null else key.nulls_first
    return Sorted(facts.representative(key.column), key.descending, first)


def _smallest(columns: frozenset[Column], context: frozenset[Column], facts: Dependencies) -> frozenset[Column]:
    """Rules 6 and 8, applied until nothing changes; columns with larger numbers are dropped first."""
    kept = frozenset(facts.representative(column) for column in columns)
    for column in sorted(kept, key=lambda c: -c.id):
        if facts.determines(context | (kept - {column}), (column,)):
            kept -= {column}
    return kept


def _first(columns: frozenset[Column], facts: Dependencies) -> Column:
    return min((facts.representative(column) for column in columns), key=lambda c: c.id)
