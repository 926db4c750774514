"""Percentiles of sorted lists, as SQL: what Spark's `percentile` finds of the same values, in Spark 4.3 to the last bit."""

from __future__ import annotations

from unshuffle.algebra.expressions import AggregateCall
from unshuffle.catalog.types import DOUBLE
from unshuffle.rules.listed import value_of
from unshuffle.rules.percentiles import percentages_of


def percentile(values: str, call: AggregateCall) -> str:
    """What the call asks of the values, NULL if there are none. `values` names a sorted list."""
    asked = [_at(values, value_of(each)) for each in percentages_of(call) or ()]
    if call.type == DOUBLE:
        return asked[0]
    # Elements of the array that `percentile` returns are known not to be NULL.
    found = ", ".join(f"coalesce({each}, 0D)" for each in asked)
    return f"if(size({values}) = 0, NULL, array({found}))"


def _at(values: str, percentage: float) -> str:
    """Spark takes two equal neighbours for one value: between two infinite ones there is nothing to be found."""
    place = f"((size({values}) - 1) * CAST('{percentage!r}' AS DOUBLE))"
    low, high = (f"get({values}, CAST({end}({place}) AS INT))" for end in ("floor", "ceil"))
    between = f"CAST({low} AS DOUBLE) + ({place} - floor({place})) * (CAST({high} AS DOUBLE) - CAST({low} AS DOUBLE))"
    return f"if({low} = {high}, CAST({low} AS DOUBLE), {between})"
