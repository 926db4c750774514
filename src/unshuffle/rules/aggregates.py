"""Aggregates in two halves, and below joins (ICDE 2010, section IX; SIGMOD 2012, section 2.4.1). Trees of halves are
`search.trees`.

A partial aggregate finds what it can in each partition as it lies; a final one puts the findings together once equal keys
have met. It pays where groups are larger than the partitions are many, and costs a pass where they are not: the search
decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa

from unshuffle.algebra.expressions import AggregateCall, Ref, columns_of
from unshuffle.algebra.logical import Filter, FinalGroupBy, GroupBy, Join, PartialGroupBy, Plan, Project
from unshuffle.algebra.multijoin import MultiJoin, gathered
from unshuffle.algebra.predicates import (
    JoinCondition,
    conjunction,
    conjuncts,
    has_one_form,
    is_deterministic,
    join_condition,
)
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.properties import interchangeable
from unshuffle.rules.sorted_inputs import is_hashed
from unshuffle.search.memo import Group, Memo

# Aggregates of parts that can be aggregated again: the state of one is a value, or a few.
_SPLITS = frozenset(
    (
        "sum",
        "count",
        "min",
        "max",
        "avg",
        "bool_and",
        "bool_or",
        "every",
        "any",
        "some",
        "mean",
        "bit_and",
        "bit_or",
        "bit_xor",
        "stddev",
        "stddev_samp",
        "stddev_pop",
        "variance",
        "var_samp",
        "var_pop",
    )
)
# Of these, what has been found is one value of a type of its own, and findings are put together by this function. So they can
# be columns like any other, and pass through a join.
MERGED_BY = {
    "sum": "sum",
    "count": "sum",
    "min": "min",
    "max": "max",
    "bool_and": "bool_and",
    "every": "bool_and",
    "bool_or": "bool_or",
    "any": "bool_or",
    "some": "bool_or",
    "bit_and": "bit_and",
    "bit_or": "bit_or",
    "bit_xor": "bit_xor",
}
# They pick one of a group's values, and which may depend on the order of rows: any that they would pick is right.
PICKS = frozenset(("max_by", "min_by", "first", "first_value", "last", "last_value", "any_value"))

# An input is small beside another if that has so many times its rows.
SMALL = 4


def can_split(call: AggregateCall) -> bool:
    """DISTINCT needs all of a group's values together; so does anything that depends on their order."""
    return call.function in _SPLITS | PICKS and not call.distinct and not call.within and is_repeatable_call(call)


def is_repeatable_call(call: AggregateCall) -> bool:
    """Does it depend on the rows of its group alone? Not on when it is computed."""
    parts = (*call.arguments, *((call.where,) if call.where is not None else ()))
    return all(map(is_deterministic, parts)) if call.function in PICKS else is_deterministic(call)


def _can_pass_join(call: AggregateCall) -> bool:
    """A sum that has no digits left to grow by may overflow in one half, and be NULL there: the other would take that for a
    sum of nothing."""
    is_full = isinstance(call.type, pa.Decimal128Type) and call.type.precision >= 38
    return can_split(call) and call.function in MERGED_BY and not (call.function == "sum" and is_full)


def split_aggregate(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """GROUP BY is a partial one in each partition, and a final one over what those found.
    Not for an aggregate that must see all values of a group at once."""
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
    """A GROUP BY over an inner join moves below it, onto the input that all its aggregates read, if every row there meets
    at most one row of the other input (the other is unique on its join columns) and the grouping keys determine the join
    columns: then all rows of a group meet the same row, or none does.

    Without the key, a row would be counted once where the join counts it twice. Without the dependency, a group would
    be joined as one that the join takes apart."""
    if not isinstance(plan, GroupBy) or not plan.keys:
        return
    below = cast(Group, plan.child)
    for join in below.expressions:
        if isinstance(join, Join) and join.kind is JoinKind.INNER:
            for side in (0, 1):
                yield from _pushed(plan, below, join, side)


def _pushed(plan: GroupBy, below: Group, join: Join, side: int) -> Iterator[Plan]:
    near, far = cast("tuple[Group, Group]", join.children if side == 0 else tuple(reversed(join.children)))
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
        return  # GROUP BY gives one form of equal values, and a join leaves them as they are
    inner = GroupBy(cast(Plan, near), keys, plan.aggregates)
    sides = (inner, cast(Plan, far)) if side == 0 else (cast(Plan, far), inner)
    joined = Join(JoinKind.INNER, sides[0], sides[1], join.condition)
    yield Project(joined, tuple((column, Ref(column)) for column in plan.columns))


def _equated(condition: JoinCondition, side: int) -> list[Column]:
    """The columns of one side that equal values of the other side tell: not those that meet as a type in which different
    values are equal, as large integers are as floating-point numbers."""
    return [key.columns[side] for key in condition.keys if interchangeable(*(column.type for column in key.columns))]


def aggregate_above_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """An inner join over a GROUP BY comes first, if its other input is unique on the columns that it equates with grouping
    keys, and it drops most groups: the rows of those groups are then never grouped. What it asks of aggregates is asked
    afterwards.

    Without the key, a row would be aggregated as often as it meets one. Not with floating-point columns of the other
    input: they become grouping keys, and lose the sign of a zero."""
    if not isinstance(plan, Join) or plan.kind is not JoinKind.INNER or plan.condition is None:
        return
    for side in (0, 1):
        near, far = cast("tuple[Group, Group]", plan.children if side == 0 else tuple(reversed(plan.children)))
        first = near.expressions[0]
        if not isinstance(first, GroupBy) or not first.keys:
            continue
        made = frozenset(column for column, _ in first.aggregates)
        before = [part for part in conjuncts(plan.condition) if not columns_of(part) & made]
        after = [part for part in conjuncts(plan.condition) if columns_of(part) & made]
        condition = join_condition(conjunction(before), plan.left.columns, plan.right.columns)
        theirs = _equated(condition, 1 - side)
        if not theirs or not far.facts.unique(theirs) or far.rows * SMALL > near.rows:
            continue
        inner = (first.child, cast(Plan, far)) if side == 0 else (cast(Plan, far), first.child)
        wanted = frozenset(plan.columns).union(*map(columns_of, after))
        more = tuple(column for column in far.columns if column in wanted)
        if not all(has_one_form(column.type) for column in more):
            continue
        keys = (*first.keys, *more)
        read = frozenset(keys).union(*(columns_of(call) for _, call in first.aggregates))
        kept = tuple(column for child in inner for column in child.columns if column in read)
        joined = Join(JoinKind.INNER, _opened(inner[0]), _opened(inner[1]), conjunction(before), kept)
        grouped: Plan = GroupBy(cast(Plan, gathered(joined) or joined), keys, first.aggregates)
        asked = conjunction(after)
        if asked is not None:
            grouped = Filter(grouped, asked)
        yield Project(grouped, tuple((column, Ref(column)) for column in plan.columns))


def _opened(plan: Plan) -> Plan:
    """Joins whose order is open, as such: another join with them is one more of them."""
    first: Any = cast(Group, plan).expressions[0]
    return cast(Plan, first) if isinstance(first, MultiJoin) else plan


def partial_aggregate_below_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """The partial half of a GROUP BY moves below an inner join, onto the input that all its aggregates read, grouped on
    what the join and the final half look at. A finding that meets several rows is counted as often as its rows would be.

    Not if the condition of the join may say otherwise of the same row, nor with floating-point columns: grouped on, they lose
    the sign of a zero, which a condition may look at. Not of findings that Spark would have to sort for."""
    if not isinstance(plan, GroupBy) or not all(_can_pass_join(call) for _, call in plan.aggregates):
        return
    below = cast(Group, plan.child)
    read = frozenset[Column]().union(*(columns_of(call) for _, call in plan.aggregates))
    for join in below.expressions[:1]:
        if not isinstance(join, Join) or join.kind is not JoinKind.INNER or join.condition is None:
            continue
        if not is_deterministic(join.condition):
            continue
        for side in (0, 1):
            near = cast(Group, join.children[side])
            if not read or not read <= near.column_set:
                continue
            needed = (frozenset(plan.keys) | columns_of(join.condition)) & near.column_set
            keys = tuple(column for column in near.columns if column in needed)
            if near.facts.unique(keys) or not keys or not all(has_one_form(key.type) for key in keys):
                continue
            if not is_hashed(keys, plan.aggregates):
                continue
            states = _states(plan, memo)
            partial = PartialGroupBy(cast(Plan, near), keys, states)
            sides = (partial, join.right) if side == 0 else (join.left, partial)
            joined = Join(JoinKind.INNER, sides[0], sides[1], join.condition)
            yield FinalGroupBy(joined, plan.keys, plan.aggregates, tuple(column for column, _ in states))


def semi_join_as_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A semi join of a small input that has a key with a large one is a join of both, of which each row of the small input
    is kept once. In a semi join only the right input can be looked up in; here the small one is.

    Without the key, equal rows of the small input would become one. Not with floating-point columns: they become grouping
    keys, and lose the sign of a zero."""
    if not isinstance(plan, Join) or plan.kind is not JoinKind.SEMI or plan.condition is None:
        return
    left, right = cast("tuple[Group, Group]", plan.children)
    if right.rows < SMALL * left.rows or not left.facts.unique(left.columns) or not is_deterministic(plan.condition):
        return
    key = min(left.facts.keys, key=lambda columns: (len(columns), sorted(c.id for c in columns)))
    grouped = frozenset(plan.columns) | key
    keys = tuple(column for column in left.columns if column in grouped)
    if not all(has_one_form(column.type) for column in keys):
        return
    joined = Join(JoinKind.INNER, plan.left, plan.right, plan.condition, keys)
    yield Project(GroupBy(joined, keys, ()), tuple((column, Ref(column)) for column in plan.columns))


def distinct_above_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """DISTINCT of both inputs of an inner join is DISTINCT of the joined rows: one hash table in place of two.

    Where both inputs hold a value many times, the join has the product of these before it is DISTINCT. So this is only
    for join columns whose values were counted. Not with floating-point columns: the join would see zeros with a sign."""
    if not isinstance(plan, Join) or plan.kind is not JoinKind.INNER or plan.condition is None:
        return
    left, right = (cast(Group, child).expressions[0] for child in plan.children)
    if not (_is_distinct(left) and _is_distinct(right) and is_deterministic(plan.condition)):
        return
    condition = join_condition(plan.condition, plan.left.columns, plan.right.columns)
    inputs = tuple(cast(GroupBy, each).child for each in (left, right))
    if not condition.keys or not all(
        _is_counted(column, cast(Group, rows))
        for key in condition.keys
        for column, rows in zip(key.columns, inputs, strict=True)
    ):
        return
    if not all(has_one_form(column.type) for child in plan.children for column in child.columns):
        return
    # Of two columns that are equal one is enough.
    needless = {
        key.columns[1]
        for key in condition.keys
        if key.columns[1] not in plan.columns and interchangeable(key.columns[0].type, key.columns[1].type)
    }
    keys = (*plan.left.columns, *(column for column in plan.right.columns if column not in needless))
    joined = Join(JoinKind.INNER, inputs[0], inputs[1], plan.condition, keys)
    yield Project(GroupBy(joined, keys, ()), tuple((column, Ref(column)) for column in plan.columns))


def _is_distinct(plan: Plan) -> bool:
    return isinstance(plan, GroupBy) and bool(plan.keys) and not plan.aggregates


def _is_counted(column: Column, group: Group) -> bool:
    """Were its values counted, of all rows or of some, and not told from the size of files?"""
    known = group.estimate.columns.get(column)
    return known is not None and (known.histogram is not None or bool(known.common) or known.sampled)


RULES = (
    split_aggregate,
    aggregate_below_join,
    aggregate_above_join,
    partial_aggregate_below_join,
    semi_join_as_join,
    distinct_above_join,
)
