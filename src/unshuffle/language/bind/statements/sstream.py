"""Structured streams in a script: read as a rowset, with the facts in the manifest, and written by OUTPUT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.errors import Span
from unshuffle.plan.logical import Scan
from unshuffle.plan.sstream_scan import stream_scan
from unshuffle.properties import Delivered, Partitioned, Sorted
from unshuffle.sstream.layout_request import ResolvedLayout
from unshuffle.sstream.store import Stream


def scan_of(stream: Stream, label: str, numbers: ColumnNumbers, span: Span | None, catalog: str | Path | None) -> Scan:
    """A scan of exactly the files that a version of a stream names."""
    columns = {name: numbers.new(name, type) for name, type in stream.manifest.schema}
    return stream_scan(stream, label, columns, span, catalog)


def layout_of(settled: ResolvedLayout, columns: Sequence[Column]) -> Delivered | None:
    """How rows are to be laid out for a stream, where that does not depend on the rows."""
    if settled.function is None:
        return None
    named = {column.name: column for column in columns}
    on = tuple(named[each.name] for each in settled.clustered_by[: settled.function.arity])
    order = tuple(Sorted(named[each.name], each.descending, each.nulls_first) for each in settled.sorted_by)
    return Delivered(Partitioned(settled.function, on), order)
