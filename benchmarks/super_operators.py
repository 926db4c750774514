"""Super-operators against plain Spark: `python benchmarks/super_operators.py [--query NAME]... [--runs N] [--rows N]`.

With `--matching`, without Spark: the optimization time that matching adds to TPC-H and TPC-DS queries without a match, and
the queries in which super-operators match and are chosen. With `--suites`, the gain of those queries at scale 1, against
plain Spark and against the plan without super-operators.

The 20 operator trees of Table 2 of the paper and the query of its Figure 15, as scripts under benchmarks/blitz, over one
log of events. Plain Spark runs with adaptive execution, 8 shuffle partitions, and all of its own merging of subplans
switched on; with `--tuned`, also under the two settings that our plans of these queries run with. Both sides alternate. A
side's time is the best of its runs, and ours includes binding, optimizing and lowering.

`benchmarks/results/super_operators.json` gets every number, `super_operators.png` the figures. With `--suites` and
`--tuned`, the file names end in these words.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from functools import partial
from math import exp, inf, log
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks.execute import DATA, Action, Side, measured, ours, script_sides, started  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle import Session  # noqa: E402
from unshuffle.cost.machine import Machine  # noqa: E402
from unshuffle.explore.rules import SUPER_OPERATOR_NAMES  # noqa: E402
from unshuffle.optimizer import Options, optimize  # noqa: E402
from unshuffle.target import MAX_PARTITION_BYTES, TWO_LEVEL_MAP  # noqa: E402
from workloads import tpcds, tpch  # noqa: E402

SCRIPTS = ROOT / "benchmarks" / "blitz"
# Spark's own ways to compute common subplans once.
MERGING = (
    "spark.sql.optimizer.mergeSubplans.filterPropagation.enabled",
    "spark.sql.optimizer.mergeSubplans.filterPropagation.symmetricFilterPropagation.enabled",
    "spark.sql.optimizer.mergeSubplans.filterPropagation.throughJoin.enabled",
)
# The settings that our plans of these queries run with (docs/decisions/014).
TUNED = {MAX_PARTITION_BYTES: str(int(Machine().file_piece_bytes)), TWO_LEVEL_MAP: "false"}


def generate(folder: Path, rows: int) -> None:
    """A log of events: about ten per account, for some accounts many more."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    random = np.random.default_rng(20191201)
    unfinished = folder / ".log.parquet"
    with pq.ParquetWriter(unfinished, SCHEMA) as writer:
        for first in range(0, rows, 1_000_000):
            writer.write_table(_events(random, min(1_000_000, rows - first), max(1, rows // 10)))
    unfinished.rename(folder / "log.parquet")


SCHEMA = pa.schema(
    [
        ("account", pa.string()),
        ("region", pa.int32()),
        ("ts", pa.int64()),
        ("size", pa.int32()),
        ("kind", pa.string()),
        ("machine", pa.string()),
        ("status", pa.int32()),
        ("bytes", pa.int64()),
        ("latency", pa.float64()),
    ]
)


def _events(random: np.random.Generator, rows: int, accounts: int) -> pa.Table:
    number = np.where(random.random(rows) < 0.1, random.zipf(1.3, rows) % accounts, random.integers(0, accounts, rows))
    digits = np.char.mod("%016x", number * 2_654_435_761 % (1 << 61))
    return pa.table(
        [
            pa.array(np.char.add(digits, digits)),
            pa.array((number % 3 + random.integers(0, 3, rows)).astype(np.int32)),
            pa.array(random.integers(0, 1_000_000_000, rows)),
            pa.array(random.integers(0, 1000, rows).astype(np.int32)),
            pa.array(np.char.mod("kind%d", random.integers(0, 20, rows))),
            pa.array(np.char.mod("machine%04d", random.integers(0, 3000, rows))),
            pa.array(random.integers(0, 10, rows).astype(np.int32)),
            pa.array(random.integers(0, 1_000_000, rows)),
            pa.array(random.random(rows)),
        ],
        schema=SCHEMA,
    )


def matching(console: Console, runs: int, scale: float = 0.01) -> None:
    """Optimizes every query with and without super-operators, in turn, and takes the best of each."""
    for suite, module in (("tpch", tpch), ("tpcds", tpcds)):
        folder = DATA / f"{suite}-{scale:g}"
        module.generate(folder, scale)
        session = Session(tables=folder)
        totals = {True: 0.0, False: 0.0}
        for number, text in sorted(module.queries().items()):
            script = session.pipeline.bind(text)
            best = {True: inf, False: inf}
            for turn in range(2 * runs):
                looks = bool(turn % 2)
                began = time.process_time()
                optimized = optimize(script, Options() if looks else Options(disabled=SUPER_OPERATOR_NAMES))
                best[looks] = min(best[looks], time.process_time() - began)
                found = SUPER_OPERATOR_NAMES & set(optimized.trace.rules) if looks else frozenset()
            if not found:
                totals = {looks: totals[looks] + best[looks] for looks in best}
                continue
            chosen = ", ".join(sorted({each.rule for each in optimized.super_operators})) or "none"
            console.print(f"{suite} {number}: found {', '.join(sorted(found))}; chosen {chosen}")
        added = totals[True] / totals[False] - 1
        console.print(f"{suite}: {1000 * totals[False]:,.0f} ms without looking for them, {added:+.1%} with")


def gains(spark: SparkSession, console: Console, runs: int, scale: float) -> list[dict[str, Any]]:
    """The queries of TPC-H and TPC-DS whose plans have a super-operator."""
    found = []
    for suite, module in (("tpch", tpch), ("tpcds", tpcds)):
        folder = DATA / f"{suite}-{scale:g}"
        module.generate(folder, scale)
        session, without = (Session(spark, tables=folder, without=names) for names in ((), SUPER_OPERATOR_NAMES))
        for table in module.TABLES:
            spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
        for number, text in sorted(module.queries().items()):
            script = session.pipeline.bind(text)
            chosen = sorted({each.rule for each in session.pipeline.plan(script)[0].super_operators})
            if chosen:
                q = measured(
                    f"{suite} {number}", _query_sides(spark, session, without, text), spark, runs, console, warm=True
                )
                gain = q["without"]["best"] / q["ours"]["best"]
                console.print(f"  {', '.join(chosen)}: {gain:.2f} times as fast as without")
                found.append({**q, "super_operators": chosen, "gain": gain})
    return found


def _query_sides(spark: SparkSession, session: Session, without: Session, text: str) -> dict[str, Side]:
    def plain(action: Action) -> Any:
        return action([spark.sql(text)], nullcontext)

    return {
        "plain": plain,
        "ours": partial(ours, session, partial(session.pipeline.bind, text)),
        "without": partial(ours, without, partial(without.pipeline.bind, text)),
    }


def show_gains(found: list[dict[str, Any]], console: Console) -> None:
    table = Table(title="TPC-H and TPC-DS queries with super-operators")
    for heading in ("query", "plain s", "without s", "with s", "faster than plain", "than without", "rows", "which"):
        table.add_column(heading, justify="right")
    for q in found:
        seconds = [q[side]["best"] for side in ("plain", "without", "ours")]
        table.add_row(
            q["name"],
            *(f"{each:.2f}" for each in seconds),
            f"{1 / q['ratio']:.2f}",
            f"{q['gain']:.2f}",
            "same" if q["same_rows"] else "DIFFERENT",
            ", ".join(q["super_operators"]),
        )
    console.print(table)


def drawn_gains(found: list[dict[str, Any]], pyplot: Any) -> Any:
    figure, plot = pyplot.subplots(figsize=(max(6, 0.6 * len(found)), 4))
    for shift, side, label in ((-0.25, "plain", "plain Spark"), (0, "without", "without"), (0.25, "ours", "with")):
        plot.bar([i + shift for i in range(len(found))], [q[side]["best"] for q in found], width=0.25, label=label)
    plot.set_xticks(range(len(found)), [q["name"] for q in found], rotation=60)
    plot.set_ylabel("seconds")
    plot.legend()
    return figure


def _mean(ratios: list[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def show(found: list[dict[str, Any]], console: Console) -> None:
    table = Table(title="super-operators")
    for heading in ("query", "plain s", "ours s", "faster", "task time", "MB plain", "MB ours", "moved", "rows"):
        table.add_column(heading, justify="right")
    for q in found:
        plain, ours = q["plain"], q["ours"]
        table.add_row(
            q["name"],
            f"{plain['best']:.2f}",
            f"{ours['best']:.2f}",
            f"{q['faster']:.2f}",
            f"{q['task_time']:.2f}",
            f"{plain['shuffle_bytes'] / 1e6:,.1f}",
            f"{ours['shuffle_bytes'] / 1e6:,.1f}",
            f"{q['moved']:.2f}",
            "same" if q["same_rows"] else "DIFFERENT",
        )
    console.print(table)
    for key, value in together(found).items():
        console.print(f"{key.replace('_', ' ')}: {value:.2f}")


def together(found: list[dict[str, Any]]) -> dict[str, float]:
    """For the paper's operator trees: the geometric means of the speed-up and of the task time, and the share of the
    bytes shuffled. (A plan that shuffles nothing would make a geometric mean of bytes zero.)"""
    of_paper = [q for q in found if q["name"].startswith("q")]
    if not of_paper:
        return {}
    moved = sum(q["ours"]["shuffle_bytes"] for q in of_paper) / sum(q["plain"]["shuffle_bytes"] for q in of_paper)
    return {**{key: _mean([q[key] for q in of_paper]) for key in ("faster", "task_time")}, "moved": moved}


def drawn(found: list[dict[str, Any]], pyplot: Any) -> Any:
    figure, plot = pyplot.subplots(figsize=(max(6, 0.5 * len(found)), 4))
    for shift, key, label in ((-0.2, "faster", "latency"), (0.2, "task_time", "task time")):
        plot.bar([i + shift for i in range(len(found))], [q[key] for q in found], width=0.4, label=label)
    plot.axhline(1, color="black", linewidth=0.5)
    plot.set_xticks(range(len(found)), [q["name"] for q in found], rotation=60)
    plot.set_ylabel("plain Spark / unshuffle")
    plot.legend()
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description="Super-operators beside plain Spark.")
    options.add_argument("--query", action="append", help="only this script of benchmarks/blitz; may be repeated")
    options.add_argument("--matching", action="store_true", help="only the cost of matching")
    options.add_argument("--suites", action="store_true", help="only TPC-H and TPC-DS")
    options.add_argument("--scale", type=float, default=1.0, help="of TPC-H and TPC-DS, with --suites")
    options.add_argument("--tuned", action="store_true", help="plain Spark also runs under the settings of our plans")
    options.add_argument("--runs", type=int, default=3, help="of each side of each query")
    options.add_argument("--rows", type=int, default=10_000_000, help="of the log")
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    if chosen.matching:
        matching(console, chosen.runs)
        return
    spark = started()
    for setting in MERGING:
        spark.conf.set(setting, "true")
    for setting, value in TUNED.items() if chosen.tuned else ():
        spark.conf.set(setting, value)
    if chosen.suites:
        gained = gains(spark, console, chosen.runs, chosen.scale)
        show_gains(gained, console)
        name = "super_operators_suites"
        benchmark_report.write(name, {"queries": gained}, drawn_gains, parts="queries", whole=True, spark=spark.version)
        return
    folder = DATA / f"blitz-{chosen.rows}"
    generate(folder, chosen.rows)
    session = Session(spark)
    params = {"data": str(folder / "log.parquet"), "out": str(DATA / "out")}
    found = []
    for name in chosen.query or sorted(path.stem for path in SCRIPTS.glob("*.scope")):
        q = measured(name, script_sides(session, SCRIPTS / f"{name}.scope", params), spark, chosen.runs, console)
        plain, ours = q["plain"], q["ours"]
        moved = ours["shuffle_bytes"] / plain["shuffle_bytes"] if plain["shuffle_bytes"] else 1.0
        faster, tasks = plain["best"] / ours["best"], plain["task_seconds"] / ours["task_seconds"]
        found.append({**q, "faster": faster, "task_time": tasks, "moved": moved, "size": chosen.rows})
    found.sort(key=lambda q: q["name"])
    show(found, console)
    name = "super_operators_tuned" if chosen.tuned else "super_operators"
    benchmark_report.write(name, {"queries": found}, drawn, parts="queries", spark=spark.version)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
