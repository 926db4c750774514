"""Why a plan has its exchanges and sorts, and why it needs no more.

An exchange or a sort is there because a requirement would be unmet without it. To find that requirement, remove the enforcer
and derive the plan again (`what_if`): the first requirement that is then unmet forced it. A remedy is tested in the same
way: assume a dependency or a stored layout, remove the enforcer, and check that every requirement is met. Nothing is
reported that did not pass that test. An enforcer is avoided where plain Spark would have added one and a proof shows that the
input already satisfies the requirement.
"""

from __future__ import annotations

from unshuffle.explain.why.avoided import AvoidedEnforcer, avoided_enforcers
from unshuffle.explain.why.child_joins import ExplainedChildJoin, UnionOfChildJoins, unions_of_child_joins
from unshuffle.explain.why.kept import DependencyRemedy, KeptEnforcer, Remedy, StorageRemedy, kept_enforcers
from unshuffle.explain.why.part_reads import TablePart, TableReads
from unshuffle.explain.why.parts import MatchedParts, PrunedParts, matched_parts, pruned_parts
from unshuffle.explain.why.what_if import DerivedPlan, UnmetRequirement
from unshuffle.frozen import dataclass
from unshuffle.optimizer import PlannedQuery
from unshuffle.verify import Derivation, derive

__all__ = [
    "AvoidedEnforcer",
    "DependencyRemedy",
    "ExplainedChildJoin",
    "KeptEnforcer",
    "MatchedParts",
    "PrunedParts",
    "Reasons",
    "Remedy",
    "StorageRemedy",
    "TablePart",
    "TableReads",
    "UnionOfChildJoins",
    "UnmetRequirement",
    "reasons",
]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Every exchange and sort of a plan with the requirement that forced it, and every one that was avoided; the parts of
    tables that are not read, and those that meet in joins; the unions of child joins."""

    kept: tuple[KeptEnforcer, ...]
    avoided: tuple[AvoidedEnforcer, ...]
    pruned: tuple[PrunedParts, ...] = ()
    matched: tuple[MatchedParts, ...] = ()
    child_joins: tuple[UnionOfChildJoins, ...] = ()


def reasons(optimized: PlannedQuery, derivation: Derivation | None = None) -> Reasons:
    plan = DerivedPlan(optimized, derivation or derive(optimized))
    kept = tuple(kept_enforcers(plan))
    return Reasons(
        kept,
        tuple(avoided_enforcers(plan, kept)),
        tuple(pruned_parts(plan)),
        tuple(matched_parts(plan)),
        tuple(unions_of_child_joins(plan)),
    )
