"""Fits the constants of the cost model to this machine: `python benchmarks/calibrate.py [--quick]`.

Runs about eighty Spark jobs that each do mostly one thing, reads from Spark's plans and metrics what they did, and fits the
constants so that the cost model's formulas come closest to the measured times. Then it compares the model with TPC-H
queries that the fit has not seen. `docs/cost.md` explains the constants and how each is measured.

The result goes to `benchmarks/results/calibration.json`, which `UNSHUFFLE_MACHINE` may name. What cannot be measured on one
machine is an option: `--network-mb-per-second` per core, and `--disk-mb-per-second` if shuffle files do not fit into
Linux's page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from pyspark.sql import SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks.calibration.executed import NUISANCES, RATES, Step, coefficients, executed  # noqa: E402
from benchmarks.calibration.jobs import WIDTHS, Job, Tables, jobs, starting  # noqa: E402
from benchmarks.calibration.measure import Taken, measure  # noqa: E402
from tools.calibration_fit import fit  # noqa: E402
from unshuffle.cost.machine import Machine  # noqa: E402
from workloads import tpch  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "calibration.json"
DATA = ROOT / ".cache" / "benchmarks"
HELD_OUT = (1, 3, 4, 5, 6, 10, 12, 13, 14)
# Waiting is wall-clock time. Everything else is work, measured in processor time.
STARTING = ("stage", "task")
CACHES = tuple(
    0.5e6 * 2.0 ** (step / 2) for step in range(15)
)  # bytes of the processor's cache for each task, 0.5 to 64 MB
NOT_MEASURED = ("network_byte",)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure: the rows of the tables, the minimum number of runs of each job, and the time after which no
    run is started."""

    rows: int
    rounds: int
    seconds: float
    scale: float


FULL = Plan(rows=600_000, rounds=5, seconds=200, scale=0.1)
QUICK = Plan(rows=300_000, rounds=3, seconds=45, scale=0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="smaller tables and fewer runs, in about two minutes")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2, help="tasks that run at once")
    parser.add_argument("--network-mb-per-second", type=float, default=80.0, metavar="MB", help="for each core")
    parser.add_argument(
        "--disk-mb-per-second", type=float, metavar="MB", help="for each core, of the disk without caches"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    console = Console()
    folder = Path(tempfile.mkdtemp(prefix="unshuffle-calibrate-"))
    began = time.perf_counter()
    try:
        with _spark(arguments.cores, folder) as spark, _progress(console) as progress:
            run = Run(spark, arguments.cores, plan, progress)
            tables = run.tables(folder)
            run.measure([*jobs(tables)])
            run.start([*starting(spark, arguments.cores)])
            run.hold_out(DATA / f"tpch-{plan.scale}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = run.fitted(arguments.network_mb_per_second, arguments.disk_mb_per_second)
    _show(console, run, found)
    _write(arguments.out, run, found, time.perf_counter() - began)
    console.print(f"{time.perf_counter() - began:.0f} s; wrote {arguments.out}")


# ------------------------------------------------------------------------------------------------------------ measuring


@dataclass(slots=True)
class Measured:
    """A job's coefficients, and the times of its runs."""

    counts: dict[str, float]
    runs: list[Taken]
    steps: list[Step] = field(default_factory=list)

    def seconds(self, cores: int) -> float:
        return min(run.elapsed(cores) for run in self.runs)

    @property
    def wall(self) -> float:
        return min(run.wall for run in self.runs)


class Run:
    """Everything that was measured."""

    def __init__(self, spark: SparkSession, cores: int, plan: Plan, progress: Progress) -> None:
        self.spark, self.cores, self.plan, self.progress = spark, cores, plan, progress
        self.measured: dict[str, Measured] = {}
        self.started: dict[str, Measured] = {}
        self.held_out: dict[str, Measured] = {}
        self.version = spark.version
        self._tags = 0

    def tables(self, folder: Path) -> Tables:
        task = self.progress.add_task("making tables", total=None)
        tables = Tables(self.spark, self.plan.rows, self.cores, folder)
        self.progress.update(task, total=1, completed=1)
        return tables

    def measure(self, every: list[Job]) -> None:
        """Runs all jobs in rounds, so that a disturbance of the machine affects at most one run of each."""
        task = self.progress.add_task("first runs", total=len(every))
        for job in every:
            self.progress.update(task, description=f"first run: {job.name}", advance=1)
            with self._settings(job.settings):
                self.measured[job.name] = self._new(executed(job.frame(), WIDTHS))
        self.progress.update(task, description="first runs")
        task = self.progress.add_task("measuring", total=len(every) * self.plan.rounds)
        began, rounds = time.perf_counter(), 0
        while rounds < self.plan.rounds or time.perf_counter() - began < self.plan.seconds * rounds / (rounds + 1):
            rounds += 1
            for job in every:
                self.progress.update(task, description=f"round {rounds}: {job.name}", advance=1)
                with self._settings(job.settings):
                    self.measured[job.name].runs.append(self._taken(job.frame(), job.python))
        self.progress.update(task, description=f"{rounds} rounds", total=len(every) * rounds)

    def start(self, every: list[tuple[Job, dict[str, float]]]) -> None:
        """Many jobs that only start stages and tasks. Only the fastest run counts."""
        times = 5 * self.plan.rounds
        task = self.progress.add_task("starting stages and tasks", total=times * len(every))
        for job, counts in every:
            self.started[job.name] = Measured(counts, [])
        for _ in range(times):
            for job, _counts in every:
                self.started[job.name].runs.append(self._taken(job.frame()))
                self.progress.advance(task)

    def hold_out(self, folder: Path) -> None:
        """Queries of TPC-H as Spark plans them, with and without broadcasts."""
        tpch.generate(folder, self.plan.scale)
        widths = _widths(folder)
        for table in tpch.TABLES:
            self.spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
        texts = tpch.queries()
        task = self.progress.add_task("held out", total=2 * len(HELD_OUT) * (1 + self.plan.rounds))
        for number in HELD_OUT:
            for name, threshold in (("", "10MB"), (", no broadcast", "-1")):
                with self._settings({"spark.sql.autoBroadcastJoinThreshold": threshold}):
                    self.progress.update(task, description=f"held out: TPC-H {number}{name}", advance=1)
                    measured = self._new(executed(self.spark.sql(texts[number]), widths))
                    for _ in range(self.plan.rounds):
                        measured.runs.append(self._taken(self.spark.sql(texts[number])))
                        self.progress.advance(task)
                    self.held_out[f"TPC-H {number}{name}"] = measured
        self.progress.update(task, description="held out")

    def _new(self, steps: list[Step]) -> Measured:
        return Measured(coefficients(steps, self.cores), [], steps)

    def _taken(self, frame: Any, python: bool = False) -> Taken:
        self._tags += 1
        sink = frame.write.format("noop").mode("overwrite")
        return measure(self.spark, sink.save, f"unshuffle-calibrate-{self._tags}", python)

    @contextmanager
    def _settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self.spark.conf.unset(key)

    # --- the fit

    def fitted(self, network: float, disk: float | None) -> dict[str, float]:
        """Every rate, and the other fitted constants. Costs are not linear in the size of the cache: of several sizes, it is
        the one with which the rates fit best."""
        found = self._with_cache(min(CACHES, key=lambda size: self._error(self._with_cache(size))))
        start = [each.counts for each in self.started.values()]
        found |= fit(start, [each.wall for each in self.started.values()])
        found["network_byte"] = 1 / (network * 1e6)
        if disk is not None:
            found["disk_byte"] += 1 / (disk * 1e6)
        return found

    def _with_cache(self, size: float) -> dict[str, float]:
        """The rates that fit best if a task has so much of the cache."""
        for each in (*self.measured.values(), *self.held_out.values()):
            each.counts = coefficients(each.steps, self.cores, size)
        work = [self._work(each) for each in self.measured.values()]
        found = fit(work, [each.seconds(self.cores) for each in self.measured.values()])
        return found | {"cache_bytes": size}

    def _error(self, found: Mapping[str, float]) -> float:
        ratios = (self.predicted(each, found) / each.seconds(self.cores) for each in self.measured.values())
        return sum((ratio - 1.0) ** 2 for ratio in ratios)

    def predicted(self, measured: Measured, rates: Mapping[str, float]) -> float:
        """Seconds of work, without the network, because there is none here."""
        return sum(times * rates.get(name, 0.0) for name, times in self._work(measured).items())

    def _work(self, measured: Measured) -> dict[str, float]:
        """What counts as processor seconds, including each task's start-up before its first row."""
        tasks = sum(stage.tasks / min(stage.tasks, self.cores) for stage in measured.runs[-1].stages)
        counts = {name: times for name, times in measured.counts.items() if name not in (*STARTING, *NOT_MEASURED)}
        return counts | {"task_cpu": tasks}


# ------------------------------------------------------------------------------------------------------------- showing


def _show(console: Console, run: Run, found: Mapping[str, float]) -> None:
    usual = asdict(Machine())
    constants = Table("constant", "now", "here", "here / now", title="Constants", title_justify="left")
    for name in (*RATES, "cache_bytes"):
        if name in found:
            ratio = f"{found[name] / usual[name]:.2f}" if usual[name] else "-"
            constants.add_row(name, _rate(name, usual[name]), _rate(name, found[name]), ratio)
    for name in (*NUISANCES, "job"):
        if name in found:
            constants.add_row(f"({name})", "", _rate(name, found[name]), "", style="dim")
    console.print(constants)
    for title, group in (("Jobs of the fit", run.measured), ("Held out", run.held_out)):
        console.print(_errors(run, title, group, found))


def _errors(run: Run, title: str, group: Mapping[str, Measured], found: Mapping[str, float]) -> Table:
    now = asdict(Machine()) | {name: found[name] for name in NUISANCES if name in found}
    table = Table("job", "took ms", "here", "now", "clock ms", title=title, title_justify="left")
    for name, each in group.items():
        took = each.seconds(run.cores)
        ratios = [run.predicted(each, rates) / took for rates in (found, now)]
        style = "bold" if not 0.5 <= ratios[0] <= 2 else None
        table.add_row(name, f"{took * 1e3:.0f}", *(f"{r:.2f}" for r in ratios), f"{each.wall * 1e3:.0f}", style=style)
    table.caption = "here, now: predicted over measured, with the constants found here and with the present ones"
    return table


def _rate(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return f"{value / 1e6:,.1f} MB"
    if name.endswith("_byte"):
        return f"{1 / value / 1e6:,.0f} MB/s" if value else "no limit"
    if name.endswith("_row") or name in ("compare", "pair", "new_group"):
        return f"{value * 1e9:,.1f} ns"
    return f"{value * 1e3:,.3f} ms"


def _write(path: Path, run: Run, found: Mapping[str, float], seconds: float) -> None:
    known = {each.name for each in fields(Machine)}
    machine = replace(Machine(cores=run.cores), **{name: rate for name, rate in found.items() if name in known})

    def shown(group: Mapping[str, Measured]) -> dict[str, Any]:
        return {
            name: {
                "seconds": each.seconds(run.cores),
                "predicted": run.predicted(each, found),
                "wall": [taken.wall for taken in each.runs],
            }
            for name, each in group.items()
        }

    document = {
        "machine": asdict(machine),
        "beyond": {name: found[name] for name in (*NUISANCES, "job") if name in found},
        "spark": run.version,
        "rows": run.plan.rows,
        "took": seconds,
        "jobs": shown(run.measured),
        "held_out": shown(run.held_out),
        "started": {name: [taken.wall for taken in each.runs] for name, each in run.started.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


# ------------------------------------------------------------------------------------------------------------- plumbing


@contextmanager
def _spark(cores: int, folder: Path) -> Iterator[SparkSession]:
    """Enough memory for all tables, sorts and hash tables, so that nothing spills."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("unshuffle-calibrate")
        .config("spark.driver.memory", f"{min(memory, 8 << 30) >> 20}m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.adaptive.enabled", "false")
        # By default Spark evicts the generated code of the first jobs before their second round, so that every run
        # is cold.
        .config("spark.sql.codegen.cache.maxEntries", "2000")
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.execution.replaceHashWithSortAgg", "true")
        .getOrCreate()
    )
    try:
        yield spark
    finally:
        spark.stop()


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:48}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        console=console,
    )


def _widths(folder: Path) -> dict[str, float]:
    """The average width in bytes of the string columns of all tables, by column name."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    found = {}
    for table in tpch.TABLES:
        columns = pq.read_table(folder / f"{table}.parquet")
        for name in columns.column_names:
            column = columns[name].cast(pa.string()) if _is_text(columns[name].type) else None
            if column is not None:
                found[name] = float(pc.mean(pc.binary_length(column)).as_py() or 0.0)
    return found


def _is_text(type: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


if __name__ == "__main__":
    main()
