"""The layout that a script requests of a structured stream it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Ref, SortKey
from unshuffle.plan.logical import Output, Plan, StreamTarget
from unshuffle.properties import Delivered, HashFunction, Partitioned, RangeFunction, SampledBoundaries
from unshuffle.sstream.layout_request import LayoutRequest, ResolvedLayout
from unshuffle.sstream.manifest import SortedName


def layout_request_for(target: StreamTarget) -> LayoutRequest:
    """The layout that an OUTPUT requests of a stream, by column names."""

    def names(keys: Sequence[SortKey]) -> tuple[SortedName, ...]:
        columns = ((key, key.expression.column) for key in keys if isinstance(key.expression, Ref))
        return tuple(SortedName(column.name, key.descending, key.nulls_first) for key, column in columns)

    def plain(columns: frozenset[Column]) -> tuple[str, ...]:
        return tuple(column.name for column in sorted(columns, key=lambda column: column.id))

    return LayoutRequest(
        names(target.clustered_by),
        names(target.sorted_by),
        target.range_partitioned,
        target.partitions,
        None,
        target.reference,
        tuple(DeclaredKey(plain(key)) for key in target.keys),
        tuple(DeclaredDependency(plain(d.determinant), plain(d.dependent)) for d in target.dependencies),
        target.overwrite,
    )


def as_planned(request: LayoutRequest, layout: Delivered | None) -> LayoutRequest:
    """The request with the number of partitions, or the boundaries of ranges, that were chosen while planning."""
    if layout is None or not isinstance(layout.partitioning, Partitioned) or request.reference is not None:
        return request
    function = layout.partitioning.function
    if isinstance(function, HashFunction):
        return replace(request, partitions=function.partitions)
    if isinstance(function, RangeFunction) and not isinstance(function.boundaries, SampledBoundaries):
        return replace(request, partitions=None, boundaries=function.boundaries)
    return request


def output_of(plan: Plan, path: str, resolved: ResolvedLayout, layout: Delivered | None) -> Output:
    """Rows that are to be stored in a resolved layout. `layout` is the same in their columns, as far as it is fixed."""
    named = {column.name: column for column in plan.columns}

    def keys(names: Sequence[SortedName]) -> tuple[SortKey, ...]:
        return tuple(SortKey(Ref(named[each.name]), each.descending, each.nulls_first) for each in names)

    target = StreamTarget(
        path,
        resolved.ranged,
        keys(resolved.clustered_by),
        keys(resolved.sorted_by),
        resolved.partitions,
        resolved.reference.path if resolved.reference is not None else None,
        (),
        (),
        True,
    )
    return Output(plan, target, None, layout)
