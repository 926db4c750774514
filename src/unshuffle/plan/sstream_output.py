"""The layout that a script requests of a structured stream it writes."""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Ref, SortKey
from unshuffle.plan.logical import StreamTarget
from unshuffle.properties import Delivered, Partitioned, RangeFunction, SampledBoundaries
from unshuffle.sstream.layout_request import LayoutRequest
from unshuffle.sstream.manifest import SortedName


def layout_request_for(target: StreamTarget, layout: Delivered | None = None) -> LayoutRequest:
    """The layout that an OUTPUT requests of a stream, by column names. Range boundaries that were chosen while planning
    (`layout`) stand in for those that the OUTPUT does not give."""

    def names(keys: Sequence[SortKey]) -> tuple[SortedName, ...]:
        columns = ((key, key.expression.column) for key in keys if isinstance(key.expression, Ref))
        return tuple(SortedName(column.name, key.descending, key.nulls_first) for key, column in columns)

    def plain(columns: frozenset[Column]) -> tuple[str, ...]:
        return tuple(column.name for column in sorted(columns, key=lambda column: column.id))

    planned = (
        layout.partitioning.function if layout is not None and isinstance(layout.partitioning, Partitioned) else None
    )
    boundaries = None
    if (
        isinstance(planned, RangeFunction)
        and target.reference is None
        and not isinstance(planned.boundaries, SampledBoundaries)
    ):
        boundaries = planned.boundaries
    return LayoutRequest(
        names(target.clustered_by),
        names(target.sorted_by),
        target.range_partitioned,
        target.partitions if boundaries is None else None,
        boundaries,
        target.reference,
        tuple(DeclaredKey(plain(key)) for key in target.keys),
        tuple(DeclaredDependency(plain(d.determinant), plain(d.dependent)) for d in target.dependencies),
        target.overwrite,
    )
