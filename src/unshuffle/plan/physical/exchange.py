"""The exchange: moves rows between partitions."""

from __future__ import annotations

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan.physical.base import InputFacts, InputLayouts, Operator, is_sampled
from unshuffle.properties import Alternative, AnyDistribution, Delivered, Partitioned, Required, Topology, exchange


@dataclass(frozen=True, slots=True)
class Exchange(Operator):
    """Moves rows to other partitions and leaves them unchanged.

    `readers` is set if the old layout says which output partitions can need an input partition (SIGMOD 2012, section 3).
    Each input partition is then read in place by that many tasks on average, and nothing is written or sent."""

    how: Topology
    columns: tuple[Column, ...]
    readers: float | None = None

    def source(self, column: Column) -> Column | None:
        return column

    @property
    def samples(self) -> bool:
        """Are range boundaries sampled from the rows first? The input is then computed twice."""
        scheme = getattr(self.how, "scheme", None)
        return isinstance(scheme, Partitioned) and is_sampled(scheme.function)

    def alternatives(self) -> tuple[Alternative, ...]:
        return (Alternative("", (Required(AnyDistribution()),)),)

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return exchange(self.how, inputs[0], facts[0])
