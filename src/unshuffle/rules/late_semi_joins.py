"""Semi- and anti-joins are pushed down like filters (`push_semi`), but cost as joins do: they may as well come late.

(orders semi join big on o_orderkey = b) join few       (orders join few) semi join big on o_orderkey = b
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from unshuffle.algebra.expressions import Expression, columns_of
from unshuffle.algebra.logical import Join, Plan
from unshuffle.algebra.predicates import is_deterministic
from unshuffle.catalog.joins import JoinKind
from unshuffle.search.memo import Group, Memo

# Of its input's rows, what a join must leave at most; and how many rows there must be for it to be worth another plan.
FEW = 0.5
MANY = 100_000


def semi_join_above_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """Whether a row has a match may be asked of the joined rows, where these are fewer.

    Each of them has the columns that are asked about from one row of the input. Not for the NULL-extended side of an outer
    join, nor if a condition is random."""
    if not isinstance(plan, Join) or plan.kind is not JoinKind.INNER or not _is_fixed(plan):
        return
    joined_rows = memo.group_of(plan).rows
    for side, other in ((0, 1), (1, 0)):
        chosen, beside = (cast(Group, plan.children[each]) for each in (side, other))
        if joined_rows <= FEW * chosen.rows:
            for semi in chosen.expressions:
                if isinstance(semi, Join) and semi.kind in (JoinKind.SEMI, JoinKind.ANTI) and _can_wait(semi, beside):
                    yield _after(plan, side, semi)


def _can_wait(semi: Join, beside: Group) -> bool:
    rows, asked = cast("tuple[Group, Group]", semi.children)
    return _is_fixed(semi) and rows.rows >= MANY and asked.column_set.isdisjoint(beside.column_set)


def _is_fixed(join: Join) -> bool:
    return join.condition is not None and is_deterministic(join.condition)


def _after(plan: Join, side: int, semi: Join) -> Plan:
    """The join of what the semi-join chooses from, and then the semi-join."""
    read = columns_of(cast(Expression, semi.condition)) & frozenset(semi.left.columns)
    kept = (*plan.columns, *(c for c in semi.left.columns if c in read and c not in plan.columns))
    sides = (semi.left, plan.right) if side == 0 else (plan.left, semi.left)
    joined = Join(JoinKind.INNER, *sides, plan.condition, kept)
    return Join(semi.kind, joined, semi.right, semi.condition, plan.columns)


RULES = (semi_join_above_join,)
