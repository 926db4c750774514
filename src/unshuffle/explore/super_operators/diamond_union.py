"""Diamond UnionAll (Figure 6a): UNION ALL of groupings of one input by the same keys.

      UNION ALL                                   a copy of each group for each branch
    e3 /     \\ e4                                 that has it
GROUP BY a   GROUP BY a           -->                       |
    e1 \\     / e2                                 GROUP BY a, guarded aggregates
        input                                             input
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.explore.super_operators.grouped_pass import branches_of, grouped_pass, groupings, has_keys
from unshuffle.plan.expressions import Call, Case, Cast, Expression, Literal, Ref, connect
from unshuffle.plan.logical import Expand, Filter, Plan, Project, SetKind, SetOperation
from unshuffle.search.memo import Memo, input_groups


def diamond_union(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A UNION ALL of groupings of one input by the same keys is one grouping with all their aggregates, whose rows are
    copied for each branch that has the group.

    Unsound for different keys: a group of one branch would be part of a group of the other, or contain it."""
    if not isinstance(plan, SetOperation) or plan.kind is not SetKind.UNION or not plan.all:
        return
    groups = input_groups(plan)
    found = groupings(groups, has_keys) if all(column.type is not None for column in plan.columns) else None
    matched = branches_of(found) if found is not None else None
    if matched is None:
        return
    leaf, branches = matched
    once = grouped_pass(leaf, branches, memo)
    number = memo.numbers.new("branch", pa.int32(), nullable=False)
    copies = Expand(once.plan, (), ((),) * len(branches), number)
    rows: Plan = copies
    if any(present is not None for present in once.present):
        rows = Filter(rows, connect("or", [_of(number, i, present) for i, present in enumerate(once.present)]))
    sources = [[once.outputs[i][column] for column in group.columns] for i, group in enumerate(groups)]
    yield Project(
        rows,
        tuple(
            (column, _chosen(number, column, [source[place] for source in sources]))
            for place, column in enumerate(plan.columns)
        ),
    )


def _is(number: Column, place: int) -> Expression:
    return Call("=", (Ref(number), Literal(place, pa.int32())), pa.bool_())


def _of(number: Column, place: int, present: Expression | None) -> Expression:
    return _is(number, place) if present is None else connect("and", [_is(number, place), present])


def _chosen(number: Column, column: Column, values: Sequence[Expression]) -> Expression:
    """The value of the branch to which a row belongs."""
    assert column.type is not None
    typed = [value if value.type == column.type else Cast(value, column.type) for value in values]
    if all(value == typed[0] for value in typed[1:]):
        return typed[0]
    choices = tuple((_is(number, place), value) for place, value in enumerate(typed[:-1]))
    return Case(choices, typed[-1], column.type)
