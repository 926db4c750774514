"""A plan as a tree of plain nodes. Every output format draws this tree."""

from __future__ import annotations

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass

ENFORCERS = ("Exchange", "Broadcast", "Sort")  # operators that move or sort rows; formats highlight them


@dataclass(frozen=True, slots=True)
class Execution:
    """How a physical operator runs, and the estimated size of its result."""

    runs: str  # serial, partitioned, pair-wise, ...; empty if the operator has only one way to run
    layout: str  # partitioning and sort order, in words
    changes_layout: bool
    rows: float
    bytes: float
    partitions: int
    seconds: float  # of the operator itself
    total_seconds: float  # of the operator and everything below it
    stage: int  # the number of the stage that it runs in


@dataclass(frozen=True, slots=True)
class DisplayNode:
    """An operator to be drawn. `facts` are pairs of a name and a text, in the order to show them."""

    operator: str
    facts: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    rows: int | None
    children: tuple[DisplayNode, ...]
    shared_as: str | None = None  # the name under which later nodes refer to this one
    refers_to: str | None = None
    execution: Execution | None = None  # None in a logical plan


@dataclass(frozen=True, slots=True)
class DisplayStage:
    """Operators that run in the same tasks, by name, and the stages whose rows they read."""

    number: int
    tasks: int
    operators: tuple[str, ...]
    reads: tuple[int, ...]
