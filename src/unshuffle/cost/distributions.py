"""Questions about one column's values: which fraction of the rows equals a value or lies in a range, and what the statistics
are of the rows that do.

Three sources answer, the best one first: the list of all values, where they are few; the common values and the histogram;
the lowest and the highest value with everything spread evenly between. Without any, None: the caller has a default.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from unshuffle.catalog.statistics import ColumnStatistics, Histogram
from unshuffle.cost.constants import UNKNOWN, before, is_discrete, is_nan, like, position

_ABSENT = 0.0  # a fraction of rows


@dataclass(slots=True)
class Interval:
    """Values from `low` to `high`; None is no bound."""

    low: Any = None
    low_closed: bool = True
    high: Any = None
    high_closed: bool = True

    def above(self, value: Any, closed: bool) -> None:
        if self.low is None or value > self.low or (value == self.low and not closed):
            self.low, self.low_closed = value, closed

    def below(self, value: Any, closed: bool) -> None:
        if self.high is None or value < self.high or (value == self.high and not closed):
            self.high, self.high_closed = value, closed

    @property
    def empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return bool(self.low > self.high) or (self.low == self.high and not (self.low_closed and self.high_closed))

    def holds(self, value: Any) -> bool:
        if self.low is not None and (value < self.low or (value == self.low and not self.low_closed)):
            return False
        return self.high is None or value < self.high or (value == self.high and self.high_closed)


def sample(known: ColumnStatistics) -> Any:
    """Some value of the column, to see of which kind they are."""
    return known.low if known.low is not None else known.common[0][0] if known.common else None


def equal_fraction(known: ColumnStatistics, value: Any) -> float | None:
    """The fraction of all rows that hold a value."""
    kind = sample(known)
    value = like(value, kind) if kind is not None else value
    for one, fraction in known.common:
        if one == value:
            return fraction
    if known.all_values_known:
        return _ABSENT
    if known.distinct is None:
        return None
    if value is not UNKNOWN and known.low is not None and (value < known.low or value > known.high):
        return _ABSENT
    listed = sum(fraction for _, fraction in known.common)
    rest = max(0.0, 1.0 - known.null_fraction - listed)
    even = rest / max(1.0, known.distinct - len(known.common))
    if known.histogram is None or value is UNKNOWN or known.common:
        return even
    place = _bucket(known.histogram, value)
    share = known.histogram.rows[place] / max(1e-9, sum(known.histogram.rows))
    return (1.0 - known.null_fraction) * share / max(1.0, known.histogram.distinct[place])


def any_fraction(known: ColumnStatistics, values: Iterable[Any]) -> float | None:
    """The fraction of all rows that hold one of some values."""
    total = 0.0
    for value in values:
        found = equal_fraction(known, value)
        if found is None:
            return None
        total += found
    return min(total, 1.0 - known.null_fraction)


def range_fraction(known: ColumnStatistics, interval: Interval) -> float | None:
    """The fraction of all rows whose value lies in an interval."""
    if interval.empty:
        return _ABSENT
    if known.all_values_known:
        return sum(fraction for value, fraction in known.common if not is_nan(value) and interval.holds(value))
    solid = 1.0 - known.null_fraction
    if known.low is None or known.high is None:
        return None
    upper = 1.0 if interval.high is None else up_to(known, interval.high, interval.high_closed)
    lower = 0.0 if interval.low is None else up_to(known, interval.low, not interval.low_closed)
    found = max(0.0, upper - lower) * solid
    # The ends may lie between two neighbouring bounds: a common value inside is known to be there.
    certain = sum(fraction for value, fraction in known.common if not is_nan(value) and interval.holds(value))
    return min(solid, max(found, certain))


def up_to(known: ColumnStatistics, value: Any, closed: bool) -> float:
    """The fraction of the rows that are not NULL whose value is at most (not `closed`: less than) this."""
    if value < known.low or (value == known.low and not closed):
        return 0.0
    if value > known.high or (value == known.high and closed):
        return 1.0
    if not closed and is_discrete(known.low) and is_discrete(value):
        value, closed = before(value), True
    if known.histogram is not None:
        return _histogram_up_to(known.histogram, value, closed)
    low, high = known.low, known.high
    if is_discrete(low) and is_discrete(value):
        low = before(low)  # an even spread over n days gives the first of them one in n
    return position(low, high, value)


_POINTS = 5


def less_fraction(known: ColumnStatistics, other: ColumnStatistics) -> float | None:
    """The fraction of rows in which one column is less than another, the two being independent: of some values evenly
    taken from the one, how much of the other lies above."""
    if known.low is None or other.low is None:
        return None
    if known.histogram is not None:
        bounds = known.histogram.bounds
        points = [bounds[place * (len(bounds) - 1) // (_POINTS - 1)] for place in range(_POINTS)]
    else:
        points = [known.low, known.high]
    total = 0.0
    for point in points:
        value = like(point, other.low)
        if value is UNKNOWN:
            return None
        total += 1.0 - up_to(other, value, True)
    return total / len(points) * (1.0 - known.null_fraction) * (1.0 - other.null_fraction)


def _bucket(histogram: Histogram, value: Any) -> int:
    """The bucket in which a value lies, or would lie: the first whose upper bound is not less."""
    place = bisect_left(histogram.bounds, value) - 1
    return max(0, min(place, len(histogram.rows) - 1))


def _histogram_up_to(histogram: Histogram, value: Any, closed: bool) -> float:
    place = _bucket(histogram, value)
    return (sum(histogram.rows[:place]) + _within(histogram, place, value, closed)) / max(1e-9, sum(histogram.rows))


def _within(histogram: Histogram, place: int, value: Any, closed: bool) -> float:
    """The rows of one bucket that lie at or before a value."""
    rows, values = histogram.rows[place], histogram.distinct[place]
    low, high = histogram.bounds[place], histogram.bounds[place + 1]
    if value >= high:
        return rows if closed else rows * (1.0 - 1.0 / max(1.0, values))
    if values <= 1.0 and place > 0:
        return 0.0  # one value, which is the upper bound
    if place == 0:
        if value < low:
            return 0.0
        if is_discrete(low) and is_discrete(value):
            low = before(low)
        elif value == low:
            return rows / max(1.0, values) if closed else 0.0
    return rows * position(low, high, value)


# --- the statistics of what is left


def only_values(known: ColumnStatistics, values: Iterable[Any]) -> ColumnStatistics:
    """Of the rows that hold one of some values."""
    shares = [(value, equal_fraction(known, value) or 0.0) for value in values]
    total = sum(share for _, share in shares)
    even = 1.0 / max(1, len(shares))
    common = sorted(
        ((value, share / total if total > 0.0 else even) for value, share in shares), key=lambda pair: -pair[1]
    )
    try:
        low, high = min(v for v, _ in shares), max(v for v, _ in shares)
    except (TypeError, ValueError):
        low = high = None
    return ColumnStatistics(float(len(shares)), 0.0, low, high, known.width, tuple(common))


def only_range(known: ColumnStatistics, interval: Interval, fraction: float) -> ColumnStatistics:
    """Of the rows whose value lies in an interval that holds a fraction of all rows."""
    low = known.low if interval.low is None or known.low is None else max(interval.low, known.low)
    high = known.high if interval.high is None or known.high is None else min(interval.high, known.high)
    low, high = low if low is not None else interval.low, high if high is not None else interval.high
    solid = max(1e-12, 1.0 - known.null_fraction)
    common = tuple(
        (value, min(1.0, share / fraction))
        for value, share in known.common
        if fraction > 0.0 and not is_nan(value) and interval.holds(value)
    )
    histogram = _clipped(known.histogram, interval) if known.histogram is not None else None
    if known.all_values_known:
        distinct: float | None = float(len(common))
    elif histogram is not None:
        distinct = sum(histogram.distinct)
    elif known.distinct is not None:
        distinct = max(1.0, known.distinct * min(1.0, fraction / solid))
    else:
        distinct = None
    return ColumnStatistics(distinct, 0.0, low, high, known.width, common, histogram)


def _clipped(histogram: Histogram, interval: Interval) -> Histogram | None:
    bounds, rows, distinct = histogram.bounds, histogram.rows, histogram.distinct
    first = 0 if interval.low is None else _bucket(histogram, interval.low)
    last = len(rows) - 1 if interval.high is None else _bucket(histogram, interval.high)
    if last < first or interval.empty:
        return None
    new_rows, new_distinct = list(rows[first : last + 1]), list(distinct[first : last + 1])
    new_bounds = list(bounds[first : last + 2])
    if interval.high is not None and interval.high < new_bounds[-1]:
        _keep(new_rows, new_distinct, -1, _within(histogram, last, interval.high, interval.high_closed))
        new_bounds[-1] = interval.high
    if interval.low is not None and interval.low > new_bounds[0]:
        gone = _within(histogram, first, interval.low, not interval.low_closed)
        _keep(new_rows, new_distinct, 0, max(0.0, new_rows[0] - gone))
        new_bounds[0] = interval.low
    if new_bounds[0] >= new_bounds[-1] or sum(new_rows) <= 0.0:
        return None
    return Histogram(tuple(new_bounds), tuple(new_rows), tuple(new_distinct))


def _keep(rows: list[float], distinct: list[float], place: int, left: float) -> None:
    share = left / rows[place] if rows[place] > 0.0 else 0.0
    rows[place] = left
    distinct[place] = max(min(1.0, distinct[place]), distinct[place] * share)


def without_null(known: ColumnStatistics) -> ColumnStatistics:
    if known.null_fraction <= 0.0:
        return known
    solid = max(1e-12, 1.0 - known.null_fraction)
    common = tuple((value, min(1.0, share / solid)) for value, share in known.common)
    return ColumnStatistics(known.distinct, 0.0, known.low, known.high, known.width, common, known.histogram)


def fewer_values(known: ColumnStatistics, fraction: float) -> ColumnStatistics:
    """Of the rows that a condition on the column leaves, which values they have being unknown."""
    distinct = None if known.distinct is None else max(1.0, known.distinct * fraction)
    return ColumnStatistics(distinct, 0.0, known.low, known.high, known.width)
