"""How gains grow with the data: `python benchmarks/scales.py [--scale N]... [--runs N] [--query N]...`.

The 22 TPC-H queries with primary keys declared, at scale 1, 3 and 10: plain Spark under its default settings with 8 shuffle
partitions, and beside it the query as `unshuffle run` runs it. Scales are measured in ascending order, in one process. At the
first scale each side runs once before it is measured, so that the JVM is warm; above, the runs of a query alternate as they
come. A side's time is the best of its runs, and ours includes binding, planning and lowering. The rows are computed and
dropped; the rows of both sides are compared once.

`benchmarks/results/scales.json` gets every number. `scales.png` shows the total time of both sides over the scale.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from pyspark.sql import SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402

from benchmarks.execute import measured, query_sides, show, started, use_tpch  # noqa: E402
from tools import benchmark_report  # noqa: E402
from workloads import tpch  # noqa: E402

SCALES = (1.0, 3.0, 10.0)
SIDES = {"plain": "plain Spark", "run": "unshuffle"}


def measured_scale(spark: SparkSession, scale: float, warm: bool, chosen: argparse.Namespace, console: Console) -> Any:
    session, texts = use_tpch(spark, scale), tpch.queries()
    return [
        {
            **measured(
                f"Q{n} at {scale:g}", query_sides(spark, session, texts[n], ("run",)), spark, chosen.runs, console, warm
            ),
            "size": scale,
        }
        for n in chosen.query or sorted(texts)
    ]


def drawn(found: dict[str, list[dict[str, Any]]], pyplot: Any) -> Any:
    """The total time of both sides over the scale, and their ratio."""
    figure, (times, ratios) = pyplot.subplots(1, 2, figsize=(10, 4))
    scales = sorted(found, key=float)
    totals = {side: [sum(q[side]["best"] for q in found[scale]) for scale in scales] for side in SIDES}
    for side, name in SIDES.items():
        times.plot([float(scale) for scale in scales], totals[side], marker="o", label=name)
    times.set(xlabel="scale of TPC-H", ylabel="seconds of all queries", xscale="log", yscale="log")
    times.legend()
    ratios.plot([float(scale) for scale in scales], [b / a for a, b in zip(*totals.values(), strict=True)], marker="o")
    ratios.set(xlabel="scale of TPC-H", ylabel="unshuffle's time, of plain Spark's", xscale="log", ylim=(0, 1.1))
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description="TPC-H at several scales: plain Spark beside unshuffle.")
    options.add_argument("--scale", action="append", type=float, help="only this one; may be repeated")
    options.add_argument("--query", action="append", type=int, help="only this one; may be repeated")
    options.add_argument("--runs", type=int, default=3, help="of each side of each query")
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    spark = started()
    found = {
        f"{scale:g}": measured_scale(spark, scale, number == 0, chosen, console)
        for number, scale in enumerate(sorted(chosen.scale or SCALES))
    }
    show(found, console)
    benchmark_report.write("scales", {"scales": found}, drawn, parts="scales", spark=spark.version)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
