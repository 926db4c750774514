"""Aggregates that pick a value from a row (max_by, min_by), as a join with the row that has the extreme.

    max_by(text, ts) group by k   =   rows  join  (select k, max(ts) group by k)  on k <=> k and ts <=> max,
                                      which leaves few rows, and then max_by(text, ts) group by k

Spark aggregates in a hash table only if the state has a fixed width. For a string it sorts all rows. Here the state of the
first aggregate is the extreme, which has a fixed width, and only the rows that have it are sorted. The price is that the
input is computed twice. The search compares the costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa

from unshuffle.cardinality.estimate import estimate
from unshuffle.cardinality.relation_estimate import Estimate
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Ref, columns_of, connect, is_fixed
from unshuffle.plan.logical import GroupBy, Join, Plan, Project
from unshuffle.plan.movable_conditions import is_movable, substitute
from unshuffle.plan.predicates import conjunction, conjuncts
from unshuffle.properties import Dependencies
from unshuffle.search.memo import Group, Memo, as_group, is_repeatable

_BOOLEAN = pa.bool_()

Calls = Sequence[tuple[Column, AggregateCall]]


def pick_from_rows(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """Strings and structs are picked from the rows that have the extreme of their group. A group in which all compared values
    are NULL keeps all its rows.

    Unsound if every such aggregate has a FILTER: a group in which no row passes would lose its rows. Unsound for an input
    that may differ when it is computed twice."""
    if not isinstance(plan, GroupBy) or not plan.keys or memo.made_by(plan) is pick_from_rows:
        return
    picks = [(column, call) for column, call in plan.aggregates if call.keeps_unfixed]
    others = [(column, call) for column, call in plan.aggregates if not call.keeps_unfixed]
    below = as_group(plan.child)
    if not picks or not all(_can_be_looked_up(call) for _, call in picks) or not is_repeatable(below):
        return
    if all(call.where is not None for _, call in picks) or any(call.keeps_object for _, call in others):
        return
    yield _looked_up(plan, below, picks, others, memo)


def _can_be_looked_up(call: AggregateCall) -> bool:
    parts = (*call.arguments, *((call.where,) if call.where is not None else ()))
    is_plain = call.facts.picks == "by_key" and not call.distinct and not call.within and not call.ignore_nulls
    return is_plain and is_fixed(call.arguments[1].type) and all(map(is_movable, parts))


def _looked_up(plan: GroupBy, below: Group, picks: Calls, others: Calls, memo: Memo) -> Plan:
    extremes = {_extreme(call): memo.numbers.new("extreme", call.arguments[1].type) for _, call in picks}
    other_columns = {column: memo.numbers.like(column) for column, _ in others}
    calls = [(other_columns[column], call) for column, call in others] + [(new, call) for call, new in extremes.items()]
    # The groups, from a copy of the input with its own column identities.
    read = frozenset(plan.keys).union(*(columns_of(call) for _, call in calls))
    copies = {column: memo.numbers.like(column) for column in below.columns if column in read}
    names: dict[Column, Expression] = {old: Ref(new) for old, new in copies.items()}
    copy = Project(below, tuple((new, Ref(old)) for old, new in copies.items()))
    keys = tuple(copies[key] for key in plan.keys)
    groups = GroupBy(copy, keys, tuple((column, cast(AggregateCall, substitute(c, names))) for column, c in calls))
    # The rows with an extreme, joined with the other aggregates of their group.
    same = [Call("<=>", (Ref(key), Ref(copies[key])), _BOOLEAN) for key in plan.keys]
    has_extreme = connect("or", list(dict.fromkeys(_is_picked(call, extremes[_extreme(call)]) for _, call in picks)))
    kept = (*sorted(frozenset[Column]().union(*(columns_of(call) for _, call in picks)), key=lambda c: c.id), *keys)
    rows = Join(JoinKind.INNER, below, groups, conjunction([*same, has_extreme]), (*kept, *other_columns.values()))
    first = [(column, AggregateCall("first", (Ref(other_columns[column]),), column.type)) for column, _ in others]
    picked = GroupBy(rows, keys, (*picks, *first))
    return Project(picked, tuple((column, names.get(column, Ref(column))) for column in plan.columns))


def _extreme(call: AggregateCall) -> AggregateCall:
    by, extreme = call.arguments[1], call.facts.extreme
    assert extreme is not None
    return AggregateCall(extreme, (by,), by.type, where=call.where)


def _is_picked(call: AggregateCall, extreme: Column) -> Expression:
    sides = (call.arguments[1], Ref(extreme))
    if call.where is None:
        return Call("<=>", sides, _BOOLEAN)
    return connect("and", [call.where, Call("=", sides, _BOOLEAN)])


def rows_with_extremes(join: Join, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    """The estimated rows that have an extreme: one for each group, or as many as share a value where a group has fewer
    values than rows. Column statistics alone cannot tell."""
    keys = len(cast(GroupBy, as_group(join.right).expressions[0]).keys)
    conditions = conjuncts(join.condition)
    same, has_extreme = conjunction(conditions[:keys]), conjunction(conditions[keys:])
    matched = estimate(replace(join, condition=same), inputs, facts)
    rows, groups = inputs
    compared = (columns_of(has_extreme) if has_extreme is not None else frozenset()) & frozenset(join.left.columns)
    values = max((rows.distinct((column,)) for column in compared), default=1.0)
    return replace(matched, rows=min(matched.rows, max(groups.rows, rows.rows / max(1.0, values))))
