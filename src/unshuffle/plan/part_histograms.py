"""The distribution of a column by the intervals and row counts of a table's parts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from unshuffle.constants import THRESHOLDS
from unshuffle.partitions import Bucket, KeyColumn, KeyHistogram, closed_interval, histogram_of_partitions
from unshuffle.partitions.histograms import position
from unshuffle.partitions.values import from_number, number
from unshuffle.plan.predicate_intervals import NULLS, Intervals, is_closed


def histogram_of_parts(key: KeyColumn, parts: Iterable[tuple[Intervals, int]]) -> KeyHistogram | None:
    """The distribution of the rows of parts; None if the values between two bounds cannot be computed.

    Parts may overlap: their rows are added up between cuts at which parts begin or end. The rows of a part with several
    intervals are divided equally among them."""
    counted = [(each, rows) for each, rows in parts if rows > 0]
    nulls = [(NULLS, rows) for each, rows in counted if each == (NULLS,)]
    values = [([span for span in each if span != NULLS], rows) for each, rows in counted]
    spans = [(span, rows / len(each)) for each, rows in values for span in each]
    if not spans:
        return histogram_of_partitions((key,), [(NULLS, sum(rows for _, rows in nulls))]) if nulls else None
    of = key.type
    if not all(is_closed(each) for each, _ in spans) or number(of, spans[0][0].low.values[0]) is None:
        try:
            return histogram_of_partitions((key,), spans)
        except ValueError:
            return None  # they overlap, and have no ends, or no distances, which texts have not
    ends = [(position(key, each.low, 0), position(key, each.high, 0)) for each, _ in spans]
    cuts = sorted({int(end) for pair in ends for end in pair if end is not None})
    if len(cuts) > THRESHOLDS.bounds_cuts:
        chosen = np.unique(np.linspace(0, len(cuts) - 1, THRESHOLDS.bounds_cuts).astype(int))
        cuts = [cuts[i] for i in chosen]
    low, high = np.array(ends, dtype=np.float64).T
    shares = np.clip((np.array(cuts, dtype=np.float64)[:, None] - low) / (high - low), 0.0, 1.0)
    below = shares @ np.array([rows for _, rows in spans], dtype=np.float64)
    made = [Bucket(NULLS, float(sum(rows for _, rows in nulls)))] if nulls else []
    for at, (start, end) in enumerate(pairwise(cuts)):
        first, last = from_number(of, start), from_number(of, end - 1)
        rows = float(below[at + 1] - below[at])
        if rows > 0 and first is not None and last is not None:
            made.append(Bucket(closed_interval((first,), (last,)), rows))
    return KeyHistogram((key,), tuple(made))
