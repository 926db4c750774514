"""A condition on one column says something of the columns that have the same order.

In a calendar, days are numbered and years rise with the numbers. `year = 2000` leaves 366 of 73049 days, and these are the
days with the numbers 51545 to 51910. That matters in a join: sales hold day numbers of five years, so of every five sales
one is from the year 2000, and not one of two hundred, as would be if the 366 days could be any.

Columns that rise together have the same value at the same quantile, so a range of one is read off its histogram as a range
of quantiles, and off the other's histogram as a range of values.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics import ColumnStatistics
from unshuffle.cost.constants import INCOMPARABLE
from unshuffle.cost.distributions import Interval, only_range, up_to
from unshuffle.cost.estimates import Estimate


def carried(
    relation: Estimate, restricted: Mapping[Column, ColumnStatistics]
) -> dict[Column, tuple[float, ColumnStatistics]]:
    """For columns that rise with those that were restricted to these statistics: the fraction of rows that is left, and
    their statistics."""
    found: dict[Column, tuple[float, ColumnStatistics]] = {}
    for column, left in restricted.items():
        for made, name in relation.origins.get(column, ()):
            for group in made.rising:
                if name in group and left.low is not None and column in relation.columns:
                    shares = _quantiles(relation.columns[column], left)
                    if shares is None or shares[1] - shares[0] >= 1.0:
                        continue
                    for other, origins in relation.origins.items():
                        alike = any(each is made and called in group for each, called in origins)
                        if alike and other not in restricted and other in relation.columns:
                            _narrow(found, other, relation.columns[other], *shares)
    return found


def _quantiles(known: ColumnStatistics, left: ColumnStatistics) -> tuple[float, float] | None:
    """Which part of a column's rows, sorted, lies in a range."""
    if known.low is None:
        return None
    try:
        return up_to(known, left.low, False), up_to(known, left.high, True)
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
    found[column] = (end - begin, only_range(known, Interval(low, True, high, True), end - begin))


def _value_at(known: ColumnStatistics, share: float) -> Any:
    """The value below which a fraction of the rows lies."""
    if known.histogram is None:
        return _between(known.low, known.high, share) if known.low is not None else None
    bounds, rows = known.histogram.bounds, known.histogram.rows
    wanted = share * sum(rows)
    for place, count in enumerate(rows):
        if wanted <= count:
            return _between(bounds[place], bounds[place + 1], wanted / count if count > 0.0 else 1.0)
        wanted -= count
    return bounds[-1]


def _between(low: Any, high: Any, share: float) -> Any:
    """A value part of the way from one to another; of texts, the nearer of the two."""
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
