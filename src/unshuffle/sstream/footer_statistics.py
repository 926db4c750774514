"""Column statistics from the footers of a stream's files. The footers are checked against the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock

from unshuffle.catalog.parquet_files import EXACT_FOOTERS
from unshuffle.catalog.statistics.footers import footer_statistics
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.sstream.file_description import Footer, UnreadableFile, read_footer
from unshuffle.sstream.manifest import StoredFile
from unshuffle.sstream.store import Stream, file_mismatch, modification_times

_Statistics = tuple[tuple[str, ColumnStatistics], ...]

# Statistics that were computed before, the most recently used last. They are small. The footers of wide files are not, so
# these are not kept.
_COMPUTED: dict[tuple[object, ...], _Statistics] = {}
_MOST_COMPUTED = 256
_LOCK = Lock()


def statistics_of(stream: Stream) -> _Statistics:
    """The statistics of all columns, by name. If there are many files, an even sample of them is read."""
    files = list(stream.manifest.files())
    sample = files[:: max(1, len(files) // EXACT_FOOTERS)]
    modified = modification_times(stream)
    described = tuple((file.path, file.bytes, file.rows, file.footer, modified[file.path]) for file in sample)
    key = (stream.path, stream.manifest.writer, stream.manifest.schema, stream.manifest.rows, described)
    found = _COMPUTED.get(key) or _computed(stream, sample)
    with _LOCK:
        _COMPUTED.pop(key, None)
        _COMPUTED[key] = found
        if len(_COMPUTED) > _MOST_COMPUTED:
            del _COMPUTED[next(iter(_COMPUTED))]
    return found


def _computed(stream: Stream, sample: Sequence[StoredFile]) -> _Statistics:
    def checked_footer(file: StoredFile) -> Footer:
        try:
            footer = read_footer(stream.path_of(file))
        except UnreadableFile as problem:
            raise file_mismatch(stream, file, str(problem)) from None
        if footer.metadata.num_rows != file.rows:
            raise file_mismatch(
                stream, file, f"has {footer.metadata.num_rows:,} rows, but was written with {file.rows:,}"
            )
        if footer.crc != file.footer:
            raise file_mismatch(stream, file, "has a footer that changed since it was written")
        return footer

    with ThreadPoolExecutor(min(8, max(1, len(sample)))) as pool:
        footers = [footer.metadata for footer in pool.map(checked_footer, sample)]
    sorted_columns = {each.name for each in (*stream.manifest.clustered_by, *stream.manifest.sorted_by)}
    return tuple(
        (name, replace(column, distinct=_distinct(column, stream.manifest.rows)) if name in sorted_columns else column)
        for name, column in footer_statistics(footers, stream.manifest.schema, stream.manifest.rows)
    )


def _distinct(column: ColumnStatistics, rows: int) -> float | None:
    """Sorted values compress well however many there are, so the number of distinct values cannot be estimated from the
    column's size. The range of an integer column bounds it."""
    if isinstance(column.low, int) and isinstance(column.high, int):
        return float(min(rows, column.high - column.low + 1))
    return None
