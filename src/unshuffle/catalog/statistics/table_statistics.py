"""Statistics of stored data: the numbers that estimates start from.

Statistics describe the data as it was when they were collected. They guide the choice of a plan and never change its result:
a wrong number makes a slow plan, not a wrong row. (Keys and dependencies do affect results, so they are kept apart: see
`stored_statistics`.)

Values are Python's: int, float, Decimal, str, bytes, bool, date, datetime. NULL is not a value here; `null_fraction` counts
it. NaN is a value, larger than all others as in Spark, but never a bound of a histogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType
from unshuffle.frozen import dataclass


@dataclass(frozen=True, slots=True)
class EquiDepthHistogram:
    """Buckets of about equal numbers of rows. Bucket i has `rows[i]` rows, whose `distinct[i]` different values are in
    (bounds[i], bounds[i+1]]. NULL is in no bucket. The first bucket includes its lower bound too, and may consist of a
    single value; from there on, bounds increase."""

    bounds: tuple[Any, ...]
    rows: tuple[float, ...]
    distinct: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column's values. `common` are the most common values, each with its fraction of all rows, most
    common first."""

    distinct: float | None = None  # number of different values, NULL not counted
    null_fraction: float = 0.0
    low: Any = None
    high: Any = None
    width: float | None = None  # average bytes of a value
    common: tuple[tuple[Any, float], ...] = ()
    histogram: EquiDepthHistogram | None = None
    is_sampled: bool = False  # `distinct` is extrapolated from repeated values in a sample
    # The share of the table's row groups whose values overlap those of a row group: small if the rows are stored in the order
    # of this column, or nearly, and 1 if they are in no order. It is known from footers and folders only.
    overlap: float = 1.0

    @property
    def lists_all_values(self) -> bool:
        """Whether `common` contains every value of the column."""
        return bool(self.common) and self.distinct is not None and len(self.common) >= self.distinct


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Statistics of a table. `bytes` is the size of its files. In each of the `order_dependencies`, no column ever falls
    when the rows are sorted by the first column, so a range of one is a range of all."""

    rows: float
    bytes: float | None
    columns: tuple[tuple[Column, ColumnStatistics], ...]
    order_dependencies: tuple[tuple[Column, ...], ...] = ()

    def renamed(self, columns: Mapping[Column, Column]) -> TableStatistics:
        """The same statistics for other column numbers. Columns that are not in the mapping are dropped."""
        renamed = tuple((columns[column], statistics) for column, statistics in self.columns if column in columns)
        orders = tuple(tuple(columns[c] for c in group if c in columns) for group in self.order_dependencies)
        return TableStatistics(self.rows, self.bytes, renamed, orders)


UNKNOWN_COLUMN = ColumnStatistics()

# Bytes of a value where only its type is known. The length of text is Spark's assumption.
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
    """Bytes of a value, by its type."""
    if type is None:
        return UNKNOWN_TYPE_WIDTH
    width = _WIDTHS.get(type)
    if width is None:
        width = _WIDTHS[type] = _computed_width(type)
    return width


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
