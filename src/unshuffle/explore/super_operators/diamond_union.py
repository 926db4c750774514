"""Diamond UnionAll (Figure 6a): UNION ALL of groupings of one input by the same keys.

      UNION ALL                                   a copy of each group for each branch
    e3 /     \\ e4                                 that has it
GROUP BY a   GROUP BY a           -->                       |
    e1 \\     / e2                                 GROUP BY a, guarded aggregates
        input                                             input
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.explore.super_operators.abstract import Branch
from unshuffle.explore.super_operators.grouped_pass import branches_of, grouped_pass, groupings, has_keys
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Call, Case, Cast, Expression, Literal, Ref, connect
from unshuffle.plan.logical import Expand, Filter, Plan, Project, SetKind, SetOperation
from unshuffle.search.memo import Group, Memo, input_groups


def diamond_union(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A UNION ALL of groupings of one input by the same keys is one grouping with all their aggregates, whose rows are
    copied for each branch that has the group. Other inputs of the union stay as they are.

    Unsound for different keys: a group of one branch would be part of a group of the other, or contain it."""
    if not isinstance(plan, SetOperation) or plan.kind is not SetKind.UNION or not plan.all:
        return
    if any(column.type is None for column in plan.columns):
        return
    groups = input_groups(plan)
    passes = list(_that_belong_together(groups))
    if not passes:
        return
    if len(passes[0].places) == len(groups):
        yield _copied(passes[0], groups, plan.columns, memo)
        return
    fused = {place for each in passes for place in each.places}
    others = tuple(group for place, group in enumerate(groups) if place not in fused)
    made = tuple(_copied(each, groups, tuple(map(memo.numbers.like, plan.columns)), memo) for each in passes)
    inputs = (*made, *others)
    yield replace(plan, inputs=inputs, whole=None)


@dataclass(frozen=True, slots=True)
class _OnePass:
    """Inputs of a union, by their places, that are groupings of one leaf by the same keys."""

    places: tuple[int, ...]
    leaf: Plan
    branches: Sequence[Branch]


def _that_belong_together(groups: Sequence[Group]) -> Iterator[_OnePass]:
    """The inputs that can be computed in one pass with others. The rest of a UNION ALL may be anything."""
    found = {place: reached for place, group in enumerate(groups) if (reached := groupings((group,), has_keys))}
    while found:
        first, *rest = found
        same = [place for place in rest if branches_of([*found[first], *found[place]]) is not None]
        places = (first, *same)
        matched = branches_of([each for place in places for each in found[place]]) if same else None
        if matched is not None:
            yield _OnePass(places, *matched)
        for place in places if matched is not None else (first,):
            del found[place]


def _copied(each: _OnePass, groups: Sequence[Group], columns: Sequence[Column], memo: Memo) -> Plan:
    """The rows of the pass, copied for each branch that has the group."""
    once = grouped_pass(each.leaf, each.branches, memo)
    number = memo.numbers.new("branch", pa.int32(), nullable=False)
    rows: Plan = Expand(once.plan, (), ((),) * len(each.branches), number)
    if any(present is not None for present in once.present):
        rows = Filter(rows, connect("or", [_of(number, i, present) for i, present in enumerate(once.present)]))
    sources = [[once.outputs[i][column] for column in groups[place].columns] for i, place in enumerate(each.places)]
    return Project(
        rows,
        tuple(
            (column, _chosen(number, column, [source[place] for source in sources]))
            for place, column in enumerate(columns)
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
