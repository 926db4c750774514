"""Measures connection maps and boundaries: `python benchmarks/connection_maps.py [--quick]`.

The maps connect 100 to 10,000 stored ranges with as many required ranges. Their boundaries never coincide, so each output
reads two inputs through a filter; on one column, and from (a, b) to a. Also measured: the reads of all outputs, the
boundaries that Algorithm 1 chooses for half as many ranges, the union of both histograms, and, for comparison, the map by
comparing every input with every output, once. The other times are the best of seven. All times are processor time, without
the waiting for other programs.

`benchmarks/results/connection_maps.json` gets every number, `connection_maps.png` the figure.
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
from unshuffle.partitions import (  # noqa: E402
    KeyColumn,
    PartitionRead,
    RangeConnections,
    Ranges,
    connect,
    divide,
    histogram_of_partitions,
)

SIZES = (100, 300, 1000, 3000, 10_000)
ALL_PAIRS = 1000  # the comparison takes too long for more
GOAL = 50.0  # milliseconds for the largest map
A, B = KeyColumn(pa.int64()), KeyColumn(pa.string())

Shape = Callable[[int], tuple[Ranges, Ranges]]


def one_column(count: int) -> tuple[Ranges, Ranges]:
    stored = Ranges((A,), tuple((3 * i,) for i in range(1, count)))
    return stored, Ranges((A,), tuple((3 * i + 1,) for i in range(1, count)))


def prefix(count: int) -> tuple[Ranges, Ranges]:
    """From ranges of (a, b) that begin inside a value of a, to ranges of a."""
    stored = Ranges((A, B), tuple((i, f"host{i % 7}") for i in range(1, count)))
    return stored, Ranges((A,), tuple((i,) for i in range(1, count)))


SHAPES: dict[str, Shape] = {"a -> a": one_column, "(a, b) -> a": prefix}


def milliseconds(run: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        began = time.process_time_ns()
        run()
        times.append(time.process_time_ns() - began)
    return min(times) / 1e6


def all_pairs(stored: Ranges, wanted: Ranges) -> int:
    """The map by brute force: every input is compared with every output."""
    starts, ends = ((), *stored.places), (*stored.places, (9,))
    return sum(
        start < high and low < end
        for low, high in zip(((), *wanted.places), (*wanted.places, (9,)), strict=True)
        for start, end in zip(starts, ends, strict=True)
    )


def every_read(connections: RangeConnections) -> list[list[PartitionRead]]:
    return [connections.reads(output) for output in range(connections.outputs)]


def measured(shape: Shape, count: int, runs: int) -> dict[str, Any]:
    stored, wanted = shape(count)
    found = connect(stored, stored.keys, wanted)
    one = histogram_of_partitions(stored.keys, [(each, 100.0) for each in stored])
    other = histogram_of_partitions(stored.keys, [(each, 100.0) for each in wanted])
    return {
        "partitions": count,
        "connections": found.total,
        "boundaries_ms": milliseconds(lambda: shape(count), runs),
        "map_ms": milliseconds(lambda: connect(stored, stored.keys, wanted), runs),
        "reads_ms": milliseconds(lambda: every_read(connect(stored, stored.keys, wanted)), runs),
        "divide_ms": milliseconds(lambda: divide(one, 200.0, columns=1), runs),
        "union_ms": milliseconds(lambda: one.union(other), runs),
        "all_pairs_ms": milliseconds(lambda: all_pairs(stored, wanted), 1) if count <= ALL_PAIRS else None,
    }


TIMES = {
    "boundaries_ms": "places",
    "map_ms": "map",
    "reads_ms": "map and lists",
    "divide_ms": "Algorithm 1",
    "union_ms": "union",
    "all_pairs_ms": "all pairs",
}


def show(results: dict[str, list[dict[str, Any]]]) -> None:
    from rich.console import Console
    from rich.table import Table

    for shape, points in results.items():
        table = Table(title=f"{shape}, milliseconds", title_justify="left")
        for heading in ("partitions", "connections", *TIMES.values()):
            table.add_column(heading, justify="right")
        for point in points:
            times = ("-" if point[name] is None else f"{point[name]:,.1f}" for name in TIMES)
            table.add_row(f"{point['partitions']:,}", f"{point['connections']:,}", *times)
        Console().print(table)
        last = points[-1]
        met = "met" if last["map_ms"] < GOAL else "missed"
        print(
            f"map of {last['partitions']:,} x {last['partitions']:,}: {last['map_ms']:.1f} ms, goal {GOAL:g} ms: {met}"
        )


def drawn(results: dict[str, list[dict[str, Any]]], pyplot: Any) -> Any:
    """Times over partitions."""
    figure, axes = pyplot.subplots(1, len(results), figsize=(6 * len(results), 4.5), squeeze=False)
    for (shape, points), plot in zip(results.items(), axes[0], strict=True):
        for name, title in TIMES.items():
            known = [(p["partitions"], p[name]) for p in points if p[name] is not None]
            plot.plot([count for count, _ in known], [ms for _, ms in known], marker=".", label=title)
        plot.axhline(GOAL, linestyle="--", color="grey", label="goal of the largest map")
        plot.set(title=shape, xlabel="partitions on each side", ylabel="ms", xscale="log", yscale="log")
        plot.legend(fontsize="small")
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description="How long connection maps and boundaries take.")
    options.add_argument("--quick", action="store_true", help="one run of each instead of seven")
    chosen = options.parse_args()
    runs = 1 if chosen.quick else 7
    results = {name: [measured(shape, count, runs) for count in SIZES] for name, shape in SHAPES.items()}
    show(results)
    benchmark_report.write("connection_maps", {"quick": chosen.quick, "shapes": results}, drawn, parts="shapes")


if __name__ == "__main__":
    main()
