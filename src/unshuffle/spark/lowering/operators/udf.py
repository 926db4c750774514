"""User-defined operators: PROCESS, REDUCE, COMBINE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.spark.lowering.lowered import Lowered
from unshuffle.spark.udf import user_operators

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering


def process(lowering: Lowering, node: PhysicalPlan, operator: physical.RunProcess) -> Lowered:
    frame = user_operators.process(lowering.frame_of(node.inputs[0]), operator.process)
    return Lowered(lowering.select_from(frame))


def reduce(lowering: Lowering, node: PhysicalPlan, operator: physical.RunReduce) -> Lowered:
    (child,) = node.inputs
    layout = [c.spark_name for c in lowering.lower(child).carriers if c not in operator.reduce.keys]
    frame = user_operators.reduce(lowering.frame_of(child, extras=True), operator.reduce, layout=layout)
    return Lowered(lowering.select_from(frame))


def combine(lowering: Lowering, node: PhysicalPlan, operator: physical.RunCombine) -> Lowered:
    sides = zip(node.inputs, (operator.combine.left_keys, operator.combine.right_keys), strict=True)
    left_layout, right_layout = (
        [c.spark_name for c in lowering.lower(child).carriers if c not in keys] for child, keys in sides
    )
    left, right = (lowering.frame_of(child, extras=True) for child in node.inputs)
    layout = (left_layout, right_layout) if len(left_layout) == len(right_layout) else ((), ())
    return Lowered(lowering.select_from(user_operators.combine(left, right, operator.combine, layout=layout)))
