"""Sorts and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unshuffle.implement.spark_ordering import order_known_to_spark
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import FullMerge
from unshuffle.spark.lowering.baseline import names_of
from unshuffle.spark.lowering.lowered import Lowered, sort_keys

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering


def order_by(lowering: Lowering, node: PhysicalPlan, operator: physical.OrderBy) -> Lowered:
    rows = lowering.lower(node.inputs[0])
    if rows.is_numbered:  # all rows of one number sort before those of the next
        is_sorted = order_known_to_spark(node.inputs[0])[: len(operator.keys)] == operator.keys
        order = "" if is_sorted else f" SORT BY {sort_keys(operator.keys)}"
        return replace(rows, sql=f"SELECT * FROM ({rows.sql}){order}")
    carriers = rows.range_carriers or {}
    keys = [key.on(carriers.get(key.column, key.column)) for key in operator.keys]
    return replace(rows, sql=f"SELECT * FROM ({rows.sql}) ORDER BY {sort_keys(keys)}")


def limit(lowering: Lowering, node: PhysicalPlan, operator: physical.Limit) -> Lowered:
    rows = lowering.lower(below_limit(node))
    order = f" ORDER BY {sort_keys(operator.keys)}" if operator.keys else ""
    count = "" if operator.count is None else f" LIMIT {operator.count}"
    offset = f" OFFSET {operator.offset}" if operator.offset else ""
    return Lowered(f"SELECT {names_of(node.columns) or '*'} FROM ({rows.sql}){order}{count}{offset}")


def below_limit(node: PhysicalPlan) -> PhysicalPlan:
    """The input of Spark's own top-n operator, which sorts, takes the first rows of each partition and gathers by itself."""
    below = node.inputs[0]
    while isinstance(below.operator, physical.PartialTopN | physical.LocalSort | physical.OrderBy) or (
        isinstance(below.operator, physical.Exchange) and isinstance(below.operator.how, FullMerge)
    ):
        below = below.inputs[0]
    return below


def left_to_spark(lowering: Lowering, node: PhysicalPlan, operator: Any) -> Lowered:
    """The unchanged rows. Spark adds a local sort where it needs one; a partial top-n only saves work."""
    return lowering.lower(node.inputs[0])
