"""Exchanges and sorts of plain Spark that a plan avoids: the requirement, and the proof that it is met without one.

Spark adds an exchange below every aggregate, join, window and ORDER BY whose input is not literally partitioned on its
keys, or it broadcasts an input of a join (`plain_spark`). It adds a sort below every merge join, window and ORDER BY whose
input is not literally sorted on them. If such a requirement is met here without an enforcer for its sake, there is a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from unshuffle.catalog.schema import Column
from unshuffle.explain.why.kept import KeptEnforcer
from unshuffle.explain.why.layout_origin import descend
from unshuffle.explain.why.plain_spark import PlainSpark
from unshuffle.explain.why.what_if import DerivedPlan
from unshuffle.frozen import dataclass
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    AnyDistribution,
    Broadcast,
    Clustered,
    Delivered,
    Joint,
    Partitioned,
    Proof,
    Required,
    RequiredPartitioning,
    SinglePartition,
    match,
)
from unshuffle.properties.layouts.partition_functions import UnknownFunction
from unshuffle.properties.matching.proof import HOLDS
from unshuffle.verify import DerivedNode


@dataclass(frozen=True, slots=True)
class AvoidedEnforcer:
    """A requirement that is met without an exchange or a sort. `delivered` are the layouts of the inputs concerned."""

    kind: Literal["exchange", "sort"]
    node: PhysicalPlan
    inputs: tuple[int, ...]
    required: Required | Joint
    delivered: tuple[Delivered, ...]
    proof: Proof


def avoided_enforcers(plan: DerivedPlan, kept: Sequence[KeptEnforcer]) -> Iterator[AvoidedEnforcer]:
    """`kept` are the exchanges and sorts of the plan, each with the requirement that forced it."""
    forced = {
        (isinstance(each.node.operator, physical.LocalSort), id(each.forced_by.node), each.forced_by.input)
        for each in kept
        if each.forced_by is not None
    }
    spark = PlainSpark(plan.optimized)
    for node in plan.nodes():
        derived = plan.derivation.of(node)
        inputs = range(len(node.inputs))
        if _spark_would_exchange(node):
            exchanged = spark.exchanged(node)
            free = [
                i
                for i in inputs
                if i in exchanged and (False, id(node), i) not in forced and not _has_exchange_below(node, i)
            ]
            yield from _exchanges(plan, derived, free)
        if _spark_would_sort(node):
            free = [i for i in inputs if (True, id(node), i) not in forced and not _has_sort_below(node, i)]
            yield from _sorts(plan, derived, free)


def _spark_would_exchange(node: PhysicalPlan) -> bool:
    match node.operator:
        case physical.HashAggregate(phase=phase, keys=keys) | physical.SortAggregate(phase=phase, keys=keys):
            return phase in ("complete", "final") and bool(keys)
        case physical.HashJoin() | physical.MergeJoin():
            return True
        case physical.Windows(by=by):
            return bool(by)
        case physical.RunReduce() | physical.RunCombine() | physical.MultisetOperation() | physical.OrderBy():
            return True
        case _:
            return False


def _spark_would_sort(node: PhysicalPlan) -> bool:
    """Spark's hash aggregates need no order. Its merge joins, windows, grouped Python passes and ORDER BY do."""
    return isinstance(
        node.operator,
        physical.MergeJoin | physical.Windows | physical.RunReduce | physical.RunCombine | physical.OrderBy,
    )


def _exchanges(plan: DerivedPlan, derived: DerivedNode, free: Sequence[int]) -> Iterator[AvoidedEnforcer]:
    """`free` are the inputs that have no exchange for the sake of this node."""
    node, joint = derived.node, derived.alternative.joint
    if joint is not None:
        if free and derived.joint_proof is not None:
            delivered = tuple(plan.state(below)[0] for below in node.inputs)
            yield AvoidedEnforcer("exchange", node, tuple(free), joint, delivered, derived.joint_proof)
        return
    required = {i: derived.satisfied[i].required.partitioning for i in free}
    if all(isinstance(each, SinglePartition) for each in required.values()):
        # An ORDER BY over a single partition avoids no exchange: the sort needs that partition anyway.
        if free and not isinstance(node.operator, physical.OrderBy):
            delivered = tuple(plan.state(node.inputs[i])[0] for i in free)
            yield AvoidedEnforcer("exchange", node, tuple(free), Required(SinglePartition()), delivered, HOLDS)
        return
    for i, partitioning in required.items():
        if isinstance(partitioning, AnyDistribution | Broadcast):
            continue
        steps = tuple(step for step in derived.satisfied[i].proof.steps if not isinstance(step.before, tuple))
        layout, proof = _proof_at_origin(plan, node.inputs[i], partitioning, Proof(steps))
        yield AvoidedEnforcer("exchange", node, (i,), Required(partitioning), (layout,), proof)


def _proof_at_origin(
    plan: DerivedPlan, node: PhysicalPlan, required: RequiredPartitioning, proof: Proof
) -> tuple[Delivered, Proof]:
    """A projection or a join that drops the partitioning columns leaves an unknown function of columns that determine them.
    The proof then begins below it, where the dropped columns are still there."""
    delivered = plan.state(node)[0]
    if not isinstance(required, Clustered) or not _has_unknown_function(delivered):
        return delivered, proof
    whole = _origin(plan, node, required.maximum)
    if whole is not None:
        return whole
    assert isinstance(delivered.partitioning, Partitioned)
    part = _origin(plan, node, frozenset(delivered.partitioning.columns), may_rename=False)
    return (part[0], part[1] + proof) if part is not None else (delivered, proof)


def _origin(
    plan: DerivedPlan, node: PhysicalPlan, columns: frozenset[Column], may_rename: bool = True
) -> tuple[Delivered, Proof] | None:
    """The first known partition function that the layout of a node comes from, and the proof that it brings rows with equal
    columns together; None if there is no such proof. A proof that continues above needs the names that the columns have
    there."""
    for below, names in descend(plan, node, sorted(columns, key=lambda c: c.id)):
        layout, facts = plan.state(below)
        if isinstance(layout.partitioning, Partitioned) and not _has_unknown_function(layout):
            outcome = match(layout, Required(Clustered(frozenset(names))), facts)
            has_names = may_rename or frozenset(names) == columns
            return (layout, outcome) if has_names and isinstance(outcome, Proof) else None
    return None


def _has_unknown_function(delivered: Delivered) -> bool:
    return isinstance(delivered.partitioning, Partitioned) and isinstance(
        delivered.partitioning.function, UnknownFunction
    )


def _sorts(plan: DerivedPlan, derived: DerivedNode, free: Sequence[int]) -> Iterator[AvoidedEnforcer]:
    for i in free:
        satisfied, below = derived.satisfied[i], derived.node.inputs[i]
        if not satisfied.required.local:
            continue
        steps = tuple(step for step in satisfied.proof.steps if isinstance(step.before, tuple))
        order = Required(local=satisfied.required.local)
        yield AvoidedEnforcer("sort", derived.node, (i,), order, (plan.state(below)[0],), Proof(steps))


def _has_exchange_below(node: PhysicalPlan, input: int) -> bool:
    """Is there an exchange directly below, or one with only sorts above it?"""
    below = node.inputs[input]
    while isinstance(below.operator, physical.LocalSort):
        below = below.inputs[0]
    return isinstance(below.operator, physical.Exchange)


def _has_sort_below(node: PhysicalPlan, input: int) -> bool:
    """Is there a sort directly below, or one with only exchanges above it? A partial top-n is one."""
    below = node.inputs[input]
    while isinstance(below.operator, physical.Exchange):
        below = below.inputs[0]
    return isinstance(below.operator, physical.LocalSort | physical.PartialTopN)
