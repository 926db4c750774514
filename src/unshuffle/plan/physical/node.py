"""Physical plans: the algorithm that runs each operator, the exchanges between them, and the properties of every result.

A `PhysicalPlan` node is an operator over input plans, with everything the choice rests on: the properties it delivers, the
alternative whose requirements its inputs satisfy, and the cost. Exchanges and sorts are operators like any other. Nodes are
compared by identity: a plan with two consumers is one node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Protocol

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.partitions import KeyColumn, KeyInterval
from unshuffle.properties import Alternative, Delivered, Dependencies, Partitioned


class PhysicalOperator(Protocol):
    """The interface of an operator to the search, the cost model and the verifier."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The output columns."""

    @property
    def carried(self) -> int | None:
        """The position of the input whose layout the output has, if there is one."""

    @property
    def keeps_order(self) -> bool:
        """Does the output also have the order of the carried input?"""

    def source(self, column: Column) -> Column | None:
        """The column of the carried input that an output column copies."""

    def prefix(self, column: Column) -> tuple[Column, int] | None:
        """The text column of the carried input that an output column is a prefix of, and the prefix's length."""

    def selected(self, column: Column, key: KeyColumn) -> tuple[KeyInterval, ...] | None:
        """The values of a column of the carried input that rows are kept of; None if that may be any."""

    @property
    def hides_layout(self) -> bool:
        """May the output have a shape (serial, partitioned, copied) that no input has?"""

    @property
    def seconds_per_row(self) -> float:
        """What user code takes for a row of an input, as far as its class declares it."""

    def read_as(self, layout: Partitioned) -> PhysicalOperator | None:
        """A leaf that reads the same stored rows in another layout, if the stored layout allows that."""

    def alternatives(self) -> tuple[Alternative, ...]:
        """The ways to run the operator, each with a requirement per input (ICDE 2010, Table VI)."""

    def deliver(self, inputs: Sequence[Delivered], facts: Sequence[Dependencies]) -> Delivered:
        """The layout of the result, given the layouts and facts of the inputs."""


@dataclass(frozen=True, slots=True)
class SizeEstimate:
    """An estimated size: rows, bytes, number of partitions (0 for a broadcast copy), and the largest partition's share of
    the rows. `waits` is false if the rows come straight from files, so a broadcast of them waits for no other job. `guesses`
    says how many uncertain factors the rows are a product of."""

    rows: float
    bytes: float
    partitions: int
    largest: float
    waits: bool = True
    guesses: int = 0

    @property
    def copies(self) -> bool:
        return self.partitions == 0


@dataclass(frozen=True, slots=True)
class Cost:
    """The estimated elapsed seconds of an operator, and their breakdown."""

    seconds: float = 0.0
    cpu: float = 0.0
    disk: float = 0.0
    network: float = 0.0
    startup: float = 0.0
    missed: float = 0.0  # part of `cpu`: misses of the cache, which are fewer in smaller partitions
    recompute: float = 0.0  # part of `seconds`: computing the input a second time, to sample it or for several readers


@dataclass(frozen=True, slots=True, eq=False)
class PhysicalPlan:
    operator: PhysicalOperator
    inputs: tuple[PhysicalPlan, ...]
    delivered: Delivered
    facts: Dependencies
    size: SizeEstimate
    own: Cost
    cost: float  # seconds of this node and everything below it
    alternative: str = ""
    group: int = field(default=-1)  # the number of the memo group, for the trace

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.operator.columns

    def walk(self) -> Iterator[PhysicalPlan]:
        """Every node once, top down."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            pending.extend(reversed(node.inputs))
