"""Implementation rules: the physical operators that can run each logical one (ICDE 2010, sections III and VI).

Serial, partitioned, pair-wise and broadcast forms are not separate operators: they are the alternatives of what an operator
requires, so one rule here covers them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any, cast

from unshuffle.algebra import logical
from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import AggregateCall, Call, Ref, Subquery
from unshuffle.algebra.expressions import walk as parts
from unshuffle.algebra.facts import joined
from unshuffle.algebra.physical import PhysicalOperator
from unshuffle.algebra.predicates import join_condition
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import common_type
from unshuffle.properties import (
    Delivered,
    Dependencies,
    JoinKey,
    Partitioned,
    RangeFunction,
    Scattered,
    Serial,
    Sorted,
    Within,
)
from unshuffle.properties.requirements import MergeKey
from unshuffle.rules import listed
from unshuffle.rules.sorted_inputs import can_stream, is_hashed
from unshuffle.search.implementation import Implementation
from unshuffle.search.memo import Group
from unshuffle.search.ranges import Spread

Scan = Callable[[logical.Scan, Group], Iterator[Delivered]]


class Implement:
    """The rules, with what they are told of the machine: into how many pieces files are cut, and how many rows are so few
    that it does not matter what is done to them."""

    def __init__(self, pieces: Callable[[float, float], int], few_rows: float = 0.0) -> None:
        self._pieces = pieces
        self._few_rows = few_rows

    def __call__(self, expression: Any, group: Group) -> Iterator[Implementation]:
        rule = _RULES.get(type(expression))
        if rule is None:
            return
        if any(
            isinstance(part, Subquery) and part.outer for e in logical.expressions_of(expression) for part in parts(e)
        ):
            # A correlated subquery that could not be unnested: Spark runs the operator in its own way.
            yield _over(expression, ops.AsWritten(expression, "a correlated subquery"))
            return
        if isinstance(expression, logical.Scan):
            yield from self._scan(expression, group)
            return
        found = list(rule(expression))
        few = group.rows + sum(cast(Group, child).rows for child in expression.children) <= self._few_rows
        hashed = [each for each in found if not isinstance(each.operator, ops.MergeJoin)]
        # Whether few rows are hashed or sorted for a join is not worth the time to find out.
        yield from hashed if few and hashed else found

    def _scan(self, scan: logical.Scan, group: Group) -> Iterator[Implementation]:
        if scan.layout is not None:
            layout, stored = scan.layout.partitioning, (scan.stored or scan.layout).partitioning
            # By columns that are not read, Spark cannot be told how rows lie, nor in what order.
            seen = scan.layout if isinstance(layout, Partitioned | Within) else Delivered(layout)
            implementation = _over(scan, ops.FileScan(scan, seen))
            if isinstance(stored, Partitioned):
                implementation.stored_columns = frozenset(stored.columns) & group.column_set
                group.counts = (stored.function.partitions,)
                if scan.spread is not None and isinstance(stored.function, RangeFunction):
                    group.spreads = (Spread(scan.spread_on, scan.spread),)
            yield implementation
            if isinstance(layout, Within):  # which serves few: as any other files it is read for less
                yield _over(scan, ops.FileScan(scan, Delivered(Scattered(layout.function.partitions))))
        yield _over(scan, ops.FileScan(scan, Delivered(Serial())))
        pieces = self._pieces(group.rows, scan.files.bytes or group.bytes)
        if pieces > 1:
            yield _over(scan, ops.FileScan(scan, Delivered(Scattered(pieces))))


def _over(expression: Any, operator: PhysicalOperator, keys: Sequence[JoinKey] = ()) -> Implementation:
    inputs = cast("tuple[Group, ...]", expression.children)
    return Implementation(operator, inputs, expression, operator.alternatives(), tuple(keys))


def _nothing(plan: logical.Scan) -> Iterator[Implementation]:
    yield from ()


def _table(plan: logical.TableScan) -> Iterator[Implementation]:
    yield _over(plan, ops.TableRead(plan))


def _values(plan: logical.Values) -> Iterator[Implementation]:
    yield _over(plan, ops.Rows(plan))


def _project(plan: logical.Project) -> Iterator[Implementation]:
    yield _over(plan, ops.Compute(plan.outputs))


def _filter(plan: logical.Filter) -> Iterator[Implementation]:
    yield _over(plan, ops.Select(plan.predicate, plan.columns))


def _group_by(plan: logical.GroupBy) -> Iterator[Implementation]:
    if _may_be_hashed(plan.keys, plan.aggregates):
        yield _over(plan, ops.HashAggregate(plan.keys, plan.aggregates))
    yield _over(plan, ops.StreamAggregate(plan.keys, plan.aggregates))
    percentiles = listed.percentiles(plan.aggregates) if plan.keys else frozenset()
    if percentiles:
        yield _over(plan, ops.StreamAggregate(plan.keys, plan.aggregates, listed=percentiles))


def _may_be_hashed(keys: Sequence[Column], aggregates: Sequence[tuple[Column, AggregateCall]]) -> bool:
    """Of groups that can neither be hashed nor seen to be sorted, Spark sorts by itself."""
    return is_hashed(keys, aggregates) or not can_stream(keys)


def _distinct(plan: logical.Distinct) -> Iterator[Implementation]:
    yield _over(plan, ops.HashAggregate(plan.columns, ()))
    yield _over(plan, ops.StreamAggregate(plan.columns, ()))


def _expand(plan: logical.Expand) -> Iterator[Implementation]:
    yield _over(plan, ops.Enlarge(plan))


def _partial_group_by(plan: logical.PartialGroupBy) -> Iterator[Implementation]:
    if _may_be_hashed(plan.keys, plan.states):
        yield _over(plan, ops.HashAggregate(plan.keys, plan.states, "partial"))
    if plan.keys:
        yield _over(plan, ops.StreamAggregate(plan.keys, plan.states, "partial"))


def _final_group_by(plan: logical.FinalGroupBy) -> Iterator[Implementation]:
    if _may_be_hashed(plan.keys, plan.aggregates):
        yield _over(plan, ops.HashAggregate(plan.keys, plan.aggregates, "final", plan.states))
    yield _over(plan, ops.StreamAggregate(plan.keys, plan.aggregates, "final", plan.states))


def _window(plan: logical.Window) -> Iterator[Implementation]:
    """One specification, of columns; what is not so yet is left to Spark."""
    calls = [call for _, call in plan.calls]
    first = calls[0]
    by = [part.column for part in first.partition if isinstance(part, Ref)]
    order = ops.sorted_keys(first.order)
    same = all(call.partition == first.partition and call.order == first.order for call in calls)
    if not same or order is None or len(by) < len(first.partition):
        yield _over(plan, ops.AsWritten(plan, "window functions over expressions"))
        return
    yield _over(plan, ops.Windows(plan.calls, tuple(by), order, plan.child.columns))


def _sort(plan: logical.Sort) -> Iterator[Implementation]:
    keys = ops.sorted_keys(plan.order)
    if keys is None:
        yield _over(plan, ops.AsWritten(plan, "an order by expressions"))
    else:
        yield _over(plan, ops.InOrder(keys, plan.columns))


def _limit(plan: logical.Limit) -> Iterator[Implementation]:
    yield _over(plan, ops.FirstRows(plan.count, plan.offset, order_of(plan), plan.columns))


def order_of(plan: logical.Limit) -> tuple[Sorted, ...]:
    """The order in which the first rows are meant: that of a Sort right below."""
    below = cast(Group, plan.child)
    for expression in below.expressions:
        if isinstance(expression, logical.Sort):
            return ops.sorted_keys(expression.order) or ()
    return ()


def _partial_top(plan: logical.PartialTop) -> Iterator[Implementation]:
    yield _over(plan, ops.PartialFirstRows(plan.count, ops.sorted_keys(plan.order) or (), plan.columns))


def _join(plan: logical.Join) -> Iterator[Implementation]:
    condition = join_condition(plan.condition, plan.left.columns, plan.right.columns)
    wide: list[Dependencies] = []
    aligned: dict[Any, Any] = {}

    def facts() -> Dependencies:
        if not wide:
            inputs = cast("tuple[Group, Group]", plan.children)
            wide.append(joined(plan, [child.facts for child in inputs]))
        return wide[0]

    def over(operator: Any, keys: Sequence[JoinKey] = ()) -> Implementation:
        implementation = _over(plan, operator, keys)
        implementation.facts = facts
        implementation.aligned = aligned
        return implementation

    keys = tuple(key for key in condition.keys if key.type is not None)
    if not keys:
        for inner in (1, 0):
            if _may_be_inner(plan.kind, inner):
                yield over(ops.LoopJoin(plan, (), plan.condition, wide, inner=inner))
        key = not_in_key(plan) if plan.kind is JoinKind.ANTI else None
        if key is not None:
            yield over(ops.HashJoin(plan, (key,), None, wide, build=1, null_aware=True))
        if plan.kind is JoinKind.FULL:
            yield over(ops.LoopJoin(plan, (), plan.condition, wide, inner=1))
        return
    for build in (1, 0):
        if plan.kind in (JoinKind.SEMI, JoinKind.ANTI) and build == 0:
            continue
        yield over(ops.HashJoin(plan, keys, condition.rest, wide, build=build), keys)
    if ops.merge_possible(keys):
        for order in merge_orders(keys):
            yield over(ops.MergeJoin(plan, keys, condition.rest, wide, by=order), keys)


def not_in_key(plan: logical.Join) -> JoinKey | None:
    """The columns of an anti join that is NOT IN: on `a = b or (a = b) is null`."""
    match plan.condition:
        case Call("or", (Call("=", (Ref(column=a), Ref(column=b))) as pair, Call("isnull", (tested,)))) if (
            tested == pair
        ):
            one, other = (a, b) if a in plan.left.columns else (b, a)
            type_ = common_type(one.type, other.type)
            sided = one in plan.left.columns and other in plan.right.columns
            return JoinKey((one, other), type_) if sided and type_ is not None else None
        case _:
            return None


def _may_be_inner(kind: JoinKind, place: int) -> bool:
    """May this input be copied to every task? Not if its unmatched rows are kept: each copy would yield them."""
    return (
        kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
        if place == 1
        else kind
        in (
            JoinKind.INNER,
            JoinKind.RIGHT,
        )
    )


# Orders of more keys than this are not permuted.
PERMUTED = 3


def merge_orders(keys: Sequence[JoinKey]) -> Iterator[tuple[MergeKey, ...]]:
    """Orders in which a merge join may want its keys. Each is a different order of the result."""
    orders = permutations(keys) if 1 < len(keys) <= PERMUTED else (tuple(keys),)
    for order in orders:
        yield tuple(MergeKey(key) for key in order)


def _set_operation(plan: logical.SetOperation) -> Iterator[Implementation]:
    keys = tuple(
        JoinKey(columns, _common(columns), null_safe=True)
        for columns in zip(*(each.columns for each in plan.inputs), strict=True)
    )
    if plan.kind is logical.SetKind.UNION:
        inputs = tuple(each.columns for each in plan.inputs)
        yield _over(plan, ops.Concatenate(plan.columns, inputs))
        sent = tuple(key for key in keys if key.type is not None)
        if sent:
            yield _over(plan, ops.ConcatenatePartitions(plan.columns, inputs, sent), sent)
        return
    yield _over(plan, ops.MultisetOperation(plan, keys), keys)


def _common(columns: Sequence[Column]) -> Any:
    type_ = columns[0].type
    for column in columns[1:]:
        type_ = common_type(type_, column.type)
    return type_


def _process(plan: logical.Process) -> Iterator[Implementation]:
    yield _over(plan, ops.RunProcess(plan))


def _reduce(plan: logical.Reduce) -> Iterator[Implementation]:
    presort = ops.sorted_keys(plan.presort)
    if presort is None:
        yield _over(plan, ops.AsWritten(plan, "a presort by expressions"))
    else:
        yield _over(plan, ops.RunReduce(plan, presort))


def _combine(plan: logical.Combine) -> Iterator[Implementation]:
    pairs = zip(plan.left_keys, plan.right_keys, strict=True)
    keys = tuple(JoinKey((a, b), common_type(a.type, b.type), null_safe=True) for a, b in pairs)
    yield _over(plan, ops.RunCombine(plan, keys), keys)


def _foreign(plan: logical.Foreign) -> Iterator[Implementation]:
    yield _over(plan, ops.AsWritten(plan, plan.reason))


def _grouping_sets(plan: logical.GroupingSets) -> Iterator[Implementation]:
    yield _over(plan, ops.AsWritten(plan, "grouping sets"))


def _reference(plan: logical.Reference) -> Iterator[Implementation]:
    below = cast(Group, plan.rowset)
    yield _over(plan, ops.Rename(below.name or "", plan.columns, below.columns))


_RULES: dict[type, Callable[[Any], Iterator[Implementation]]] = {
    logical.Scan: _nothing,
    logical.TableScan: _table,
    logical.Values: _values,
    logical.Project: _project,
    logical.Filter: _filter,
    logical.GroupBy: _group_by,
    logical.PartialGroupBy: _partial_group_by,
    logical.FinalGroupBy: _final_group_by,
    logical.GroupingSets: _grouping_sets,
    logical.Distinct: _distinct,
    logical.Expand: _expand,
    logical.Window: _window,
    logical.Sort: _sort,
    logical.Limit: _limit,
    logical.PartialTop: _partial_top,
    logical.Join: _join,
    logical.SetOperation: _set_operation,
    logical.Process: _process,
    logical.Reduce: _reduce,
    logical.Combine: _combine,
    logical.Foreign: _foreign,
    logical.Reference: _reference,
}
