"""Rows joined with aggregates of their own groups (Figure 6c, Min and Join): a window adds the aggregates to the rows, and
no join is left.

             JOIN on a                                    filtered by the predicates of the edges
         e2 /      \\ e3                                             |
    GROUP BY a      |               -->                   window aggregates over the groups of a
         e1 \\      /                                                |
             input                                                input

The window holds one group at a time, and its input is sorted by the keys only.

    min_and_join               one MIN or MAX
    join_with_own_aggregates   any other aggregates
    extreme_rows               the rows that have the least or greatest value of their group
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.explore.picked_rows import pick_from_rows
from unshuffle.explore.super_operators.abstract import Branch, Edge, cores, edges, reaches
from unshuffle.explore.super_operators.diamond_join import filtered, keys_above, keys_compared
from unshuffle.explore.super_operators.grouped_pass import BOOLEAN, is_foldable
from unshuffle.explore.super_operators.leaves import common_leaves
from unshuffle.explore.super_operators.windowed_pass import (
    KEEPS_GROUPS,
    KEEPS_ROWS,
    WindowedPass,
    rows_or_groups,
    rows_with_values,
)
from unshuffle.explore.window_to_join import window_as_join
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Literal, Ref, SortKey, WindowCall, columns_of
from unshuffle.plan.logical import GroupBy, Join, Plan, Window
from unshuffle.plan.movable_conditions import is_movable, substitute
from unshuffle.plan.predicates import conjunction, has_one_form
from unshuffle.plan.safe_expressions import shared_conjuncts
from unshuffle.search.memo import Memo, as_group, input_groups


@dataclass(frozen=True, slots=True)
class _JoinBack:
    """A join of rows with a grouping of the same rows."""

    leaf: Plan
    rows: Edge
    branch: Branch
    not_null: Sequence[Column]  # keys of the left input that must not be NULL
    residual: Sequence[Expression]  # further conditions of the join


def min_and_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A join of rows with the least or greatest value of their group is a window that adds this value to each row.

    Unsound if only the grouping's input is filtered, on columns other than the keys: the window would see rows that the
    grouping does not (section 3.2, Figure 13)."""
    if not isinstance(plan, Join) or plan.condition is None or _was_one_operator(plan, memo):
        return
    for side in (0, 1):
        for back in _joins_back(plan, side, _has_one_extreme):
            if plan.kind in KEEPS_ROWS[side]:
                yield rows_with_values(plan, _windowed(back, memo), memo)
            elif plan.kind is KEEPS_GROUPS[side]:
                yield rows_or_groups(plan, _windowed(back, memo), memo)


def join_with_own_aggregates(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A join of rows with aggregates of their group is a window that adds these aggregates to each row: the inverse of
    `window_as_join`.

    Unsound if only the grouping's input is filtered, as for `min_and_join`."""
    if not isinstance(plan, Join) or plan.condition is None or _was_one_operator(plan, memo):
        return
    for side in (0, 1):
        make = (
            rows_with_values
            if plan.kind in KEEPS_ROWS[side]
            else rows_or_groups
            if plan.kind is KEEPS_GROUPS[side]
            else None
        )
        if make is not None:
            for back in _joins_back(plan, side, lambda grouping: not _has_one_extreme(grouping)):
                yield make(plan, _windowed(back, memo), memo)


def _was_one_operator(plan: Join, memo: Memo) -> bool:
    """Did another rule make this join from an operator that reads its input once?"""
    return memo.made_by(plan) in (window_as_join, pick_from_rows)


def _has_one_extreme(grouping: GroupBy) -> bool:
    return len(grouping.aggregates) == 1 and grouping.aggregates[0][1].facts.picks == "value"


def _joins_back(plan: Join, side: int, is_wanted: Callable[[GroupBy], bool]) -> Iterator[_JoinBack]:
    """The ways to read one input of a join as rows and the other as a grouping of the same rows."""
    rows, groups = input_groups(plan) if side == 0 else reversed(input_groups(plan))
    if not reaches(groups, GroupBy) or plan.condition is None or not is_movable(plan.condition):
        return
    for above, grouping in cores(groups, GroupBy):
        if not grouping.keys or not grouping.aggregates or not is_foldable(grouping) or not is_wanted(grouping):
            continue
        if any(call.where is not None for _, call in grouping.aggregates):
            continue
        if not all(has_one_form(key.type) for key in grouping.keys):
            continue  # a group's key is 0.0 where a row's is -0.0, and the window has the row's only
        for leaf, to_rows, below in _leaves(list(edges(rows)), list(edges(as_group(grouping.child)))):
            same = _same_rows(leaf, to_rows, below, grouping)
            if same is None:
                continue
            whole, to_rows, below, asked = same
            # Conditions on the keys below the grouping become conditions on the groups, over the leaf's columns.
            branch = Branch(replace(above, predicates=(*asked, *above.predicates)), grouping, below)
            sides = (to_rows.outputs, keys_above(branch))
            compared = keys_compared(plan.condition, sides[side], sides[1 - side], branch.keys)
            if compared is not None:
                yield _JoinBack(whole, to_rows, branch, *compared)
                return


def _leaves(rows: Sequence[Edge], grouped: Sequence[Edge]) -> Iterator[tuple[Plan, Edge, Edge]]:
    """The common leaves of the rows and the grouping. A window keeps all rows of its input, so what it computes may be part
    of the leaf: the first rows of each group are joined with aggregates of the whole group."""
    for leaf, (to_rows, below) in common_leaves((rows, grouped)):
        yield leaf, to_rows, below
    for edge in rows:
        for window in () if edge.shared else edge.bottom.expressions:
            if isinstance(window, Window):
                yield from _windowed_leaves(edge, window, grouped)


def _windowed_leaves(edge: Edge, window: Window, grouped: Sequence[Edge]) -> Iterator[tuple[Plan, Edge, Edge]]:
    """Not if the window sees fewer rows than the grouping."""
    for leaf, (through, below) in common_leaves((list(edges(as_group(window.child))), grouped)):
        shared = shared_conjuncts([through.predicates, below.predicates])
        if all(each in shared for each in through.predicates):
            calls = tuple(
                (column, cast(WindowCall, substitute(call, through.outputs))) for column, call in window.calls
            )
            named = {**through.outputs, **{column: Ref(column) for column, _ in calls}}
            others = tuple(each for each in below.predicates if each not in shared)
            made = Window(filtered(leaf, conjunction(shared)), calls)
            yield made, edge.over(named), replace(below, predicates=others)


def _same_rows(
    leaf: Plan, rows: Edge, below: Edge, grouping: GroupBy
) -> tuple[Plan, Edge, Edge, list[Expression]] | None:
    """The leaf under the filters that the rows and the grouping have in common, and the edges without these filters. The
    grouping's other filters must read keys only, so that they can be applied to the groups."""
    common = shared_conjuncts([below.predicates, rows.predicates])
    keys = frozenset(below.down(Ref(key)) for key in grouping.keys)
    read = frozenset(key.column for key in keys if isinstance(key, Ref))
    asked = [each for each in below.predicates if each not in common]
    if not all(columns_of(each) <= read for each in asked):
        return None
    whole = filtered(leaf, conjunction(common))
    to_rows = replace(rows, predicates=tuple(each for each in rows.predicates if each not in common))
    return whole, to_rows, replace(below, predicates=()), asked


def _windowed(back: _JoinBack, memo: Memo) -> WindowedPass:
    branch = back.branch
    columns = {column: memo.numbers.like(column) for column, _ in branch.grouping.aggregates}
    named: dict[Column, Expression] = {column: Ref(new) for column, new in columns.items()}
    named |= zip(branch.grouping.keys, branch.keys, strict=True)
    return WindowedPass(
        back.leaf,
        back.rows,
        branch.keys,
        tuple((columns[c], cast(AggregateCall, branch.below.down(call))) for c, call in branch.grouping.aggregates),
        {column: substitute(e, named) for column, e in branch.above.outputs.items()},
        tuple(substitute(each, named) for each in branch.above.predicates),
        back.not_null,
        back.residual,
    )


def extreme_rows(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A join of rows with the least or greatest value of their group on that value keeps the rows of rank 1. A rank needs no
    state, and Spark drops the other rows while it reads them.

    Unsound if only the grouping's input is filtered, as for `min_and_join`."""
    if not isinstance(plan, Join) or plan.condition is None or plan.kind not in (JoinKind.INNER, JoinKind.SEMI):
        return
    for side in (0, 1) if plan.kind is JoinKind.INNER else (0,):
        for back in _joins_back(plan, side, _has_one_extreme):
            ranked = _ranked(back, memo)
            if ranked is not None:
                yield rows_with_values(plan, ranked, memo)
                return


def _ranked(back: _JoinBack, memo: Memo) -> WindowedPass | None:
    """The rows of rank 1, if the join compares the extreme value with the column that it is taken from."""
    windowed = _windowed(back, memo)
    ((extreme, call),) = windowed.calls
    (source,) = call.arguments
    values = {**windowed.rows.outputs, **windowed.outputs}
    sides = {Ref(extreme), source}
    compared = next((each for each in back.residual if _equates(substitute(each, values), sides)), None)
    if compared is None or not isinstance(source, Ref):
        return None
    rank = memo.numbers.new("place", pa.int32(), nullable=False)
    instead: dict[Column, Expression] = {extreme: source}
    return replace(
        windowed,
        calls=((rank, Call("rank", (), rank.type)),),
        outputs={column: substitute(e, instead) for column, e in windowed.outputs.items()},
        predicates=(
            Call("=", (Ref(rank), Literal(1, pa.int32())), BOOLEAN),
            Call("isnotnull", (source,), BOOLEAN),
            *(substitute(each, instead) for each in windowed.predicates),
        ),
        residual=tuple(each for each in back.residual if each is not compared),
        order=(SortKey(source, descending=call.function == "max", nulls_first=False),),
    )


def _equates(condition: Expression, sides: set[Expression]) -> bool:
    match condition:
        case Call("=", (one, other)):
            return {one, other} == sides
        case _:
            return False
