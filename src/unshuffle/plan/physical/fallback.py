"""Operators that plain Spark runs."""

from __future__ import annotations

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan import logical
from unshuffle.plan.physical.base import InputFacts, InputLayouts, Operator
from unshuffle.properties import Alternative, AnyDistribution, Delivered, Required, Serial, UnknownPartitioning


@dataclass(frozen=True, slots=True)
class SparkFallback(Operator):
    """An operator that is handed to Spark unchanged. It accepts any layout and promises none, unless it makes one
    partition."""

    plan: logical.Plan
    reason: str

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.plan.columns

    @property
    def hides_layout(self) -> bool:
        return True

    def alternatives(self) -> tuple[Alternative, ...]:
        name = "serial" if self._is_serial else "as written"
        return (Alternative(name, (Required(AnyDistribution()),) * len(self.plan.children)),)

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return Delivered(Serial() if self._is_serial else UnknownPartitioning())

    @property
    def _is_serial(self) -> bool:
        return isinstance(self.plan, logical.Foreign) and self.plan.is_serial
