"""One line for a suite of queries that ran on plain Spark and on a side of ours, from the results of `execute.py`."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import median
from typing import Any

SHORT = 0.3  # seconds in plain Spark: the queries whose overhead is summed up
SLOWER = 1.10


def summary(queries: Sequence[dict[str, Any]], side: str) -> dict[str, float | int]:
    """Time, task time and bytes of a side over plain Spark's; how many queries are slower or ran as plain Spark after a
    fault; and the overhead of short queries in milliseconds, median and worst."""
    ratios = [q[side]["best"] / q["plain"]["best"] for q in queries]
    overheads = [q[side]["overhead_ms"] for q in queries if q["plain"]["best"] < SHORT and "overhead_ms" in q[side]]
    of_short = {"median_overhead": median(overheads), "worst_overhead": max(overheads)} if overheads else {}
    return {
        "total": _share(queries, side, "best"),
        "geometric_mean": exp(sum(map(log, ratios)) / len(ratios)),
        "task_time": _share(queries, side, "task_seconds"),
        "bytes": _share(queries, side, "shuffle_bytes"),
        "slower": sum(ratio > SLOWER for ratio in ratios),
        "crashed": sum(bool(q[side].get("faults")) for q in queries),
        "different": sum(not q[side].get("same_rows", q["same_rows"]) for q in queries),
        **of_short,
    }


def _share(queries: Sequence[dict[str, Any]], side: str, key: str) -> float:
    """A sum of the side over that of plain Spark."""
    plain = sum(q["plain"][key] for q in queries)
    ours = sum(q[side][key] for q in queries)
    return ours / plain if plain else 1.0
