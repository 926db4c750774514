"""A user-defined aggregate over the columns of web pages."""

from __future__ import annotations

import pyarrow as pa

from unshuffle import Aggregator


class Agg(Aggregator):
    """The number of different values, of which the least and the greatest do not count."""

    returns = "bigint"
    deterministic = True

    def aggregate(self, *columns: pa.Array) -> int:
        return max(0, len(columns[0].drop_null().unique()) - 2)
