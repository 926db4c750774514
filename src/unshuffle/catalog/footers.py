"""Statistics that Parquet files carry in their footers: rows, least and greatest values, NULLs, sizes.

Nothing but footers is read, which the binder reads anyway. They hold no count of distinct values (writers leave it out), so
that is told from two sides:

    range        a whole number or a day has no more values than lie between the least and the greatest
    dictionary   a column chunk that is encoded with a dictionary takes log2(d) bits a row and the d values once. Its size
                 is in the footer, so d can be solved for; and so is the dictionary's own, which has room for no more
                 than d (rows that come in runs of one value take fewer bits). One chunk's d says how large the domain is
                 that all chunks draw from (by the formula of Cardenas), and from that follows the d of all rows. Chunks
                 whose ranges do not overlap, as in sorted files, draw from domains of their own.

Both are estimates for the optimizer. Where a footer says too little, so do we: None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import expm1, log1p, log2
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.statistics import ColumnStatistics, default_width

# A chunk takes about four microseconds to look at; past this many, row groups are sampled evenly.
_CHUNKS_READ = 4096
_PAGE_HEADER = 16  # bytes before a dictionary, about


def footer_statistics(
    footers: Sequence[pa.parquet.FileMetaData],
    columns: Sequence[tuple[str, DataType]],
    rows: float,
    sample: Callable[[Sequence[str]], Mapping[str, float]] | None = None,
) -> tuple[tuple[str, ColumnStatistics], ...]:
    """What footers say of columns of files that hold so many rows, by the columns' names. `sample` tells of how many values
    text columns are drawn whose dictionaries were given up."""
    groups = [(footer, group) for footer in footers for group in range(footer.num_row_groups)]
    step = max(1, len(groups) * max(1, len(columns)) // _CHUNKS_READ)
    gathered = {name: _Gathered() for name, type in columns if type is not None and not pa.types.is_nested(type)}
    places: dict[int, list[tuple[int, str]]] = {}
    read = 0
    for footer, group in groups[::step]:
        if id(footer) not in places:
            paths = [footer.schema.column(i).path for i in range(footer.num_columns)]
            places[id(footer)] = [(i, path) for i, path in enumerate(paths) if path in gathered]
        metadata = footer.row_group(group)
        read += metadata.num_rows
        for place, name in places[id(footer)]:
            gathered[name].add(metadata.column(place))
    types = dict(columns)
    unknown = [name for name, found in gathered.items() if sample is not None and found.says_nothing(types[name])]
    domains = sample(unknown) if sample is not None and unknown else {}
    return tuple(
        (name, found.statistics(types[name], rows, read, domains.get(name))) for name, found in gathered.items()
    )


@dataclass(slots=True)
class _Gathered:
    """What the chunks of one column said."""

    rows: int = 0
    nulls: int = 0
    nulls_known: bool = True
    chunks: int = 0
    bytes: int = 0
    dictionaries: int = 0
    dictionary_bytes: int = 0  # compressed, and so no more than the values take
    low: Any = None
    high: Any = None
    ends_known: bool = True
    ranges: list[tuple[Any, Any]] = field(default_factory=list)  # of each chunk

    def add(self, chunk: pa.parquet.ColumnChunkMetaData) -> None:
        self.rows += chunk.num_values
        self.chunks += 1
        self.bytes += chunk.total_uncompressed_size
        if chunk.has_dictionary_page:
            self.dictionaries += 1
            begin, end = chunk.dictionary_page_offset, chunk.data_page_offset
            if begin > 0:  # some writers say 0 where they mean nothing
                self.dictionary_bytes += max(0, end - begin - _PAGE_HEADER)
        found = chunk.statistics
        if found is None:
            self.nulls_known = self.ends_known = False
            return
        if found.has_null_count:
            self.nulls += found.null_count
        else:
            self.nulls_known = False
        if not found.has_min_max:
            # A chunk of nothing but NULLs has no ends to tell.
            self.ends_known &= found.has_null_count and found.null_count == chunk.num_values
            return
        try:
            low, high = found.min, found.max
            self.low = low if self.low is None or low < self.low else self.low
            self.high = high if self.high is None or high > self.high else self.high
            self.ranges.append((low, high))
        except (TypeError, ValueError, OverflowError, pa.ArrowException):
            # Another file's column is of another type, or Python has no such day.
            self.ends_known = False

    def says_nothing(self, type: pa.DataType) -> bool:
        """Is it text without a dictionary, or with one that hardly repeats?"""
        if not self.rows or not (pa.types.is_string(type) or pa.types.is_binary(type)):
            return False
        each = max(1.0, (self.rows - self.nulls) / self.chunks)
        small = self.bytes / self.chunks < each * (self._width(type) + 4.0) * 0.95
        return not (self.dictionaries == self.chunks and small)

    def statistics(self, type: pa.DataType, rows: float, read: int, domain: float | None = None) -> ColumnStatistics:
        """Rows of files without the column count as NULL, as Spark reads them."""
        missing = max(0, read - self.rows)
        nulls = (self.nulls if self.nulls_known else 0) + missing
        null_fraction = min(1.0, nulls / read) if read else 0.0
        low, high = (self.low, self.high) if self.ends_known else (None, None)
        width = self._width(type)
        solid = rows * (1.0 - null_fraction)
        distinct = self._distinct(type, low, high, solid, width) if domain is None else _domain_drawn(solid, domain)
        return ColumnStatistics(distinct, null_fraction, low, high, width, sampled=domain is not None)

    def _width(self, type: pa.DataType) -> float:
        if not (pa.types.is_string(type) or pa.types.is_binary(type)):
            return default_width(type)
        plain = self.bytes / max(1, self.rows) - 4.0
        lengths = [len(end) for ends in self.ranges for end in ends if isinstance(end, str | bytes)]
        ends = sum(lengths) / len(lengths) if lengths else default_width(type)
        # Without a dictionary, or with one that hardly repeats, the size is that of the texts themselves.
        return max(1.0, plain, ends) if plain > 0.0 else max(1.0, ends)

    def _distinct(self, type: pa.DataType, low: Any, high: Any, rows: float, width: float) -> float | None:
        if pa.types.is_boolean(type):
            return 2.0
        known = []
        if low is not None and (pa.types.is_integer(type) or pa.types.is_date32(type)):
            known.append(float(high - low if pa.types.is_integer(type) else (high - low).days) + 1.0)
        if low is not None and low == high:
            known.append(1.0)
        if self.chunks and self.dictionaries == self.chunks:
            known.append(self._from_dictionaries(type, rows, width))
        return max(min((*known, rows)), min(1.0, rows)) if known else None

    def _from_dictionaries(self, type: pa.DataType, rows: float, width: float) -> float:
        each = max(1.0, (self.rows - self.nulls) / self.chunks)
        size = self.bytes / self.chunks
        text = pa.types.is_string(type) or pa.types.is_binary(type)
        value = width + 4.0 if text else _stored_width(type)
        if size >= each * value * 0.95:
            return rows  # not smaller than the plain values: nearly all differ, or the dictionary was given up
        segments = self._segments()
        found = max(_solved(each, size, value), min(each, self.dictionary_bytes / self.chunks / value))
        return segments * _domain_drawn(rows / segments, _domain(each, found))

    def _segments(self) -> int:
        """How many runs of chunks have values apart from those of the others: all, in files sorted by the column."""
        found = 0
        reached = None
        for low, high in sorted(self.ranges) if self.ends_known else ():
            if reached is None or low > reached or low == reached < high:
                found += 1
            reached = high if reached is None else max(reached, high)
        return max(1, found)


def _stored_width(type: pa.DataType) -> float:
    return max(4.0, default_width(type))


def _solved(rows: float, size: float, value: float) -> float:
    """The number of values d for which rows * log2(d) / 8 + d * value is the size."""
    low, high = 1.0, rows
    while high > low * 1.05:
        middle = (low * high) ** 0.5
        if rows * log2(max(middle, 1.0)) / 8 + middle * value > size:
            high = middle
        else:
            low = middle
    return high


def _domain(rows: float, distinct: float) -> float:
    """The domain of which rows drawn at random are expected to show so many values."""
    if distinct >= rows * 0.98:
        return float("inf")
    low, high = distinct, distinct * 64.0
    for _ in range(20):
        middle = (low * high) ** 0.5
        if _domain_drawn(rows, middle) < distinct:
            low = middle
        else:
            high = middle
    return high


def _domain_drawn(rows: float, domain: float) -> float:
    if domain == float("inf"):
        return rows
    return domain if domain <= 1.0 else min(rows, -domain * expm1(rows * log1p(-1.0 / domain)))


def partition_statistics(values: Iterable[tuple[Any, float]], type: pa.DataType) -> ColumnStatistics:
    """A column whose values are folder names: each value with the rows below it."""
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
    common = sorted(((value, rows / total) for value, rows in counts.items()), key=lambda pair: -pair[1])
    width = default_width(type)
    if pa.types.is_string(type):
        width = sum(len(value) * rows for value, rows in counts.items()) / max(1.0, sum(counts.values()))
    return ColumnStatistics(float(len(counts)), nulls / total, min(counts), max(counts), width, tuple(common[:100]))
