"""Normal forms (ICDE 2010, section VII): each column replaced by its representative, then every column and action that
adds nothing taken out.

Matching does not need them, since it compares closures. They are for people and for caches: a property and its normal
form imply each other, and a plan is easier to read when [c6↑, c2↓, c3↑] is shown as [c1↑, c2↓]. They are not unique
where two columns determine each other without being equal; the one with the smaller number is then kept.
"""

from __future__ import annotations

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties.cover import minimal_cover
from unshuffle.properties.dependencies import Dependencies
from unshuffle.properties.structure import Action, Global, Grouped, Local, Ordered, Sorted, columns_of


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
    """A partitioning on constants alone is left with one of them: it is not the same as one partition."""
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
    """Dependencies between representatives only, as a minimal cover; what follows is unchanged."""

    def stand_in(columns: frozenset[Column]) -> frozenset[Column]:
        return frozenset(facts.representative(column) for column in columns)

    cover = minimal_cover(Dependency(stand_in(d.determinant), stand_in(d.dependent)) for d in facts.functional)
    return Dependencies.of(cover, facts.classes, map(stand_in, facts.keys), facts.never_null, facts.lax)


def _sorted(key: Sorted, facts: Dependencies) -> Sorted:
    """Where nothing is NULL, every order puts NULLs in the usual place."""
    first = not key.descending if key.column in facts.never_null else key.nulls_first
    return Sorted(facts.representative(key.column), key.descending, first)


def _smallest(columns: frozenset[Column], context: frozenset[Column], facts: Dependencies) -> frozenset[Column]:
    """Rules 6 and 8 to their end, larger numbers going first."""
    kept = frozenset(facts.representative(column) for column in columns)
    for column in sorted(kept, key=lambda c: -c.id):
        if facts.determines(context | (kept - {column}), (column,)):
            kept -= {column}
    return kept


def _first(columns: frozenset[Column], facts: Dependencies) -> Column:
    return min((facts.representative(column) for column in columns), key=lambda c: c.id)
