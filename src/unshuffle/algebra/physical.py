"""Physical plans: which algorithm runs each operator, where rows are moved, and what holds of the rows on the way.

A `Physical` node is an operator over input plans, with everything the choice rested on: the properties it delivers, the
requirement each input had to meet and the proof that it does, and its cost. The operators are in `operators`; each says
what it requires of its inputs (`alternatives`, Table VI of ICDE 2010) and what it delivers. Exchanges and sorts are
operators like any other. Nodes are compared by identity: a plan read by two consumers is one node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from unshuffle.catalog.schema import Column
from unshuffle.properties import Alternative, Delivered, Dependencies, Proof, Required


class PhysicalOperator(Protocol):
    """What the search, the cost model and the verifier need to know of an operator."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that come out."""

    @property
    def carried(self) -> int | None:
        """The input whose layout comes out, if there is one."""

    @property
    def keeps_order(self) -> bool:
        """Does the order of the carried input come out as well?"""

    def source(self, column: Column) -> Column | None:
        """The column of the carried input that an output column repeats."""

    def prefix(self, column: Column) -> tuple[Column, int] | None:
        """The column of the carried input that an output column has the first characters of, and how many."""

    def alternatives(self) -> tuple[Alternative, ...]:
        """The ways it can run, each with what every input must deliver."""

    def deliver(self, given: Sequence[Delivered], facts: Sequence[Dependencies]) -> Delivered:
        """The layout of its result over inputs with these layouts and facts."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much flows: rows, bytes, in how many partitions, and the share of the rows that the largest one holds. `waits` is
    false of what is read from files as it is: a job that copies it need not wait for another."""

    rows: float
    bytes: float
    partitions: int
    largest: float
    waits: bool = True

    @property
    def copies(self) -> bool:
        return self.partitions == 0


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that an operator takes on the machine planned for, and what they go to."""

    seconds: float = 0.0
    cpu: float = 0.0
    disk: float = 0.0
    network: float = 0.0
    startup: float = 0.0
    again: float = 0.0  # of these, to compute the rows below once more: to look at them first, or for several readers


@dataclass(frozen=True, slots=True)
class Met:
    """A requirement on an input and the proof that the input meets it."""

    required: Required
    proof: Proof


@dataclass(frozen=True, slots=True, eq=False)
class Physical:
    operator: PhysicalOperator
    inputs: tuple[Physical, ...]
    delivered: Delivered
    facts: Dependencies
    amount: Amount
    own: Cost
    cost: float  # seconds of this node and all below it
    alternative: str = ""
    met: tuple[Met, ...] = ()
    joint: Proof | None = None
    group: int = field(default=-1)  # the memo's number for the relation, for the trace

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.operator.columns

    def walk(self) -> Iterator[Physical]:
        """Every node once, outermost first."""
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            waiting.extend(reversed(node.inputs))
