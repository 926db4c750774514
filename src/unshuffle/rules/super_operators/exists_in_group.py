"""Rows that are kept, or dropped, for another row of their group: is there one, one that differs, one that is less?

     SEMI or ANTI JOIN on a, x <> x'                  of rows in which p' holds: count, or least and greatest x'
        e1 /       \\ e2: p'             -->                     over the groups of a
           \\       /                                             |
             input                                             input

there is an x' with       if and only if
x' <> x                   least x' <> x or greatest x' <> x
x' <  x                   least x' < x
x' >  x                   greatest x' > x
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from unshuffle.algebra.expressions import AggregateCall, Call, Expression, Ref, columns_of, connect
from unshuffle.algebra.logical import Join, Plan, Reference, Scan
from unshuffle.algebra.predicates import conjunction, conjuncts
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import is_movable, substitute
from unshuffle.rules.super_operators.abstract import Edge, edges, reaches
from unshuffle.rules.super_operators.beside import Beside, beside
from unshuffle.rules.super_operators.grouped_pass import BOOLEAN, NONE, ONE, when
from unshuffle.rules.super_operators.leaves import common_leaves
from unshuffle.search.memo import Group, Memo

# A comparison seen from its other side.
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "<>": "<>"}


def exists_in_group(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A semi or anti join of an input with itself asks whether a row's group has another of a kind. How many there are, or
    the least and the greatest of their values, comes beside each row instead.

    Not for two comparisons with one other row: the least of each need not be in the same row."""
    if not isinstance(plan, Join) or plan.kind not in (JoinKind.SEMI, JoinKind.ANTI) or plan.condition is None:
        return
    left, right = cast("tuple[Group, Group]", plan.children)
    if not all(reaches(side, (Scan, Reference)) for side in (left, right)) or not is_movable(plan.condition):
        return
    for leaf, (rows, others) in common_leaves((list(edges(left)), list(edges(right)))):
        found = _asked(plan, leaf, rows, others, memo)
        if found is not None:
            yield beside(plan, found, memo)


def _asked(plan: Join, leaf: Plan, rows: Edge, others: Edge, memo: Memo) -> Beside | None:
    values = {**rows.outputs, **others.outputs}
    mine, theirs = frozenset(rows.outputs), frozenset(others.outputs)
    keys: list[Expression] = []
    solid: list[Column] = []
    rest: list[Expression] = []
    of_others = list(others.predicates)
    compared: list[_Comparison] = []
    for part in conjuncts(plan.condition):
        read = columns_of(part)
        if read <= mine:
            rest.append(part)
            continue
        if read <= theirs:
            of_others.append(substitute(part, values))
            continue
        match part:
            case Call(name, (one, other)) if columns_of(one) <= mine and columns_of(other) <= theirs:
                pass
            case Call(name, (other, one)) if columns_of(one) <= mine and columns_of(other) <= theirs:
                name = _TURNED.get(name, name)
            case _:
                return None
        left, right = substitute(one, values), substitute(other, values)
        if name in ("=", "<=>") and left == right and isinstance(one, Ref):
            keys.append(left)
            solid += [one.column] if name == "=" else []
        elif name in _TURNED and right.type is not None and left.type == right.type:
            compared.append((name, left, right))
        else:
            return None
    if not keys or len(compared) > 1:
        return None
    if (rows.predicates or others.predicates) and not all(isinstance(key, Ref) for key in keys):
        return None  # a key may only be safe to compute in the rows that the predicates leave
    calls, condition = _found(compared, conjunction(of_others), memo)
    return Beside(leaf, rows, tuple(dict.fromkeys(keys)), calls, {}, (condition,), solid, rest)


_Comparison = tuple[str, Expression, Expression]  # of a row, with a value of the others


def _found(
    compared: Sequence[_Comparison], kind: Expression | None, memo: Memo
) -> tuple[tuple[tuple[Column, AggregateCall], ...], Expression]:
    """What is counted of the rows of a kind, and when that says that one of them is met. A window has no FILTER."""
    if not compared:
        count = memo.numbers.new("others", NONE.type, nullable=False)
        call = AggregateCall("count", (when(kind, ONE),), NONE.type)
        return ((count, call),), Call(">", (Ref(count), NONE), BOOLEAN)
    ((name, value, other),) = compared
    ends = {"<>": ("min", "max"), "<": ("max",), "<=": ("max",), ">": ("min",), ">=": ("min",)}[name]
    columns = [memo.numbers.new(end, other.type) for end in ends]
    calls = tuple(
        (column, AggregateCall(end, (when(kind, other),), other.type))
        for end, column in zip(ends, columns, strict=True)
    )
    return calls, connect("or", [Call(name, (value, Ref(column)), BOOLEAN) for column in columns])


RULES = (exists_in_group,)
