"""Pairs the start and the end of jobs, which have only the machine and the time in common."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from unshuffle.operators import Combiner, Row


class NextEnd(Combiner):
    """Pairs each start on a machine with the first end after it, if that end is before the machine's next start.

    A machine runs one job at a time, so an end belongs to the last start before it. A job that never ended, because the
    machine went down, has no end. An end without a logged start is dropped.
    """

    def combine_rows(self, key: Row, left_rows: list[Row], right_rows: list[Row]) -> Iterator[Row]:
        starts = sorted(left_rows, key=lambda row: row["started"])
        ends = sorted(right_rows, key=lambda row: row["ended"])
        end_times = [end["ended"] for end in ends]
        for i, start in enumerate(starts):
            first = bisect.bisect_left(end_times, start["started"])
            found = ends[first] if first < len(ends) else None
            if found and i + 1 < len(starts) and found["ended"] > starts[i + 1]["started"]:
                found = None
            yield {
                **key,
                "job": start["job"],
                "started": start["started"],
                "ended": found and found["ended"],
                "exit_code": found and found["exit_code"],
            }
