"""Structured streams in a script: as a rowset, with all that its manifest says of it, and as what is to be written."""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.algebra.expressions import Ref, SortKey
from unshuffle.algebra.logical import Scan, StreamTarget
from unshuffle.algebra.stored import stream_scan
from unshuffle.catalog.declared import DeclaredDependency, DeclaredKey
from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.errors import Span
from unshuffle.properties import Delivered, Partitioned, RangeFunction, Sampled, Sorted
from unshuffle.streams.manifest import SortedName
from unshuffle.streams.store import Stream
from unshuffle.streams.wanted import Settled, Wanted


def scan_of(stream: Stream, label: str, numbers: ColumnNumbers, span: Span | None) -> Scan:
    """A scan of exactly the files that a version of a stream names."""
    columns = {name: numbers.new(name, type) for name, type in stream.manifest.schema}
    return stream_scan(stream, label, columns, span)


def wanted_for(target: StreamTarget, layout: Delivered | None = None) -> Wanted:
    """What an OUTPUT says of a stream, by the names of its columns. With the layout that was planned for it, where its ranges
    begin, if it does not say that itself."""

    def names(keys: Sequence[SortKey]) -> tuple[SortedName, ...]:
        columns = ((key, key.expression.column) for key in keys if isinstance(key.expression, Ref))
        return tuple(SortedName(column.name, key.descending, key.nulls_first) for key, column in columns)

    def plain(columns: frozenset[Column]) -> tuple[str, ...]:
        return tuple(column.name for column in sorted(columns, key=lambda column: column.id))

    planned = (
        layout.partitioning.function if layout is not None and isinstance(layout.partitioning, Partitioned) else None
    )
    boundaries = None
    if isinstance(planned, RangeFunction) and target.reference is None and not isinstance(planned.boundaries, Sampled):
        boundaries = planned.boundaries
    return Wanted(
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


def layout_of(settled: Settled, columns: Sequence[Column]) -> Delivered | None:
    """How rows are to be laid out for a stream, where that does not depend on the rows."""
    if settled.function is None:
        return None
    named = {column.name: column for column in columns}
    on = tuple(named[each.name] for each in settled.clustered_by[: settled.function.arity])
    order = tuple(Sorted(named[each.name], each.descending, each.nulls_first) for each in settled.sorted_by)
    return Delivered(Partitioned(settled.function, on), order)
