"""Percentiles computed from a sorted list of a group's values.

For a percentile, Spark counts each value in a hash table of objects and sorts the counts. In a sorted list of numbers, a
percentile is found by position:

    position = (values - 1) * percentage, with linear interpolation between the two values next to it

For groups of moderate size that is far less work. But a list holds every occurrence of a value where the table holds the
value once, so a very large group with few distinct values would exceed the memory of a task. Lists are therefore used only
by a `SortAggregate`, which has one group in memory at a time, and only if no group can be too large: the files do not have
more rows, or the counted ranges of the layout do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.constants import THRESHOLDS
from unshuffle.plan import physical
from unshuffle.plan.expressions import AggregateCall, Cast, Expression, Literal
from unshuffle.plan.functions.percentages import percentages_of
from unshuffle.plan.physical import PhysicalOperator, PhysicalPlan
from unshuffle.properties import Partitioned, RangeFunction, SampledBoundaries

# Operators that never yield more rows than they read.
_NEVER_ADDS_ROWS = (
    physical.Filter,
    physical.Project,
    physical.Rename,
    physical.LocalSort,
    physical.Exchange,
    physical.Concatenate,
    physical.PartitionwiseUnion,
)


def can_be_listed(call: AggregateCall) -> bool:
    """Is the call an exact percentile, with literal percentages, of numbers that `sort_array` sorts? Not with DISTINCT."""
    percentages = percentages_of(call)
    if percentages is None or call.distinct:
        return False
    type_ = call.arguments[0].type
    is_plain = type_ is not None and (pa.types.is_integer(type_) or pa.types.is_floating(type_))
    return is_plain and all(0.0 <= value_of(each) <= 1.0 for each in percentages)


def value_of(percentage: Expression) -> float:
    """The value of a literal percentage, as a double. Negative if it is no number."""
    while isinstance(percentage, Cast):
        percentage = percentage.operand
    value = percentage.value if isinstance(percentage, Literal) else None
    return float(value) if isinstance(value, int | float | Decimal) else -1.0


def percentiles(aggregates: Sequence[tuple[Column, AggregateCall]]) -> frozenset[Column]:
    """The percentiles that can be computed from lists."""
    return frozenset(column for column, call in aggregates if can_be_listed(call))


def values_of(call: AggregateCall) -> AggregateCall:
    """The list that a percentile is computed from."""
    (values, *_) = call.arguments
    return AggregateCall("collect_list", (values,), pa.list_(values.type), where=call.where)


def fits(operator: PhysicalOperator, inputs: Sequence[PhysicalPlan]) -> bool:
    """Do the lists of every group fit into the memory of a task?"""
    if not isinstance(operator, physical.SortAggregate) or not operator.listed:
        return True
    lists = {values_of(call) for column, call in operator.aggregates if column in operator.listed}
    return _largest_group(inputs[0]) * len(lists) <= THRESHOLDS.percentile_list_values


def _largest_group(plan: PhysicalPlan) -> float:
    """An upper bound of the rows of a group, from the row counts of files and ranges, not from estimates."""
    rows = _rows_read(plan)
    layout = plan.delivered.partitioning
    function = layout.function if isinstance(layout, Partitioned) else None
    is_counted = isinstance(function, RangeFunction) and not isinstance(function.boundaries, SampledBoundaries)
    return rows * plan.size.largest if is_counted else rows


def _rows_read(plan: PhysicalPlan) -> float:
    if isinstance(plan.operator, physical.FileScan):
        scan = plan.operator.scan
        counted = scan.files.rows if scan.stream is None else scan.stream.manifest.rows
        return float("inf") if counted is None else counted
    if not isinstance(plan.operator, _NEVER_ADDS_ROWS):
        return float("inf")
    return sum(map(_rows_read, plan.inputs))
