"""What is known of the size and the values of stored data: the numbers that estimates start from.

Statistics describe the data as it was when they were taken. They steer the choice of a plan and never its meaning: a
wrong number makes a slow plan, not a wrong row. (Keys and dependencies found in data are another matter, and kept apart:
see `stored_statistics`.)

Values are Python's: int, float, Decimal, str, bytes, bool, date, datetime. NULL is in none of the values; `null_fraction`
counts it. NaN is a value like another, larger than all, as in Spark, but never a bound of a histogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType


@dataclass(frozen=True, slots=True)
class Histogram:
    """Equi-depth. Bucket i holds `rows[i]` of the rows that are not NULL, their values in (bounds[i], bounds[i+1]] and
    `distinct[i]` different ones. The first bucket is closed on both sides, and may hold a single value; from there on
    bounds rise."""

    bounds: tuple[Any, ...]
    rows: tuple[float, ...]
    distinct: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of one column's values. `common` are values that many rows hold, with their fraction of all rows,
    most common first; with `distinct` equal to their number, they are all the values there are."""

    distinct: float | None = None  # values that differ, NULL not counted
    null_fraction: float = 0.0
    low: Any = None
    high: Any = None
    width: float | None = None  # average bytes of a value
    common: tuple[tuple[Any, float], ...] = ()
    histogram: Histogram | None = None
    sampled: bool = False  # `distinct` is from how often values come again in some rows

    @property
    def all_values_known(self) -> bool:
        return bool(self.common) and self.distinct is not None and len(self.common) >= self.distinct


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """A table's rows and columns, as its files hold them; `bytes` are those of the files. `rising` are groups of columns
    of which none falls when rows are sorted by the first: a range of one is a range of all."""

    rows: float
    bytes: float | None
    columns: tuple[tuple[Column, ColumnStatistics], ...]
    rising: tuple[tuple[Column, ...], ...] = ()

    def renamed(self, columns: Mapping[Column, Column]) -> TableStatistics:
        """The same of columns under other numbers; columns that have none are left out."""
        kept = tuple((columns[column], known) for column, known in self.columns if column in columns)
        rising = tuple(tuple(columns[column] for column in group if column in columns) for group in self.rising)
        return TableStatistics(self.rows, self.bytes, kept, rising)


NOTHING_KNOWN_OF_COLUMN = ColumnStatistics()

# Bytes of a value of each type where nothing says more. Text is taken to be as long as Spark takes it to be.
DEFAULT_TEXT_WIDTH = 20.0
DEFAULT_ITEMS = 5  # of an array or a map
UNKNOWN_TYPE_WIDTH = 16.0
_WIDTHS: dict[pa.DataType, float] = {
    pa.null(): 1.0,
    pa.bool_(): 1.0,
    pa.int8(): 1.0,
    pa.int16(): 2.0,
    pa.int32(): 4.0,
    pa.int64(): 8.0,
    pa.float32(): 4.0,
    pa.float64(): 8.0,
    pa.date32(): 4.0,
    pa.string(): DEFAULT_TEXT_WIDTH,
    pa.binary(): DEFAULT_TEXT_WIDTH,
    pa.timestamp("us", tz="UTC"): 8.0,
    pa.timestamp("us"): 8.0,
    pa.time64("us"): 8.0,
    pa.duration("us"): 8.0,
    pa.month_day_nano_interval(): 4.0,
}


def default_width(type: DataType) -> float:
    """Bytes of a value of a type."""
    if type is None:
        return UNKNOWN_TYPE_WIDTH
    found = _WIDTHS.get(type)
    if found is None:
        found = _WIDTHS[type] = _computed_width(type)
    return found


def _computed_width(type: pa.DataType) -> float:
    t = pa.types
    if t.is_decimal(type):
        return 8.0 if type.precision <= 18 else 16.0
    if t.is_list(type) or t.is_large_list(type):
        return DEFAULT_ITEMS * default_width(type.value_type)
    if t.is_map(type):
        return DEFAULT_ITEMS * (default_width(type.key_type) + default_width(type.item_type))
    if t.is_struct(type):
        return sum((default_width(type.field(i).type) for i in range(type.num_fields)), 0.0)
    try:
        return float(type.bit_width) / 8
    except ValueError:
        return DEFAULT_TEXT_WIDTH
