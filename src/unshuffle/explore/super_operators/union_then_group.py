"""A grouping over a UNION ALL of parts of one input: one pass aggregates each part under its own guard.

 GROUP BY a                                   the aggregates of the parts, combined
      |                                                  |
  UNION ALL                                    GROUP BY a, guarded aggregates
e1 /     \\ e2                 -->                       |
    input                                              input
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import cast

import pyarrow as pa

from unshuffle.explore.super_operators.abstract import Branch, Edge, edges
from unshuffle.explore.super_operators.diamond_join import filtered
from unshuffle.explore.super_operators.grouped_pass import grouped_pass, is_foldable
from unshuffle.explore.super_operators.leaves import common_leaves
from unshuffle.plan.expressions import AggregateCall, Call, Cast, Expression, Ref, connect
from unshuffle.plan.logical import GroupBy, Plan, Project, SetKind, SetOperation
from unshuffle.plan.movable_conditions import substitute
from unshuffle.search.memo import Group, Memo, as_group, input_groups


def union_then_group(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A grouping over several parts of one input is one pass over the input that combines the aggregates of the parts.

    Unsound if a part has another column, or a constant, as the key: its rows belong to other groups."""
    if not isinstance(plan, GroupBy) or not plan.aggregates or not is_foldable(plan):
        return
    if not all(call.facts.merged_by in ("sum", "min", "max") and call.type is not None for _, call in plan.aggregates):
        return
    for union in as_group(plan.child).expressions:
        if isinstance(union, SetOperation) and union.kind is SetKind.UNION and union.all:
            yield from _once(plan, union, memo)


def _once(plan: GroupBy, union: SetOperation, memo: Memo) -> Iterator[Plan]:
    inputs = input_groups(union)
    if any(a.type != b.type for each in inputs for a, b in zip(union.columns, each.columns, strict=True)):
        return
    for leaf, chosen in common_leaves([list(edges(group)) for group in inputs]):
        branches = [_part(plan, union, group, edge, memo) for group, edge in zip(inputs, chosen, strict=True)]
        keys = [branch.keys for branch in branches]
        if any(each != keys[0] for each in keys) or not all(isinstance(key, Ref) for key in keys[0]):
            return
        once = grouped_pass(leaf, branches, memo)
        found = [
            [outputs[column] for column, _ in branch.grouping.aggregates]
            for outputs, branch in zip(once.outputs, branches, strict=True)
        ]
        some = [each for each in once.present if each is not None]
        rows = filtered(once.plan, connect("or", some)) if len(some) == len(branches) and plan.keys else once.plan
        of_key = dict(zip(plan.keys, (once.outputs[0][key] for key in branches[0].grouping.keys), strict=True))
        sums = {
            column: _together(call, [each[place] for each in found])
            for place, (column, call) in enumerate(plan.aggregates)
        }
        yield Project(rows, tuple((column, {**of_key, **sums}[column]) for column in plan.columns))


def _part(plan: GroupBy, union: SetOperation, group: Group, edge: Edge, memo: Memo) -> Branch:
    """The grouping of one input of the union."""
    names = {out: Ref(column) for out, column in zip(union.columns, group.columns, strict=True)}
    keys = tuple(names[key].column for key in plan.keys)
    calls = tuple((memo.numbers.like(c), cast(AggregateCall, substitute(call, names))) for c, call in plan.aggregates)
    grouping = GroupBy(group, keys, calls)
    return Branch(Edge({column: Ref(column) for column in grouping.columns}, (), group), grouping, edge)


def _together(call: AggregateCall, parts: Sequence[Expression]) -> Expression:
    """The aggregate of all rows, combined from those of the parts. Any part may have no rows."""
    type = cast(pa.DataType, call.type)
    if call.function in ("min", "max"):
        # They ignore NULL.
        return Call("least" if call.function == "min" else "greatest", tuple(parts), type)

    def plus(one: Expression, other: Expression) -> Expression:
        both: Expression = Call("+", (one, other), type)
        if pa.types.is_decimal(type):
            both = Cast(both, type)
        return both if call.function == "count" else Call("coalesce", (both, one, other), type)

    return reduce(plus, parts)
