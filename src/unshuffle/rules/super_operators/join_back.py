"""Rows joined with aggregates of themselves (Figure 6c, Min and Join): the aggregates come beside the rows in one pass over
groups, and no join is left.

             JOIN on a                                    guarded by what the edges ask
         e2 /      \\ e3                                             |
    GROUP BY a      |               -->                   aggregates over the groups of a
         e1 \\      /                                                |
             input                                                input

In Spark that is a window. It holds one group at a time, and sorts by the keys only.

    min_and_join               one MIN or MAX, of rows in whatever order they come
    join_with_own_aggregates   any aggregates, if rows are wanted by them (semi, anti) or with them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from unshuffle.algebra.expressions import AggregateCall, Call, Expression, Ref, WindowCall, columns_of
from unshuffle.algebra.logical import GroupBy, Join, Plan, Project, Window
from unshuffle.algebra.predicates import conjunction
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import is_movable, substitute
from unshuffle.rules.decompose import window_as_join
from unshuffle.rules.super_operators.abstract import Branch, Edge, cores, edges, reaches
from unshuffle.rules.super_operators.diamond_join import filtered, holds, joined, keys_above, keys_compared, not_
from unshuffle.rules.super_operators.grouped_pass import BOOLEAN, all_of, grouped_pass, is_foldable, when
from unshuffle.rules.super_operators.leaves import common_leaves
from unshuffle.search.memo import Group, Memo

_EXTREMES = ("min", "max")
# Joins that keep what belongs to rows: with the rows at the left, and at the right.
_ROWS_LEFT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
_ROWS_RIGHT = (JoinKind.INNER, JoinKind.RIGHT)
_EXISTS = (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True, slots=True)
class _Back:
    """A join of rows with a grouping of the same rows."""

    leaf: Plan
    rows: Edge
    branch: Branch
    solid: Sequence[Column]  # keys of the left side that must not be NULL
    rest: Sequence[Expression]  # what else the join asks


def min_and_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """Rows that are joined with the least or greatest value of their group have it beside them.

    Not if a filter chooses the rows that the value is of: the first row in order need not have it, and the rest would have to
    be held back (section 3.2, Figure 13). Not if the groups are kept and the rows are not: a group that met nothing is
    known only at its end."""
    if not isinstance(plan, Join) or plan.condition is None or _was_window(plan, memo):
        return
    for side in (0, 1):
        for back in _backs(plan, side, _has_one_extreme):
            if plan.kind in (_ROWS_LEFT, _ROWS_RIGHT)[side]:
                yield _windowed(plan, back, memo)
            elif side == 1 and plan.kind in _EXISTS:
                yield from _grouped(plan, back, memo)


def join_with_own_aggregates(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """Rows that are joined with, or chosen by, aggregates of their group have these beside them: the way back from
    `window_as_join`.

    Not if a filter chooses the rows that are aggregated, as above."""
    if not isinstance(plan, Join) or plan.condition is None or _was_window(plan, memo):
        return
    for side in (0, 1):
        if plan.kind in (_ROWS_LEFT, _ROWS_RIGHT)[side]:
            for back in _backs(plan, side, lambda grouping: not _has_one_extreme(grouping)):
                yield _windowed(plan, back, memo)


def _was_window(plan: Join, memo: Memo) -> bool:
    return memo.made_by(plan) == window_as_join.__name__


def _has_one_extreme(grouping: GroupBy) -> bool:
    return len(grouping.aggregates) == 1 and grouping.aggregates[0][1].function in _EXTREMES


def _backs(plan: Join, side: int, is_wanted: Callable[[GroupBy], bool]) -> Iterator[_Back]:
    """The ways in which one side of a join is rows, and the other a grouping of the same rows."""
    rows, groups = cast("tuple[Group, Group]", plan.children if side == 0 else tuple(reversed(plan.children)))
    if not reaches(groups, GroupBy) or plan.condition is None or not is_movable(plan.condition):
        return
    for above, grouping in cores(groups, GroupBy):
        if not grouping.keys or not grouping.aggregates or not is_foldable(grouping) or not is_wanted(grouping):
            continue
        if any(call.where is not None for _, call in grouping.aggregates):
            continue
        ways = (list(edges(rows)), list(edges(cast(Group, grouping.child))))
        for leaf, (to_rows, below) in common_leaves(ways):
            same = _same_rows(leaf, to_rows, below, grouping)
            if same is None:
                continue
            whole, to_rows, below, asked = same
            branch = Branch(_asking(above, grouping, asked), grouping, below)
            sides = (to_rows.outputs, keys_above(branch))
            compared = keys_compared(plan.condition, sides[side], sides[1 - side], branch.keys)
            if compared is not None:
                yield _Back(whole, to_rows, branch, *compared)
                return


def _same_rows(
    leaf: Plan, rows: Edge, below: Edge, grouping: GroupBy
) -> tuple[Plan, Edge, Edge, list[Expression]] | None:
    """The leaf under all filters that the rows and the grouping have in common, and the edges without them. What else the
    grouping asks must be of its keys: it can as well be asked of the groups."""
    common = [each for each in below.predicates if each in rows.predicates]
    keys = frozenset(below.down(Ref(key)) for key in grouping.keys)
    read = frozenset(key.column for key in keys if isinstance(key, Ref))
    asked = [each for each in below.predicates if each not in common]
    if not all(columns_of(each) <= read for each in asked):
        return None
    whole = filtered(leaf, conjunction(common))
    to_rows = replace(rows, predicates=tuple(each for each in rows.predicates if each not in common))
    return whole, to_rows, replace(below, predicates=()), asked


def _asking(above: Edge, grouping: GroupBy, asked: Sequence[Expression]) -> Edge:
    """The edge above the grouping with what was asked of its keys below it, which reads the leaf's columns: these go on
    beside the groups."""
    return replace(above, predicates=(*asked, *above.predicates))


def _windowed(plan: Join, back: _Back, memo: Memo) -> Plan:
    branch = back.branch
    calls = [(column, cast(AggregateCall, branch.below.down(call))) for column, call in branch.grouping.aggregates]
    read = _read(plan, back, calls)
    computed: dict[Expression, Column] = {}
    for key in branch.keys:
        computed[key] = key.column if isinstance(key, Ref) else memo.numbers.new("key", key.type)
    made = tuple((column, key) for key, column in computed.items() if not isinstance(key, Ref))
    passed = tuple((column, Ref(column)) for column in back.leaf.columns if column in read)
    narrow = back.leaf if not made and len(passed) == len(back.leaf.columns) else Project(back.leaf, (*passed, *made))
    partition = tuple(Ref(computed[key]) for key in branch.keys)
    beside = {column: memo.numbers.like(column) for column, _ in calls}
    window = Window(narrow, tuple((beside[column], WindowCall(call, partition, (), None)) for column, call in calls))
    named: dict[Column, Expression] = {column: Ref(new) for column, new in beside.items()}
    named |= {key: Ref(computed[e]) for key, e in zip(branch.grouping.keys, branch.keys, strict=True)}
    groups = {column: substitute(e, named) for column, e in branch.above.outputs.items()}
    values = {**back.rows.outputs, **groups}
    of_rows = conjunction(back.rows.predicates)
    of_groups = conjunction(substitute(each, named) for each in branch.above.predicates)
    solid = (Call("isnotnull", (values[column],), BOOLEAN) for column in back.solid if column.nullable)
    both = all_of(of_rows, of_groups, *solid, *(substitute(each, values) for each in back.rest))
    if plan.kind in (JoinKind.INNER, JoinKind.SEMI):
        rows, shown = filtered(window, both), None
    elif plan.kind is JoinKind.ANTI:
        rows, shown = filtered(window, all_of(of_rows, not_(holds(both) if both is not None else None))), None
    else:
        rows, shown = filtered(window, of_rows), None if both is None else holds(both)
    return Project(
        rows,
        tuple(
            (column, values[column] if column in back.rows.outputs else when(shown, values[column]))
            for column in plan.columns
        ),
    )


def _read(plan: Join, back: _Back, calls: Sequence[tuple[Column, AggregateCall]]) -> frozenset[Column]:
    """The leaf's columns that are looked at."""
    wanted = frozenset(plan.columns).union(*(columns_of(each) for each in back.rest), back.solid)
    expressions = [
        *(e for column, e in back.rows.outputs.items() if column in wanted),
        *back.rows.predicates,
        *back.branch.keys,
        *back.branch.above.predicates,
        *(call for _, call in calls),
    ]
    return frozenset[Column]().union(*map(columns_of, expressions)) & frozenset(back.leaf.columns)


def _grouped(plan: Join, back: _Back, memo: Memo) -> Iterator[Plan]:
    """Groups that are kept or dropped by whether they have rows of a kind: a diamond, with the rows' groups at its right."""
    keys = tuple(
        next((column for column, e in back.rows.outputs.items() if e == key), None) for key in back.branch.keys
    )
    mine = frozenset(plan.right.columns)
    if None in keys or any(columns_of(each) & mine for each in back.rest):
        return
    grouping = GroupBy(plan.right, cast("tuple[Column, ...]", keys), ())
    above = Edge({column: Ref(column) for column in grouping.columns}, (), back.rows.bottom)
    branches = (back.branch, Branch(above, grouping, back.rows))
    once = grouped_pass(back.leaf, branches, memo)
    yield joined(plan, once, back.solid, back.rest, memo)


RULES = (min_and_join, join_with_own_aggregates)
