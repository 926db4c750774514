"""How facts propagate through a join, and which facts the NULL-extended side loses.

Let R be the side that keeps its rows, and S the side that is NULL-extended where a row of R has no match.

| fact of S       | in R left join S                                                                              |
|-----------------|-----------------------------------------------------------------------------------------------|
| X -> Y          | kept if some column of X is never NULL in S, or cannot be NULL in a matching row. Otherwise a |
|                 | stored row and a NULL-extended row may both be NULL on X and differ on Y: it becomes X ~> Y   |
| X ~> Y          | kept                                                                                          |
| a = b           | kept: a NULL-extended row has NULL in both                                                    |
| a = 5, {} -> a  | lost: a is 5 or NULL (a constant NULL is kept)                                                |
| never NULL      | lost                                                                                          |
| unique X        | lost: two rows of R may be unmatched. X together with a key of R is unique                    |

Worked example: R(a) left join S(x, y, z) on a = z, where x -> y, S holds one row (NULL, 7, 1), and R holds 1 and 5:

    a   x     y     z        x -> y holds in S. In the join both rows are NULL on x and differ on y, so only x ~> y is
    1   NULL  7     1        left. A dependency z -> y would survive: a row of S with z NULL has no match, so every NULL
    5   NULL  NULL  NULL     in z is padding. a = z does not hold in the last row; a -> z does.

The join's own a = b does not survive, because b is either a or NULL. It leaves b ~> a and, if the condition depends on
nothing else of R's row, J_R -> J_S: rows of R that agree on their join columns have the same matches, or none.
"""

from __future__ import annotations

from collections.abc import Iterable

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, Dependency, Key
from unshuffle.frozen import dataclass
from unshuffle.properties.facts.cover import restrict
from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.facts.equality import EqualColumns, interchangeable
from unshuffle.properties.facts.propagate import Predicate, select


@dataclass(frozen=True, slots=True)
class Side:
    """One input of a join: its columns and its facts."""

    columns: frozenset[Column]
    facts: Dependencies


def join(kind: JoinKind, left: Side, right: Side, on: Predicate, exact: bool = False) -> Dependencies:
    """The facts of the result. Pairs in `on` are (left column, right column). `exact` means that, besides these pairs, the
    condition uses only columns of a NULL-extended side: nothing else in a kept row decides whether it matches."""
    match kind:
        case JoinKind.INNER:
            return _inner(left, right, on)
        case JoinKind.SEMI:
            # Apart from duplicates, the left columns of the inner join; the keys are those of the left input.
            inner = restrict(_inner(left, right, on), left.columns)
            return Dependencies.of(
                inner.functional, inner.classes, left.facts.keys, inner.never_null, (*inner.lax, *left.facts.lax)
            )
        case JoinKind.ANTI:
            return left.facts
        case JoinKind.LEFT:
            return _outer(left, right, on, exact)
        case JoinKind.RIGHT:
            return _outer(right, left, _swapped(on), exact)
        case JoinKind.FULL:
            return _full(left, right)


def _inner(left: Side, right: Side, on: Predicate) -> Dependencies:
    one, other = left.facts, right.facts
    both = Dependencies.of(
        (*one.functional, *other.functional, *_keys_as_dependencies(left), *_keys_as_dependencies(right)),
        (*one.classes, *other.classes),
        (),
        one.never_null | other.never_null,
        (*one.lax, *other.lax),
    )
    facts = select(both, on)
    keys: set[Key] = {a | b for a in one.keys for b in other.keys}
    # If a row has at most one match, the keys of its side are still keys.
    if other.unique(_matched(facts, left.columns, right.columns)):
        keys |= one.keys
    if one.unique(_matched(facts, right.columns, left.columns)):
        keys |= other.keys
    return Dependencies.of(facts.functional, facts.classes, keys, facts.never_null, facts.lax)


def _matched(facts: Dependencies, one: frozenset[Column], other: frozenset[Column]) -> frozenset[Column]:
    """The columns of `other` that are equal to a column of `one`, or constant."""
    matched: set[Column] = set()
    for each in facts.classes:
        if each.columns & one or each.constant is not None:
            matched |= each.columns & other
    return frozenset(matched)


def _keys_as_dependencies(side: Side) -> list[Dependency]:
    """A join may repeat a row, so a key is no longer unique, but it still determines the columns of its side."""
    return [Dependency(key, side.columns - key) for key in side.facts.keys]


def extended(side: Side, matching: frozenset[Column] = frozenset()) -> Dependencies:
    """The facts of one side after NULL extension. `matching` are the columns that cannot be NULL in its matching rows; it
    is empty if the join also keeps unmatched rows of this side."""
    facts = side.facts
    not_null = facts.never_null | matching
    every = (*facts.functional, *_keys_as_dependencies(side))
    nulls = [each for each in facts.classes if each.constant is not None and each.constant.value is None]
    return Dependencies.of(
        (d for d in every if d.determinant & not_null),
        [*(EqualColumns(each.columns) for each in facts.classes), *nulls],
        (),
        (),
        (*(d for d in every if d.determinant and not d.determinant & not_null), *facts.lax),
    )


def _outer(kept: Side, padded: Side, on: Predicate, exact: bool) -> Dependencies:
    """`padded` is the side that is NULL-extended. Pairs in `on` are (kept column, padded column)."""
    one, other = kept.facts, extended(padded, on.rejects_null() & padded.columns)
    pairs = (*on.equal, *on.null_safe)
    # Under a lossy cast, equal values are not the same value: 1 matches both '1' and '01'.
    same = [(outer, inner) for outer, inner in pairs if interchangeable(outer.type, inner.type)]
    back = [Dependency(frozenset((inner,)), frozenset((outer,))) for outer, inner in same if (outer, inner) in on.equal]
    forward = [Dependency(frozenset(o for o, _ in pairs), frozenset(i for _, i in same))] if exact else []
    keys: set[Key] = {a | b for a in one.keys for b in padded.facts.keys}
    if padded.facts.unique(inner for _, inner in same):
        keys |= one.keys
    return Dependencies.of(
        (*one.functional, *_keys_as_dependencies(kept), *other.functional, *forward),
        (*one.classes, *other.classes),
        keys,
        one.never_null,
        (*one.lax, *other.lax, *back),
    )


def _full(left: Side, right: Side) -> Dependencies:
    one, other = extended(left), extended(right)
    # (r, NULLs) and (NULLs, s) could both be NULL on a | b, unless a or b has a column that is never NULL in its input.
    keys = {
        a | b
        for a in left.facts.keys
        for b in right.facts.keys
        if a & left.facts.never_null or b & right.facts.never_null
    }
    return Dependencies.of(
        (*one.functional, *other.functional), (*one.classes, *other.classes), keys, (), (*one.lax, *other.lax)
    )


def _swapped(on: Predicate) -> Predicate:
    def turn(pairs: Iterable[tuple[Column, Column]]) -> tuple[tuple[Column, Column], ...]:
        return tuple((other, one) for one, other in pairs)

    return Predicate(turn(on.equal), turn(on.null_safe), on.constants, on.nulls, on.not_null)
