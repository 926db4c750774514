"""A version of a structured stream as a scan, with the facts, statistics and layout of its manifest."""

from __future__ import annotations

from collections.abc import Mapping

from unshuffle.catalog.files import DataFile
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.catalog.statistics.table_statistics import TableStatistics
from unshuffle.errors import Span
from unshuffle.plan.logical import Files, Format, Scan, StoredParts
from unshuffle.plan.part_bounds import with_bounds
from unshuffle.properties import Delivered, Partitioned, Sorted
from unshuffle.sstream.footer_statistics import statistics_of
from unshuffle.sstream.store import Stream, modification_times


def stream_scan(stream: Stream, label: str, columns: Mapping[str, Column], span: Span | None = None) -> Scan:
    """A scan of exactly the files of a stream's version. `columns` are all of its columns, by name."""
    manifest = stream.manifest

    def named(names: tuple[str, ...]) -> frozenset[Column]:
        return frozenset(columns[name] for name in names)

    files = Files(
        stream.paths,
        Format("Parquet"),
        rows=manifest.rows,
        bytes=manifest.bytes,
        stored=manifest.schema,
        version=hash((stream.path, manifest.writer)),
    )
    known = tuple((columns[name], found) for name, found in statistics_of(stream))
    layout = Partitioned(manifest.function, tuple(columns[name] for name in manifest.function_names))
    order = tuple(Sorted(columns[each.name], each.descending, each.nulls_first) for each in manifest.sorted_by)
    scan = Scan(
        label,
        files,
        tuple(columns[name] for name, _ in manifest.schema),
        tuple(named(each.columns) for each in manifest.keys),
        tuple(Dependency(named(d.determinant), named(d.dependent)) for d in manifest.dependencies),
        span,
        TableStatistics(float(manifest.rows), float(manifest.bytes), known),
        layout=Delivered(layout, order),
        stored=Delivered(layout, order),
        spread=manifest.histogram,
        spread_on=tuple(columns[each.name] for each in manifest.clustered_by),
        parts=StoredParts(manifest, stream.path),
        stream=stream,
    )
    return with_bounds(scan, _data_files(stream), ())


def _data_files(stream: Stream) -> list[DataFile]:
    """The files of a version, whose footers have bounds of all columns, and not only of those of the layout."""
    modified = modification_times(stream)
    return [
        DataFile(stream.path_of(file), file.bytes, (), round(modified[file.path] * 1e9))
        for file in stream.manifest.files()
    ]
