"""Plain Spark against unshuffle: `python benchmarks/execute.py [--suite NAME]... [--runs N] [--scale S] [--processes N]`.

Suites: the CPU-hours script on generated events, and the 22 TPC-H queries with their primary keys declared. Plain Spark
runs under its default settings (adaptive execution, broadcasts), with 8 shuffle partitions. In every run of a query the two
sides alternate, and so does the side that starts. A side's time is the best of its runs, and ours includes binding,
optimizing and lowering. For TPC-H, each side runs once before it is measured, because half a second is too short for a JVM
to warm up. The rows are computed and dropped; the rows of both sides are compared once.

`benchmarks/results/execute.json` gets every number, `execute.png` the figures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from tools import benchmark_report  # noqa: E402
from unshuffle import Session  # noqa: E402
from unshuffle.plan.logical import Script  # noqa: E402
from unshuffle.spark.execution import compare, results  # noqa: E402
from unshuffle.spark.execution.metrics import Measurement, measure  # noqa: E402
from workloads import tpch  # noqa: E402

DATA = ROOT / ".cache" / "benchmarks"
TODAY = "2025-06-30"  # the last day of the CPU-hours data
SUITES = ("cpu_hours", "tpch")
Side = Callable[[], AbstractContextManager[list[DataFrame]]]


def started() -> SparkSession:
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("unshuffle-benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "10g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "8")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def ours(session: Session, bind: Callable[[], Script]) -> Iterator[list[DataFrame]]:
    """A query as unshuffle runs it: bound, planned and lowered when the side runs."""
    with session.pipeline.executing(bind()) as execution:
        yield execution.frames


@contextmanager
def baseline(session: Session, bind: Callable[[], Script]) -> Iterator[list[DataFrame]]:
    """A script as plain Spark runs it."""
    yield session.pipeline.baseline(bind()).frames


def script_sides(session: Session, script: Path, params: dict[str, Any]) -> dict[str, Side]:
    bind = partial(session.pipeline.bind_file, script, params)
    return {"plain": partial(baseline, session, bind), "ours": partial(ours, session, bind)}


def measured(
    name: str, sides: dict[str, Side], spark: SparkSession, runs: int, console: Console, warm: bool = False
) -> dict[str, Any]:
    """Runs both sides in turn, and compares their rows. With `warm`, each side has already run once."""
    taken: dict[str, list[Measurement]] = {side: [] for side in sides}
    for side in sides if warm else ():
        with sides[side]() as frames:
            for frame in frames:
                results.consume(frame)
    for number in range(runs):
        for side in sorted(sides, reverse=bool(number % 2)):
            with measure(spark) as measurement, sides[side]() as frames:
                for frame in frames:
                    results.consume(frame)
            taken[side].append(measurement)
    with sides["plain"]() as plain, sides["ours"]() as ours:
        same = all(compare.same_rows(a, b) for a, b in zip(plain, ours, strict=True))
    shown = {side: _summary(each) for side, each in taken.items()}
    ratio = shown["ours"]["best"] / shown["plain"]["best"]
    sides_told = [
        f"{side} {shown[side]['best']:.2f} s, {shown[side]['task_seconds']:.1f} s of tasks "
        f"({shown[side]['cpu_seconds']:.1f} s of processors), "
        f"{shown[side]['shuffle_bytes'] / 1e6:,.1f} MB"
        for side in sides
    ]
    console.print(f"{name}: {'; '.join(sides_told)} ({ratio:.2f})")
    return {"name": name, **shown, "ratio": ratio, "same_rows": same}


def _summary(taken: list[Measurement]) -> dict[str, Any]:
    best = min(taken, key=lambda each: each.seconds)
    return {
        "seconds": [round(each.seconds, 3) for each in taken],
        "best": round(best.seconds, 3),
        "exchanges": best.exchanges,
        "shuffle_bytes": best.shuffle_bytes,
        "spill_bytes": best.spill_bytes,
        "task_seconds": round(best.task_seconds, 3),
        "cpu_seconds": round(min(each.cpu_seconds for each in taken), 3),
    }


def cpu_hours(spark: SparkSession, chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    folder = DATA / f"cpu_hours-{chosen.processes}"
    if not folder.exists():
        console.print(f"generating {chosen.processes:,} processes into {folder}")
        program = str(ROOT / "examples/cpu_hours/generate.py")
        arguments = ["--out", str(folder), "--processes", str(chosen.processes), "--end-date", TODAY]
        subprocess.run([sys.executable, program, *arguments], check=True)
    session = Session(spark)
    params = {"data": str(folder), "out": str(DATA / "out"), "Today": TODAY}
    script = ROOT / "examples/cpu_hours/cpu_hours.scope"
    sides = script_sides(session, script, params)
    return [{**measured("cpu_hours", sides, spark, chosen.runs, console), "size": chosen.processes}]


def tpch_queries(spark: SparkSession, chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    folder = DATA / f"tpch-{chosen.scale:g}"
    tpch.generate(folder, chosen.scale)
    session = Session(spark, tables=folder)
    for table, key in tpch.KEYS.items():
        session.declare_key(table, *key)
        spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    queries = tpch.queries()
    wanted = chosen.query or sorted(queries)
    return [
        {
            **measured(f"Q{n}", _sides(spark, session, queries[n]), spark, chosen.runs, console, warm=True),
            "size": chosen.scale,
        }
        for n in wanted
    ]


def _sides(spark: SparkSession, session: Session, query: str) -> dict[str, Side]:
    @contextmanager
    def plain():  # type: ignore[no-untyped-def]
        yield [spark.sql(query)]

    return {"plain": plain, "ours": partial(ours, session, partial(session.pipeline.bind, query))}


def show(found: dict[str, list[dict[str, Any]]], console: Console) -> None:
    for suite, queries in found.items():
        table = Table(title=suite)
        for heading in ("query", "plain s", "ours s", "ratio", "plain MB", "ours MB", "exchanges", "rows"):
            table.add_column(heading, justify="right")
        for q in [*queries, _total(queries)]:
            plain, ours = q["plain"], q["ours"]
            moved = [f"{side['shuffle_bytes'] / 1e6:,.1f}" for side in (plain, ours)]
            exchanges = f"{plain['exchanges']} / {ours['exchanges']}"
            same = "same" if q["same_rows"] else "DIFFERENT"
            table.add_row(
                q["name"], f"{plain['best']:.2f}", f"{ours['best']:.2f}", f"{q['ratio']:.2f}", *moved, exchanges, same
            )
        console.print(table)


def _total(queries: list[dict[str, Any]]) -> dict[str, Any]:
    sides = {
        side: {key: sum(q[side][key] for q in queries) for key in ("best", "exchanges", "shuffle_bytes")}
        for side in ("plain", "ours")
    }
    ratio = sides["ours"]["best"] / sides["plain"]["best"]
    return {"name": "all", **sides, "ratio": ratio, "same_rows": all(q["same_rows"] for q in queries)}


def drawn(found: dict[str, list[dict[str, Any]]], pyplot: Any) -> Any:
    """Seconds and shuffled bytes of both sides."""
    queries = [q for suite in found.values() for q in suite]
    figure, axes = pyplot.subplots(2, 1, figsize=(max(6, 0.6 * len(queries)), 7))
    for plot, key, label, unit in zip(
        axes, ("best", "shuffle_bytes"), ("seconds", "shuffled MB"), (1, 1e6), strict=True
    ):
        for shift, side in ((-0.2, "plain"), (0.2, "ours")):
            heights = [q[side][key] / unit for q in queries]
            plot.bar([i + shift for i in range(len(queries))], heights, width=0.4, label=side)
        plot.set_xticks(range(len(queries)), [q["name"] for q in queries], rotation=45)
        plot.set_ylabel(label)
        plot.legend()
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description="Plain Spark beside unshuffle.")
    options.add_argument("--suite", action="append", choices=SUITES, help="only this one; may be repeated")
    options.add_argument("--query", action="append", type=int, help="only this TPC-H query; may be repeated")
    options.add_argument("--runs", type=int, default=5, help="of each side of each query")
    options.add_argument("--scale", type=float, default=1.0, help="of the TPC-H data")
    options.add_argument("--processes", type=int, default=6_000_000, help="of the CPU-hours data")
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    spark = started()
    suites = {"cpu_hours": cpu_hours, "tpch": tpch_queries}
    found = {suite: suites[suite](spark, chosen, console) for suite in chosen.suite or SUITES}
    show(found, console)
    benchmark_report.write("execute", {"suites": found}, drawn, parts="suites", spark=spark.version)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
