"""A last look at a chosen plan, by someone who did not choose it.

The search keeps what it knows in the memo and trusts it. Here nothing of that is believed: facts are derived again from the
leaves of the physical plan (`rederive`), layouts from what each operator says it does to its inputs, and every requirement
is matched again, its proof checked step by step (`derivation`). What a node claims must follow from that (`claims`). Beside
it stand rules that no property expresses: an aggregate done in halves is finished (`halves`), columns are there where they
are read (`columns`), what is read from a spool is what was put there, and what was ordered comes out in order (`outputs`).

A plan that fails is a fault of ours: an `InternalError` names the node, what it requires, and what it was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.verify.derivation import Derivation, Standing
from unshuffle.verify.outputs import check_outputs

if TYPE_CHECKING:
    from unshuffle.optimizer import Optimized

__all__ = ["Derivation", "Standing", "derive", "verify"]


def verify(optimized: Optimized) -> None:
    """Raises an `InternalError` unless every requirement of the plan is met."""
    derive(optimized)


def derive(optimized: Optimized) -> Derivation:
    """What holds at every node of the plan, with the proofs; raises as `verify` does."""
    derivation = Derivation({spool.number: spool for spool in optimized.spools})
    check_outputs(optimized, derivation)
    return derivation
