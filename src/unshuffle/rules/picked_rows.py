"""Values picked from a row, looked up in the rows: the alternative to keeping them while groups are found.

    max_by(text, ts) group by k   =   rows  join  (select k, max(ts) group by k)  on k <=> k and ts <=> max,
                                      of which there are few, and then max_by(text, ts) group by k

Spark finds groups in a hash table if all that it keeps of them has a fixed width. For a text it sorts all rows. The extreme
is a number, so that only the rows that have it are sorted. The price is that the input is computed twice; the search weighs
the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa

from unshuffle.algebra.expressions import AggregateCall, Call, Expression, Ref, columns_of, connect, is_fixed
from unshuffle.algebra.logical import GroupBy, Join, Plan, Project
from unshuffle.algebra.predicates import conjunction, conjuncts
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.cost.cardinality import estimate
from unshuffle.cost.estimates import Estimate
from unshuffle.properties import Dependencies
from unshuffle.rules.conditions import is_movable, substitute
from unshuffle.search.memo import Group, Memo, is_repeatable

_EXTREMES = {"max_by": "max", "min_by": "min"}
_BOOLEAN = pa.bool_()

Calls = Sequence[tuple[Column, AggregateCall]]


def pick_from_rows(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """Texts and structs are picked from the rows that have the extreme of their group.

    One of them must be picked whatever the row: of a group that no FILTER lets a row of through, no row would be left. Where
    all that is compared is NULL, all rows of the group are. Not if the input would not be the same twice."""
    if not isinstance(plan, GroupBy) or not plan.keys or memo.made_by(plan) == pick_from_rows.__name__:
        return
    picks = [(column, call) for column, call in plan.aggregates if call.keeps_unfixed]
    others = [(column, call) for column, call in plan.aggregates if not call.keeps_unfixed]
    below = cast(Group, plan.child)
    if not picks or not all(_can_be_looked_up(call) for _, call in picks) or not is_repeatable(below):
        return
    if all(call.where is not None for _, call in picks) or any(call.keeps_object for _, call in others):
        return
    yield _looked_up(plan, below, picks, others, memo)


def _can_be_looked_up(call: AggregateCall) -> bool:
    parts = (*call.arguments, *((call.where,) if call.where is not None else ()))
    is_plain = call.function in _EXTREMES and not call.distinct and not call.within and not call.ignore_nulls
    return is_plain and is_fixed(call.arguments[1].type) and all(map(is_movable, parts))


def _looked_up(plan: GroupBy, below: Group, picks: Calls, others: Calls, memo: Memo) -> Plan:
    extremes = {_extreme(call): memo.numbers.new("extreme", call.arguments[1].type) for _, call in picks}
    beside = {column: memo.numbers.like(column) for column, _ in others}
    found = [(beside[column], call) for column, call in others] + [(new, call) for call, new in extremes.items()]
    # The groups, of the same rows under other columns.
    read = frozenset(plan.keys).union(*(columns_of(call) for _, call in found))
    again = {column: memo.numbers.like(column) for column in below.columns if column in read}
    names: dict[Column, Expression] = {old: Ref(new) for old, new in again.items()}
    copy = Project(cast(Plan, below), tuple((new, Ref(old)) for old, new in again.items()))
    keys = tuple(again[key] for key in plan.keys)
    groups = GroupBy(copy, keys, tuple((column, cast(AggregateCall, substitute(c, names))) for column, c in found))
    # The rows that something is picked from, beside what else is known of their group.
    same = [Call("<=>", (Ref(key), Ref(again[key])), _BOOLEAN) for key in plan.keys]
    wanted = connect("or", list(dict.fromkeys(_is_picked(call, extremes[_extreme(call)]) for _, call in picks)))
    kept = (*sorted(frozenset[Column]().union(*(columns_of(call) for _, call in picks)), key=lambda c: c.id), *keys)
    rows = Join(JoinKind.INNER, cast(Plan, below), groups, conjunction([*same, wanted]), (*kept, *beside.values()))
    first = [(column, AggregateCall("first", (Ref(beside[column]),), column.type)) for column, _ in others]
    picked = GroupBy(rows, keys, (*picks, *first))
    return Project(picked, tuple((column, names.get(column, Ref(column))) for column in plan.columns))


def _extreme(call: AggregateCall) -> AggregateCall:
    by = call.arguments[1]
    return AggregateCall(_EXTREMES[call.function], (by,), by.type, where=call.where)


def _is_picked(call: AggregateCall, extreme: Column) -> Expression:
    sides = (call.arguments[1], Ref(extreme))
    if call.where is None:
        return Call("<=>", sides, _BOOLEAN)
    return connect("and", [call.where, Call("=", sides, _BOOLEAN)])


def rows_with_extremes(join: Join, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    """The rows that something is picked from, which no statistics of columns tell: one of each group, or as many as have
    the same value where there are fewer values than rows in a group."""
    keys = len(cast(GroupBy, cast(Group, join.right).expressions[0]).keys)
    same, wanted = (conjunction(part) for part in _parted(conjuncts(join.condition), keys))
    met = estimate(replace(join, condition=same), inputs, facts)
    rows, groups = inputs
    compared = (columns_of(wanted) if wanted is not None else frozenset()) & frozenset(join.left.columns)
    values = max((rows.distinct((column,)) for column in compared), default=1.0)
    return replace(met, rows=min(met.rows, max(groups.rows, rows.rows / max(1.0, values))))


def _parted(conditions: Sequence[Expression], place: int) -> tuple[Sequence[Expression], Sequence[Expression]]:
    return conditions[:place], conditions[place:]


RULES = (pick_from_rows,)
