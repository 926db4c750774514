"""Measures how long it takes to find the parts of two tables that can meet: `python benchmarks/part_matching.py [--quick]`.

    shifted   each part of one table overlaps two of the other, like months that begin on different days
    chain     each part overlaps five, like orders by month and shipments by ship month
    nested    the same as shifted, but every fiftieth part overlaps a hundred: the indexes are searched as trees

Times are the best of seven, of processor time: building the indexes of both sides, which happens once for a table, and the
matching itself, which happens for each join. For comparison, every part is compared with every other, once.

`benchmarks/results/part_matching.json` gets every number, `part_matching.png` the figure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from benchmarks import timed_shapes  # noqa: E402
from benchmarks.timed_shapes import milliseconds  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle.partitions import KeyColumn, KeyInterval, PartitionIndex, closed_interval  # noqa: E402

SIZES = (10, 100, 1000, 10_000)
ALL_PAIRS = 1000  # the comparison takes too long for more
GOAL = 50.0  # milliseconds for the largest matching
KEY = (KeyColumn(pa.int64()),)
WIDTH = 10

Parts = list[list[KeyInterval]]


def parts(count: int, shift: int, reach: int = 1, wide: int | None = None) -> Parts:
    found = []
    for i in range(count):
        many = 100 if wide is not None and i % wide == 0 else reach
        found.append([closed_interval((i * WIDTH + shift,), ((i + many) * WIDTH + shift - 1,))])
    return found


SHAPES: dict[str, Callable[[int], tuple[Parts, Parts]]] = {
    "shifted": lambda count: (parts(count, 0), parts(count, WIDTH // 2)),
    "chain": lambda count: (parts(count, 0), parts(count, 0, reach=5)),
    "nested": lambda count: (parts(count, 0, wide=50), parts(count, WIDTH // 2)),
}


def all_pairs(left: PartitionIndex, right: PartitionIndex) -> int:
    ends = [each for part in left.ends for each in part]
    return sum(low < end and start < high for part in right.ends for start, end in part for low, high in ends)


def measured(shape: Callable[[int], tuple[Parts, Parts]], count: int, runs: int) -> dict[str, Any]:
    one, other = shape(count)
    left, right = PartitionIndex(KEY, one), PartitionIndex(KEY, other)
    return {
        "parts": count,
        "pairs": sum(map(len, left.meeting_parts_of(right))),
        "build_ms": milliseconds(lambda: (PartitionIndex(KEY, one), PartitionIndex(KEY, other)), runs),
        "match_ms": milliseconds(lambda: left.meeting_parts_of(right), runs),
        "all_pairs_ms": milliseconds(lambda: all_pairs(left, right), 1) if count <= ALL_PAIRS else None,
    }


TIMES = {"build_ms": "both indexes", "match_ms": "matching", "all_pairs_ms": "all pairs"}


def draw(results: timed_shapes.Results, pyplot: Any) -> Any:
    return timed_shapes.drawn(results, "parts", TIMES, GOAL, pyplot)


def main() -> None:
    options = argparse.ArgumentParser(description="How long it takes to find the parts of two tables that can meet.")
    options.add_argument("--quick", action="store_true", help="one run of each instead of seven")
    chosen = options.parse_args()
    runs = 1 if chosen.quick else 7
    results = {name: [measured(shape, count, runs) for count in SIZES] for name, shape in SHAPES.items()}
    timed_shapes.show(results, ("parts", "pairs"), TIMES, ("match_ms", GOAL))
    benchmark_report.write("part_matching", {"quick": chosen.quick, "shapes": results}, draw, parts="shapes")


if __name__ == "__main__":
    main()
