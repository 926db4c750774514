"""64-bit hashes of rows. Rows that agree under GROUP BY have equal hashes: NULL with NULL, -0.0 with 0.0, NaN with NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unshuffle.catalog.statistics.column_statistics import normalized_floats

Hashes = npt.NDArray[np.uint64]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_NULL_HASH = np.uint64(0xD1B54A32D192ED03)


def row_hashes(batch: pa.RecordBatch, columns: Sequence[str]) -> Hashes:
    """A hash of some columns of each row."""
    hashes = np.zeros(batch.num_rows, dtype=np.uint64)
    for name in columns:
        hashes = _mixed(hashes * _ODD + _value_hashes(batch.column(name)))
    return hashes


def _value_hashes(values: pa.Array) -> Hashes:
    """Equal values have equal hashes. Different integers, dates and timestamps have different hashes."""
    if not values.null_count:
        return _hashes_without_nulls(values)
    hashes = np.full(len(values), _NULL_HASH, dtype=np.uint64)
    hashes[values.is_valid().to_numpy(zero_copy_only=False)] = _hashes_without_nulls(values.drop_null())
    return hashes


def _hashes_without_nulls(values: pa.Array) -> Hashes:
    type = values.type
    if pa.types.is_null(type) or not len(values):
        return np.zeros(len(values), dtype=np.uint64)
    if pa.types.is_string(type) or pa.types.is_binary(type):
        return _text_hashes(values.cast(pa.binary()))
    if pa.types.is_decimal128(type):
        start = values.offset * 2
        words = np.frombuffer(values.buffers()[1], dtype=np.uint64)[start : start + 2 * len(values)].reshape(-1, 2)
        return _mixed(_mixed(words[:, 0]) * _ODD + words[:, 1])
    if pa.types.is_floating(type):
        return _mixed(normalized_floats(values).cast(pa.float64()).to_numpy(zero_copy_only=False).view(np.uint64))
    if pa.types.is_temporal(type):
        values = values.cast(pa.int32() if pa.types.is_date32(type) else pa.int64())
    return _mixed(values.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))


def _text_hashes(values: pa.Array) -> Hashes:
    from pandas.util import hash_array  # type: ignore[import-untyped]  # a slow import

    encoded = values.dictionary_encode()
    hashed = hash_array(encoded.dictionary.to_numpy(zero_copy_only=False), categorize=False)
    hashes: Hashes = np.asarray(hashed, dtype=np.uint64)[encoded.indices.to_numpy()]
    return hashes


def _mixed(hashes: Hashes) -> Hashes:
    """A one-to-one mixing of all 64 bits (the finalizer of SplitMix64: Steele, Lea and Flood, OOPSLA 2014)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
