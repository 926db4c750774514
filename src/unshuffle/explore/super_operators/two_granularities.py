"""Groups joined with the coarser groups that contain them: a share of a total, a rank within a year.

           JOIN on a                                 totals of a over the groups of a, b
       e3 /     \\ e4                                           |
GROUP BY a, b   GROUP BY a           -->             GROUP BY a, b
       e1 \\     / e2                                           |
           input                                             input
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.explore.super_operators.abstract import Branch, Edge, cores, edges, reaches
from unshuffle.explore.super_operators.diamond_join import filtered, keys_above, keys_compared
from unshuffle.explore.super_operators.grouped_pass import Reached, is_foldable, narrowed
from unshuffle.explore.super_operators.leaves import common_leaves
from unshuffle.explore.super_operators.windowed_pass import KEEPS_ROWS, WindowedPass, rows_with_values
from unshuffle.plan.expressions import AggregateCall, Cast, Expression, Ref, columns_of
from unshuffle.plan.logical import GroupBy, Join, Plan
from unshuffle.plan.movable_conditions import is_movable, substitute
from unshuffle.plan.predicates import conjunction
from unshuffle.search.memo import Memo, as_group, input_groups


def two_granularities(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """In a join of groups with the coarser groups that contain them, the coarser aggregates are computed from the finer.

    Unsound for aggregates that cannot be merged, such as a median, and if the two groupings read different rows."""
    if not isinstance(plan, Join) or plan.condition is None or not is_movable(plan.condition):
        return
    if not all(reaches(as_group(child), GroupBy) for child in plan.children):
        return
    for side in (0, 1):
        matched = _matched(plan, side, memo) if plan.kind in KEEPS_ROWS[side] else None
        if matched is not None:
            yield rows_with_values(plan, matched, memo)
            return


def _matched(plan: Join, side: int, memo: Memo) -> WindowedPass | None:
    assert plan.condition is not None
    pair = _fine_and_coarse(plan, side)
    if pair is None:
        return None
    below = [list(edges(as_group(grouping.child))) for _, grouping in pair]
    for leaf, chosen in common_leaves(below):
        fine, coarse = (Branch(a, g, e) for (a, g), e in zip(pair, chosen, strict=True))
        if not frozenset(coarse.keys) < frozenset(fine.keys) or fine.below.predicates != coarse.below.predicates:
            continue
        sides = (keys_above(fine), keys_above(coarse))
        compared = keys_compared(plan.condition, sides[side], sides[1 - side], coarse.keys)
        if compared is not None:
            return _folded(leaf, fine, coarse, *compared, memo)
    return None


def _fine_and_coarse(plan: Join, side: int) -> tuple[Reached, Reached] | None:
    """The groupings on both sides of the join, if that of `side` has more keys and the other one's aggregates can be
    computed from parts of its groups."""
    inputs = input_groups(plan) if side == 0 else reversed(input_groups(plan))
    fine, coarse = (next(cores(each, GroupBy), None) for each in inputs)
    if fine is None or coarse is None or not len(fine[1].keys) > len(coarse[1].keys) > 0:
        return None
    if not all(call.facts.merged_by is not None for _, call in coarse[1].aggregates):
        return None
    return (fine, coarse) if is_foldable(fine[1]) and is_foldable(coarse[1]) else None


def _folded(
    leaf: Plan, fine: Branch, coarse: Branch, not_null: Sequence[Column], residual: Sequence[Expression], memo: Memo
) -> WindowedPass:
    """The finer groups with partial states of the coarser aggregates, and a window that merges these states."""
    like = memo.numbers.like
    keys = {
        e: e.column if isinstance(e, Ref) else like(key) for e, key in zip(fine.keys, fine.grouping.keys, strict=True)
    }
    finer = {column: like(column) for column, _ in fine.grouping.aggregates}
    states = {column: like(column) for column, _ in coarse.grouping.aggregates}
    totals = {column: like(column) for column in states}
    calls = (
        *((finer[column], cast(AggregateCall, fine.below.down(call))) for column, call in fine.grouping.aggregates),
        *(
            (states[column], cast(AggregateCall, coarse.below.down(call)))
            for column, call in coarse.grouping.aggregates
        ),
    )
    of_fine: dict[Column, Expression] = {column: Ref(new) for column, new in finer.items()}
    of_fine |= {key: Ref(keys[e]) for key, e in zip(fine.grouping.keys, fine.keys, strict=True)}
    of_coarse: dict[Column, Expression] = {c: _typed(totals[c]) for c in totals}
    of_coarse |= {key: Ref(keys[e]) for key, e in zip(coarse.grouping.keys, coarse.keys, strict=True)}
    return WindowedPass(
        GroupBy(_input(leaf, fine.below.predicates, keys, calls), tuple(keys.values()), calls),
        Edge(
            {column: substitute(e, of_fine) for column, e in fine.above.outputs.items()},
            tuple(substitute(each, of_fine) for each in fine.above.predicates),
            fine.above.bottom,
        ),
        tuple(Ref(keys[e]) for e in coarse.keys),
        tuple(
            (totals[column], AggregateCall(merge, (Ref(states[column]),), call.type))
            for column, call in coarse.grouping.aggregates
            if (merge := call.facts.merged_by) is not None  # `_fine_and_coarse` requires it
        ),
        {column: substitute(e, of_coarse) for column, e in coarse.above.outputs.items()},
        tuple(substitute(each, of_coarse) for each in coarse.above.predicates),
        not_null,
        residual,
    )


def _input(
    leaf: Plan,
    predicates: Sequence[Expression],
    keys: Mapping[Expression, Column],
    calls: Sequence[tuple[Column, AggregateCall]],
) -> Plan:
    rows = filtered(leaf, conjunction(predicates))
    read = frozenset(keys.values()).union(*(columns_of(call) for _, call in calls))
    return narrowed(rows, read, [(column, e) for e, column in keys.items() if not isinstance(e, Ref)])


def _typed(column: Column) -> Expression:
    """Spark gives a sum of decimal sums more digits than the sum of all rows."""
    if column.type is not None and pa.types.is_decimal(column.type):
        return Cast(Ref(column), column.type)
    return Ref(column)
