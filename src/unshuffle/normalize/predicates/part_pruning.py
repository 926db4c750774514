"""Part pruning: row groups and folders whose bounds show that a query needs none of their rows.

The bounds of a part are an interval for each column that has them (`plan.part_bounds`). A part may also be in one of the
partitions of a hash (`plan.bucket_elimination`). A filter needs the parts with a row that may satisfy it. A join needs the
parts that may meet a part of the other side:

    orders of three months have o_key from 300,000 to 599,999, by their footers
    join shipments on o_key = s_key       only shipments with s_key between these two values can have an order
    join prices on p_from <= o_key        only prices with p_from <= 599,999

If the other side is small, its very values are known (`known_keys`).

Such a condition is put on top of the other input and pushed down from there. It is added only if it spares a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

from unshuffle.catalog.schema import Column
from unshuffle.constants import THRESHOLDS
from unshuffle.normalize.predicates.implied_predicates import holds
from unshuffle.normalize.predicates.known_keys import condition_on_keys
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.partitions import Cut, KeyInterval, KeyOrder
from unshuffle.plan.bucket_elimination import parts_in_buckets, reads
from unshuffle.plan.expressions import Call, Expression, Literal, Ref, connect
from unshuffle.plan.functions.scalars import FLIPPED
from unshuffle.plan.logical import Distinct, Filter, GroupBy, Join, Plan, Project, Scan, Sort, Window
from unshuffle.plan.movable_conditions import FILTERS_LEFT, FILTERS_RIGHT, filtered, substitute
from unshuffle.plan.part_bounds import ColumnBounds
from unshuffle.plan.predicate_intervals import (
    NULLS,
    compare_as_literals,
    compared_with_end,
    condition_within,
    intervals_of_column,
)
from unshuffle.plan.predicates import conjuncts
from unshuffle.plan.stored_reads import with_share


@on(Filter)
def prune_parts(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter over a table lets the scan skip the row groups without rows that may satisfy it.

    Not for conditions on columns without bounds or buckets: their rows may be anywhere.
    """
    match plan:
        case Filter(Scan(bounds=bounds) as scan, predicate) if bounds is not None:
            found = _needed(scan, predicate)
            if found is None:
                return None
            kept = tuple(part for part in _present(scan) if part in found)
            if len(kept) == len(_present(scan)):
                return None
            return replace(plan, child=with_share(replace(scan, needed=kept)))
    return None


def _needed(scan: Scan, predicate: Expression) -> frozenset[int] | None:
    """The parts that may have a row that satisfies the predicate; None if that may be any."""
    parts = conjuncts(predicate)
    found = [each for column in scan.columns if (each := _needed_by(scan, column, parts)) is not None]
    in_buckets = parts_in_buckets(scan, parts)
    found += [in_buckets] if in_buckets is not None else []
    for part in parts:
        if isinstance(part, Call) and part.function == "or":
            alternatives = [_needed(scan, alternative) for alternative in part.arguments]
            known = [alternative for alternative in alternatives if alternative is not None]
            found += [frozenset[int]().union(*known)] if len(known) == len(alternatives) else []
    return reduce(frozenset.__and__, found) if found else None


def _needed_by(scan: Scan, column: Column, conditions: Sequence[Expression]) -> frozenset[int] | None:
    read = [each for each in conditions if reads(each, column)]
    bounds = scan.bounds.on(column) if scan.bounds is not None and read else None
    wanted = intervals_of_column(connect("and", read), column, bounds.key) if bounds is not None else None
    return bounds.overlapping(wanted) if bounds is not None and wanted is not None else None


@on(Join)
def prune_parts_across_join(plan: Plan, context: Rewriting) -> Plan | None:
    """The bounds of one side of a join limit the rows of the other that can have a match.

    Unsound for the side that an outer or anti-join preserves: its rows are in the result without a match too.
    """
    if not isinstance(plan, Join) or plan.condition is None:
        return None
    left, right = plan.left, plan.right
    if plan.kind in FILTERS_RIGHT:
        right = _narrowed(right, left, plan.condition)
    if plan.kind in FILTERS_LEFT:
        left = _narrowed(left, right, plan.condition)
    if left is plan.left and right is plan.right:
        return None
    return replace(plan, left=left, right=right)


def _narrowed(target: Plan, source: Plan, condition: Expression) -> Plan:
    """The target with conditions that its rows satisfy if they match a row of the source."""
    found = [
        each for part in conjuncts(condition) for all_ in _implied(part, target, source) for each in conjuncts(all_)
    ]
    return filtered(target, [each for each in found if not holds(target, each)])


def _implied(condition: Expression, target: Plan, source: Plan) -> Iterator[Expression]:
    """What a condition says of the target alone, by the bounds of the source, if that spares a part."""
    if not isinstance(condition, Call):
        return
    if condition.function == "or":
        alternatives = [
            [each for part in conjuncts(argument) for each in _implied(part, target, source)]
            for argument in condition.arguments
        ]
        if all(alternatives):
            yield connect("or", [connect("and", each) for each in alternatives])
        return
    match condition.arguments:
        case (Ref(column=one), Ref(column=other)) if condition.function in ("=", "<", "<=", ">", ">="):
            operator = condition.function
            if one in source.columns:
                one, other, operator = other, one, FLIPPED[operator]
            if one in target.columns and other in source.columns and compare_as_literals(one, other):
                listed = _one_of_known(target, one, source, other) if operator == "=" else None
                implied = listed or _compared(one, operator, _values(source, other))
                if implied is not None and _spares_parts(target, one, implied):
                    yield implied


def _one_of_known(target: Plan, column: Column, source: Plan, other: Column) -> Expression | None:
    """The condition that a column of a large table has one of the values of a small one."""
    large, small = _origin(target, column), _origin(source, other)
    if large is None or small is None or not _can_be_looked_up(large):
        return None
    if (large.scan.files.rows or 0) < THRESHOLDS.small_input_ratio * (small.scan.files.rows or 0):
        return None
    return condition_on_keys(column, small.column, small.scan, small.conditions)


def _can_be_looked_up(origin: Origin) -> bool:
    """Whether values of a column tell most row groups of its table apart, or the partitions of its hash."""
    scan, column = origin.scan, origin.column
    bounds = scan.bounds.on(column) if scan.bounds is not None else None
    hashed = [stored.layout.clustered_by for stored in (scan.parts, scan.buckets) if stored is not None]
    return (bounds is not None and bounds.are_useful) or any(
        column.name == each.name for names in hashed for each in names
    )


def _compared(column: Column, operator: str, values: Sequence[KeyInterval]) -> Expression | None:
    """The condition that a column has this relation to one of the values; None if that may be true of any value."""
    if not values:
        return None
    if operator == "=":
        return condition_within(column, values)
    low, high = values[0].low, values[-1].high
    if operator in ("<", "<="):
        is_closed = high.after and operator == "<="
        return compared_with_end(column, "<=" if is_closed else "<", high.values)
    is_closed = not low.after and operator == ">="
    return compared_with_end(column, ">=" if is_closed else ">", low.values)


def _values(plan: Plan, column: Column) -> Sequence[KeyInterval]:
    """Intervals in order that have every value of a column, except NULL; none if they are unknown or there are no values."""
    traced = _bounded(plan, column)
    if traced is None:
        return []
    bounds, parts = traced
    found = bounds.values(parts)
    if len(found) > THRESHOLDS.pruning_intervals:
        return (KeyInterval(found[0].low, found[-1].high),)
    return found


def holds_by_bounds(plan: Plan, column: Column, condition: Expression) -> bool:
    """Whether the bounds of a column show that a condition on it is true for all its values, and would filter nothing."""
    traced = _bounded(plan, column)
    if traced is None:
        return False
    bounds, parts = traced
    order = KeyOrder((bounds.key,))
    return all(_is_true_in(each, condition, order) for part in parts for each in bounds.intervals[part])


def holds_by_values(plan: Plan, column: Column, condition: Expression) -> bool:
    """Whether the values of a key of a small table are known, and are all in the list of a condition. Then the condition
    filters no row that can have a match."""
    if not isinstance(condition, Call) or condition.function != "in" or condition.arguments[0] != Ref(column):
        return False
    origin = _origin(plan, column)
    if origin is None or column.type is None:
        return False
    known = condition_on_keys(column, origin.column, origin.scan, origin.conditions)
    return isinstance(known, Call) and set(known.arguments) <= set(condition.arguments)


def _is_true_in(interval: KeyInterval, condition: Expression, order: KeyOrder) -> bool:
    """Whether a condition on a column is true for every value of an interval."""
    if interval == NULLS or not isinstance(condition, Call):
        return False
    match condition.function, condition.arguments:
        case "and", parts:
            return all(_is_true_in(interval, part, order) for part in parts)
        case "or", parts:
            return any(_is_true_in(interval, part, order) for part in parts)
        case operator, (Ref(), Literal(value=value)) if operator in ("<", "<=", ">", ">=") and value is not None:
            try:
                end = order.place(Cut((value,), after=operator in ("<=", ">")))
            except TypeError:
                return False  # a literal of another type
            return order.place(interval.high) <= end if operator in ("<", "<=") else order.place(interval.low) >= end
    return False


def _spares_parts(plan: Plan, column: Column, condition: Expression) -> bool:
    """Whether a table that the column comes from has a part that the condition makes unnecessary."""
    traced = _origin(plan, column)
    if traced is None or traced.scan.bounds is None:
        return False
    scan, own = traced.scan, traced.column
    needed = _needed(scan, substitute(condition, {column: Ref(own)}))
    return needed is not None and any(part not in needed for part in _present(scan))


def _present(scan: Scan) -> Sequence[int]:
    assert scan.bounds is not None
    return range(len(scan.bounds.parts)) if scan.needed is None else scan.needed


def _bounded(plan: Plan, column: Column) -> tuple[ColumnBounds, Sequence[int]] | None:
    """The bounds of the column that a column comes from, and the parts that are needed."""
    traced = _origin(plan, column)
    bounds = traced.scan.bounds.on(traced.column) if traced is not None and traced.scan.bounds is not None else None
    return (bounds, _present(traced.scan)) if traced is not None and bounds is not None else None


class Origin(NamedTuple):
    """A column of a scan, and conditions that its rows satisfy."""

    scan: Scan
    column: Column
    conditions: Sequence[Expression] = ()


def _origin(plan: Plan, column: Column) -> Origin | None:
    """Where a column comes from unchanged, except for NULLs that an outer join adds."""
    match plan:
        case Scan():
            return Origin(plan, column)
        case Filter(Scan() as scan, predicate):
            return Origin(scan, column, conjuncts(predicate))
        case Filter() | Distinct() | Sort():
            return _origin(plan.child, column)
        case Window() if column in plan.child.columns:
            return _origin(plan.child, column)
        case GroupBy() if column in plan.keys:
            return _origin(plan.child, column)
        case Project(outputs=outputs):
            expression = dict(outputs).get(column)
            return _origin(plan.child, expression.column) if isinstance(expression, Ref) else None
        case Join():
            side = plan.left if column in plan.left.columns else plan.right
            return _origin(side, column) if column in side.columns else None
    return None
