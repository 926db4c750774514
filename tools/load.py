"""Many threads, or many queries, on one session: every result is checked, and what grows is measured.

    python tools/load.py --threads 16 --minutes 10     a random mixture of everything that a session does
    python tools/load.py --queries 5000                one thread, thousands of queries: do they become slower?

The expected rows are plain Spark's, computed before. Between samples no operation runs, and both Python and the JVM collect
garbage. The program ends with 1 if a result was wrong, if other threads saw a changed setting, or if something grew beyond
the bounds in tests/support/load/bounds.py.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from pyspark.logger import PySparkLogger  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from tests.support.load import bounds  # noqa: E402
from tests.support.load.driver import Load, watched  # noqa: E402
from tests.support.load.footprint import Footprint, footprint, settings  # noqa: E402
from tests.support.load.operations import (  # noqa: E402
    NUMBERS,
    STORED,
    TEXTS,
    World,
    WrongResult,
    check,
    rows_of,
    text_of,
    world,
)

MINUTES = 10
SAMPLES = 10
WINDOW = 250
WARM_QUERIES = 1_000  # Spark keeps that many jobs, stages and executions for its UI
# A session keeps the last query of a thread, and so the tables that the query copied to all tasks: pages of 33 MB. A sample
# is taken after this query, which copies none.
WITHOUT_COPIES = ("window", NUMBERS[0], "")
SECONDS_BETWEEN_LINES = 10


class Progress:
    """A line on the terminal now and then."""

    def __init__(self) -> None:
        self._begun = self._told = time.monotonic()

    def tell(self, text: str) -> None:
        self._told = time.monotonic()
        print(f"{self._told - self._begun:6.0f} s: {text}", flush=True)

    def now_and_then(self, text: str) -> None:
        if time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
            self.tell(text)


def under_load(made: World, folders: list[Path], threads: int, minutes: float, seed: int) -> list[str]:
    """Threads for some minutes. The first sample is after a tenth of them."""
    progress = Progress()
    load = Load(made, threads, seed, on_problem=lambda problem: progress.tell(f"PROBLEM {problem}"))
    before_settings = settings(made.spark)
    samples: list[tuple[int, Footprint]] = []
    load.each_once()
    with watched(made.spark, load):
        for number in range(SAMPLES):
            until = time.monotonic() + 60 * minutes / SAMPLES

            def may_go_on(_: int, until: float = until) -> bool:
                progress.now_and_then(f"{load.operations} operations, {len(load.problems)} problems")
                return time.monotonic() < until

            load.run(may_go_on)
            samples.append((load.operations, footprint(made.spark, folders)))
            progress.tell(f"sample {number + 1}, {load.operations} operations: {samples[-1][1].line()}")
    for name, count in sorted(load.done.items()):
        print(f"  {name}: {count} times, {1000 * load.seconds[name] / count:,.0f} ms each")
    problems = list(load.problems)
    if settings(made.spark) != before_settings:
        problems.append("the settings of the session have changed")
    (first_count, first), (last_count, last) = samples[0], samples[-1]
    problems += bounds.counts_exceeded(first, last, threads)
    problems += bounds.memory_exceeded(*_warm(samples))
    print(
        f"{load.operations} operations in {threads} threads, {last_count - first_count} between first and last sample"
    )
    _print_growth(samples)
    return problems


def _warm(samples: list[tuple[int, Footprint]]) -> tuple[Footprint, Footprint, int]:
    """The first sample after Spark's own histories are full, the last one, and the operations between them."""
    count, first = next(((n, each) for n, each in samples if n >= WARM_QUERIES), samples[len(samples) // 2])
    last_count, last = samples[-1]
    return first, last, last_count - count


def _print_growth(samples: list[tuple[int, Footprint]]) -> None:
    first, last, operations = _warm(samples)
    for name in ("heap_mb", "rss_mb", "objects", "bindings"):
        growth = bounds.per_1000(name, first, last, operations)
        print(f"  {name}: {growth:+,.2f} in 1,000 operations, over the last {operations} operations")


@dataclass(frozen=True)
class Window:
    """Some queries in a row: medians of the seconds of one, and the CPU seconds of one on average, which other programs on
    the machine do not change."""

    planning: float
    whole: float
    python_cpu: float
    java_cpu: float

    @property
    def cpu(self) -> float:
        return self.python_cpu + self.java_cpu

    def line(self) -> str:
        seconds = f"median of planning {1000 * self.planning:.1f} ms, of the whole query {1000 * self.whole:.1f} ms"
        return f"{seconds}; CPU {1000 * self.python_cpu:.1f} ms in Python, {1000 * self.java_cpu:.1f} ms in the JVM"


class LongLife:
    """One thread. The queries of a window are the same mixture as those of any other."""

    def __init__(self, made: World, folders: list[Path], seed: int) -> None:
        self._made = made
        self._folders = folders
        self._draw = Random(seed)
        self._mixture = [(name, n, prefix) for name in TEXTS for n in NUMBERS for prefix in ("", STORED)]
        self._progress = Progress()
        self._java = int(made.spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        self._number = 0
        self.windows: list[Window] = []
        self.samples: list[tuple[int, Footprint]] = []
        self.problems: list[str] = []

    def run(self, queries: int, minutes: float | None) -> list[str]:
        """All queries, or as many as there is time for, and at least one window."""
        until = time.monotonic() + 60 * minutes if minutes is not None else math.inf
        while self._number < queries and (not self.windows or time.monotonic() < until):
            self.windows.append(self._window())
            self._progress.tell(f"{self._number} queries: {self.windows[-1].line()}")
            if self._number * 5 // queries > len(self.samples) or time.monotonic() >= until:
                self._ask(*WITHOUT_COPIES)
                self.samples.append((self._number, footprint(self._made.spark, self._folders)))
                self._progress.tell(f"sample: {self.samples[-1][1].line()}")
        print(f"{self._number} queries in one thread")
        self._compare_windows()
        self.problems += bounds.counts_exceeded(self.samples[0][1], self.samples[-1][1], 1)
        self.problems += bounds.memory_exceeded(*_warm(self.samples))
        _print_growth(self.samples)
        return self.problems

    def _window(self) -> Window:
        planning: list[float] = []
        whole: list[float] = []
        python_cpu, java_cpu = time.process_time(), self._java_cpu()
        for _ in range(WINDOW):
            seconds = self._query()
            planning.append(seconds[0])
            whole.append(seconds[1])
        python_cpu, java_cpu = time.process_time() - python_cpu, self._java_cpu() - java_cpu
        return Window(statistics.median(planning), statistics.median(whole), python_cpu / WINDOW, java_cpu / WINDOW)

    def _query(self) -> tuple[float, float]:
        """The next query of the mixture."""
        if self._number % len(self._mixture) == 0:
            self._draw.shuffle(self._mixture)
        self._number += 1
        return self._ask(*self._mixture[(self._number - 1) % len(self._mixture)])

    def _ask(self, name: str, n: int, prefix: str) -> tuple[float, float]:
        """The seconds of planning a query, and of all of it."""
        began = time.perf_counter()
        frame = self._made.session.sql(text_of(name, n, prefix))
        planned = time.perf_counter()
        found = rows_of(frame)
        ended = time.perf_counter()
        try:
            check(f"query {self._number}, {name} {n}", found, self._made.expected[f"{name} {n}"])
        except WrongResult as error:
            self.problems.append(str(error))
        return planned - began, ended - began

    def _java_cpu(self) -> float:
        fields = Path(f"/proc/{self._java}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _compare_windows(self) -> None:
        """The last fifth of the windows against the second fifth: in the first, the JVM is not warm yet."""
        fifth = max(1, len(self.windows) // 5)
        for what in ("planning", "whole", "python_cpu", "java_cpu", "cpu"):
            early, late = (
                statistics.median(getattr(each, what) for each in part)
                for part in (self.windows[fifth : 2 * fifth], self.windows[-fifth:])
            )
            ratio = late / early
            print(f"  {what}: {1000 * early:.1f} ms in the second fifth, {1000 * late:.1f} ms in the last: {ratio:.3f}")
            if what == "cpu" and ratio > bounds.SLOWER:
                self.problems.append(f"a query became slower: {ratio:.2f} times the CPU time")


def start(folder: Path, is_compiled: bool) -> SparkSession:
    """Spark as users have it, quiet, with all its files in a folder."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    os.environ["PYSPARK_PYTHON"] = sys.executable
    temporary = folder / "tmp"
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    builder = SparkSession.builder.master("local[2]").appName("load").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.driver.memory", "3g")
    builder = builder.config("spark.local.dir", str(folder / "spark"))
    # The fast compiler alone, and Hadoop's few settings instead of its thousand: less time for each query, more queries.
    options = f"-Djava.io.tmpdir={temporary} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn256m"
    options += " -XX:ReservedCodeCacheSize=256m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    builder = builder.config("spark.driver.extraJavaOptions", options)
    builder = builder.config("spark.driver.extraClassPath", str(ROOT / "tests" / "hadoop"))
    if not is_compiled:
        builder = builder.config("spark.sql.codegen.wholeStage", "false")
        builder = builder.config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    spark = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> int:
    parser = argparse.ArgumentParser(description="Puts one session under load.")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument(
        "--minutes", type=float, help=f"how long, {MINUTES} by default; for --queries, how long at most"
    )
    parser.add_argument("--queries", type=int, help="a long life instead: so many queries in one thread")
    parser.add_argument(
        "--compiled", action="store_true", help="with Spark's code generation: fewer queries in a minute"
    )
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    seed = SystemRandom().randrange(10**9) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = start(folder, given.compiled)
        folders = [folder]
        with world(spark, folder / "world", texts_only=given.queries is not None) as made:
            gc.collect()
            if given.queries is not None:
                problems = LongLife(made, folders, seed).run(given.queries, given.minutes)
            else:
                problems = under_load(made, folders, given.threads, given.minutes or MINUTES, seed)
        spark.stop()
    for problem in problems[:40]:
        print(f"PROBLEM {problem}")
    print(f"{len(problems)} problems" if problems else "every result was right, and nothing grew beyond its bound")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
