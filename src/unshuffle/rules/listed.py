"""Percentiles looked up in a sorted list of a group's values.

Spark counts each value of a percentile in a hash table of objects, and sorts those counts. In a list of numbers, sorted by
their bits, a percentile stands at a place that its size tells:

    place = (values - 1) * percentage; between two values, as far from one to the other as it is between their places

For groups of some rows that is far less work. But a list holds every value and the table each once, and a group with very
many of a few values would no longer fit into a task. So lists are only for a group at a time, in sorted rows, and where it is
known that no group is too large: because the files have no more rows, or because ranges that were counted do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import AggregateCall, Cast, Expression, Literal
from unshuffle.algebra.physical import Physical, PhysicalOperator
from unshuffle.catalog.schema import Column
from unshuffle.properties import Partitioned, RangeFunction, Sampled
from unshuffle.rules.percentiles import percentages_of

# Values that all lists of a group may have together. While they are collected and sorted each takes some 70 bytes, as an
# object, in an array of these and in arrays of numbers: together less than a task can hold (`Machine.task_memory`).
MOST_VALUES = 4_000_000
# What neither makes rows of nothing nor more of them.
_KEEPS_ROWS = (
    ops.Select,
    ops.Compute,
    ops.Rename,
    ops.LocalSort,
    ops.Move,
    ops.Concatenate,
    ops.ConcatenatePartitions,
)


def can_be_listed(call: AggregateCall) -> bool:
    """Is it a percentile of numbers that sort by their bits, at a place that is known? Not of some values only (DISTINCT)."""
    asked = percentages_of(call)
    if asked is None or call.distinct:
        return False
    type_ = call.arguments[0].type
    is_plain = type_ is not None and (pa.types.is_integer(type_) or pa.types.is_floating(type_))
    return is_plain and all(0.0 <= value_of(each) <= 1.0 for each in asked)


def value_of(percentage: Expression) -> float:
    """A percentage as Spark would have it, a double."""
    while isinstance(percentage, Cast):
        percentage = percentage.operand
    value = percentage.value if isinstance(percentage, Literal) else None
    return float(value) if isinstance(value, int | float | Decimal) else -1.0


def percentiles(aggregates: Sequence[tuple[Column, AggregateCall]]) -> frozenset[Column]:
    """Those that can be looked up in lists."""
    return frozenset(column for column, call in aggregates if can_be_listed(call))


def values_of(call: AggregateCall) -> AggregateCall:
    """The list that a percentile is looked up in."""
    (values, *_) = call.arguments
    return AggregateCall("collect_list", (values,), pa.list_(values.type), where=call.where)


def fits(operator: PhysicalOperator, inputs: Sequence[Physical]) -> bool:
    """Can a task hold the lists of any group?"""
    if not isinstance(operator, ops.StreamAggregate) or not operator.listed:
        return True
    lists = {values_of(call) for column, call in operator.aggregates if column in operator.listed}
    return _largest_group(inputs[0]) * len(lists) <= MOST_VALUES


def _largest_group(plan: Physical) -> float:
    """The rows that a group can have at the most, by what files say of themselves and not by what is guessed of rows."""
    rows = _rows_read(plan)
    layout = plan.delivered.partitioning
    function = layout.function if isinstance(layout, Partitioned) else None
    is_counted = isinstance(function, RangeFunction) and not isinstance(function.boundaries, Sampled)
    return rows * plan.amount.largest if is_counted else rows


def _rows_read(plan: Physical) -> float:
    if isinstance(plan.operator, ops.FileScan):
        scan = plan.operator.scan
        counted = scan.files.rows if scan.stream is None else scan.stream.manifest.rows
        return float("inf") if counted is None else counted
    if not isinstance(plan.operator, _KEEPS_ROWS):
        return float("inf")
    return sum(map(_rows_read, plan.inputs))
