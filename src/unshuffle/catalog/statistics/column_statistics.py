"""The statistics of one column, computed from all its values.

Each value is replaced by an integer code. Values that are equal under GROUP BY have the same code: -0.0 and 0.0, NaN and NaN.
NULL has a code of its own, because keys and dependencies treat NULL as equal to NULL. The rest is counting codes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, EquiDepthHistogram, default_width
from unshuffle.catalog.statistics.value_codes import integers, is_whole
from unshuffle.frozen import dataclass

BUCKETS = 64
COMMON_VALUES = 100
# A value is listed as common if it is this many times as frequent as the average value.
_COMMON_FACTOR = 1.25
_MAX_TEXT_LENGTH = 256

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """A column's statistics, the code of each row (-1 for NULL, otherwise 0 to `values` - 1), and the rank of each code in
    the order of the values."""

    statistics: ColumnStatistics
    codes: Codes
    values: int
    ranks: Codes

    @property
    def has_null(self) -> bool:
        return self.statistics.null_fraction > 0.0

    @property
    def distinct_with_null(self) -> int:
        """The number of different values, NULL counted as one."""
        return self.values + int(self.has_null)


def profile_column(column: pa.ChunkedArray, type: pa.DataType) -> ColumnProfile:
    """The profile of a column whose type has an order."""
    import pyarrow.compute as pc  # a slow import, needed only where rows are read

    encoded = normalized_floats(column.cast(type)).dictionary_encode().unify_dictionaries()
    indices = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    codes = np.concatenate(indices) if indices else np.empty(0, dtype=np.int32)
    values = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], type)
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    order = pc.sort_indices(values).to_numpy()
    ranks = np.empty(len(values), dtype=np.int32)
    ranks[order] = np.arange(len(values), dtype=np.int32)
    ordered = values.take(pa.array(order))
    return ColumnProfile(_statistics(ordered, counts[order], len(codes), type), codes, len(values), ranks)


def count_values(values: pa.Array, most: int) -> tuple[ColumnStatistics, npt.NDArray[np.int64]]:
    """The statistics of some values, and how often each different one occurs. Of more than `most` different texts or other
    values that are slow to sort, an even sample gives the histogram and the common values."""
    import pyarrow.compute as pc

    if is_whole(values.type):
        present = integers(values.drop_null())
        whole, counts = _counted_integers(present)
        ordered = pa.array(whole.astype(np.int32) if pa.types.is_date32(values.type) else whole).cast(values.type)
        return _statistics(ordered, counts, len(values), values.type), counts
    column = pa.chunked_array([values])
    encoded = normalized_floats(column).combine_chunks().dictionary_encode()
    codes = encoded.indices.drop_null().to_numpy()
    counts = np.bincount(codes, minlength=len(encoded.dictionary)).astype(np.int64)
    step = max(1, -(-len(counts) // most))
    picked = encoded.dictionary.take(pa.array(np.arange(0, len(counts), step)))
    order = pc.sort_indices(picked).to_numpy()
    some = counts[::step][order]
    rows = len(values) if step == 1 else round(len(values) * float(some.sum()) / max(1, len(codes)))
    found = _statistics(picked.take(pa.array(order)), some, rows, values.type)
    return (found if step == 1 else replace(found, distinct=float(len(counts)))), counts


def _counted_integers(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The different values, ascending, and how often each occurs."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low > 4 * len(values) + 1000:
        different, counts = np.unique(values, return_counts=True)
        return different, counts.astype(np.int64)
    counts = np.bincount(values - low, minlength=1).astype(np.int64)
    different = np.flatnonzero(counts)
    return different + low, counts[different]


def normalized_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats that are equal under GROUP BY get the same bits: adding 0 turns -0.0 into 0.0, and every NaN becomes one NaN."""
    if not pa.types.is_floating(column.type):
        return column
    import pyarrow.compute as pc

    nan = pa.scalar(float("nan"), column.type)
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, column.type)))


def _statistics(values: pa.Array, counts: npt.NDArray[np.int64], rows: int, type: pa.DataType) -> ColumnStatistics:
    """Statistics from the distinct values, ascending, and their counts. The remaining rows are NULL."""
    non_null = int(counts.sum())
    distinct = float(len(values))
    null_fraction = 1.0 - non_null / rows if rows else 0.0
    if not len(values):
        return ColumnStatistics(0.0, 1.0 if rows else 0.0, width=default_width(type))
    numbers = len(values)
    while numbers and _is_nan(_value(values[numbers - 1])):
        numbers -= 1  # NaN sorts last, and cannot be a bound
    low, high = (_value(values[0]), _value(values[numbers - 1])) if numbers else (None, None)
    if low is None or high is None:
        low = high = None
    return ColumnStatistics(
        distinct,
        null_fraction,
        _truncated(low),
        _truncated(high),
        _width(values, counts, type),
        _common(values, counts, rows),
        _histogram(values.slice(0, numbers), counts[:numbers]),
    )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _value(scalar: pa.Scalar) -> Any:
    """None for a date or timestamp that Python cannot represent: before the year 1 or after 9999."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return None


def _truncated(value: Any) -> Any:
    return value[:_MAX_TEXT_LENGTH] if isinstance(value, str | bytes) else value


def _width(values: pa.Array, counts: npt.NDArray[np.int64], type: pa.DataType) -> float:
    if not (pa.types.is_string(type) or pa.types.is_binary(type)):
        return default_width(type)
    import pyarrow.compute as pc

    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False)
    return float(np.dot(lengths.astype(np.float64), counts) / counts.sum())


def _common(values: pa.Array, counts: npt.NDArray[np.int64], rows: int) -> tuple[tuple[Any, float], ...]:
    """All values if they are few, otherwise the most common ones. Of equally common values, the smaller comes first."""
    lists_all = len(values) <= COMMON_VALUES
    min_count = 0.0 if lists_all else max(2.0, _COMMON_FACTOR * float(counts.sum()) / len(values))
    common = []
    for index in np.argsort(-counts, kind="stable")[:COMMON_VALUES]:
        if counts[index] < min_count:
            break
        value = _value(values[int(index)])
        if value is None or (_truncated(value) != value and not _is_nan(value)):
            if lists_all:
                return ()  # a value that cannot be listed would make the list incomplete
            continue
        common.append((value, float(counts[index]) / rows))
    return tuple(common)


def _histogram(values: pa.Array, counts: npt.NDArray[np.int64]) -> EquiDepthHistogram | None:
    """A value that would fill a bucket by itself gets a bucket of its own, so that it does not distort the estimates of
    other values."""
    if len(values) < 2 or pa.types.is_boolean(values.type):
        return None
    depth = max(1.0, float(counts.sum()) / BUCKETS)
    ends = _ends(counts, depth)
    # Texts may become equal when they are truncated. Then their buckets are merged.
    bounds = [_truncated(_value(values[int(end)])) for end in (0, *ends)]
    if None in bounds:
        return None
    sums = np.concatenate(([0], np.cumsum(counts)))
    rows: list[float] = []
    distinct: list[float] = []
    rising, begin = [bounds[0]], 0
    for end, bound in zip(ends, bounds[1:], strict=True):
        if bound <= rising[-1] and rows:
            continue
        rows.append(float(sums[end + 1] - sums[begin]))
        distinct.append(float(end + 1 - begin))
        rising.append(bound)
        begin = end + 1
    return EquiDepthHistogram(tuple(rising), tuple(rows), tuple(distinct)) if rows else None


def _ends(counts: npt.NDArray[np.int64], depth: float) -> list[int]:
    """The index of the last value of each bucket, ascending."""
    heavy = np.flatnonzero(counts >= depth)
    sums = np.cumsum(counts)
    targets = np.arange(1, BUCKETS + 1) * depth
    even = np.minimum(np.searchsorted(sums, targets - 1e-6), len(counts) - 1)
    ends = np.unique(np.concatenate((even, heavy, heavy[heavy > 0] - 1, [len(counts) - 1])))
    # The first bucket includes its lower bound, so it has one value only if that value fills it.
    return [int(end) for end in ends if end > 0 or counts[0] >= depth]
