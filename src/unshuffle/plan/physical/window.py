"""Window functions."""

from __future__ import annotations

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import WindowCall
from unshuffle.plan.physical.base import LayoutPreservingOperator
from unshuffle.properties import Alternative, Clustered, Grouped, Local, Required, SinglePartition, Sorted


@dataclass(frozen=True, slots=True)
class Windows(LayoutPreservingOperator):
    """Window functions with one PARTITION BY (`by`) and one ORDER BY (`order`)."""

    calls: tuple[tuple[Column, WindowCall], ...]
    by: tuple[Column, ...]
    order: tuple[Sorted, ...]
    input_columns: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.input_columns, *(column for column, _ in self.calls))

    def source(self, column: Column) -> Column | None:
        return column if column in self.input_columns else None

    def alternatives(self) -> tuple[Alternative, ...]:
        groups: Local = (Grouped(frozenset(self.by)),) if self.by else ()
        local: Local = (*groups, *self.order)
        serial = Alternative("serial", (Required(SinglePartition(), local),))
        if not self.by:
            return (serial,)
        return (serial, Alternative("partitioned", (Required(Clustered(frozenset(self.by), parallel=True), local),)))
