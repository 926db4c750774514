"""Measures the optimizer: `python benchmarks/optimize.py [--quick] [--suite NAME]... [--all]`.

Suites: the CPU-hours script, the 22 TPC-H queries, the 99 TPC-DS queries, and queries with a growing number of joins. Each
suite runs in its own process, so that its peak memory is its own and excludes DuckDB and matplotlib. Every query is bound
and optimized once to warm up. Then come five rounds over all queries, each with a new binding; a query's time is the median
of its five times. Nothing is executed and no JVM is started: the data is needed for its schema and statistics only.

`benchmarks/results/optimize.json` gets every number, `optimize.png` the figures.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from tools import benchmark_report  # noqa: E402

DATA = ROOT / ".cache" / "benchmarks"
TODAY = "2025-06-30"  # the last day of the CPU-hours data
TOO_LONG = 5.0  # seconds; more joins are not tried after a query that took longer


@dataclass(frozen=True, slots=True)
class Target:
    """Limits: milliseconds per query, and megabytes for the peak of the process."""

    median: float
    slowest: float
    megabytes: float = 300


TARGETS = {
    "cpu_hours": Target(30, 30),
    "tpch": Target(50, 300),
    "tpcds": Target(150, 2000),
}
SUITES = (*TARGETS, "growth")


# --- the process that is measured


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Times every query of a suite, and measures the process's memory at the end."""
    suite = grown(work) if work["suite"] == "growth" else {"queries": timed(work)}
    return {**suite, "megabytes": round(peak_megabytes(), 1)}


def peak_megabytes() -> float:
    """The peak memory of this process. Linux's getrusage would include the memory of the parent process at its
    start."""
    status = Path("/proc/self/status")
    if status.exists():
        (peak,) = (line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(peak) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(work: dict[str, Any]) -> list[dict[str, Any]]:
    from unshuffle import Session
    from unshuffle.plan.logical import Script

    session = Session(tables=work["tables"])

    def bound(what: str) -> Script:
        return session.pipeline.bind(what, work["params"])

    queries = [(name, lambda what=what: bound(what)) for name, what in work["queries"]]
    return rounds(queries, work["runs"])


def rounds(queries: list[tuple[str, Any]], runs: int) -> list[dict[str, Any]]:
    """Each query's median times over several rounds, after a warm-up round."""
    results = {name: {"name": name, "bind_ms": [], "optimize_ms": []} for name, _ in queries}
    for round in range(runs + 1):
        for name, bind in queries:
            result = results[name]
            if "error" in result:
                continue
            began = time.perf_counter()
            try:
                script = bind()
                bound = time.perf_counter()
                optimized = optimize(script)
            except Exception as problem:  # one query's failure is a result, not the end of the benchmark
                result["error"] = f"{type(problem).__name__}: {problem}"
                continue
            if round:
                result["bind_ms"].append((bound - began) * 1000)
                result["optimize_ms"].append((time.perf_counter() - bound) * 1000)
            else:
                result |= {"foreign": [node.reason for node in script.foreign], **search_size(optimized)}
    for result in results.values():
        for times in ("bind_ms", "optimize_ms"):
            result[times] = median(result[times]) if result[times] else None
    return list(results.values())


def grown(work: dict[str, Any]) -> dict[str, Any]:
    """Queries of each shape with more and more joins, until one takes too long."""
    from benchmarks import growth
    from workloads import described

    shapes = {}
    with tempfile.TemporaryDirectory() as folder:
        for shape, make in growth.SHAPES.items():
            shapes[shape] = []
            for joins in growth.JOINS:
                description, query = make(joins)
                tables = described.Described(Path(folder) / f"{shape}-{joins}", described.parse(description))
                bind = [(f"{joins} joins", lambda tables=tables, query=query: tables.bind(query))]
                (result,) = rounds(bind, work["runs"])
                shapes[shape].append({"joins": joins, **result})
                if result["optimize_ms"] is None or result["optimize_ms"] > TOO_LONG * 1000:
                    break
    return {"shapes": shapes}


def optimize(script: Any) -> Any:
    from unshuffle.optimizer import optimize

    return optimize(script)


def search_size(optimized: Any) -> dict[str, int]:
    """The size of the search space, if the result reports it."""
    trace = getattr(optimized, "trace", None)
    sizes = {name: getattr(trace, name, None) for name in ("groups", "goals")}
    return {name: size if isinstance(size, int) else len(size) for name, size in sizes.items() if size is not None}


# --- the process that prepares and reports


def prepared(suite: str, quick: bool) -> dict[str, Any]:
    """What the measured process needs. Query texts and data are made here, outside the measurement."""
    from workloads import tpcds, tpch

    work: dict[str, Any] = {"suite": suite, "runs": 1 if quick else 5, "tables": [], "params": None}
    match suite:
        case "tpch" | "tpcds":
            workload = {"tpch": tpch, "tpcds": tpcds}[suite]
            folder = DATA / f"{suite}-0.01"
            workload.generate(folder, 0.01)
            queries = [(f"Q{number}", text) for number, text in workload.queries().items()]
            work |= {"tables": [str(folder)], "queries": queries}
        case "cpu_hours":
            folder = DATA / "cpu_hours"
            example = ROOT / "examples" / "cpu_hours"
            if not folder.is_dir():
                options = ["--out", str(folder), "--processes", "20000", "--end-date", TODAY]
                subprocess.run([sys.executable, str(example / "generate.py"), *options], check=True)
            params = {"data": str(folder), "out": str(DATA / "out"), "Today": TODAY}
            work |= {"queries": [("cpu_hours", str(example / "cpu_hours.scope"))], "params": params}
        case "growth":
            work["runs"] = 1 if quick else 3
    return work


def run(suite: str, quick: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure"]
    done = subprocess.run(
        command, input=json.dumps(prepared(suite, quick)), stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def summary(suite: str, result: dict[str, Any]) -> dict[str, Any]:
    times = [q["optimize_ms"] for q in result["queries"] if q["optimize_ms"] is not None]
    target = TARGETS[suite]
    measured = {"median_ms": median(times), "slowest_ms": max(times)} if times else {}
    foreign = sum(len(q.get("foreign", ())) for q in result["queries"])
    met = (
        len(times) == len(result["queries"])
        and measured["median_ms"] < target.median
        and measured["slowest_ms"] < target.slowest
        and result["megabytes"] < target.megabytes
    )
    return {
        **measured,
        "megabytes": result["megabytes"],
        "foreign": foreign,
        "failed": len(result["queries"]) - len(times),
        "met": met,
    }


def show(results: dict[str, Any], every_query: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:,.1f}"

    console = Console()
    for suite, result in results.items():
        if suite == "growth":
            for shape, points in result["shapes"].items():
                table = Table(title=f"{shape} of joins", title_justify="left")
                for heading in ("joins", "bind ms", "optimize ms", "groups", "goals"):
                    table.add_column(heading, justify="right")
                for p in points:
                    sizes = [str(p.get(size, "-")) for size in ("groups", "goals")]
                    table.add_row(str(p["joins"]), number(p["bind_ms"]), number(p["optimize_ms"]), *sizes)
                console.print(table)
            continue
        queries = sorted(result["queries"], key=lambda q: -(q["optimize_ms"] or float("inf")))
        shown = result["queries"] if every_query or len(queries) <= 22 else queries[:10]
        title = suite if len(shown) == len(queries) else f"{suite}: the slowest {len(shown)} of {len(queries)}"
        table = Table(title=title, title_justify="left")
        for heading in ("query", "bind ms", "optimize ms", "groups", "goals", "foreign"):
            table.add_column(heading, justify="left" if heading == "query" else "right")
        for q in shown:
            sizes = [str(q.get(size, "-")) for size in ("groups", "goals")]
            foreign = q.get("error") or str(len(q["foreign"]))
            table.add_row(q["name"], number(q["bind_ms"]), number(q["optimize_ms"]), *sizes, foreign)
        console.print(table)

    table = Table(title="measured, and the target to stay under", title_justify="left")
    for heading in ("suite", "median ms", "slowest ms", "peak MB", "foreign", "failed", "met"):
        table.add_column(heading, justify="left" if heading == "suite" else "right")
    for suite, target in TARGETS.items():
        if suite in results:
            s = results[suite]["summary"]
            measured = (s.get("median_ms"), s.get("slowest_ms"), s["megabytes"])
            limits = (target.median, target.slowest, target.megabytes)
            cells = [f"{number(value)} / {limit:g}" for value, limit in zip(measured, limits, strict=True)]
            table.add_row(suite, *cells, str(s["foreign"]), str(s["failed"]), "yes" if s["met"] else "no")
    console.print(table)


def drawn(results: dict[str, Any], pyplot: Any) -> Any:
    """The times of every query, and their growth with joins; None if neither was measured."""
    suites = [suite for suite in ("tpch", "tpcds") if suite in results]
    count = len(suites) + ("growth" in results)
    if not count:
        return None
    figure, axes = pyplot.subplots(1, count, figsize=(6 * count, 4.5), squeeze=False)
    for suite, plot in zip(suites, axes[0], strict=False):
        times = sorted(q["optimize_ms"] for q in results[suite]["queries"] if q["optimize_ms"] is not None)
        plot.plot(range(1, len(times) + 1), times, marker=".")
        plot.axhline(TARGETS[suite].median, linestyle="--", color="grey", label="target of the median")
        plot.axhline(TARGETS[suite].slowest, linestyle=":", color="grey", label="target of the slowest")
        plot.set(title=suite, xlabel="queries, fastest first", ylabel="optimize, ms", yscale="log")
        plot.legend()
    if "growth" in results:
        plot = axes[0][-1]
        for shape, points in results["growth"]["shapes"].items():
            known = [(p["joins"], p["optimize_ms"]) for p in points if p["optimize_ms"] is not None]
            plot.plot([joins for joins, _ in known], [ms for _, ms in known], marker="o", label=shape)
        plot.set(title="growth with joins", xlabel="joins", ylabel="optimize, ms", yscale="log")
        plot.legend()
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description="How long the optimizer takes.")
    options.add_argument("--quick", action="store_true", help="one run of each query instead of five")
    options.add_argument("--suite", action="append", choices=SUITES, help="only this one; may be repeated")
    options.add_argument("--all", action="store_true", help="print every query of every suite")
    options.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure:
        print(json.dumps(measure(json.load(sys.stdin))))
        return
    results = {}
    for suite in chosen.suite or SUITES:
        results[suite] = run(suite, chosen.quick)
        if suite in TARGETS:
            results[suite]["summary"] = summary(suite, results[suite])
    show(results, chosen.all)
    benchmark_report.write("optimize", {"quick": chosen.quick, "suites": results}, drawn, parts="suites")


if __name__ == "__main__":
    main()
