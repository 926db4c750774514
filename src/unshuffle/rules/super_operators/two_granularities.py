"""Groups beside the larger groups that they are part of: a share of a total, a place in a year.

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

from unshuffle.algebra.expressions import AggregateCall, Cast, Expression, Ref, columns_of
from unshuffle.algebra.logical import GroupBy, Join, Plan
from unshuffle.algebra.predicates import conjunction
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import is_movable, substitute
from unshuffle.rules.super_operators.abstract import Branch, Edge, cores, edges, reaches
from unshuffle.rules.super_operators.beside import KEEPS_ROWS, Beside, beside
from unshuffle.rules.super_operators.diamond_join import filtered, keys_above, keys_compared
from unshuffle.rules.super_operators.grouped_pass import is_foldable, narrowed
from unshuffle.rules.super_operators.leaves import common_leaves
from unshuffle.search.memo import Group, Memo

# What puts together what was found of parts of a group.
FOLDS = {"count": "sum", "sum": "sum", "min": "min", "max": "max", "bool_and": "bool_and", "bool_or": "bool_or"}


def two_granularities(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A join of groups with the larger groups that they are part of finds the larger ones from the smaller.

    Not for aggregates that parts do not tell, as an average or a median; not if the two look at different rows."""
    if not isinstance(plan, Join) or plan.condition is None or not is_movable(plan.condition):
        return
    if not all(reaches(cast(Group, child), GroupBy) for child in plan.children):
        return
    for side in (0, 1):
        if plan.kind in KEEPS_ROWS[side]:
            found = _matched(plan, side, memo)
            if found is not None:
                yield beside(plan, found, memo)
                return


def _matched(plan: Join, side: int, memo: Memo) -> Beside | None:
    fine_side, coarse_side = cast("tuple[Group, Group]", plan.children if side == 0 else plan.children[::-1])
    assert plan.condition is not None
    fine = next(cores(fine_side, GroupBy), None)
    coarse = next(cores(coarse_side, GroupBy), None)
    if fine is None or coarse is None or not len(fine[1].keys) > len(coarse[1].keys) > 0:
        return None
    calls = [call for _, call in coarse[1].aggregates]
    if not all(map(is_foldable, (fine[1], coarse[1]))) or not all(call.function in FOLDS for call in calls):
        return None
    below = [list(edges(cast(Group, grouping.child))) for _, grouping in (fine, coarse)]
    for leaf, chosen in common_leaves(below):
        parts, whole = (Branch(a, g, e) for (a, g), e in zip((fine, coarse), chosen, strict=True))
        if not frozenset(whole.keys) < frozenset(parts.keys) or parts.below.predicates != whole.below.predicates:
            continue
        sides = (keys_above(parts), keys_above(whole))
        compared = keys_compared(plan.condition, sides[side], sides[1 - side], whole.keys)
        if compared is not None:
            return _found(leaf, parts, whole, *compared, memo)
    return None


def _found(
    leaf: Plan, parts: Branch, whole: Branch, solid: Sequence[Column], rest: Sequence[Expression], memo: Memo
) -> Beside:
    """The smaller groups with the larger ones' aggregates of them, and these folded over the larger groups."""
    like = memo.numbers.like
    keys = {
        e: e.column if isinstance(e, Ref) else like(key) for e, key in zip(parts.keys, parts.grouping.keys, strict=True)
    }
    mine = {column: like(column) for column, _ in parts.grouping.aggregates}
    states = {column: like(column) for column, _ in whole.grouping.aggregates}
    totals = {column: like(column) for column in states}
    calls = (
        *((mine[column], cast(AggregateCall, parts.below.down(call))) for column, call in parts.grouping.aggregates),
        *((states[column], cast(AggregateCall, whole.below.down(call))) for column, call in whole.grouping.aggregates),
    )
    of_part: dict[Column, Expression] = {column: Ref(new) for column, new in mine.items()}
    of_part |= {key: Ref(keys[e]) for key, e in zip(parts.grouping.keys, parts.keys, strict=True)}
    of_whole: dict[Column, Expression] = {c: _typed(totals[c]) for c in totals}
    of_whole |= {key: Ref(keys[e]) for key, e in zip(whole.grouping.keys, whole.keys, strict=True)}
    return Beside(
        GroupBy(_input(leaf, parts.below.predicates, keys, calls), tuple(keys.values()), calls),
        Edge(
            {column: substitute(e, of_part) for column, e in parts.above.outputs.items()},
            tuple(substitute(each, of_part) for each in parts.above.predicates),
            parts.above.bottom,
        ),
        tuple(Ref(keys[e]) for e in whole.keys),
        tuple(
            (totals[column], AggregateCall(FOLDS[call.function], (Ref(states[column]),), call.type))
            for column, call in whole.grouping.aggregates
        ),
        {column: substitute(e, of_whole) for column, e in whole.above.outputs.items()},
        tuple(substitute(each, of_whole) for each in whole.above.predicates),
        solid,
        rest,
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
    """A sum of decimal sums has more digits than the sum of all."""
    if column.type is not None and pa.types.is_decimal(column.type):
        return Cast(Ref(column), column.type)
    return Ref(column)


RULES = (two_granularities,)
