"""Column statistics from the footers of a stream's files. The footers are checked against the manifest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache

from unshuffle.catalog.parquet_files import EXACT_FOOTERS
from unshuffle.catalog.statistics.footers import footer_statistics
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.sstream.file_description import Footer, UnreadableFile, read_footer
from unshuffle.sstream.manifest import StoredFile
from unshuffle.sstream.store import Stream, file_mismatch, modification_times


def statistics_of(stream: Stream) -> tuple[tuple[str, ColumnStatistics], ...]:
    """The statistics of all columns, by name. If there are many files, an even sample of them is read."""
    files = list(stream.manifest.files())
    sample = files[:: max(1, len(files) // EXACT_FOOTERS)]
    modified = modification_times(stream)

    def checked_footer(file: StoredFile) -> Footer:
        try:
            footer = _footer(stream.path_of(file), file.bytes, modified[file.path])
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


@lru_cache(maxsize=4096)
def _footer(path: str, size: int, modified: float) -> Footer:
    return read_footer(path)
