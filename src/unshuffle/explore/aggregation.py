"""Partial and final aggregates, and aggregates moved past joins (ICDE 2010, section IX; SIGMOD 2012, section 2.4.1). Trees of
partial aggregates are in `search.aggregation_trees`.

A partial aggregate computes one state for each group in each partition, before any exchange. A final aggregate merges the
states after equal keys were brought together. This pays where groups have more rows than there are partitions, and
otherwise costs a pass: the search decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.constants import THRESHOLDS
from unshuffle.implement.spark_ordering import is_hashed
from unshuffle.plan.expressions import AggregateCall, Expression, Ref, columns_of
from unshuffle.plan.logical import Filter, FinalGroupBy, GroupBy, Join, MultiJoin, PartialGroupBy, Plan, Project
from unshuffle.plan.multi_join import gathered
from unshuffle.plan.predicates import (
    JoinCondition,
    conjunction,
    conjuncts,
    has_one_form,
    is_deterministic,
    join_condition,
)
from unshuffle.properties import interchangeable
from unshuffle.search.memo import Group, Memo, as_group, input_groups


def can_split(call: AggregateCall) -> bool:
    """Can it be split into a partial and a final aggregate? DISTINCT, and whatever depends on the order of rows, needs all
    values of a group at once."""
    return call.facts.splits and not call.distinct and not call.within and is_repeatable_call(call)


def is_repeatable_call(call: AggregateCall) -> bool:
    """Does it depend on the rows of its group only, and not on when it is computed?"""
    parts = (*call.arguments, *((call.where,) if call.where is not None else ()))
    return all(map(is_deterministic, parts)) if call.facts.picks_a_row else is_deterministic(call)


def _can_pass_join(call: AggregateCall) -> bool:
    """A partial sum without spare digits may overflow to NULL, and the final sum would take that for a sum of no rows."""
    is_full = isinstance(call.type, pa.Decimal128Type) and call.type.precision >= 38
    return can_split(call) and call.facts.merged_by is not None and not (call.function == "sum" and is_full)


def split_aggregate(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A GROUP BY is a partial aggregate in each partition and a final aggregate over the partial states.

    Unsound for an aggregate that must see all values of a group at once, such as count(DISTINCT x)."""
    if not isinstance(plan, GroupBy) or not all(can_split(call) for _, call in plan.aggregates):
        return
    states = _states(plan, memo)
    partial = PartialGroupBy(plan.child, plan.keys, states)
    yield FinalGroupBy(partial, plan.keys, plan.aggregates, tuple(column for column, _ in states))


def _states(plan: GroupBy, memo: Memo) -> tuple[tuple[Column, AggregateCall], ...]:
    return tuple(
        (memo.numbers.like(column, f"partial {column.name}", nullable=True), call) for column, call in plan.aggregates
    )


def aggregate_below_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A GROUP BY over an inner join moves below it, onto the input that all its aggregates read, if each row there matches at
    most one row of the other input (which is unique on its join columns) and the grouping keys determine the join columns.
    All rows of a group then match the same row, or none does.

    Unsound without the unique key: a row would be counted once where the join counts it twice. Unsound without the
    dependency: the join would keep only some rows of a group."""
    if not isinstance(plan, GroupBy) or not plan.keys:
        return
    below = as_group(plan.child)
    for join in below.expressions:
        if isinstance(join, Join) and join.kind is JoinKind.INNER:
            for side in (0, 1):
                yield from _pushed(plan, below, join, side)


def _pushed(plan: GroupBy, below: Group, join: Join, side: int) -> Iterator[Plan]:
    near, far = input_groups(join) if side == 0 else reversed(input_groups(join))
    condition = join_condition(join.condition, join.left.columns, join.right.columns)
    if not condition.keys or condition.rest is not None or any(key.null_safe for key in condition.keys):
        return
    read = frozenset[Column]().union(*(columns_of(call) for _, call in plan.aggregates))
    mine = [key.columns[side] for key in condition.keys]
    if not read <= near.column_set or not far.facts.unique(_equated(condition, 1 - side)):
        return
    keys = tuple(dict.fromkeys([*(key for key in plan.keys if key in near.column_set), *mine]))
    if not below.facts.determines(plan.keys, keys) or far.facts.unique(()):
        return
    if not all(has_one_form(key.type) for key in plan.keys if key not in keys):
        return  # GROUP BY makes equal values identical (-0.0 and 0.0), a join does not
    inner = GroupBy(near, keys, plan.aggregates)
    sides = (inner, far) if side == 0 else (far, inner)
    joined = Join(JoinKind.INNER, sides[0], sides[1], join.condition)
    yield Project(joined, tuple((column, Ref(column)) for column in plan.columns))


def _equated(condition: JoinCondition, side: int) -> list[Column]:
    """The columns of one side that the other side's values determine. Not those compared in a type in which different values
    are equal, as large integers are when cast to floating point."""
    return [key.columns[side] for key in condition.keys if interchangeable(*(column.type for column in key.columns))]


def aggregate_above_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """An inner join over a GROUP BY moves below it, if its other input is unique on the columns that it equates with grouping
    keys. This pays where the join drops most groups, whose rows are then never grouped. Conditions on aggregates are
    applied above.

    Unsound without the unique key: a row would be aggregated once for each match. Unsound for floating-point columns of
    the other input: they become grouping keys, and -0.0 becomes 0.0."""
    if not isinstance(plan, Join) or plan.kind is not JoinKind.INNER or plan.condition is None:
        return
    for side in (0, 1):
        near = as_group(plan.children[side]).expressions[0]
        if isinstance(near, GroupBy) and near.keys:
            yield from _pulled_up(plan, near, side)


def _pulled_up(plan: Join, grouping: GroupBy, side: int) -> Iterator[Plan]:
    """`grouping` is the input of the join at `side`."""
    near, far = input_groups(plan) if side == 0 else reversed(input_groups(plan))
    made = frozenset(column for column, _ in grouping.aggregates)
    before = [part for part in conjuncts(plan.condition) if not columns_of(part) & made]
    after = [part for part in conjuncts(plan.condition) if columns_of(part) & made]
    condition = join_condition(conjunction(before), plan.left.columns, plan.right.columns)
    theirs = _equated(condition, 1 - side)
    if not theirs or not far.facts.unique(theirs) or far.rows * THRESHOLDS.small_input_ratio > near.rows:
        return
    needed = frozenset(plan.columns).union(*map(columns_of, after))
    more = tuple(column for column in far.columns if column in needed)
    if not all(has_one_form(column.type) for column in more):
        return
    inner = (grouping.child, far) if side == 0 else (far, grouping.child)
    keys = (*grouping.keys, *more)
    read = frozenset(keys).union(*(columns_of(call) for _, call in grouping.aggregates))
    kept = tuple(column for child in inner for column in child.columns if column in read)
    joined = Join(JoinKind.INNER, _opened(inner[0]), _opened(inner[1]), conjunction(before), kept)
    grouped: Plan = GroupBy(gathered(joined) or joined, keys, grouping.aggregates)
    on_aggregates = conjunction(after)
    if on_aggregates is not None:
        grouped = Filter(grouped, on_aggregates)
    yield Project(grouped, tuple((column, Ref(column)) for column in plan.columns))


def _opened(plan: Plan) -> Plan:
    """The MultiJoin of a group, if it has one: a further join becomes part of it."""
    first = as_group(plan).expressions[0]
    return first if isinstance(first, MultiJoin) else plan


def partial_aggregate_below_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """The partial aggregate of a GROUP BY moves below an inner join, onto the input that all its aggregates read, grouped by
    the columns that the join and the final aggregate read. A partial state that matches several rows is merged as often as
    its rows would be.

    Unsound if the join's condition is not deterministic, and for floating-point columns: grouping turns -0.0 into 0.0, and a
    condition may tell them apart. Not for states that Spark would have to sort for."""
    if not isinstance(plan, GroupBy) or not all(_can_pass_join(call) for _, call in plan.aggregates):
        return
    join = as_group(plan.child).expressions[0]
    if not isinstance(join, Join) or join.kind is not JoinKind.INNER or join.condition is None:
        return
    if is_deterministic(join.condition):
        for side in (0, 1):
            yield from _partial_pushed(plan, join, join.condition, side, memo)


def _partial_pushed(plan: GroupBy, join: Join, condition: Expression, side: int, memo: Memo) -> Iterator[Plan]:
    near = as_group(join.children[side])
    read = frozenset[Column]().union(*(columns_of(call) for _, call in plan.aggregates))
    if not read or not read <= near.column_set:
        return
    needed = (frozenset(plan.keys) | columns_of(condition)) & near.column_set
    keys = tuple(column for column in near.columns if column in needed)
    if near.facts.unique(keys) or not keys or not all(has_one_form(key.type) for key in keys):
        return
    if not is_hashed(keys, plan.aggregates):
        return
    states = _states(plan, memo)
    partial = PartialGroupBy(near, keys, states)
    sides = (partial, join.right) if side == 0 else (join.left, partial)
    joined = Join(JoinKind.INNER, sides[0], sides[1], condition)
    yield FinalGroupBy(joined, plan.keys, plan.aggregates, tuple(column for column, _ in states))


def semi_join_as_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A semi-join of a small input with a large one is an inner join whose result keeps each row of the small input once. A
    semi-join can build a hash table on its right input only; the inner join can build it on the small input.

    Unsound if the small input has no key: equal rows would become one. Unsound for floating-point columns: they become
    grouping keys, and -0.0 becomes 0.0."""
    if not isinstance(plan, Join) or plan.kind is not JoinKind.SEMI or plan.condition is None:
        return
    left, right = input_groups(plan)
    if (
        right.rows < THRESHOLDS.small_input_ratio * left.rows
        or not left.facts.unique(left.columns)
        or not is_deterministic(plan.condition)
    ):
        return
    key = min(left.facts.keys, key=lambda columns: (len(columns), sorted(c.id for c in columns)))
    grouped = frozenset(plan.columns) | key
    keys = tuple(column for column in left.columns if column in grouped)
    if not all(has_one_form(column.type) for column in keys):
        return
    joined = Join(JoinKind.INNER, plan.left, plan.right, plan.condition, keys)
    yield Project(GroupBy(joined, keys, ()), tuple((column, Ref(column)) for column in plan.columns))


def distinct_above_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """An inner join of two DISTINCT inputs is the DISTINCT of the joined rows: one hash table instead of two.

    If both inputs hold a value many times, the join produces the product of its occurrences. The estimate must be able to see
    that, so the rule asks for counted values of the join columns. Unsound for floating-point columns: the join would see both
    -0.0 and 0.0."""
    if not isinstance(plan, Join) or plan.kind is not JoinKind.INNER or plan.condition is None:
        return
    left, right = (as_group(child).expressions[0] for child in plan.children)
    if not (_is_distinct(left) and _is_distinct(right) and is_deterministic(plan.condition)):
        return
    condition = join_condition(plan.condition, plan.left.columns, plan.right.columns)
    inputs = tuple(cast(GroupBy, each).child for each in (left, right))
    if not condition.keys or not all(
        _is_counted(column, as_group(rows))
        for key in condition.keys
        for column, rows in zip(key.columns, inputs, strict=True)
    ):
        return
    if not all(has_one_form(column.type) for child in plan.children for column in child.columns):
        return
    # One of two equal columns is enough.
    redundant = {
        key.columns[1]
        for key in condition.keys
        if key.columns[1] not in plan.columns and interchangeable(key.columns[0].type, key.columns[1].type)
    }
    keys = (*plan.left.columns, *(column for column in plan.right.columns if column not in redundant))
    joined = Join(JoinKind.INNER, inputs[0], inputs[1], plan.condition, keys)
    yield Project(GroupBy(joined, keys, ()), tuple((column, Ref(column)) for column in plan.columns))


def _is_distinct(plan: Plan) -> bool:
    return isinstance(plan, GroupBy) and bool(plan.keys) and not plan.aggregates


def _is_counted(column: Column, group: Group) -> bool:
    """Were its values counted, in all rows or in a sample, rather than guessed from the size of files?"""
    statistics = group.estimate.columns.get(column)
    return statistics is not None and (
        statistics.histogram is not None or bool(statistics.common) or statistics.is_sampled
    )
