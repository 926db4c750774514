"""Operators that fall back to Spark: the baseline translation, over inputs that are lowered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.spark.lowering.lowered import Lowered, select_only

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering


def spark_fallback(lowering: Lowering, node: PhysicalPlan, operator: physical.SparkFallback) -> Lowered:
    for group, child in zip(operator.plan.children, node.inputs, strict=True):
        lowering.fallback_inputs[id(group)] = select_only(lowering.lower(child), child.columns)
    return Lowered(lowering.sql(operator.plan))
