"""The number of the range that a row is in, as a Spark column: how many boundaries are at or below the row.

A tree of comparisons, halving the boundaries at each step. Spark's own `<` and `=` know NaN and -0.0 as ranges do; NULL,
which they leave open, is placed by the key.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.algebra.sql import literal
from unshuffle.properties import RangeFunction
from unshuffle.properties.functions import Boundary, Sampled


def range_number(spark: SparkSession, columns: Sequence[Column], function: RangeFunction) -> Column:
    """Of a row with these columns as keys; the boundaries must be known."""
    if isinstance(function.boundaries, Sampled):
        raise ValueError(f"the boundaries {function.boundaries.name} are known only when the plan runs")
    boundaries = function.boundaries

    def among(low: int, high: int) -> Column:
        if low == high:
            return F.lit(low)
        middle = (low + high) // 2
        is_before = _before(columns, function, boundaries[middle], 0)
        return F.when(is_before, among(low, middle)).otherwise(among(middle + 1, high))

    return among(0, len(boundaries))


def _before(columns: Sequence[Column], function: RangeFunction, boundary: Boundary, at: int) -> Column:
    """Is a row before a boundary, if it agrees with it in the keys up to this one?"""
    if at == len(boundary):
        return F.lit(False)
    column, key, value = columns[at], function.keys[at], boundary[at]
    if value is None:
        before, same = F.lit(False) if key.nulls_first else column.isNotNull(), column.isNull()
    else:
        limit = F.expr(literal(value, key.type))
        before = F.coalesce(column > limit if key.descending else column < limit, F.lit(key.nulls_first))
        same = F.coalesce(column == limit, F.lit(False))
    if at + 1 == len(boundary):
        return before
    return before | (same & _before(columns, function, boundary, at + 1))
