"""Compares the layouts that a plan claims with the partitions that Spark makes.

A part of a plan is lowered on its own, by the normal lowering, and its rows are collected with their partition numbers, in
the order that they have in a partition. `property_semantics` defines what the claims mean on these rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from tests.support.property_semantics import (
    Row,
    Violation,
    broken_facts,
    broken_global,
    broken_layout,
    broken_local,
    broken_prefix_layout,
)
from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.types import spark_name
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    HashFunction,
    Local,
    Partitioned,
    PrefixPartitioned,
    RangeFunction,
    Replicated,
    SampledBoundaries,
    Serial,
    Sorted,
    TargetedBroadcast,
    UnknownPartitioning,
    formula,
)
from unshuffle.spark.lowering.baseline import name_of
from unshuffle.spark.lowering.lowering import Lowering

PLACE, HASH = "in_partition", "by_hash"


@dataclass(frozen=True, slots=True)
class Placed:
    """The rows of a node, each with its partition number and, for a hash layout, the number that the hash gives."""

    rows: Sequence[tuple[Any, ...]]
    places: Sequence[int]
    hashes: Sequence[int]


def with_places(lowered: Lowering, node: PhysicalPlan) -> DataFrame:
    """The node's columns, its partition number, and the number that the layout's hash gives. The extra columns are
    kept, because Spark unions inputs partition by partition only if it knows that they have the same partitioning."""
    given, layout = lowered.lower(node), node.delivered.partitioning
    made = [*map(name_of, (*node.columns, *given.extras)), f"spark_partition_id() AS {PLACE}"]
    if _is_hashed(layout):
        pairs = zip(layout.columns, layout.function.types, strict=True)
        hashed = ", ".join(normalized(lowered.typed(column, type_), type_) for column, type_ in pairs)
        made.append(f"pmod(hash({hashed}), {layout.function.partitions}) AS {HASH}")
    return lowered.query(f"SELECT {', '.join(made)} FROM ({given.sql})")


def normalized(text: str, type_: DataType) -> str:
    """A value to hash: one NaN and one zero, since GROUP BY and joins call all NaNs equal, and -0.0 and 0.0."""
    if type_ is None or not pa.types.is_floating(type_):
        return text
    name = spark_name(type_)
    return f"if(isnan({text}), CAST('NaN' AS {name}), {text} + CAST(0 AS {name}))"


def collected(frame: DataFrame, node: PhysicalPlan) -> Placed:
    width, place = len(node.columns), frame.columns.index(PLACE)
    found = [tuple(row) for row in frame.collect()]
    return Placed([row[:width] for row in found], [row[place] for row in found], [row[-1] for row in found])


def can_be_checked(plan: PhysicalPlan) -> list[PhysicalPlan]:
    """The nodes that can run on their own and claim something. Partial aggregates have no final rows, and copies are no
    rows of the result."""
    return [node for node in plan.walk() if _can_run_alone(node) and _claims_something(node)]


def broken(node: PhysicalPlan, placed: Placed) -> Violation | None:
    """A claim of the node that its rows violate."""
    rows = [dict(zip(node.columns, row, strict=True)) for row in placed.rows]
    partitions: dict[int, list[Row]] = defaultdict(list)
    for row, place in zip(rows, placed.places, strict=True):
        partitions[place].append(row)
    layout, claim = node.delivered.partitioning, formula(node.delivered.partitioning, node.facts)
    filled = [partitions[place] for place in sorted(partitions)]
    if isinstance(claim, TargetedBroadcast):  # a claim about numbered partitions
        return broken_global(_by_number(partitions, claim), claim)
    if filled and (found := broken_global(filled, claim)):
        return found
    if _is_hashed(layout) and (found := _broken_hash(rows, placed, layout)):
        return found
    if isinstance(layout, PrefixPartitioned) and (
        found := broken_prefix_layout(_by_number(partitions, layout), layout)
    ):
        return found
    if _is_in_known_ranges(layout) and (found := _broken_ranges(rows, placed, layout)):
        return found
    for each in filled:
        if found := broken_local(each, node.delivered.local[: order_made(node)]):
            return found
    return broken_facts(rows, node.facts)


def _by_number(partitions: Mapping[int, list[Row]], layout: TargetedBroadcast | PrefixPartitioned) -> list[list[Row]]:
    """The partitions by number, empty ones included. Unexpected partitions are appended."""
    count = max(layout.function.partitions, 1 + max(partitions, default=0))
    return [partitions.get(place, []) for place in range(count)]


def order_made(node: PhysicalPlan) -> int:
    """How many sort actions of the claimed order Spark produces. Lowering requests no sort: Spark adds one where an
    operator needs it, on the operator's own keys, ascending. An order therefore holds at the operator that needs it and
    above, not at a bare LocalSort. If one sort serves several operators, Spark sorts only by the keys of the first."""
    local, operator = node.delivered.local, node.operator
    match operator:
        case physical.LocalSort() | physical.PartialTopN() | physical.Exchange():
            return 0
        case physical.OrderBy():
            return len(local)
        case physical.Limit() if operator.keys:
            return len(local)
        case physical.MergeJoin():
            # Spark rewrites `<=>` into (coalesce, isnull) keys, and sorts by those.
            return 0 if any(key.null_safe for key in operator.keys) else _ascending(local[: len(operator.by)])
        case physical.SortAggregate():
            return _ascending(local)
        case physical.Windows():
            return _ascending(local, frozenset(operator.by))
    return len(local) if operator.carried is None else order_made(node.inputs[operator.carried])


def _ascending(local: Local, among: frozenset[Column] | None = None) -> int:
    """The number of actions before the first whose direction or NULL order is not Spark's default."""
    for count, action in enumerate(local):
        is_own = isinstance(action, Sorted) and (among is None or action.column in among)
        if is_own and (action.descending or not action.nulls_first):
            return count
    return len(local)


def _broken_hash(rows: Iterable[Row], placed: Placed, layout: Partitioned) -> Violation | None:
    said = {}
    for row, place, number in zip(rows, placed.places, placed.hashes, strict=True):
        values = tuple(row[column] for column in layout.columns)
        said[repr(values)] = number
        found = broken_layout([[]] * place + [[row]], layout, lambda _, values: said[repr(values)])
        if found:
            return found
    return None


def _broken_ranges(rows: Iterable[Row], placed: Placed, layout: Partitioned) -> Violation | None:
    for row, place in zip(rows, placed.places, strict=True):
        if found := broken_layout([[]] * place + [[row]], layout, lambda _, values: -1):
            return found
    return None


def _is_in_known_ranges(layout: Any) -> bool:
    return (
        isinstance(layout, Partitioned)
        and isinstance(layout.function, RangeFunction)
        and not isinstance(layout.function.boundaries, SampledBoundaries)
    )


def _is_hashed(layout: Any) -> bool:
    return isinstance(layout, Partitioned) and isinstance(layout.function, HashFunction)


def _can_run_alone(node: PhysicalPlan) -> bool:
    below = node
    while isinstance(below.operator, physical.Exchange | physical.LocalSort | physical.PartialTopN):
        below = below.inputs[0]
    is_half = getattr(below.operator, "phase", None) in ("partial", "combining")
    return bool(node.columns) and not is_half and not isinstance(node.delivered.partitioning, Replicated)


def _claims_something(node: PhysicalPlan) -> bool:
    layout = node.delivered.partitioning
    return not isinstance(layout, UnknownPartitioning) and not (isinstance(layout, Serial) and not node.inputs)
