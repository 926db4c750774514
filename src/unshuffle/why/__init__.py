"""Why a plan moves and sorts what it does, and why it need not do more.

An exchange or a sort is there because something would be wrong without it: take it away, derive the plan again
(`imagine`), and the first requirement that is then unmet is the one that forced it. What would make it go is found in the
same way: assume a dependency or a stored layout, take the enforcer away, and see that every requirement is still met.
Nothing is said that did not pass that test. What was avoided is the reverse: a requirement that plain Spark would have
enforced, with the proof that the rows lie so already.
"""

from __future__ import annotations

from dataclasses import dataclass

from unshuffle.optimizer import Optimized
from unshuffle.verify import Derivation, derive
from unshuffle.why.avoided import Avoided, avoided
from unshuffle.why.imagine import Broken, Whole
from unshuffle.why.kept import Determined, Kept, Remedy, Stored, kept

__all__ = ["Avoided", "Broken", "Determined", "Kept", "Reasons", "Remedy", "Stored", "reasons"]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Every exchange and sort of a plan with what forced it, and every requirement that was met without one."""

    kept: tuple[Kept, ...]
    avoided: tuple[Avoided, ...]


def reasons(optimized: Optimized, derivation: Derivation | None = None) -> Reasons:
    whole = Whole(optimized, derivation or derive(optimized))
    stays = tuple(kept(whole))
    return Reasons(stays, tuple(avoided(whole, stays)))
