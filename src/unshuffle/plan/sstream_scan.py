"""A version of a structured stream as a scan, with the facts, statistics and layout of its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unshuffle.catalog.parquet_files import ParquetContents
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.catalog.statistics.statistics_lookup import stream_facts
from unshuffle.errors import Span
from unshuffle.plan.logical import Files, Format, Scan, StoredParts
from unshuffle.plan.part_bounds import with_bounds
from unshuffle.properties import Delivered, Partitioned, Sorted
from unshuffle.sstream.footer_statistics import statistics_of
from unshuffle.sstream.row_group_histogram import finest_histogram
from unshuffle.sstream.store import Stream, data_files


def stream_scan(
    stream: Stream,
    label: str,
    columns: Mapping[str, Column],
    span: Span | None = None,
    catalog: str | Path | None = None,
) -> Scan:
    """A scan of exactly the files of a stream's version. `columns` are all of its columns, by name, and `catalog` is a folder
    of stored statistics."""
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
    found = data_files(stream)
    contents = ParquetContents(manifest.schema, (), manifest.rows, manifest.bytes, statistics_of(stream))
    in_order = tuple(columns[name] for name, _ in manifest.schema)
    known = stream_facts(in_order, stream.path, found, contents, catalog)
    declared_keys = tuple(named(each.columns) for each in manifest.keys)
    declared = tuple(Dependency(named(d.determinant), named(d.dependent)) for d in manifest.dependencies)
    layout = Partitioned(manifest.function, tuple(columns[name] for name in manifest.function_names))
    order = tuple(Sorted(columns[each.name], each.descending, each.nulls_first) for each in manifest.sorted_by)
    scan = Scan(
        label,
        files,
        in_order,
        tuple(dict.fromkeys((*declared_keys, *known.keys))),
        tuple(dict.fromkeys((*declared, *known.dependencies))),
        span,
        known.statistics,
        layout=Delivered(layout, order),
        stored=Delivered(layout, order),
        spread=finest_histogram(manifest),
        spread_on=tuple(columns[each.name] for each in manifest.clustered_by),
        parts=StoredParts(manifest, stream.path),
        stream=stream,
    )
    # The footers have bounds of all columns, and not only of those of the layout.
    return with_bounds(scan, found, ())
