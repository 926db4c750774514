"""Window functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from unshuffle.implement.spark_ordering import in_input_order
from unshuffle.plan import physical
from unshuffle.plan.expressions import Ref
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.spark.lowering.lowered import Lowered, keys_with_carriers

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering


def windows(lowering: Lowering, node: PhysicalPlan, operator: physical.Windows) -> Lowered:
    (child,) = node.inputs
    rows = lowering.lower(child)
    keys = keys_with_carriers(in_input_order(operator.by, child), rows, child)
    partition = tuple(Ref(c) for c in keys)
    calls = [lowering.aliased(column, replace(call, partition=partition)) for column, call in operator.calls]
    return replace(rows, sql=f"SELECT *, {', '.join(calls)} FROM ({rows.sql})")
