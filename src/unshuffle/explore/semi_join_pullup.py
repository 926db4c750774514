"""Semi- and anti-joins after other joins. Normalization pushes them down like filters (`semi_join_pushdown`), but they cost
as much as joins, and later they may have fewer rows to look up.

(orders semi join big on o_orderkey = b) join few       (orders join few) semi join big on o_orderkey = b
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.constants import THRESHOLDS
from unshuffle.plan.expressions import Expression, columns_of
from unshuffle.plan.logical import Join, Plan
from unshuffle.plan.predicates import is_deterministic
from unshuffle.search.memo import Group, Memo, as_group, input_groups

FEW = THRESHOLDS.semi_join_pullup_share
MANY = THRESHOLDS.semi_join_pullup_rows


def semi_join_above_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A semi- or anti-join below an inner join may come after it: each joined row has the columns that the semi-join reads
    from one row of its input. This pays where the join leaves few rows.

    Unsound for the NULL-extended side of an outer join, and for conditions that are not deterministic."""
    if not isinstance(plan, Join) or plan.kind is not JoinKind.INNER or not _is_deterministic(plan):
        return
    joined_rows = memo.group_of(plan).rows
    for side, other in ((0, 1), (1, 0)):
        chosen, beside = (as_group(plan.children[each]) for each in (side, other))
        if joined_rows <= FEW * chosen.rows:
            semi_joins = (each for each in chosen.expressions if isinstance(each, Join))
            yield from (_after(plan, side, semi) for semi in semi_joins if _can_wait(semi, beside))


def _can_wait(semi: Join, beside: Group) -> bool:
    if semi.kind not in (JoinKind.SEMI, JoinKind.ANTI) or not _is_deterministic(semi):
        return False
    rows, looked_up = input_groups(semi)
    return rows.rows >= MANY and looked_up.column_set.isdisjoint(beside.column_set)


def _is_deterministic(join: Join) -> bool:
    return join.condition is not None and is_deterministic(join.condition)


def _after(plan: Join, side: int, semi: Join) -> Plan:
    """The join over the semi-join's input, and the semi-join over its result."""
    read = columns_of(cast(Expression, semi.condition)) & frozenset(semi.left.columns)
    kept = (*plan.columns, *(c for c in semi.left.columns if c in read and c not in plan.columns))
    sides = (semi.left, plan.right) if side == 0 else (plan.left, semi.left)
    joined = Join(JoinKind.INNER, *sides, plan.condition, kept)
    return Join(semi.kind, joined, semi.right, semi.condition, plan.columns)
