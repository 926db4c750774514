"""The unions of child joins in a plan: what each child join has, and how it is joined."""

from __future__ import annotations

from collections.abc import Iterator

from unshuffle.explain.why.what_if import DerivedPlan
from unshuffle.frozen import dataclass
from unshuffle.plan import physical
from unshuffle.plan.expressions import Expression
from unshuffle.plan.physical import PhysicalPlan

Join = physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin


@dataclass(frozen=True, slots=True)
class ExplainedChildJoin:
    """`node` is the join, or the rows of one table if the other has none in these ranges."""

    node: PhysicalPlan
    ranges: Expression | None

    @property
    def is_joined(self) -> bool:
        return isinstance(self.node.operator, Join)

    @property
    def sides(self) -> tuple[PhysicalPlan, ...]:
        return self.node.inputs if self.is_joined else (self.node,)


@dataclass(frozen=True, slots=True)
class UnionOfChildJoins:
    union: PhysicalPlan
    children: tuple[ExplainedChildJoin, ...]


def unions_of_child_joins(plan: DerivedPlan) -> Iterator[UnionOfChildJoins]:
    for node in plan.nodes():
        operator = node.operator
        if isinstance(operator, physical.Concatenate | physical.PartitionwiseUnion) and operator.whole is not None:
            yield UnionOfChildJoins(node, tuple(map(_child, node.inputs)))


def _child(node: PhysicalPlan) -> ExplainedChildJoin:
    below = node
    while len(below.inputs) == 1 and not isinstance(below.operator, Join):
        below = below.inputs[0]
    if not isinstance(below.operator, Join):
        return ExplainedChildJoin(node.inputs[0], _ranges(node))
    return ExplainedChildJoin(below, _ranges(below))


def _ranges(node: PhysicalPlan) -> Expression | None:
    """The filter of the first table, by the ranges."""
    while node.inputs:
        below = node.inputs[0]
        if isinstance(node.operator, physical.Filter) and isinstance(below.operator, physical.FileScan):
            return node.operator.predicate
        node = below
    return None
