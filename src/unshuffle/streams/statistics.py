"""What the footers of a stream's files tell of its columns, held against the manifest on the way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache

from unshuffle.catalog.files import EXACT_FOOTERS
from unshuffle.catalog.footers import footer_statistics
from unshuffle.catalog.statistics import ColumnStatistics
from unshuffle.streams.described import Footer, Unreadable, read_footer
from unshuffle.streams.manifest import StoredFile
from unshuffle.streams.store import Stream, disagrees, file_marks


def statistics_of(stream: Stream) -> tuple[tuple[str, ColumnStatistics], ...]:
    """Of all columns, by name. Of many files, an even sample is looked at."""
    files = list(stream.manifest.files())
    sample = files[:: max(1, len(files) // EXACT_FOOTERS)]
    modified = file_marks(stream)

    def looked_at(file: StoredFile) -> Footer:
        try:
            footer = _footer(stream.path_of(file), file.bytes, modified[file.path])
        except Unreadable as problem:
            raise disagrees(stream, file, str(problem)) from None
        if footer.metadata.num_rows != file.rows:
            raise disagrees(stream, file, f"has {footer.metadata.num_rows:,} rows, and was written with {file.rows:,}")
        if footer.crc != file.footer:
            raise disagrees(stream, file, "has another footer than was written")
        return footer

    with ThreadPoolExecutor(min(8, max(1, len(sample)))) as pool:
        footers = [footer.metadata for footer in pool.map(looked_at, sample)]
    hidden = {each.name for each in (*stream.manifest.clustered_by, *stream.manifest.sorted_by)}
    return tuple(
        (name, replace(found, distinct=_between(found, stream.manifest.rows)) if name in hidden else found)
        for name, found in footer_statistics(footers, stream.manifest.schema, stream.manifest.rows)
    )


def _between(found: ColumnStatistics, rows: int) -> float | None:
    """Values that are sorted take little room however many there are, so that sizes do not tell their number. Whole numbers
    between two others are at most so many."""
    if isinstance(found.low, int) and isinstance(found.high, int):
        return float(min(rows, found.high - found.low + 1))
    return None


@lru_cache(maxsize=4096)
def _footer(path: str, size: int, modified: float) -> Footer:
    return read_footer(path)
