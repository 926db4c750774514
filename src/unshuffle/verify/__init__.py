"""An independent check of the chosen plan.

The search trusts what the memo records. This package does not: facts are derived again from the leaves of the physical plan
(`rederive`), layouts from the operators themselves, and every requirement is matched again, with each proof checked step by
step (`derivation`). The layout recorded on a node must follow from that (`delivered`). Some rules are not expressed by
properties: a partial aggregate is finished by a final one (`partial_aggregates`), a column exists where it is read
(`columns`), a spool delivers what was written to it, and an ordered result is in order (`outputs`).

A plan that fails is a bug in unshuffle. The `InternalError` names the node, its requirement, and what its input delivers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.verify.derivation import Derivation, DerivedNode
from unshuffle.verify.outputs import check_outputs

if TYPE_CHECKING:
    from unshuffle.optimizer import PlannedQuery

__all__ = ["Derivation", "DerivedNode", "derive", "verify"]


def verify(optimized: PlannedQuery) -> None:
    """Raises an `InternalError` unless every requirement of the plan is met."""
    derive(optimized)


def derive(optimized: PlannedQuery) -> Derivation:
    """The properties of every node of the plan, with the proofs. Raises as `verify` does."""
    derivation = Derivation({spool.number: spool for spool in optimized.spools})
    check_outputs(optimized, derivation)
    return derivation
