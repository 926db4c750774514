"""The plan, derived again from its leaves: facts, layouts, and the proof of every requirement.

The layout recorded on a node may be weaker than the derived one, but must follow from it. Matching returns a proof or what is
missing. Each proof is then checked by the inference rules alone, from the delivered layout to the requirement, so a mistake
in matching goes unnoticed only if the rules make it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.errors import InternalError
from unshuffle.frozen import dataclass
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    Alternative,
    Delivered,
    Dependencies,
    Exactly,
    ExchangeError,
    Partitioned,
    Proof,
    Replicated,
    Required,
    TargetedBroadcast,
    match,
    match_joint,
    project,
)
from unshuffle.properties.layouts.delivered import formula
from unshuffle.properties.layouts.propagate import through_project
from unshuffle.properties.matching.inference_rules import first_bad_step
from unshuffle.verify.columns import check_columns
from unshuffle.verify.delivered import check_exchange, check_recorded, check_scan, implies
from unshuffle.verify.invalid_plan import invalid_plan
from unshuffle.verify.partial_aggregates import PartialResult, partial_result_after
from unshuffle.verify.rederive import facts_after, to_logical, without_search_results

if TYPE_CHECKING:
    from unshuffle.search.spools import Spool


@dataclass(frozen=True, slots=True)
class SatisfiedRequirement:
    """A requirement on an input, and the proof that the input satisfies it."""

    required: Required
    proof: Proof


@dataclass(frozen=True, slots=True)
class DerivedNode:
    """The properties of a node's result, and the proofs that its inputs meet its requirements."""

    node: PhysicalPlan
    facts: Dependencies
    delivered: Delivered
    alternative: Alternative
    satisfied: tuple[SatisfiedRequirement, ...]  # one for each input
    joint_proof: Proof | None
    partial: PartialResult | None


class Derivation:
    """The nodes of a plan with their derived properties. A node with several consumers is derived once."""

    def __init__(self, spools: Mapping[int, Spool]) -> None:
        self._spools = spools
        self._derived: dict[int, DerivedNode] = {}
        self._open_spools: set[int] = set()  # spools whose plan is being derived

    def of(self, node: PhysicalPlan) -> DerivedNode:
        derived = self._derived.get(id(node))
        if derived is None:
            derived = self._derived[id(node)] = self._derive(node)
        return derived

    def _derive(self, node: PhysicalPlan) -> DerivedNode:
        inputs = [self.of(each) for each in node.inputs]
        if isinstance(node.operator, physical.ReadSpool):
            return self._derive_spool_read(node, node.operator)
        alternative = _chosen_alternative(node, node.operator.alternatives())
        plan = to_logical(node.operator, [each.columns for each in node.inputs])
        check_columns(node, plan)
        facts = facts_after(plan, [each.facts for each in inputs])
        operator = without_search_results(node.operator, plan)
        satisfied = tuple(_check_input(node, i, inputs[i], each) for i, each in enumerate(alternative.children))
        joint_proof = _check_joint(node, alternative, inputs)
        check_scan(node)
        if isinstance(node.operator, physical.Exchange):
            check_exchange(node, node.operator, inputs[0].delivered, inputs[0].facts)
        try:
            delivered = operator.deliver([each.delivered for each in inputs], [each.facts for each in inputs])
        except (ExchangeError, ValueError) as problem:
            raise invalid_plan(node, f"cannot run: {problem}") from problem
        check_recorded(node, delivered, facts)
        partial = partial_result_after(node, [each.partial for each in inputs])
        return DerivedNode(node, facts, delivered, alternative, satisfied, joint_proof, partial)

    def _derive_spool_read(self, node: PhysicalPlan, operator: physical.ReadSpool) -> DerivedNode:
        """A spool read has the layout and the facts of the spool's plan, under its own columns."""
        spool = self._spools.get(operator.spool)
        if spool is None:
            raise invalid_plan(node, f"reads the spool {operator.spool}, which nothing fills")
        if operator.spool in self._open_spools:
            raise invalid_plan(node, "reads a spool that is filled from itself")
        if len(spool.plan.columns) != len(operator.columns):
            raise invalid_plan(node, f"reads {len(operator.columns)} columns of a spool with {len(spool.plan.columns)}")
        self._open_spools.add(operator.spool)
        spooled = self.of(spool.plan)
        self._open_spools.discard(operator.spool)
        if spooled.partial is not None:
            raise invalid_plan(node, f"reads {spooled.partial} from a spool")
        if isinstance(spooled.delivered.partitioning, Replicated | TargetedBroadcast):
            raise invalid_plan(node, "reads a spool of broadcast copies")
        renamed = dict(zip(operator.columns, spool.plan.columns, strict=True))
        facts = project(spooled.facts, renamed=renamed)
        delivered = through_project(spooled.delivered, spooled.facts, (), renamed)
        check_recorded(node, delivered, facts)
        if not implies(delivered, operator.layout, facts):
            raise invalid_plan(node, f"reads its spool as {operator.layout}, but it is {delivered}")
        return DerivedNode(node, facts, delivered, _chosen_alternative(node, operator.alternatives()), (), None, None)


def _chosen_alternative(node: PhysicalPlan, alternatives: Sequence[Alternative]) -> Alternative:
    for each in alternatives:
        if each.name == node.alternative:
            if len(each.children) != len(node.inputs):
                raise invalid_plan(node, f"takes {len(each.children)} inputs, but has {len(node.inputs)}")
            return each
    names = ", ".join(each.name or "in one way" for each in alternatives)
    raise invalid_plan(node, f"has no such alternative; it can run {names}")


# --- requirements


def _check_input(node: PhysicalPlan, position: int, input: DerivedNode, required: Required) -> SatisfiedRequirement:
    outcome = match(input.delivered, required, input.facts)
    if not isinstance(outcome, Proof):
        raise invalid_plan(
            node, f"requires {required} of input {position + 1}, which delivers {input.delivered}; missing is {outcome}"
        )
    bad = first_bad_step(outcome, input.facts)
    if bad is not None or not _connects(outcome, input, required):
        raise invalid_plan(node, f"rests on a proof that does not hold: {bad or outcome}")
    return SatisfiedRequirement(required, outcome)


def _connects(proof: Proof, input: DerivedNode, required: Required) -> bool:
    """Does the proof begin with the delivered layout and end with the requirement?"""
    partitioning = [step for step in proof.steps if not isinstance(step.before, tuple)]
    order = [step for step in proof.steps if isinstance(step.before, tuple)]
    if order and (order[0].before != input.delivered.local or order[-1].after != required.local):
        return False
    if not order and input.delivered.local[: len(required.local)] != required.local:
        return False
    if not partitioning or isinstance(required.partitioning, Exactly):
        return True
    layout = input.delivered.partitioning
    starts = [formula(layout, input.facts)]
    if isinstance(layout, Partitioned):
        starts.append(layout.formula)  # with NULL keys in any partition, for an operator that ignores NULL keys
    end = getattr(required.partitioning, "formula", None)
    return partitioning[0].before in starts and (end is None or partitioning[-1].after == end)


def _check_joint(node: PhysicalPlan, alternative: Alternative, inputs: Sequence[DerivedNode]) -> Proof | None:
    if alternative.joint is None:
        return None
    outcome = match_joint([(each.delivered, each.facts) for each in inputs], alternative.joint)
    if not isinstance(outcome, Proof):
        layouts = " and ".join(str(each.delivered.partitioning) for each in inputs)
        raise invalid_plan(node, f"requires its inputs {alternative.joint}, but has {layouts}: {outcome}")
    return outcome


def check_root(root: DerivedNode, columns: tuple[Column, ...]) -> None:
    """A root delivers no partial result and no broadcast copies, and has the required columns."""
    if root.partial is not None:
        raise invalid_plan(root.node, f"ends with {root.partial}")
    if isinstance(root.delivered.partitioning, Replicated | TargetedBroadcast):
        raise invalid_plan(root.node, "delivers a row once for each partition that has a copy")
    if root.node.columns != columns:
        raise InternalError(f"the plan delivers {root.node.columns}, but {columns} are required")
