"""The number of examples of generated tests: the normal number (`make test`), a representative part of it (`make
test-fast`, which sets UNSHUFFLE_QUICK=1), or many new examples (`make soak`, which sets UNSHUFFLE_SOAK=1)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

SOAK = os.environ.get("UNSHUFFLE_SOAK") == "1"
QUICK = os.environ.get("UNSHUFFLE_QUICK") == "1" and not SOAK

SOAK_EXAMPLES = 20_000

Case = TypeVar("Case")


def normal_or_quick(normal: int, quick: int) -> int:
    """A number that is the same in a soak as in a normal run, such as how often a rule must have fired."""
    return quick if QUICK else normal


def examples(normal: int, quick: int) -> int:
    return SOAK_EXAMPLES if SOAK else normal_or_quick(normal, quick)


def cases(every_case: Sequence[Case], quick: int) -> Sequence[Case]:
    """Every case. In a quick run, at most `quick` of them, evenly spread."""
    return every_case[:: -(-len(every_case) // quick)] if QUICK else every_case
