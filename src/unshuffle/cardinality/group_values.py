"""The distribution of sums, averages and counts over groups, for conditions on them (HAVING).

The rows of a group are assumed to be drawn at random. Then the number of rows of a group varies as in a Poisson distribution,
and a sum of n values with mean m and variance v is about normal, with mean n * m and variance n * v + n * m * m.

    orders of 4 lines each, quantities 1 to 50:  sums of 102 on average, and about one in 10,000 above 300

The means and variances of values are those of the rows that were looked at or, without any, of a uniform distribution
between the ends.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from math import erf, exp, isfinite, log, sqrt
from typing import Any

from unshuffle.cardinality.evaluation import NotEvaluated, evaluated
from unshuffle.cardinality.expression_statistics import expression_statistics
from unshuffle.cardinality.relation_estimate import Estimate
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, EquiDepthHistogram
from unshuffle.constants import LOOKS
from unshuffle.plan.expressions import Expression

_STEPS = 4  # buckets for each standard deviation
_REACH = 5  # standard deviations
_MAX_COUNTED = 40  # the largest count whose distribution is listed value by value


def sums(argument: Expression, input: Estimate, groups: float) -> ColumnStatistics | None:
    """The statistics of a sum over groups; None if nothing is known of its values."""
    found = _moments(argument, input)
    if found is None or groups <= 0.0:
        return None
    mean, variance = found
    size = max(1.0, input.rows / groups)
    spread = size * variance + (size * mean * mean if size > 1.0 else 0.0)
    return _normal(size * mean, sqrt(spread), groups)


def means(argument: Expression, input: Estimate, groups: float) -> ColumnStatistics | None:
    """The statistics of an average over groups."""
    found = _moments(argument, input)
    if found is None or groups <= 0.0:
        return None
    mean, variance = found
    return _normal(mean, sqrt(variance / max(1.0, input.rows / groups)), groups)


def counts(rows: float, groups: float) -> ColumnStatistics | None:
    """The statistics of the number of rows of a group: one, and a Poisson distribution of further ones."""
    further = rows / groups - 1.0 if groups > 0.0 else 0.0
    if further <= 0.0:
        return ColumnStatistics(1.0, 0.0, 1, 1, common=((1, 1.0),))
    if further > _MAX_COUNTED:
        return _normal(further + 1.0, sqrt(further), groups)
    shares = _poisson(further)
    listed = sorted(((number + 1, share) for number, share in enumerate(shares)), key=lambda pair: -pair[1])
    likely = tuple(pair for pair in listed if pair[1] * groups >= 0.5) or tuple(listed[:1])
    numbers = [number for number, _ in likely]
    return ColumnStatistics(float(len(likely)), 0.0, min(numbers), max(numbers), common=likely)


@lru_cache(maxsize=256)
def _poisson(mean: float) -> tuple[float, ...]:
    shares, logarithm = [], -mean
    for number in range(int(mean + _REACH * sqrt(mean)) + 4):
        if number:
            logarithm += log(mean / number)
        shares.append(exp(logarithm))
    return tuple(shares)


def _normal(mean: float, deviation: float, groups: float) -> ColumnStatistics | None:
    if not isfinite(mean) or not isfinite(deviation):
        return None
    if deviation <= 0.0:
        return ColumnStatistics(1.0, 0.0, mean, mean, common=((mean, 1.0),))
    ends = [step / _STEPS for step in range(-_REACH * _STEPS, _REACH * _STEPS + 1)]
    bounds = tuple(mean + end * deviation for end in ends)
    if any(high <= low for low, high in pairwise(bounds)):
        return None
    below = [0.5 * (1.0 + erf(end / sqrt(2.0))) for end in ends]
    rows = tuple((high - low) * groups for low, high in pairwise(below))
    histogram = EquiDepthHistogram(bounds, rows, rows)
    return ColumnStatistics(max(1.0, groups), 0.0, bounds[0], bounds[-1], histogram=histogram)


def _moments(argument: Expression, input: Estimate) -> tuple[float, float] | None:
    """The mean and the variance of an expression."""
    return _sampled_moments(argument, input) or _uniform_moments(expression_statistics(argument, input))


def _sampled_moments(argument: Expression, input: Estimate) -> tuple[float, float] | None:
    sample = input.sample
    if sample is None or sample.rows < LOOKS.min_rows:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        values = evaluated(argument, sample.values)
        values = values.cast(pa.float64())
        mean, variance = (pc.mean(values).as_py(), pc.variance(values).as_py())
    except (NotEvaluated, pa.ArrowException):
        return None
    return (mean, variance) if mean is not None and variance is not None else None


def _uniform_moments(known: ColumnStatistics) -> tuple[float, float] | None:
    if not _is_number(known.low) or not _is_number(known.high):
        return None
    low, high = float(known.low), float(known.high)
    return (low + high) / 2.0, (high - low) ** 2 / 12.0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
