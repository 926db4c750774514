"""Plain Spark against unshuffle: `python benchmarks/execute.py [--suite NAME]... [--side NAME]... [--query N]... [--runs N]`.

Suites: the CPU-hours script on generated events, the 22 TPC-H queries with their primary keys declared, and the 99 TPC-DS
queries without declarations. Plain Spark runs under its default settings (adaptive execution, broadcasts), with 8 shuffle
partitions. Beside it run up to three sides:

    run      the query as `unshuffle run` runs it, under settings chosen for the plan
    sql      the DataFrame of `Session.sql(text)`
    frame    the DataFrame of `Session.optimize(spark.sql(text))`

In every run of a query the sides alternate, and so does the side that starts. A side's time is the best of its runs, and
includes reading, planning and lowering. Its overhead is what it takes until its DataFrame is there, less what that takes in
plain Spark. For TPC-H and TPC-DS, each side runs once before it is measured, because half a second is too short for a JVM to
warm up. The rows are computed and dropped; the rows of each side are compared with plain Spark's once, unmeasured.

`benchmarks/results/execute.json` gets every number, `execute.png` the figures. A run of a few queries keeps the others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks.side_summary import SHORT, summary  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle import Session  # noqa: E402
from unshuffle.errors import NotOptimizedWarning  # noqa: E402
from unshuffle.plan.logical import Script  # noqa: E402
from unshuffle.spark.execution import compare, results  # noqa: E402
from unshuffle.spark.execution.metrics import Measurement, measure  # noqa: E402
from workloads import tpcds, tpch  # noqa: E402

DATA = ROOT / ".cache" / "benchmarks"
TODAY = "2025-06-30"  # the last day of the CPU-hours data
SUITES = ("cpu_hours", "tpch", "tpcds")
SIDES = ("run", "sql", "frame")
Frames = Sequence[DataFrame]
# What an action makes of a side's DataFrames. Its jobs run in the context that it is given beside them, which may raise; it
# is then called again, with other DataFrames of the same rows.
Action = Callable[[Frames, Callable[[], AbstractContextManager[None]]], Any]
Side = Callable[[Action], Any]


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


def ours(session: Session, bind: Callable[[], Script], action: Action) -> Any:
    """A query as unshuffle runs it: bound, planned and lowered when the side runs."""
    return session.pipeline.running(bind(), lambda execution: action(execution.frames, execution.watching))


def baseline(session: Session, bind: Callable[[], Script], action: Action) -> Any:
    """A script as plain Spark runs it."""
    return action(session.pipeline.baseline(bind()).frames, nullcontext)


def script_sides(session: Session, script: Path, params: dict[str, Any], name: str = "ours") -> dict[str, Side]:
    bind = partial(session.pipeline.bind_file, script, params)
    return {"plain": partial(baseline, session, bind), name: partial(ours, session, bind)}


def measured(
    name: str, sides: dict[str, Side], spark: SparkSession, runs: int, console: Console, warm: bool = False
) -> dict[str, Any]:
    """Runs all sides in turn, and compares their rows. With `warm`, each side has already run once. The first side after
    plain Spark is the one that `ratio` tells of."""
    names = list(sides)
    taken: dict[str, list[_Taken]] = {side: [] for side in sides}
    for side in names if warm else ():
        _run(sides[side], spark)
    for number in range(runs):
        first = number % len(names)
        for side in (*names[first:], *names[:first]):
            taken[side].append(_run(sides[side], spark))
    shown = {side: _summary(each) for side, each in taken.items()}
    for side in names[1:]:
        shown[side]["same_rows"] = _has_rows_of_plain(sides, side)
        shown[side]["ratio"] = shown[side]["best"] / shown["plain"]["best"]
        shown[side]["overhead_ms"] = round(shown[side]["ready_ms"] - shown["plain"]["ready_ms"], 1)
    console.print(f"{name}: {'; '.join(_told(side, shown[side]) for side in sides)}")
    same = all(shown[side]["same_rows"] for side in names[1:])
    return {"name": name, **shown, "ratio": shown[names[1]]["ratio"], "same_rows": same}


class _Taken:
    """One run of a side: what Spark measured, seconds until the DataFrames were there, how often the plan was replaced, and
    the faults that were warned of."""

    def __init__(self, measurement: Measurement, ready: float, replans: int, faults: Sequence[str]) -> None:
        self.measurement, self.ready, self.replans, self.faults = measurement, ready, replans, faults


def _run(side: Side, spark: SparkSession) -> _Taken:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", NotOptimizedWarning)
        began = time.perf_counter()
        ready = []

        def consume(frames: Frames, watching: Callable[[], AbstractContextManager[None]]) -> None:
            ready.append(time.perf_counter() - began)
            with watching():
                for frame in frames:
                    results.consume(frame)

        with measure(spark) as measurement:
            side(consume)
    faults = [str(each.message) for each in warned if issubclass(each.category, NotOptimizedWarning)]
    return _Taken(measurement, ready[0], len(ready) - 1, faults)


def _has_rows_of_plain(sides: dict[str, Side], side: str) -> bool:
    def same(plain: Frames, others: Frames) -> bool:
        return all(compare.same_rows(a, b) for a, b in zip(plain, others, strict=True))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotOptimizedWarning)
        found: bool = sides["plain"](lambda plain, _: sides[side](lambda others, _: same(plain, others)))
        return found


def _told(side: str, shown: dict[str, Any]) -> str:
    ratio = f" ({shown['ratio']:.2f}, {shown['overhead_ms']:.0f} ms overhead)" if "ratio" in shown else ""
    replans = f", planned {1 + shown['replans']} times" if "replans" in shown else ""
    return (
        f"{side} {shown['best']:.2f} s{ratio}{replans}, {shown['task_seconds']:.1f} s of tasks "
        f"({shown['cpu_seconds']:.1f} s of processors), {shown['shuffle_bytes'] / 1e6:,.1f} MB"
    )


def _summary(runs: list[_Taken]) -> dict[str, Any]:
    taken = [each.measurement for each in runs]
    best_run = min(runs, key=lambda each: each.measurement.seconds)
    best = best_run.measurement
    faults = sorted({fault for each in runs for fault in each.faults})
    return {
        "seconds": [round(each.seconds, 3) for each in taken],
        "best": round(best.seconds, 3),
        "ready_ms": round(1000 * min(each.ready for each in runs), 1),
        "exchanges": best.exchanges,
        "shuffle_bytes": best.shuffle_bytes,
        "spill_bytes": best.spill_bytes,
        "task_seconds": round(best.task_seconds, 3),
        "cpu_seconds": round(min(each.cpu_seconds for each in taken), 3),
        "longest_task": round(best.longest_task, 2),
        **({"replans": best_run.replans} if best_run.replans else {}),
        **({"faults": faults} if faults else {}),
    }


def cpu_hours_data(processes: int, console: Console) -> Path:
    """The folder of the generated events."""
    folder = DATA / f"cpu_hours-{processes}"
    if not folder.exists():
        console.print(f"generating {processes:,} processes into {folder}")
        program = str(ROOT / "examples/cpu_hours/generate.py")
        arguments = ["--out", str(folder), "--processes", str(processes), "--end-date", TODAY]
        subprocess.run([sys.executable, program, *arguments], check=True)
    return folder


def cpu_hours(spark: SparkSession, chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    folder = cpu_hours_data(chosen.processes, console)
    session = Session(spark)
    params = {"data": str(folder), "out": str(DATA / "out"), "Today": TODAY}
    script = ROOT / "examples/cpu_hours/cpu_hours.scope"
    sides = script_sides(session, script, params, "run")
    return [{**measured("cpu_hours", sides, spark, chosen.runs, console), "size": chosen.processes}]


def use_tpch(spark: SparkSession, scale: float) -> Session:
    """The tables of TPC-H as views, and a session that knows their primary keys."""
    folder = DATA / f"tpch-{scale:g}"
    tpch.generate(folder, scale)
    session = Session(spark, tables=folder)
    for table, key in tpch.KEYS.items():
        session.declare_key(table, *key)
        spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    return session


def tpch_queries(spark: SparkSession, chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    return _queries(spark, use_tpch(spark, chosen.scale), tpch.queries(), chosen, console)


def use_tpcds(spark: SparkSession, scale: float) -> Session:
    """The tables of TPC-DS as views, of which nothing is declared."""
    folder = DATA / f"tpcds-{scale:g}"
    tpcds.generate(folder, scale)
    for table in tpcds.TABLES:
        spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    return Session(spark)


def tpcds_queries(spark: SparkSession, chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    return _queries(spark, use_tpcds(spark, chosen.scale), tpcds.queries(), chosen, console)


def _queries(
    spark: SparkSession, session: Session, texts: dict[int, str], chosen: argparse.Namespace, console: Console
) -> list[dict[str, Any]]:
    wanted = [number for number in chosen.query or sorted(texts) if number in texts]
    return [
        {
            **measured(
                f"Q{n}", query_sides(spark, session, texts[n], chosen.side or SIDES), spark, chosen.runs, console, True
            ),
            "size": chosen.scale,
        }
        for n in wanted
    ]


def query_sides(spark: SparkSession, session: Session, query: str, names: Sequence[str]) -> dict[str, Side]:
    """Plain Spark and the sides of these names."""

    def plain(action: Action) -> Any:
        return action([spark.sql(query)], nullcontext)

    def sql(action: Action) -> Any:
        return action([session.sql(query)], nullcontext)

    def frame(action: Action) -> Any:
        return action([session.optimize(spark.sql(query))], nullcontext)

    run = partial(ours, session, partial(session.pipeline.bind, query))
    sides: dict[str, Side] = {"run": run, "sql": sql, "frame": frame}
    return {"plain": plain, **{name: sides[name] for name in SIDES if name in names}}


def show(found: dict[str, list[dict[str, Any]]], console: Console) -> None:
    for suite, queries in found.items():
        sides = sides_of(queries)
        table = Table(title=f"{suite}: {' / '.join(sides)}")
        for heading in ("query", "seconds", "of plain Spark", "MB", "exchanges", "rows"):
            table.add_column(heading, justify="right")
        for q in queries:
            table.add_row(
                q["name"],
                " / ".join(f"{q[side]['best']:.2f}" for side in sides),
                " / ".join(f"{q[side]['best'] / q['plain']['best']:.2f}" for side in sides[1:]),
                " / ".join(f"{q[side]['shuffle_bytes'] / 1e6:,.1f}" for side in sides),
                " / ".join(str(q[side]["exchanges"]) for side in sides),
                "same" if q["same_rows"] else "DIFFERENT",
            )
        console.print(table)
        console.print(_totals(queries, sides))


def _totals(queries: list[dict[str, Any]], sides: Sequence[str]) -> Table:
    table = Table(title=f"all {len(queries)} queries")
    totals = {side: summary(queries, side) for side in sides[1:]}
    for heading in ("side", *(key.replace("_", " ") for key in totals[sides[1]])):
        table.add_column(heading, justify="right")
    for side, values in totals.items():
        table.add_row(side, *(f"{value:.2f}" if isinstance(value, float) else str(value) for value in values.values()))
    table.caption = f"overhead in ms, of queries that take plain Spark less than {SHORT} s"
    return table


def sides_of(queries: list[dict[str, Any]]) -> list[str]:
    """The sides that all queries have, plain Spark first."""
    first, *others = ([key for key, value in q.items() if isinstance(value, dict) and "best" in value] for q in queries)
    return [side for side in first if all(side in other for other in others)]


def drawn(found: dict[str, list[dict[str, Any]]], pyplot: Any) -> Any:
    """Seconds and shuffled bytes of all sides, a row for each suite."""
    most = max(map(len, found.values()))
    figure, axes = pyplot.subplots(
        2 * len(found), 1, figsize=(min(40, max(6, 0.6 * most)), 3.5 * 2 * len(found)), squeeze=False
    )
    for number, (suite, queries) in enumerate(found.items()):
        sides = sides_of(queries)
        width = 0.8 / len(sides)
        for row, key, label, unit in ((0, "best", "seconds", 1.0), (1, "shuffle_bytes", "shuffled MB", 1e6)):
            plot = axes[2 * number + row][0]
            for place, side in enumerate(sides):
                heights = [q[side][key] / unit for q in queries]
                left = [i + (place - (len(sides) - 1) / 2) * width for i in range(len(queries))]
                plot.bar(left, heights, width=width, label=side)
            plot.set_xticks(range(len(queries)), [q["name"] for q in queries], rotation=45)
            plot.set_ylabel(f"{suite}: {label}")
            plot.legend()
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description="Plain Spark beside unshuffle.")
    options.add_argument("--suite", action="append", choices=SUITES, help="only this one; may be repeated")
    options.add_argument("--query", action="append", type=int, help="only this TPC-H or TPC-DS query; may be repeated")
    options.add_argument(
        "--side", action="append", choices=SIDES, help="only this one beside plain Spark; may be repeated"
    )
    options.add_argument("--runs", type=int, default=5, help="of each side of each query")
    options.add_argument("--scale", type=float, default=1.0, help="of the TPC-H and TPC-DS data")
    options.add_argument("--processes", type=int, default=6_000_000, help="of the CPU-hours data")
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    spark = started()
    suites = {"cpu_hours": cpu_hours, "tpch": tpch_queries, "tpcds": tpcds_queries}
    found = {suite: suites[suite](spark, chosen, console) for suite in chosen.suite or SUITES}
    show(found, console)
    benchmark_report.write("execute", {"suites": found}, drawn, parts="suites", spark=spark.version)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
