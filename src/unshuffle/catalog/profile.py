"""The statistics of one column, computed from all its values.

Values are replaced by codes, equal codes for values that are equal to GROUP BY: -0.0 is 0.0, NaN is NaN, and NULL is a
value of its own, which keys and dependencies count as equal to itself. Everything else is counting codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unshuffle.catalog.statistics import ColumnStatistics, Histogram, default_width

BUCKETS = 64
COMMON_VALUES = 100
# A value is worth listing when it is this much more frequent than the average of all.
_NOTABLE = 1.25
_LONGEST_TEXT = 256

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Profile:
    """A column's statistics, its codes (NULL is -1, other values are 0 up to `values`) and the rank of each code."""

    statistics: ColumnStatistics
    codes: Codes
    values: int
    ranks: Codes

    @property
    def has_null(self) -> bool:
        return self.statistics.null_fraction > 0.0

    @property
    def kinds(self) -> int:
        """Different values, NULL counted as one."""
        return self.values + int(self.has_null)


def profile(column: pa.ChunkedArray, type: pa.DataType) -> Profile:
    """All about a column of a type that has an order."""
    encoded = one_form(column.cast(type)).dictionary_encode().unify_dictionaries()
    indices = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    codes = np.concatenate(indices) if indices else np.empty(0, dtype=np.int32)
    values = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], type)
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    order = pc.sort_indices(values).to_numpy()
    ranks = np.empty(len(values), dtype=np.int32)
    ranks[order] = np.arange(len(values), dtype=np.int32)
    ordered = values.take(pa.array(order))
    return Profile(_statistics(ordered, counts[order], len(codes), type), codes, len(values), ranks)


def one_form(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers that GROUP BY calls equal have one form: adding 0 makes -0.0 0.0, and of the many NaNs there are, one stays."""
    if not pa.types.is_floating(column.type):
        return column
    nan = pa.scalar(float("nan"), column.type)
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, column.type)))


def _statistics(values: pa.Array, counts: npt.NDArray[np.int64], rows: int, type: pa.DataType) -> ColumnStatistics:
    """Of a column that holds each value, in ascending order, so many times, in so many rows; the rest of them are NULL."""
    solid = int(counts.sum())
    distinct = float(len(values))
    null_fraction = 1.0 - solid / rows if rows else 0.0
    if not len(values):
        return ColumnStatistics(0.0, 1.0 if rows else 0.0, width=default_width(type))
    ordered = len(values)
    while ordered and _is_nan(_value(values[ordered - 1])):
        ordered -= 1  # NaN sorts last, and is no bound
    low, high = (_value(values[0]), _value(values[ordered - 1])) if ordered else (None, None)
    if low is None or high is None:
        low = high = None
    return ColumnStatistics(
        distinct,
        null_fraction,
        _short(low),
        _short(high),
        _width(values, counts, type),
        _common(values, counts, rows),
        _histogram(values.slice(0, ordered), counts[:ordered]),
    )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _value(scalar: pa.Scalar) -> Any:
    """None for a day or an instant that Python has no value for: before the year 1, or after 9999."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return None


def _short(value: Any) -> Any:
    return value[:_LONGEST_TEXT] if isinstance(value, str | bytes) else value


def _width(values: pa.Array, counts: npt.NDArray[np.int64], type: pa.DataType) -> float:
    if not (pa.types.is_string(type) or pa.types.is_binary(type)):
        return default_width(type)
    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False)
    return float(np.dot(lengths.astype(np.float64), counts) / counts.sum())


def _common(values: pa.Array, counts: npt.NDArray[np.int64], rows: int) -> tuple[tuple[Any, float], ...]:
    """All values where they are few, else those that stand out. Ties go to the smaller value."""
    every = len(values) <= COMMON_VALUES
    least = 0.0 if every else max(2.0, _NOTABLE * float(counts.sum()) / len(values))
    found = []
    for place in np.argsort(-counts, kind="stable")[:COMMON_VALUES]:
        if counts[place] < least:
            break
        value = _value(values[int(place)])
        if value is None or (_short(value) != value and not _is_nan(value)):
            if every:
                return ()  # a list of all values must be complete
            continue
        found.append((value, float(counts[place]) / rows))
    return tuple(found)


def _histogram(values: pa.Array, counts: npt.NDArray[np.int64]) -> Histogram | None:
    """Buckets of about equal rows. A value that would fill one has one of its own, so that no other value's estimate
    suffers from it."""
    if len(values) < 2 or pa.types.is_boolean(values.type):
        return None
    depth = max(1.0, float(counts.sum()) / BUCKETS)
    ends = _ends(counts, depth)
    # Texts may become equal when they are cut: the first of them stays.
    bounds = [_short(_value(values[int(end)])) for end in (0, *ends)]
    if None in bounds:
        return None
    sums = np.concatenate(([0], np.cumsum(counts)))
    rows: list[float] = []
    distinct: list[float] = []
    kept, begin = [bounds[0]], 0
    for end, bound in zip(ends, bounds[1:], strict=True):
        if bound <= kept[-1] and rows:
            continue
        rows.append(float(sums[end + 1] - sums[begin]))
        distinct.append(float(end + 1 - begin))
        kept.append(bound)
        begin = end + 1
    return Histogram(tuple(kept), tuple(rows), tuple(distinct)) if rows else None


def _ends(counts: npt.NDArray[np.int64], depth: float) -> list[int]:
    """The places of the last value of each bucket, in ascending order."""
    heavy = np.flatnonzero(counts >= depth)
    sums = np.cumsum(counts)
    targets = np.arange(1, BUCKETS + 1) * depth
    marks = np.minimum(np.searchsorted(sums, targets - 1e-6), len(counts) - 1)
    ends = np.unique(np.concatenate((marks, heavy, heavy[heavy > 0] - 1, [len(counts) - 1])))
    # The first bucket is closed on both sides: only a value that fills it may be alone in it.
    return [int(end) for end in ends if end > 0 or counts[0] >= depth]
