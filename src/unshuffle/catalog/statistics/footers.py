"""Statistics from the footers of Parquet files: rows, minima, maxima, NULLs, sizes.

Only footers are read, which the binder reads anyway. Writers do not store the number of distinct values, so it is estimated
in two ways:

    range        An integer or date column has at most as many values as there are between its minimum and its maximum.
    dictionary   A dictionary-encoded column chunk with d values takes log2(d) bits a row, plus the d values once. The footer
                 has the chunk's size, so the equation can be solved for d. The footer also has the size of the dictionary
                 itself, which gives another estimate (better if equal values come in runs, which take fewer bits). From
                 the d of one chunk follows the size of the domain that all chunks draw from (Cardenas' formula), and from
                 that the d of all rows. Chunks whose ranges do not overlap, as in sorted files, have separate domains.

Both are estimates for the optimizer. If a footer says too little, the number is None.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from math import expm1, isfinite, log1p, log2
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, default_width
from unshuffle.frozen import dataclass

# Reading a chunk's metadata takes about four microseconds. Past this many chunks, row groups are sampled evenly.
_MAX_CHUNKS = 4096
_PAGE_HEADER = 16  # approximate bytes before a dictionary


def footer_statistics(
    footers: Sequence[pa.parquet.FileMetaData],
    columns: Sequence[tuple[str, DataType]],
    rows: float,
    sample: Callable[[Sequence[str]], Mapping[str, float]] | None = None,
) -> tuple[tuple[str, ColumnStatistics], ...]:
    """Statistics by column name, for files with this many rows in all. `sample` estimates the domains of text columns for
    which the writer gave up the dictionary."""
    groups = [(footer, group) for footer in footers for group in range(footer.num_row_groups)]
    step = max(1, len(groups) * max(1, len(columns)) // _MAX_CHUNKS)
    chunks = {name: _ColumnChunks() for name, type in columns if type is not None and not pa.types.is_nested(type)}
    indices: dict[int, list[tuple[int, str]]] = {}  # of the columns in each footer
    rows_read = 0
    for footer, group in groups[::step]:
        if id(footer) not in indices:
            paths = [footer.schema.column(i).path for i in range(footer.num_columns)]
            indices[id(footer)] = [(i, path) for i, path in enumerate(paths) if path in chunks]
        metadata = footer.row_group(group)
        rows_read += metadata.num_rows
        for index, name in indices[id(footer)]:
            chunks[name].add(metadata.column(index))
    types = dict(columns)
    unknown = [name for name, each in chunks.items() if sample is not None and each.lacks_dictionary(types[name])]
    domains = sample(unknown) if sample is not None and unknown else {}
    return tuple(
        (name, each.statistics(types[name], rows, rows_read, domains.get(name))) for name, each in chunks.items()
    )


@dataclass(slots=True)
class _ColumnChunks:
    """What the metadata of one column's chunks adds up to."""

    rows: int = 0
    nulls: int = 0
    has_null_counts: bool = True
    chunks: int = 0
    bytes: int = 0
    dictionaries: int = 0
    dictionary_bytes: int = 0  # compressed, so at most the size of the values
    low: Any = None
    high: Any = None
    has_min_max: bool = True
    ranges: list[tuple[Any, Any]] = field(default_factory=list)  # of each chunk

    def add(self, chunk: pa.parquet.ColumnChunkMetaData) -> None:
        self.rows += chunk.num_values
        self.chunks += 1
        self.bytes += chunk.total_uncompressed_size
        if chunk.has_dictionary_page:
            self.dictionaries += 1
            begin, end = chunk.dictionary_page_offset, chunk.data_page_offset
            if begin > 0:  # some writers store 0 for none
                self.dictionary_bytes += max(0, end - begin - _PAGE_HEADER)
        statistics = chunk.statistics
        if statistics is None:
            self.has_null_counts = self.has_min_max = False
            return
        if statistics.has_null_count:
            self.nulls += statistics.null_count
        else:
            self.has_null_counts = False
        if not statistics.has_min_max:
            # A chunk of only NULLs has no minimum and maximum.
            self.has_min_max &= statistics.has_null_count and statistics.null_count == chunk.num_values
            return
        try:
            low, high = statistics.min, statistics.max
            self.low = low if self.low is None or low < self.low else self.low
            self.high = high if self.high is None or high > self.high else self.high
            self.ranges.append((low, high))
        except (TypeError, ValueError, OverflowError, pa.ArrowException):
            # The column has another type in another file, or Python cannot represent the date.
            self.has_min_max = False

    def lacks_dictionary(self, type: pa.DataType) -> bool:
        """Whether this is text without a dictionary, or with one in which values hardly repeat."""
        if not self.rows or not (pa.types.is_string(type) or pa.types.is_binary(type)):
            return False
        is_small = self.bytes / self.chunks < self._rows_per_chunk * (self._width(type) + 4.0) * 0.95
        return not (self.dictionaries == self.chunks and is_small)

    @property
    def _rows_per_chunk(self) -> float:
        """Rows that are not NULL."""
        return max(1.0, (self.rows - self.nulls) / self.chunks)

    def statistics(
        self, type: pa.DataType, rows: float, rows_read: int, domain: float | None = None
    ) -> ColumnStatistics:
        """Rows of files without the column are NULL, as Spark reads them."""
        missing = max(0, rows_read - self.rows)
        nulls = (self.nulls if self.has_null_counts else 0) + missing
        null_fraction = min(1.0, nulls / rows_read) if rows_read else 0.0
        low, high = (self.low, self.high) if self.has_min_max else (None, None)
        width = self._width(type)
        non_null = rows * (1.0 - null_fraction)
        distinct = (
            self._distinct(type, low, high, non_null, width) if domain is None else _distinct_drawn(non_null, domain)
        )
        overlap = self._overlap()
        return ColumnStatistics(
            distinct, null_fraction, low, high, width, is_sampled=domain is not None, overlap=overlap
        )

    def _width(self, type: pa.DataType) -> float:
        if not (pa.types.is_string(type) or pa.types.is_binary(type)):
            return default_width(type)
        plain = self.bytes / max(1, self.rows) - 4.0
        lengths = [len(end) for ends in self.ranges for end in ends if isinstance(end, str | bytes)]
        bounds = sum(lengths) / len(lengths) if lengths else default_width(type)
        # Without a dictionary, or with one in which values hardly repeat, the chunk's size is that of the texts.
        return max(1.0, plain, bounds) if plain > 0.0 else max(1.0, bounds)

    def _distinct(self, type: pa.DataType, low: Any, high: Any, rows: float, width: float) -> float | None:
        if pa.types.is_boolean(type):
            return 2.0
        upper_bounds = []
        if low is not None and (pa.types.is_integer(type) or pa.types.is_date32(type)):
            upper_bounds.append(float(high - low if pa.types.is_integer(type) else (high - low).days) + 1.0)
        if low is not None and low == high:
            upper_bounds.append(1.0)
        if self.chunks and self.dictionaries == self.chunks:
            upper_bounds.append(self._from_dictionaries(type, rows, width))
        return max(min((*upper_bounds, rows)), min(1.0, rows)) if upper_bounds else None

    def _from_dictionaries(self, type: pa.DataType, rows: float, width: float) -> float:
        each = self._rows_per_chunk
        size = self.bytes / self.chunks
        is_text = pa.types.is_string(type) or pa.types.is_binary(type)
        value = width + 4.0 if is_text else _stored_width(type)
        if size >= each * value * 0.95:
            return rows  # no smaller than the plain values: nearly all differ, or the writer gave up the dictionary
        segments = self._segments()
        in_chunk = max(_solved(each, size, value), min(each, self.dictionary_bytes / self.chunks / value))
        return segments * _distinct_drawn(rows / segments, _domain(each, in_chunk))

    def _overlap(self) -> float:
        """The average share of the chunks that a chunk overlaps, itself included. Ranges that only share an end do not
        overlap: in a sorted file, the rows of a value may end in the next chunk."""
        if not self.has_min_max or len(self.ranges) < 2:
            return 1.0
        lows, highs = (sorted(ends) for ends in zip(*self.ranges, strict=True))
        overlapped = 0
        for low, high in self.ranges:
            # A chunk of one value overlaps the chunks that begin or end with this value.
            begun, ended = (bisect_right, bisect_left) if low == high else (bisect_left, bisect_right)
            overlapped += begun(lows, high) - ended(highs, low)
        return min(1.0, max(1, overlapped / len(lows)) / len(lows))

    def _segments(self) -> int:
        """The number of groups of chunks whose ranges do not overlap. In a sorted file, every chunk is a group."""
        segments = 0
        reached = None
        for low, high in sorted(self.ranges) if self.has_min_max else ():
            if reached is None or low > reached or low == reached < high:
                segments += 1
            reached = high if reached is None else max(reached, high)
        return max(1, segments)


def _stored_width(type: pa.DataType) -> float:
    return max(4.0, default_width(type))


def _solved(rows: float, size: float, value: float) -> float:
    """The number of distinct values d for which rows * log2(d) / 8 + d * value is the size."""
    low, high = 1.0, rows
    while high > low * 1.05:
        middle = (low * high) ** 0.5
        if rows * log2(max(middle, 1.0)) / 8 + middle * value > size:
            high = middle
        else:
            low = middle
    return high


def _domain(rows: float, distinct: float) -> float:
    """The size of a domain from which random rows are expected to have this many distinct values."""
    if distinct >= rows * 0.98:
        return float("inf")
    low, high = distinct, distinct * 64.0
    for _ in range(20):
        middle = (low * high) ** 0.5
        if _distinct_drawn(rows, middle) < distinct:
            low = middle
        else:
            high = middle
    return high


def _distinct_drawn(rows: float, domain: float) -> float:
    """The expected number of distinct values in rows drawn at random from a domain (Cardenas 1975)."""
    if domain == float("inf"):
        return rows
    return domain if domain <= 1.0 else min(rows, -domain * expm1(rows * log1p(-1.0 / domain)))


def partition_statistics(values: Iterable[tuple[Any, float]], type: pa.DataType) -> ColumnStatistics:
    """Statistics of a partition column, from its values with the rows below each folder."""
    counts: dict[Any, float] = {}
    nulls = 0.0
    for value, rows in values:
        if value is None:
            nulls += rows
        else:
            counts[value] = counts.get(value, 0.0) + rows
    total = sum(counts.values()) + nulls
    if not counts or total <= 0.0:
        return ColumnStatistics(float(len(counts)), 1.0 if nulls else 0.0)
    if pa.types.is_timestamp(type) or any(isinstance(value, float) and not isfinite(value) for value in counts):
        return ColumnStatistics(float(len(counts)), nulls / total)  # a time zone decides, or there is no order
    common = sorted(((value, rows / total) for value, rows in counts.items()), key=lambda pair: -pair[1])
    width = default_width(type)
    if pa.types.is_string(type):
        width = sum(len(value) * rows for value, rows in counts.items()) / max(1.0, sum(counts.values()))
    overlap = ((nulls / total) ** 2) + sum((rows / total) ** 2 for rows in counts.values())
    low, high = min(counts), max(counts)
    return ColumnStatistics(
        float(len(counts)), nulls / total, low, high, width, tuple(common[:100]), overlap=min(1.0, overlap)
    )
