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
    extreme_rows               rows that have the least or greatest value of their group
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pyarrow as pa

from unshuffle.algebra.expressions import AggregateCall, Call, Expression, Literal, Ref, SortKey, columns_of
from unshuffle.algebra.logical import GroupBy, Join, Plan
from unshuffle.algebra.predicates import conjunction
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import is_movable, substitute
from unshuffle.rules.decompose import window_as_join
from unshuffle.rules.picked_rows import pick_from_rows
from unshuffle.rules.super_operators.abstract import Branch, Edge, cores, edges, reaches
from unshuffle.rules.super_operators.beside import KEEPS_GROUPS, KEEPS_ROWS, Beside, beside, with_groups
from unshuffle.rules.super_operators.diamond_join import filtered, joined, keys_above, keys_compared
from unshuffle.rules.super_operators.grouped_pass import BOOLEAN, grouped_pass, is_foldable
from unshuffle.rules.super_operators.leaves import common_leaves
from unshuffle.search.memo import Group, Memo

_EXTREMES = ("min", "max")
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
    be held back (section 3.2, Figure 13)."""
    if not isinstance(plan, Join) or plan.condition is None or _was_one_operator(plan, memo):
        return
    for side in (0, 1):
        for back in _backs(plan, side, _has_one_extreme):
            if plan.kind in KEEPS_ROWS[side]:
                yield beside(plan, _beside(back, memo), memo)
            elif plan.kind is KEEPS_GROUPS[side]:
                yield with_groups(plan, _beside(back, memo), memo)
            elif side == 1 and plan.kind in _EXISTS:
                yield from _grouped(plan, back, memo)


def join_with_own_aggregates(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """Rows that are joined with, or chosen by, aggregates of their group have these beside them: the way back from
    `window_as_join`.

    Not if a filter chooses the rows that are aggregated, as above."""
    if not isinstance(plan, Join) or plan.condition is None or _was_one_operator(plan, memo):
        return
    for side in (0, 1):
        make = beside if plan.kind in KEEPS_ROWS[side] else with_groups if plan.kind is KEEPS_GROUPS[side] else None
        if make is not None:
            for back in _backs(plan, side, lambda grouping: not _has_one_extreme(grouping)):
                yield make(plan, _beside(back, memo), memo)


def _was_one_operator(plan: Join, memo: Memo) -> bool:
    """Is it another rule's way to take apart what reads its input once?"""
    return memo.made_by(plan) in (window_as_join.__name__, pick_from_rows.__name__)


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
            # What was asked of the keys below the grouping is asked of the groups, in the leaf's columns: these go on.
            branch = Branch(replace(above, predicates=(*asked, *above.predicates)), grouping, below)
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


def _beside(back: _Back, memo: Memo) -> Beside:
    branch = back.branch
    found = {column: memo.numbers.like(column) for column, _ in branch.grouping.aggregates}
    named: dict[Column, Expression] = {column: Ref(new) for column, new in found.items()}
    named |= zip(branch.grouping.keys, branch.keys, strict=True)
    return Beside(
        back.leaf,
        back.rows,
        branch.keys,
        tuple((found[c], cast(AggregateCall, branch.below.down(call))) for c, call in branch.grouping.aggregates),
        {column: substitute(e, named) for column, e in branch.above.outputs.items()},
        tuple(substitute(each, named) for each in branch.above.predicates),
        back.solid,
        back.rest,
    )


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


def extreme_rows(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """Rows that are joined with the least or greatest value of their group on that value are those that come first in its
    order: no value is kept beside the rows, and Spark drops the others while it reads them.

    Not if a filter chooses the rows that the value is of."""
    if not isinstance(plan, Join) or plan.condition is None or plan.kind not in (JoinKind.INNER, JoinKind.SEMI):
        return
    for side in (0, 1) if plan.kind is JoinKind.INNER else (0,):
        for back in _backs(plan, side, _has_one_extreme):
            found = _beside(back, memo)
            ((value, call),) = found.found
            (of,) = call.arguments
            values = {**found.rows.outputs, **found.outputs}
            for each in back.rest:
                match substitute(each, values):
                    case Call("=", (one, other)) if {one, other} == {Ref(value), of} and isinstance(of, Ref):
                        yield beside(plan, _first(back, found, each, value, of, call.function == "max", memo), memo)
                        return
                    case _:
                        pass


def _first(back: _Back, found: Beside, met: Expression, value: Column, of: Ref, greatest: bool, memo: Memo) -> Beside:
    place = memo.numbers.new("place", pa.int32(), nullable=False)
    instead: dict[Column, Expression] = {value: of}
    return replace(
        found,
        found=((place, Call("rank", (), place.type)),),
        outputs={column: substitute(e, instead) for column, e in found.outputs.items()},
        predicates=(
            Call("=", (Ref(place), Literal(1, pa.int32())), BOOLEAN),
            Call("isnotnull", (of,), BOOLEAN),
            *(substitute(each, instead) for each in found.predicates),
        ),
        rest=tuple(each for each in back.rest if each is not met),
        order=(SortKey(of, descending=greatest, nulls_first=False),),
    )


RULES = (min_and_join, join_with_own_aggregates, extreme_rows)
