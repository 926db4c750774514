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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from benchmarks import timed_shapes  # noqa: E402
from benchmarks.timed_shapes import milliseconds  # noqa: E402
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


def draw(results: timed_shapes.Results, pyplot: Any) -> Any:
    return timed_shapes.drawn(results, "partitions", TIMES, GOAL, pyplot)


def main() -> None:
    options = argparse.ArgumentParser(description="How long connection maps and boundaries take.")
    options.add_argument("--quick", action="store_true", help="one run of each instead of seven")
    chosen = options.parse_args()
    runs = 1 if chosen.quick else 7
    results = {name: [measured(shape, count, runs) for count in SIZES] for name, shape in SHAPES.items()}
    timed_shapes.show(results, ("partitions", "connections"), TIMES, ("map_ms", GOAL))
    benchmark_report.write("connection_maps", {"quick": chosen.quick, "shapes": results}, draw, parts="shapes")


if __name__ == "__main__":
    main()
