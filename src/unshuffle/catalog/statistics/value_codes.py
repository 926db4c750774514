"""Numbers in place of values, which are faster to compare, sort and count."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes = npt.NDArray[np.int64]


def is_whole(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_date32(type) or pa.types.is_boolean(type))


def integers(values: pa.Array) -> Codes:
    whole = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    return np.array(whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)


def codes_of(values: pa.Array) -> Codes:
    """For each value a number that is the same for equal values, and 0 for NULL."""
    if is_whole(values.type) and len(values):
        codes = integers(values)
        low = int(codes.min())
        if int(codes.max()) - low < 2**40:
            codes = codes - low + 1
            if values.null_count:
                codes[values.is_null().to_numpy(zero_copy_only=False)] = 0
            return codes
    encoded = values.dictionary_encode()
    return np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64) + 1
