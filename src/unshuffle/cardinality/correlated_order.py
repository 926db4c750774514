"""A condition on one column also restricts the columns that have the same order (order dependencies).

In a calendar, days are numbered and years rise with the numbers. `year = 2000` selects 366 of 73049 days, and these are the
days with the numbers 51545 to 51910. That matters in a join: sales have the day numbers of five years, so one sale in five is
from the year 2000. If the 366 days could be any days, it would be one in two hundred.

If two columns rise together, the same quantile is the same row. So a range of one column is converted to a range of
quantiles by its histogram, and to a range of the other column by the other histogram.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from unshuffle.cardinality.distributions import ValueRange, only_range, up_to
from unshuffle.cardinality.literal_values import INCOMPARABLE
from unshuffle.cardinality.relation_estimate import Estimate
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics


def correlated_restrictions(
    relation: Estimate, restricted: Mapping[Column, ColumnStatistics]
) -> dict[Column, tuple[float, ColumnStatistics]]:
    """The restrictions of columns that rise with restricted columns: the fraction of rows that remains, and the statistics
    of these rows."""
    found: dict[Column, tuple[float, ColumnStatistics]] = {}
    for column, remaining in restricted.items():
        for base, name in relation.origins.get(column, ()):
            for group in base.order_dependencies:
                if name in group and remaining.low is not None and column in relation.columns:
                    shares = _quantiles(relation.columns[column], remaining)
                    if shares is None or shares[1] - shares[0] >= 1.0:
                        continue
                    for other, origins in relation.origins.items():
                        rises_too = any(each is base and alias in group for each, alias in origins)
                        if rises_too and other not in restricted and other in relation.columns:
                            _narrow(found, other, relation.columns[other], *shares)
    return found


def _quantiles(known: ColumnStatistics, remaining: ColumnStatistics) -> tuple[float, float] | None:
    """The first and last quantile of the rows that remain."""
    if known.low is None:
        return None
    try:
        return up_to(known, remaining.low, False), up_to(known, remaining.high, True)
    except INCOMPARABLE:
        return None


def _narrow(
    found: dict[Column, tuple[float, ColumnStatistics]],
    column: Column,
    known: ColumnStatistics,
    begin: float,
    end: float,
) -> None:
    if column in found and found[column][0] <= end - begin:
        return
    low, high = _value_at(known, begin), _value_at(known, end)
    if low is None or high is None or end <= begin:
        return
    found[column] = (end - begin, only_range(known, ValueRange(low, True, high, True), end - begin))


def _value_at(known: ColumnStatistics, share: float) -> Any:
    """The value at a quantile."""
    if known.histogram is None:
        return _between(known.low, known.high, share) if known.low is not None else None
    bounds, rows = known.histogram.bounds, known.histogram.rows
    rows_below = share * sum(rows)
    for index, count in enumerate(rows):
        if rows_below <= count:
            return _between(bounds[index], bounds[index + 1], rows_below / count if count > 0.0 else 1.0)
        rows_below -= count
    return bounds[-1]


def _between(low: Any, high: Any, share: float) -> Any:
    """A value at a position between two others; for texts, the nearer of the two."""
    try:
        if type(low) is int:
            return low + round((high - low) * share)
        if isinstance(low, float):
            return low + (high - low) * share
        if isinstance(low, datetime.datetime):
            return low + (high - low) * share
        if isinstance(low, datetime.date):
            return low + datetime.timedelta(days=round((high - low).days * share))
    except (*INCOMPARABLE, ValueError):
        return None
    return low if share < 0.5 else high
