"""The row groups of Parquet files: where each is, and between which values a column lies in it.

Footers have the least and greatest value of a column in each row group, which Spark trusts when it skips row groups. What a
footer does not say for certain is unknown: the bounds of a column are None then, and the row group may have any row.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from unshuffle.catalog.schema import DataType
from unshuffle.frozen import dataclass

# Older dates and timestamps may be stored in another calendar, and Spark then reads other values than the footer has.
_FIRST_DATE = datetime.date(1582, 10, 16)
_FIRST_YEAR = 1900


@dataclass(frozen=True, slots=True)
class RowGroupPlace:
    """`length` is the compressed size of all columns. A reader assigns a row group to a part of a file by its middle."""

    offset: int
    length: int
    rows: int

    @property
    def middle(self) -> int:
        return self.offset + self.length // 2


def parts_of_file(places: Sequence[RowGroupPlace], size: int) -> list[tuple[int, int]]:
    """Where the part of a file begins and ends with which a reader reads each row group, and no other. Writers do not agree
    on where exactly a row group begins, so parts meet halfway between the middles of row groups: together they are the
    file."""
    order = sorted(range(len(places)), key=lambda i: places[i].middle)
    cuts = [0, *((places[i].middle + places[j].middle + 1) // 2 for i, j in pairwise(order)), size]
    found = [(0, 0)] * len(places)
    for at, number in enumerate(order):
        found[number] = (cuts[at], cuts[at + 1])
    return found


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The least and greatest value of a column, which are None if all rows are NULL, and whether some row may be NULL."""

    low: Any
    high: Any
    has_nulls: bool


def place_of(metadata: pa.parquet.RowGroupMetaData) -> RowGroupPlace:
    first = metadata.column(0)
    # A dictionary page, if there is one, precedes the data pages.
    dictionary = first.dictionary_page_offset if first.has_dictionary_page else None
    offset = first.data_page_offset if dictionary is None else min(dictionary, first.data_page_offset)
    length = sum(metadata.column(i).total_compressed_size for i in range(metadata.num_columns))
    return RowGroupPlace(int(offset), length, metadata.num_rows)


def ranges_of_column(
    footers: Sequence[pa.parquet.FileMetaData], name: str, type: DataType
) -> Iterator[list[ColumnRange | None]]:
    """The ranges of a column in the row groups of each file. A file in which the column is missing, or has another type than
    in the first, has none."""
    form = None
    for footer in footers:
        place = footer.schema.names.index(name) if footer.schema.names.count(name) == 1 else None
        column = footer.schema.column(place) if place is not None else None
        if column is not None and (column.path != name or not _is_ordered(footer.schema, name, type)):
            column = None
        if column is not None:
            mine = (column.physical_type, str(column.logical_type))
            form = form or mine
            column = column if mine == form else None
        groups = range(footer.num_row_groups)
        yield [_range(footer.row_group(i).column(place)) if column is not None else None for i in groups]


def has_ranges(type: DataType) -> bool:
    """Whether footers order the values of a type as Spark does. Not so for floating-point numbers, which have NaN and two
    zeros."""
    t = pa.types
    return type is not None and any(
        is_type(type) for is_type in (t.is_signed_integer, t.is_date32, t.is_timestamp, t.is_string, t.is_decimal128)
    )


def _is_ordered(schema: pa.parquet.ParquetSchema, name: str, type: DataType) -> bool:
    stored = schema.to_arrow_schema().field(name).type
    if type is not None and pa.types.is_timestamp(type):
        # INT96 has no order, and nanoseconds are not what Spark reads.
        return pa.types.is_timestamp(stored) and stored.unit != "ns" and (stored.tz is None) == (type.tz is None)
    return bool(stored == type and has_ranges(stored))


def _range(chunk: pa.parquet.ColumnChunkMetaData) -> ColumnRange | None:
    found = chunk.statistics
    if found is None or not found.has_null_count:
        return None
    if not found.has_min_max:
        return ColumnRange(None, None, True) if found.null_count == chunk.num_values else None
    try:
        low, high = found.min, found.max
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        return None  # Python cannot represent the value
    return None if _is_old(low) else ColumnRange(low, high, found.null_count > 0)


def _is_old(value: Any) -> bool:
    if isinstance(value, datetime.datetime):
        return value.year < _FIRST_YEAR
    return isinstance(value, datetime.date) and value < _FIRST_DATE
