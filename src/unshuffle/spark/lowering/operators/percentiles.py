"""Percentiles of sorted lists as SQL. They equal Spark's `percentile` of the same values; in Spark 4.3, to the last bit."""

from __future__ import annotations

from unshuffle.catalog.types import DOUBLE
from unshuffle.implement.percentile_lists import value_of
from unshuffle.plan.expressions import AggregateCall
from unshuffle.plan.functions.percentages import percentages_of


def percentile(values: str, call: AggregateCall) -> str:
    """The percentile, or the array of percentiles, that the call requests; NULL over no values. `values` is a sorted list."""
    requested = [_at(values, value_of(each)) for each in percentages_of(call) or ()]
    if call.type == DOUBLE:
        return requested[0]
    # The elements of the array that `percentile` returns are not nullable.
    elements = ", ".join(f"coalesce({each}, 0D)" for each in requested)
    return f"if(size({values}) = 0, NULL, array({elements}))"


def _at(values: str, percentage: float) -> str:
    """Two equal neighbours are not interpolated: between two infinities the result would be NaN."""
    position = f"((size({values}) - 1) * CAST('{percentage!r}' AS DOUBLE))"
    low, high = (f"get({values}, CAST({end}({position}) AS INT))" for end in ("floor", "ceil"))
    fraction = f"({position} - floor({position}))"
    interpolated = f"CAST({low} AS DOUBLE) + {fraction} * (CAST({high} AS DOUBLE) - CAST({low} AS DOUBLE))"
    return f"if({low} = {high}, CAST({low} AS DOUBLE), {interpolated})"
