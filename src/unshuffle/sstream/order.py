"""Checks a sort order on whole Arrow columns.

The order is Spark's: NULL where the key says, NaN above every number, -0.0 equal to 0.0, text by its bytes.
`partitions.KeyOrder` is the same order for single rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unshuffle.partitions.values import SortedKey

Signs = npt.NDArray[np.int8]


def first_descent(columns: Sequence[pa.Array], keys: Sequence[SortedKey]) -> int | None:
    """The first row that should come before its predecessor."""
    rows = len(columns[0]) if columns else 0
    if rows < 2:
        return None
    signs_so_far = np.zeros(rows - 1, dtype=np.int8)
    for column, key in zip(columns, keys, strict=True):
        signs = compare(column.slice(0, rows - 1), column.slice(1), key)
        signs_so_far = np.where(signs_so_far == 0, signs, signs_so_far)
    wrong = np.flatnonzero(signs_so_far > 0)
    return int(wrong[0]) + 1 if len(wrong) else None


def compare(one: pa.Array, other: pa.Array, key: SortedKey) -> Signs:
    """For each pair of values -1, 0 or 1, if the first comes before the second, is equal, or comes after it."""
    import pyarrow.compute as pc  # a slow import, needed only where rows are read

    if pa.types.is_boolean(one.type):
        one, other = one.cast(pa.int8()), other.cast(pa.int8())
    signs = _flags(pc.greater(one, other)).astype(np.int8) - _flags(pc.less(one, other)).astype(np.int8)
    if pa.types.is_floating(one.type):
        nan, other_nan = _flags(pc.is_nan(one)), _flags(pc.is_nan(other))
        signs = np.where(nan | other_nan, nan.astype(np.int8) - other_nan.astype(np.int8), signs)
    if key.descending:
        signs = -signs
    null, other_null = _flags(one.is_null()), _flags(other.is_null())
    of_nulls = other_null.astype(np.int8) - null.astype(np.int8)
    return np.where(null | other_null, of_nulls if key.nulls_first else -of_nulls, signs)


def _flags(values: Any) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = values.fill_null(False).to_numpy(zero_copy_only=False)
    return flags
