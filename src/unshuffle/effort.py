"""Whether planning a DataFrame can pay, from a quick look at what it reads and does.

Reading, planning and lowering take longer for a plan of many operators, and save a share of the time that plain Spark takes.
A query of little data and few exchanges is over before its plan would be found. So `Session.optimize` and `Session.sql`
first estimate both, and return the user's own DataFrame where planning would take longer than it can be expected to save.
"""

from __future__ import annotations

from typing import Literal

from unshuffle.constants import EFFORT
from unshuffle.cost.machine import Machine
from unshuffle.frozen import dataclass

# In proportion to what is to gain, or always in full.
Effort = Literal["proportionate", "full"]
EFFORTS: tuple[Effort, ...] = ("proportionate", "full")


@dataclass(frozen=True, slots=True)
class PlanSize:
    """What a DataFrame reads and does. `bytes` are those of the columns that it reads, by Spark's own statistics. An operator
    that redistributes needs equal rows in one place: Spark plans an exchange for it, or a broadcast."""

    bytes: float
    operators: int
    redistributing: int
    may_grow: bool  # an operator may make many rows of one, or take long for each: the bytes tell nothing


@dataclass(frozen=True, slots=True)
class Stakes:
    """Estimated seconds: of a DataFrame in plain Spark, what a plan of ours would save of them, and what finding it takes."""

    straight: float
    saving: float
    planning: float


def stakes(size: PlanSize, machine: Machine) -> Stakes:
    reading = size.bytes * EFFORT.straight_byte / machine.cores
    straight = reading + size.redistributing * EFFORT.straight_exchange
    planning = EFFORT.planning_start + size.operators * EFFORT.planning_operator
    return Stakes(straight, straight * EFFORT.saved_share, planning)


def too_little(size: PlanSize, machine: Machine) -> Stakes | None:
    """The stakes of a DataFrame for which planning does not pay, and None if it may."""
    found = stakes(size, machine)
    return None if size.may_grow or found.planning <= found.saving else found
