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
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

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


def milliseconds(run: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        began = time.process_time_ns()
        run()
        times.append(time.process_time_ns() - began)
    return min(times) / 1e6


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


def show(results: dict[str, list[dict[str, Any]]]) -> None:
    from rich.console import Console
    from rich.table import Table

    for shape, points in results.items():
        table = Table(title=f"{shape}, milliseconds", title_justify="left")
        for heading in ("parts", "pairs", *TIMES.values()):
            table.add_column(heading, justify="right")
        for point in points:
            times = ("-" if point[name] is None else f"{point[name]:,.2f}" for name in TIMES)
            table.add_row(f"{point['parts']:,}", f"{point['pairs']:,}", *times)
        Console().print(table)
        last = points[-1]
        met = "met" if last["match_ms"] < GOAL else "missed"
        print(f"{last['parts']:,} x {last['parts']:,}: {last['match_ms']:.1f} ms, goal {GOAL:g} ms: {met}")


def drawn(results: dict[str, list[dict[str, Any]]], pyplot: Any) -> Any:
    """Times over parts."""
    figure, axes = pyplot.subplots(1, len(results), figsize=(5 * len(results), 4.5), squeeze=False)
    for (shape, points), plot in zip(results.items(), axes[0], strict=True):
        for name, title in TIMES.items():
            known = [(p["parts"], p[name]) for p in points if p[name] is not None]
            plot.plot([count for count, _ in known], [ms for _, ms in known], marker=".", label=title)
        plot.axhline(GOAL, linestyle="--", color="grey", label="goal of the largest matching")
        plot.set(title=shape, xlabel="parts on each side", ylabel="ms", xscale="log", yscale="log")
        plot.legend(fontsize="small")
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description="How long it takes to find the parts of two tables that can meet.")
    options.add_argument("--quick", action="store_true", help="one run of each instead of seven")
    chosen = options.parse_args()
    runs = 1 if chosen.quick else 7
    results = {name: [measured(shape, count, runs) for count in SIZES] for name, shape in SHAPES.items()}
    show(results)
    benchmark_report.write("part_matching", {"quick": chosen.quick, "shapes": results}, drawn, parts="shapes")


if __name__ == "__main__":
    main()
