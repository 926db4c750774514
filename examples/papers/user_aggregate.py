"""A user-defined aggregate that is neither associative nor commutative: it needs all values of a group."""

from __future__ import annotations

import pyarrow as pa

from unshuffle import Aggregator


class UDAgg(Aggregator):
    """The median. NULLs are ignored."""

    returns = "double"
    deterministic = True

    def aggregate(self, *columns: pa.Array) -> float | None:
        values = sorted(columns[0].drop_null().to_pylist())
        middle = len(values) // 2
        return (values[middle] + values[~middle]) / 2 if values else None
