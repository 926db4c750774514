"""What a join costs whose probed table Spark prunes at run time: its operators work on the rows of the folders that are left.

Spark prunes only a table that it scans itself, and such a scan is not always the cheapest plan of the table as a whole. So a
join that prunes takes a scan of Spark's where the cheapest plan is another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from unshuffle.plan.physical import DynamicPruning, FileScan, Filter, HashJoin, PhysicalPlan, Project, SizeEstimate
from unshuffle.properties import Serial, UnknownPartitioning

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group
    from unshuffle.search.plan_builder import CostEstimator, PlanBuilder


def pruned(plan: PhysicalPlan, pruning: DynamicPruning, model: CostEstimator) -> PhysicalPlan:
    """The plan with the folders pruned that its scan reads, down to which Spark traces the column."""
    operator, inputs = plan.operator, list(plan.inputs)
    if isinstance(operator, FileScan):
        operator = replace(operator, prunings=(*operator.prunings, pruning))
    elif operator.carried is not None:
        inputs[operator.carried] = pruned(inputs[operator.carried], pruning, model)
    size = pruned_size(plan.size, pruning)
    own = model.cost(operator, [each.size for each in inputs], size)
    cost = own.seconds + sum(each.cost for each in inputs)
    return replace(plan, operator=operator, inputs=tuple(inputs), size=size, own=own, cost=cost)


def pruned_size(size: SizeEstimate, pruning: DynamicPruning) -> SizeEstimate:
    return replace(size, rows=size.rows * pruning.share, bytes=size.bytes * pruning.share)


def with_scan_of_spark(each: Implementation, inputs: list[PhysicalPlan], builder: PlanBuilder) -> list[PhysicalPlan]:
    """The inputs of a join that prunes, with a table that Spark scans itself."""
    operator = each.operator
    if not isinstance(operator, HashJoin) or operator.pruning is None or operator.carried is None:
        return inputs
    is_serial = any(isinstance(plan.delivered.partitioning, Serial) for plan in inputs)
    scan = _scan_of_spark(each.inputs[operator.carried], is_serial, builder)
    return [scan if place == operator.carried and scan is not None else plan for place, plan in enumerate(inputs)]


def _scan_of_spark(group: Group, is_serial: bool, builder: PlanBuilder) -> PhysicalPlan | None:
    found = [_over_scan_of_spark(group, each, is_serial, builder) for each in group.implementations or ()]
    return min((plan for plan in found if plan is not None), key=lambda plan: plan.cost, default=None)


def _over_scan_of_spark(
    group: Group, each: Implementation, is_serial: bool, builder: PlanBuilder
) -> PhysicalPlan | None:
    operator = each.operator
    if isinstance(operator, FileScan):
        is_wanted = isinstance(operator.layout.partitioning, Serial if is_serial else UnknownPartitioning)
        return builder.build(group, operator, (), operator.layout) if is_wanted else None
    if not isinstance(operator, Filter | Project):
        return None
    below = _scan_of_spark(each.inputs[0], is_serial, builder)
    if below is None:
        return None
    name = next(each.name for each in operator.alternatives() if (each.name == "serial") == is_serial)
    delivered = operator.deliver([below.delivered], [each.inputs[0].facts])
    return builder.build(group, operator, (below,), delivered, name)
