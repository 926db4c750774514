"""Implementation rules: the physical operators that can run each logical operator (ICDE 2010, sections III and VI).

Serial, partitioned, pair-wise and broadcast execution are not separate operators but alternative requirements of one
operator, so one rule covers them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.type_coercion import common_type
from unshuffle.constants import THRESHOLDS
from unshuffle.implement import percentile_lists
from unshuffle.implement.dynamic_pruning import possible_pruning
from unshuffle.implement.spark_ordering import can_stream, is_hashed
from unshuffle.partitions import KeyColumn, KeyHistogram, histogram_of_column
from unshuffle.plan import logical, physical
from unshuffle.plan.bucketed_scans import read_by_buckets
from unshuffle.plan.expressions import AggregateCall, Call, Ref, Subquery
from unshuffle.plan.expressions import walk as parts
from unshuffle.plan.facts import joined
from unshuffle.plan.physical import PhysicalOperator
from unshuffle.plan.predicates import join_condition
from unshuffle.plan.user_code import runs_in_python, user_functions_in
from unshuffle.properties import (
    Delivered,
    Dependencies,
    JoinKey,
    Partitioned,
    PrefixPartitioned,
    RangeFunction,
    Serial,
    Sorted,
    UnknownPartitioning,
)
from unshuffle.properties.matching.operator_requirements import MergeKey
from unshuffle.search.implementation import Implementation
from unshuffle.search.layouts.range_layouts import Spread
from unshuffle.search.memo import Group, as_group, input_groups


class Implement:
    """The rules, with two properties of the machine: the number of pieces that files of a size are split into, and the number
    of rows below which a merge join is not considered; and whether Spark prunes folders at run time."""

    def __init__(
        self, pieces: Callable[[float, float], int], few_rows: float = 0.0, prunes_dynamically: bool = True
    ) -> None:
        self._pieces = pieces
        self._few_rows = few_rows
        self._prunes_dynamically = prunes_dynamically

    def __call__(self, expression: Any, group: Group) -> Iterator[Implementation]:
        rule = _RULES.get(type(expression))
        if rule is None:
            return
        if any(
            isinstance(part, Subquery) and part.outer for e in logical.expressions_of(expression) for part in parts(e)
        ):
            # The correlated subquery could not be unnested, so Spark runs the operator.
            yield _over(expression, physical.SparkFallback(expression, "a correlated subquery"))
            return
        if isinstance(expression, logical.Scan):
            yield from self._scan(expression, group)
            return
        every = [each for each in rule(expression) if self._prunes_dynamically or not _is_pruned(each)]
        few = group.rows + sum(child.rows for child in input_groups(expression)) <= self._few_rows
        without_merge = [each for each in every if not isinstance(each.operator, physical.MergeJoin)]
        # For few rows, the choice between a hash join and a merge join is not worth the time to search for it.
        yield from without_merge if few and without_merge else every

    def _scan(self, scan: logical.Scan, group: Group) -> Iterator[Implementation]:
        if scan.layout is not None:
            layout, stored = scan.layout.partitioning, (scan.stored or scan.layout).partitioning
            # A layout by columns that are not read cannot be declared to Spark, nor can its order.
            declared = scan.layout if isinstance(layout, Partitioned | PrefixPartitioned) else Delivered(layout)
            implementation = _over(scan, physical.FileScan(scan, declared))
            if isinstance(stored, Partitioned):
                implementation.stored_columns = frozenset(stored.columns) & group.column_set
                group.partition_counts = (stored.function.partitions,)
                if scan.spread is not None and isinstance(stored.function, RangeFunction):
                    group.spreads = (Spread(scan.spread_on, scan.spread),)
            yield implementation
            if isinstance(
                layout, PrefixPartitioned
            ):  # few operators can use it; reading the files as plain ones is cheaper
                yield _over(scan, physical.FileScan(scan, Delivered(UnknownPartitioning(layout.function.partitions))))
        by_buckets = read_by_buckets(scan)
        if by_buckets is not None and by_buckets.layout is not None:
            implementation = _over(scan, physical.FileScan(by_buckets, by_buckets.layout))
            layout = by_buckets.layout.partitioning
            assert isinstance(layout, Partitioned)
            implementation.stored_columns = frozenset(layout.columns)
            group.partition_counts += (layout.function.partitions,)
            yield implementation
        group.spreads += _bounded_spreads(scan)
        group.has_stored_layout = bool(group.spreads)  # some tasks may read their rows in place
        yield _over(scan, physical.FileScan(scan, Delivered(Serial())))
        pieces = self._pieces(group.rows, scan.files.bytes or group.bytes)
        if pieces > 1:
            yield _over(scan, physical.FileScan(scan, Delivered(UnknownPartitioning(pieces))))


def _is_pruned(each: Implementation) -> bool:
    return isinstance(each.operator, physical.HashJoin) and each.operator.pruning is not None


def _bounded_spreads(scan: logical.Scan) -> tuple[Spread, ...]:
    """The distributions of the columns whose bounds tell which row groups have which values. The histogram of an analyzed
    column is better than the row counts between bounds."""
    found = []
    for column in scan.columns if scan.bounds is not None else ():
        bounds = scan.bounds.on(column) if scan.bounds is not None and column not in scan.spread_on[:1] else None
        if bounds is not None and bounds.are_useful:
            histogram = _analyzed(scan, column, bounds.key) or bounds.histogram(scan.needed)
            found += [Spread((column,), histogram)] if histogram is not None else []
    return tuple(found)


def _analyzed(scan: logical.Scan, column: Column, key: KeyColumn) -> KeyHistogram | None:
    """The histogram of an analyzed column, if all its rows are needed."""
    if scan.statistics is None or scan.needed is not None:
        return None
    known = dict(scan.statistics.columns).get(column)
    try:
        return histogram_of_column(key, known, scan.statistics.rows) if known is not None else None
    except (TypeError, ValueError):
        return None  # the statistics hold values of another type than the column's


def _over(expression: Any, operator: PhysicalOperator, keys: Sequence[JoinKey] = ()) -> Implementation:
    return Implementation(operator, input_groups(expression), expression, operator.alternatives(), tuple(keys))


def _nothing(plan: logical.Scan) -> Iterator[Implementation]:
    yield from ()


def _table(plan: logical.TableScan) -> Iterator[Implementation]:
    yield _over(plan, physical.TableRead(plan))


def _values(plan: logical.Values) -> Iterator[Implementation]:
    yield _over(plan, physical.Rows(plan))


def _project(plan: logical.Project) -> Iterator[Implementation]:
    in_python = any(any(user_functions_in(expression)) for _, expression in plan.outputs)
    yield _over(plan, physical.Project(plan.outputs, in_python))


def _filter(plan: logical.Filter) -> Iterator[Implementation]:
    in_python = any(user_functions_in(plan.predicate))
    yield _over(plan, physical.Filter(plan.predicate, plan.columns, in_python))


def _group_by(plan: logical.GroupBy) -> Iterator[Implementation]:
    if _can_hash(plan.keys, plan.aggregates) and not (plan.keys and runs_in_python(plan.keys, plan.aggregates)):
        yield _over(plan, physical.HashAggregate(plan.keys, plan.aggregates))
    yield _over(plan, physical.SortAggregate(plan.keys, plan.aggregates))
    percentiles = percentile_lists.percentiles(plan.aggregates) if plan.keys else frozenset()
    if percentiles:
        yield _over(plan, physical.SortAggregate(plan.keys, plan.aggregates, listed=percentiles))


def _can_hash(keys: Sequence[Column], aggregates: Sequence[tuple[Column, AggregateCall]]) -> bool:
    """Spark sorts by itself if it can neither hash the groups nor know that they are sorted."""
    return is_hashed(keys, aggregates) or not can_stream(keys)


def _distinct(plan: logical.Distinct) -> Iterator[Implementation]:
    yield _over(plan, physical.HashAggregate(plan.columns, ()))
    yield _over(plan, physical.SortAggregate(plan.columns, ()))


def _expand(plan: logical.Expand) -> Iterator[Implementation]:
    yield _over(plan, physical.Expand(plan))


def _partial_group_by(plan: logical.PartialGroupBy) -> Iterator[Implementation]:
    if _can_hash(plan.keys, plan.states):
        yield _over(plan, physical.HashAggregate(plan.keys, plan.states, "partial"))
    if plan.keys:
        yield _over(plan, physical.SortAggregate(plan.keys, plan.states, "partial"))


def _final_group_by(plan: logical.FinalGroupBy) -> Iterator[Implementation]:
    if _can_hash(plan.keys, plan.aggregates):
        yield _over(plan, physical.HashAggregate(plan.keys, plan.aggregates, "final", plan.states))
    yield _over(plan, physical.SortAggregate(plan.keys, plan.aggregates, "final", plan.states))


def _window(plan: logical.Window) -> Iterator[Implementation]:
    """Only calls with one common specification by columns. Spark runs the others."""
    calls = [call for _, call in plan.calls]
    first = calls[0]
    by = [part.column for part in first.partition if isinstance(part, Ref)]
    order = physical.sorted_keys(first.order)
    same = all(call.partition == first.partition and call.order == first.order for call in calls)
    if not same or order is None or len(by) < len(first.partition):
        yield _over(plan, physical.SparkFallback(plan, "window functions over expressions"))
        return
    yield _over(plan, physical.Windows(plan.calls, tuple(by), order, plan.child.columns))


def _sort(plan: logical.Sort) -> Iterator[Implementation]:
    keys = physical.sorted_keys(plan.order)
    if keys is None:
        yield _over(plan, physical.SparkFallback(plan, "an order by expressions"))
    else:
        yield _over(plan, physical.OrderBy(keys, plan.columns))


def _limit(plan: logical.Limit) -> Iterator[Implementation]:
    yield _over(plan, physical.Limit(plan.count, plan.offset, order_of(plan), plan.columns))


def order_of(plan: logical.Limit) -> tuple[Sorted, ...]:
    """The order that a LIMIT refers to: that of a Sort directly below."""
    below = as_group(plan.child)
    for expression in below.expressions:
        if isinstance(expression, logical.Sort):
            return physical.sorted_keys(expression.order) or ()
    return ()


def _partial_top(plan: logical.PartialTopN) -> Iterator[Implementation]:
    yield _over(plan, physical.PartialTopN(plan.count, physical.sorted_keys(plan.order) or (), plan.columns))


def _join(plan: logical.Join) -> Iterator[Implementation]:
    condition = join_condition(plan.condition, plan.left.columns, plan.right.columns)
    wide: list[Dependencies] = []
    alignments: dict[Any, Any] = {}

    def facts() -> Dependencies:
        if not wide:
            wide.append(joined(plan, [child.facts for child in input_groups(plan)]))
        return wide[0]

    def over(operator: Any, keys: Sequence[JoinKey] = ()) -> Implementation:
        implementation = _over(plan, operator, keys)
        implementation.facts = facts
        implementation.alignments = alignments
        return implementation

    keys = condition.keys
    if not keys:
        for inner in (1, 0):
            if _can_be_inner(plan.kind, inner):
                yield over(physical.NestedLoopJoin(plan, (), plan.condition, wide, inner=inner))
        key = not_in_key(plan) if plan.kind is JoinKind.ANTI else None
        if key is not None:
            yield over(physical.HashJoin(plan, (key,), None, wide, build=1, null_aware=True))
        if plan.kind is JoinKind.FULL:
            yield over(physical.NestedLoopJoin(plan, (), plan.condition, wide, inner=1))
        return
    left, right = (
        _reach(child, [key.columns[place] for key in keys]) for place, child in enumerate(input_groups(plan))
    )
    for build in (1, 0):
        if plan.kind in (JoinKind.SEMI, JoinKind.ANTI) and build == 0:
            continue
        join = physical.HashJoin(plan, keys, condition.rest, wide, build=build, reach=(left, right))
        pruning = possible_pruning(plan, keys, build)
        if pruning is not None:
            yield over(replace(join, pruning=pruning), keys)
        yield over(join, keys)
    if physical.can_merge_join(keys):
        for order in merge_orders(keys):
            yield over(physical.MergeJoin(plan, keys, condition.rest, wide, by=order), keys)


def _reach(group: Group, keys: Sequence[Column]) -> float:
    """The share of the keys among which those of consecutive rows are: rows come in the order of their files."""
    return min(map(group.estimate.overlap, keys), default=1.0)


def not_in_key(plan: logical.Join) -> JoinKey | None:
    """The key of an anti join that is a NOT IN: its condition is `a = b or (a = b) is null`."""
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


def _can_be_inner(kind: JoinKind, side: int) -> bool:
    """Can this input be copied to every task? Not if the result has its unmatched rows: each copy would yield them."""
    if side == 0:
        return kind in (JoinKind.INNER, JoinKind.RIGHT)
    return kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


def merge_orders(keys: Sequence[JoinKey]) -> Iterator[tuple[MergeKey, ...]]:
    """The key orders to try for a merge join. Each gives the result another order."""
    orders = permutations(keys) if 1 < len(keys) <= THRESHOLDS.merge_key_permutations else (tuple(keys),)
    for order in orders:
        yield tuple(MergeKey(key) for key in order)


def _set_operation(plan: logical.SetOperation) -> Iterator[Implementation]:
    if not plan.all:
        # What is not a GROUP BY or a join by now has rows that we cannot compare, or no columns.
        yield _over(plan, physical.SparkFallback(plan, f"{plan.kind.value.upper()} of values of an unknown type"))
        return
    keys = tuple(
        JoinKey(columns, _common(columns), null_safe=True)
        for columns in zip(*(each.columns for each in plan.inputs), strict=True)
    )
    if plan.kind is logical.SetKind.UNION:
        inputs = tuple(each.columns for each in plan.inputs)
        yield _over(plan, physical.Concatenate(plan.columns, inputs, plan.whole))
        sent = tuple(key for key in keys if key.type is not None)
        if sent:
            yield _over(plan, physical.PartitionwiseUnion(plan.columns, inputs, sent, plan.whole), sent)
        return
    yield _over(plan, physical.MultisetOperation(plan, keys), keys)


def _common(columns: Sequence[Column]) -> Any:
    type_ = columns[0].type
    for column in columns[1:]:
        type_ = common_type(type_, column.type)
    return type_


def _process(plan: logical.Process) -> Iterator[Implementation]:
    yield _over(plan, physical.RunProcess(plan))


def _reduce(plan: logical.Reduce) -> Iterator[Implementation]:
    presort = physical.sorted_keys(plan.presort)
    if presort is None:
        yield _over(plan, physical.SparkFallback(plan, "a presort by expressions"))
    else:
        yield _over(plan, physical.RunReduce(plan, presort))


def _combine(plan: logical.Combine) -> Iterator[Implementation]:
    pairs = zip(plan.left_keys, plan.right_keys, strict=True)
    keys = tuple(JoinKey((a, b), common_type(a.type, b.type), null_safe=True) for a, b in pairs)
    yield _over(plan, physical.RunCombine(plan, keys), keys)


def _foreign(plan: logical.Foreign) -> Iterator[Implementation]:
    yield _over(plan, physical.SparkFallback(plan, plan.reason))


def _grouping_sets(plan: logical.GroupingSets) -> Iterator[Implementation]:
    yield _over(plan, physical.SparkFallback(plan, "grouping sets"))


def _reference(plan: logical.Reference) -> Iterator[Implementation]:
    below = as_group(plan.rowset)
    yield _over(plan, physical.Rename(below.name or "", plan.columns, below.columns))


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
    logical.PartialTopN: _partial_top,
    logical.Join: _join,
    logical.SetOperation: _set_operation,
    logical.Process: _process,
    logical.Reduce: _reduce,
    logical.Combine: _combine,
    logical.Foreign: _foreign,
    logical.Reference: _reference,
}
