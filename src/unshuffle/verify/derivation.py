"""The plan, derived again from its leaves: facts, layouts, and the proof of every requirement.

What a node claims to deliver need not be all that can be derived of it, but it must follow from it. Matching gives a proof
or what is missing; a proof is then checked by the rules alone, from what was derived to what is required, so that a mistake
in matching would have to be made twice, in two forms, to go unseen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Met, Physical
from unshuffle.catalog.schema import Column
from unshuffle.errors import InternalError
from unshuffle.properties import (
    Alternative,
    Covering,
    Delivered,
    Dependencies,
    Exactly,
    ExchangeError,
    Partitioned,
    Proof,
    Replicated,
    Required,
    match,
    match_joint,
    project,
)
from unshuffle.properties.delivered import formula
from unshuffle.properties.rules import first_bad_step
from unshuffle.properties.through import through_project
from unshuffle.verify.claims import check_claim, check_exchange, check_leaf, follows
from unshuffle.verify.columns import check_columns
from unshuffle.verify.halves import Unfinished, unfinished_after
from unshuffle.verify.rederive import facts_after, read_back, untold
from unshuffle.verify.refusal import refused

if TYPE_CHECKING:
    from unshuffle.optimizer import Spool


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds of a node's result, and why the node may run: each input's requirement with its proof."""

    node: Physical
    facts: Dependencies
    delivered: Delivered
    alternative: Alternative
    met: tuple[Met, ...]
    joint: Proof | None
    unfinished: Unfinished


class Derivation:
    """The nodes of a plan with what was derived of each. A node that several read is derived once."""

    def __init__(self, spools: Mapping[int, Spool]) -> None:
        self._spools = spools
        self._known: dict[int, Standing] = {}
        self._opened: set[int] = set()  # spools whose plan is being derived

    def of(self, node: Physical) -> Standing:
        found = self._known.get(id(node))
        if found is None:
            found = self._known[id(node)] = self._derive(node)
        return found

    def _derive(self, node: Physical) -> Standing:
        below = [self.of(each) for each in node.inputs]
        if isinstance(node.operator, ops.ReadSpool):
            return self._read(node, node.operator)
        alternative = _named(node, node.operator.alternatives())
        plan = read_back(node.operator, [each.columns for each in node.inputs])
        check_columns(node, plan)
        facts = facts_after(plan, [each.facts for each in below])
        operator = untold(node.operator, plan)
        met = tuple(_met(node, place, below[place], wish) for place, wish in enumerate(alternative.children))
        joint = _joint(node, alternative, below)
        check_leaf(node)
        if isinstance(node.operator, ops.Move):
            check_exchange(node, node.operator, below[0].delivered, below[0].facts)
        try:
            delivered = operator.deliver([each.delivered for each in below], [each.facts for each in below])
        except (ExchangeError, ValueError) as problem:
            raise refused(node, f"cannot run: {problem}") from problem
        check_claim(node, delivered, facts)
        return Standing(
            node, facts, delivered, alternative, met, joint, unfinished_after(node, [b.unfinished for b in below])
        )

    def _read(self, node: Physical, operator: ops.ReadSpool) -> Standing:
        """One use of what was computed once: the layout and the facts of that, under the columns of this use."""
        spool = self._spools.get(operator.spool)
        if spool is None:
            raise refused(node, f"reads the spool {operator.spool}, which nothing fills")
        if operator.spool in self._opened:
            raise refused(node, "reads a spool that is filled from itself")
        if len(spool.plan.columns) != len(operator.columns):
            raise refused(node, f"reads {len(operator.columns)} columns of a spool with {len(spool.plan.columns)}")
        self._opened.add(operator.spool)
        kept = self.of(spool.plan)
        self._opened.discard(operator.spool)
        if kept.unfinished is not None:
            raise refused(node, f"reads {kept.unfinished} from a spool")
        if isinstance(kept.delivered.partitioning, Replicated | Covering):
            raise refused(node, "reads a spool that has rows several times")
        names = dict(zip(operator.columns, spool.plan.columns, strict=True))
        facts = project(kept.facts, renamed=names)
        delivered = through_project(kept.delivered, kept.facts, (), names)
        check_claim(node, delivered, facts)
        if not follows(delivered, operator.layout, facts):
            raise refused(node, f"claims that its spool is laid out {operator.layout}, which is {delivered}")
        return Standing(node, facts, delivered, _named(node, operator.alternatives()), (), None, None)


def _named(node: Physical, alternatives: Sequence[Alternative]) -> Alternative:
    for each in alternatives:
        if each.name == node.alternative:
            if len(each.children) != len(node.inputs):
                raise refused(node, f"takes {len(each.children)} inputs and has {len(node.inputs)}")
            return each
    raise refused(node, f"cannot run so; it can run {', '.join(each.name or 'in one way' for each in alternatives)}")


# --- requirements


def _met(node: Physical, place: int, given: Standing, wish: Required) -> Met:
    found = match(given.delivered, wish, given.facts)
    if not isinstance(found, Proof):
        raise refused(
            node, f"requires {wish} of input {place + 1}, which delivers {given.delivered}; missing is {found}"
        )
    bad = first_bad_step(found, given.facts)
    if bad is not None or not _leads(found, given, wish):
        raise refused(node, f"rests on a proof that does not hold: {bad or found}")
    return Met(wish, found)


def _leads(proof: Proof, given: Standing, wish: Required) -> bool:
    """Does the proof begin with what is delivered and end with what is required?"""
    place = [step for step in proof.steps if not isinstance(step.before, tuple)]
    order = [step for step in proof.steps if isinstance(step.before, tuple)]
    if order and (order[0].before != given.delivered.local or order[-1].after != wish.local):
        return False
    if not order and given.delivered.local[: len(wish.local)] != wish.local:
        return False
    if not place:
        return True
    layout = given.delivered.partitioning
    begun = [formula(layout, given.facts)]
    if isinstance(layout, Partitioned):
        begun.append(layout.claim)  # with NULL keys anywhere, to an operator that does not look for them
    if isinstance(wish.partitioning, Exactly):
        return True
    ends = getattr(wish.partitioning, "claim", None)
    return place[0].before in begun and (ends is None or place[-1].after == ends)


def _joint(node: Physical, alternative: Alternative, below: Sequence[Standing]) -> Proof | None:
    if alternative.joint is None:
        return None
    found = match_joint([(each.delivered, each.facts) for each in below], alternative.joint)
    if not isinstance(found, Proof):
        layouts = " and ".join(str(each.delivered.partitioning) for each in below)
        raise refused(node, f"requires its inputs {alternative.joint}, but has {layouts}: {found}")
    return found


def check_planned(root: Standing, columns: tuple[Column, ...]) -> None:
    """A root is finished, is no copy, and has the columns that were asked for."""
    if root.unfinished is not None:
        raise refused(root.node, f"ends with {root.unfinished}")
    if isinstance(root.delivered.partitioning, Replicated | Covering):
        raise refused(root.node, "would yield rows once for each partition that has a copy")
    if root.node.columns != columns:
        raise InternalError(f"the plan yields {root.node.columns} where {columns} are asked for")
