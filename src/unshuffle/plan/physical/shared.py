"""One use of a shared rowset: computed again for this use (`Rename`), or read from its spool (`ReadSpool`)."""

from __future__ import annotations

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan.physical.base import (
    InputFacts,
    InputLayouts,
    LayoutPreservingOperator,
    LeafOperator,
    is_sampled,
)
from unshuffle.properties import Delivered, Partitioned, UnknownFunction
from unshuffle.properties.layouts.propagate import through_project


@dataclass(frozen=True, slots=True)
class Rename(LayoutPreservingOperator):
    """A shared rowset under the columns of one use, computed for this use alone."""

    name: str
    columns: tuple[Column, ...]
    originals: tuple[Column, ...]

    def source(self, column: Column) -> Column | None:
        return dict(zip(self.columns, self.originals, strict=True)).get(column)

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        """Boundaries are sampled again for each use, so two uses of one plan are not co-partitioned."""
        made = through_project(inputs[0], facts[0], (), dict(zip(self.columns, self.originals, strict=True)))
        return _without_sampled_boundaries(made)


@dataclass(frozen=True, slots=True)
class ReadSpool(LeafOperator):
    """A shared rowset that is computed once and spooled."""

    name: str
    spool: int  # the number of the rowset's memo group
    columns: tuple[Column, ...]
    layout: Delivered

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        """Spark takes no two uses for co-partitioned by boundaries that are sampled, not even of one exchange."""
        return _without_sampled_boundaries(self.layout)


def _without_sampled_boundaries(delivered: Delivered) -> Delivered:
    """Rows with equal columns are together, by a function of which nothing is known."""
    layout = delivered.partitioning
    if not isinstance(layout, Partitioned) or not is_sampled(layout.function):
        return delivered
    unknown = UnknownFunction(layout.function.arity, layout.function.partitions)
    return Delivered(Partitioned(unknown, layout.columns, layout.nulls_anywhere), delivered.local)
