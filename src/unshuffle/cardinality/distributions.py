"""The distribution of one column's values: which fraction of the rows has a value or is in a range, and the statistics of
these rows.

The best of three sources is used: the list of all values, if they are few; the common values and the histogram; the minimum
and the maximum, with a uniform distribution between them. Without any of these the answer is None, and the caller has a
default.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from unshuffle.cardinality.literal_values import UNKNOWN, before, converted, is_discrete, is_nan, position
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, EquiDepthHistogram
from unshuffle.frozen import dataclass

_COMPARED_POINTS = 5


@dataclass(slots=True)
class ValueRange:
    """Values from `low` to `high`; None is no bound."""

    low: Any = None
    low_closed: bool = True
    high: Any = None
    high_closed: bool = True

    def raise_low(self, value: Any, closed: bool) -> None:
        if self.low is None or value > self.low or (value == self.low and not closed):
            self.low, self.low_closed = value, closed

    def lower_high(self, value: Any, closed: bool) -> None:
        if self.high is None or value < self.high or (value == self.high and not closed):
            self.high, self.high_closed = value, closed

    @property
    def is_empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return bool(self.low > self.high) or (self.low == self.high and not (self.low_closed and self.high_closed))

    def contains(self, value: Any) -> bool:
        if self.low is not None and (value < self.low or (value == self.low and not self.low_closed)):
            return False
        return self.high is None or value < self.high or (value == self.high and self.high_closed)


def example_value(column: ColumnStatistics) -> Any:
    """Some value of the column. It shows which Python type the values have."""
    return column.low if column.low is not None else column.common[0][0] if column.common else None


def equal_fraction(column: ColumnStatistics, value: Any) -> float | None:
    """The fraction of all rows with a value."""
    kind = example_value(column)
    value = converted(value, kind) if kind is not None else value
    for common, fraction in column.common:
        if common == value:
            return fraction
    if column.lists_all_values:
        return 0.0
    if column.distinct is None:
        return None
    if value is not UNKNOWN and column.low is not None and (value < column.low or value > column.high):
        return 0.0
    common_share = sum(fraction for _, fraction in column.common)
    rest = max(0.0, 1.0 - column.null_fraction - common_share)
    even = rest / max(1.0, column.distinct - len(column.common))
    if column.histogram is None or value is UNKNOWN or column.common:
        return even
    index = _bucket(column.histogram, value)
    share = column.histogram.rows[index] / max(1e-9, sum(column.histogram.rows))
    return (1.0 - column.null_fraction) * share / max(1.0, column.histogram.distinct[index])


def any_fraction(column: ColumnStatistics, values: Iterable[Any]) -> float | None:
    """The fraction of all rows with one of some values."""
    total = 0.0
    for value in values:
        fraction = equal_fraction(column, value)
        if fraction is None:
            return None
        total += fraction
    return min(total, 1.0 - column.null_fraction)


def range_fraction(column: ColumnStatistics, values: ValueRange) -> float | None:
    """The fraction of all rows with a value in a range."""
    if values.is_empty:
        return 0.0
    if column.lists_all_values:
        return sum(fraction for value, fraction in column.common if not is_nan(value) and values.contains(value))
    non_null = 1.0 - column.null_fraction
    if column.low is None or column.high is None:
        return None
    upper = 1.0 if values.high is None else up_to(column, values.high, values.high_closed)
    lower = 0.0 if values.low is None else up_to(column, values.low, not values.low_closed)
    fraction = max(0.0, upper - lower) * non_null
    # Both ends may be within one bucket. A common value in the range is certain to be there.
    lower_bound = sum(fraction for value, fraction in column.common if not is_nan(value) and values.contains(value))
    return min(non_null, max(fraction, lower_bound))


def up_to(column: ColumnStatistics, value: Any, closed: bool) -> float:
    """Of the rows that are not NULL, the fraction with a value up to this one, inclusive if `closed`."""
    if value < column.low or (value == column.low and not closed):
        return 0.0
    if value > column.high or (value == column.high and closed):
        return 1.0
    if not closed and is_discrete(column.low) and is_discrete(value):
        value, closed = before(value), True
    if column.histogram is not None:
        return _histogram_up_to(column.histogram, value, closed)
    low, high = column.low, column.high
    if is_discrete(low) and is_discrete(value):
        low = before(low)  # of n uniformly distributed days, the first has one in n rows
    return position(low, high, value)


def less_fraction(column: ColumnStatistics, other: ColumnStatistics) -> float | None:
    """The fraction of rows in which one column is less than another, independent column: the average fraction of the other
    column above some quantiles of the first."""
    if column.low is None or other.low is None:
        return None
    if column.histogram is not None:
        bounds = column.histogram.bounds
        points = [bounds[index * (len(bounds) - 1) // (_COMPARED_POINTS - 1)] for index in range(_COMPARED_POINTS)]
    else:
        points = [column.low, column.high]
    total = 0.0
    for point in points:
        value = converted(point, other.low)
        if value is UNKNOWN:
            return None
        total += 1.0 - up_to(other, value, True)
    return total / len(points) * (1.0 - column.null_fraction) * (1.0 - other.null_fraction)


def _bucket(histogram: EquiDepthHistogram, value: Any) -> int:
    """The bucket that a value is in, or would be in: the first whose upper bound is not less."""
    index = bisect_left(histogram.bounds, value) - 1
    return max(0, min(index, len(histogram.rows) - 1))


def _histogram_up_to(histogram: EquiDepthHistogram, value: Any, closed: bool) -> float:
    index = _bucket(histogram, value)
    return (sum(histogram.rows[:index]) + _within(histogram, index, value, closed)) / max(1e-9, sum(histogram.rows))


def _within(histogram: EquiDepthHistogram, index: int, value: Any, closed: bool) -> float:
    """The rows of one bucket up to a value."""
    rows, values = histogram.rows[index], histogram.distinct[index]
    low, high = histogram.bounds[index], histogram.bounds[index + 1]
    if value >= high:
        return rows if closed else rows * (1.0 - 1.0 / max(1.0, values))
    if values <= 1.0 and index > 0:
        return 0.0  # its only value is the upper bound
    if index == 0:
        if value < low:
            return 0.0
        if is_discrete(low) and is_discrete(value):
            low = before(low)
        elif value == low:
            return rows / max(1.0, values) if closed else 0.0
    return rows * position(low, high, value)


# --- the statistics of the remaining rows


def only_values(column: ColumnStatistics, values: Iterable[Any]) -> ColumnStatistics:
    """The statistics of the rows with one of some values."""
    shares = [(value, equal_fraction(column, value) or 0.0) for value in values]
    total = sum(share for _, share in shares)
    even = 1.0 / max(1, len(shares))
    common = sorted(
        ((value, share / total if total > 0.0 else even) for value, share in shares), key=lambda pair: -pair[1]
    )
    try:
        low, high = min(v for v, _ in shares), max(v for v, _ in shares)
    except (TypeError, ValueError):
        low = high = None
    return ColumnStatistics(float(len(shares)), 0.0, low, high, column.width, tuple(common))


def only_range(column: ColumnStatistics, values: ValueRange, fraction: float) -> ColumnStatistics:
    """The statistics of the rows with a value in a range, which are a fraction of all rows."""
    low = column.low if values.low is None or column.low is None else max(values.low, column.low)
    high = column.high if values.high is None or column.high is None else min(values.high, column.high)
    low, high = low if low is not None else values.low, high if high is not None else values.high
    non_null = max(1e-12, 1.0 - column.null_fraction)
    common = tuple(
        (value, min(1.0, share / fraction))
        for value, share in column.common
        if fraction > 0.0 and not is_nan(value) and values.contains(value)
    )
    histogram = _clipped(column.histogram, values) if column.histogram is not None else None
    if column.lists_all_values:
        distinct: float | None = float(len(common))
    elif histogram is not None:
        distinct = sum(histogram.distinct)
    elif column.distinct is not None:
        distinct = max(1.0, column.distinct * min(1.0, fraction / non_null))
    else:
        distinct = None
    return ColumnStatistics(distinct, 0.0, low, high, column.width, common, histogram)


def _clipped(histogram: EquiDepthHistogram, values: ValueRange) -> EquiDepthHistogram | None:
    bounds, rows, distinct = histogram.bounds, histogram.rows, histogram.distinct
    first = 0 if values.low is None else _bucket(histogram, values.low)
    last = len(rows) - 1 if values.high is None else _bucket(histogram, values.high)
    if last < first or values.is_empty:
        return None
    new_rows, new_distinct = list(rows[first : last + 1]), list(distinct[first : last + 1])
    new_bounds = list(bounds[first : last + 2])
    if values.high is not None and values.high < new_bounds[-1]:
        _shrink(new_rows, new_distinct, -1, _within(histogram, last, values.high, values.high_closed))
        new_bounds[-1] = values.high
    if values.low is not None and values.low > new_bounds[0]:
        removed = _within(histogram, first, values.low, not values.low_closed)
        _shrink(new_rows, new_distinct, 0, max(0.0, new_rows[0] - removed))
        new_bounds[0] = values.low
    if new_bounds[0] >= new_bounds[-1] or sum(new_rows) <= 0.0:
        return None
    return EquiDepthHistogram(tuple(new_bounds), tuple(new_rows), tuple(new_distinct))


def _shrink(rows: list[float], distinct: list[float], index: int, remaining: float) -> None:
    share = remaining / rows[index] if rows[index] > 0.0 else 0.0
    rows[index] = remaining
    distinct[index] = max(min(1.0, distinct[index]), distinct[index] * share)


def without_null(column: ColumnStatistics) -> ColumnStatistics:
    if column.null_fraction <= 0.0:
        return column
    non_null = max(1e-12, 1.0 - column.null_fraction)
    common = tuple((value, min(1.0, share / non_null)) for value, share in column.common)
    return ColumnStatistics(column.distinct, 0.0, column.low, column.high, column.width, common, column.histogram)


def fewer_values(column: ColumnStatistics, fraction: float) -> ColumnStatistics:
    """The statistics of the rows that satisfy some condition on the column. It is unknown which values they have."""
    distinct = None if column.distinct is None else max(1.0, column.distinct * fraction)
    return ColumnStatistics(distinct, 0.0, column.low, column.high, column.width)
