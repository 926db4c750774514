"""Which facts pass through a join, and what a NULL-extended side loses.

Write R for the side that keeps its rows and S for the one extended with NULLs where R's row has no match.

| fact of S       | in R left join S                                                                              |
|-----------------|-----------------------------------------------------------------------------------------------|
| X -> Y          | stays if some column of X is never NULL in S, or cannot be NULL in a row that matches; else   |
|                 | two rows may agree on X by being NULL, one stored and one invented, and differ on Y: it       |
|                 | becomes lax, X ~> Y                                                                           |
| X ~> Y          | stays lax                                                                                     |
| a = b           | stays: both are invented NULL together                                                        |
| a = 5, {} -> a  | goes: a is 5 or NULL (a constant NULL stays)                                                  |
| never NULL      | goes                                                                                          |
| unique X        | X is unique no longer (two rows of R without match); X with a key of R is                     |

Worked example: R(a) left join S(x, y, z) on a = z, where x -> y, S holds one row (NULL, 7, 1), and R holds 1 and 5:

    a   x     y     z        x -> y was true of S. Now two rows agree on x, because it is NULL in both, and differ on
    1   NULL  7     1        y: only x ~> y is left. A dependency z -> y would stay: a row of S with z NULL matches
    5   NULL  NULL  NULL     nothing, so every NULL there is invented. a = z fails on the last row; a -> z holds.

The join's own a = b does not survive: b is a or NULL. What is left of it is b ~> a, and, if the condition says nothing
else about R's row, J_R -> J_S: rows of R that agree on their join columns find the same matches or find none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, Dependency, Key
from unshuffle.properties.carry import Predicate, select
from unshuffle.properties.cover import restrict
from unshuffle.properties.dependencies import Dependencies
from unshuffle.properties.equality import EqualColumns, interchangeable


@dataclass(frozen=True, slots=True)
class Side:
    """One input: its columns and what is known of them."""

    columns: frozenset[Column]
    facts: Dependencies


def join(kind: JoinKind, left: Side, right: Side, on: Predicate, exact: bool = False) -> Dependencies:
    """Facts of the result. Pairs in `on` are (left column, right column). `exact` promises that the condition is these
    pairs and otherwise mentions only columns of a NULL-extended side: nothing else of a kept row decides its match."""
    match kind:
        case JoinKind.INNER:
            return _inner(left, right, on)
        case JoinKind.SEMI:
            # The left columns of the inner join, as a set of rows; duplicates aside, so keys are the left input's own.
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
    # If at most one row of the other side can match, a side's keys stay keys.
    if other.unique(_matched(facts, left.columns, right.columns)):
        keys |= one.keys
    if one.unique(_matched(facts, right.columns, left.columns)):
        keys |= other.keys
    return Dependencies.of(facts.functional, facts.classes, keys, facts.never_null, facts.lax)


def _matched(facts: Dependencies, one: frozenset[Column], other: frozenset[Column]) -> frozenset[Column]:
    """Columns of `other` that a row of `one` fixes: equal to a column of `one`, or constant."""
    fixed: set[Column] = set()
    for each in facts.classes:
        if each.columns & one or each.constant is not None:
            fixed |= each.columns & other
    return frozenset(fixed)


def _keys_as_dependencies(side: Side) -> list[Dependency]:
    """A joined row repeats a side's row, so its key is unique no more, but still determines that side's columns."""
    return [Dependency(key, side.columns - key) for key in side.facts.keys]


def _extended(side: Side, matching: frozenset[Column] = frozenset()) -> Dependencies:
    """One side's facts once rows of NULLs are among its rows. If only matching rows of it are left, `matching` are the
    columns that those cannot have NULL."""
    facts = side.facts
    solid = facts.never_null | matching
    every = (*facts.functional, *_keys_as_dependencies(side))
    nulls = [each for each in facts.classes if each.constant is not None and each.constant.value is None]
    return Dependencies.of(
        (d for d in every if d.determinant & solid),
        [*(EqualColumns(each.columns) for each in facts.classes), *nulls],
        (),
        (),
        (*(d for d in every if d.determinant and not d.determinant & solid), *facts.lax),
    )


def _outer(kept: Side, extended: Side, on: Predicate, exact: bool) -> Dependencies:
    """Pairs in `on` are (kept column, extended column)."""
    one, other = kept.facts, _extended(extended, on.rejects_null() & extended.columns)
    pairs = (*on.equal, *on.null_safe)
    # Under a cast that loses something, equal is not the same: 1 matches both '1' and '01'.
    same = [(outer, inner) for outer, inner in pairs if interchangeable(outer.type, inner.type)]
    back = [Dependency(frozenset((inner,)), frozenset((outer,))) for outer, inner in same if (outer, inner) in on.equal]
    forward = [Dependency(frozenset(o for o, _ in pairs), frozenset(i for _, i in same))] if exact else []
    keys: set[Key] = {a | b for a in one.keys for b in extended.facts.keys}
    if extended.facts.unique(inner for _, inner in same):
        keys |= one.keys
    return Dependencies.of(
        (*one.functional, *_keys_as_dependencies(kept), *other.functional, *forward),
        (*one.classes, *other.classes),
        keys,
        one.never_null,
        (*one.lax, *other.lax, *back),
    )


def _full(left: Side, right: Side) -> Dependencies:
    one, other = _extended(left), _extended(right)
    # (r, NULLs) and (NULLs, s) could both be all NULL on the joined keys, unless a key has a column never stored NULL.
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
