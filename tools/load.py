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
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from pyspark.logger import PySparkLogger  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from tests.support.load import bounds  # noqa: E402
from tests.support.load.driver import Load, watched  # noqa: E402
from tests.support.load.footprint import Footprint, footprint, settings  # noqa: E402
from tests.support.load.operations import NUMBERS, STORED, TEXTS, World, check, rows_of, text_of, world  # noqa: E402

SAMPLES = 10
WINDOW = 250
WARM_QUERIES = 1_000  # Spark keeps that many jobs, stages and executions for its UI
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
    progress, load = Progress(), Load(made, threads, seed)
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
    print(f"{load.operations} operations in {threads} threads, {last_count - first_count} between first and last sample")
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


def long_life(made: World, folders: list[Path], queries: int, seed: int) -> list[str]:
    """One thread. The queries of a window are the same mixture as those of any other."""
    progress, draw, problems = Progress(), Random(seed), []
    mixture = [(name, n, prefix) for name in TEXTS for n in NUMBERS for prefix in ("", STORED)]
    planning: list[float] = []
    whole: list[float] = []
    samples: list[tuple[int, Footprint]] = []
    windows: list[tuple[float, float]] = []
    for number in range(queries):
        if number % len(mixture) == 0:
            draw.shuffle(mixture)
        name, n, prefix = mixture[number % len(mixture)]
        began = time.perf_counter()
        frame = made.session.sql(text_of(name, n, prefix))
        planned = time.perf_counter()
        found = rows_of(frame)
        ended = time.perf_counter()
        planning.append(planned - began)
        whole.append(ended - began)
        try:
            check(f"query {number}, {name} {n}", found, made.expected[f"{name} {n}"])
        except AssertionError as error:
            problems.append(str(error))
        if (number + 1) % WINDOW == 0:
            windows.append((statistics.median(planning[-WINDOW:]), statistics.median(whole[-WINDOW:])))
            text = f"{number + 1} queries; median of planning {1000 * windows[-1][0]:.1f} ms, "
            progress.tell(f"{text}of the whole query {1000 * windows[-1][1]:.1f} ms")
        if (number + 1) % (queries // 5) == 0:
            samples.append((number + 1, footprint(made.spark, folders)))
            progress.tell(f"sample: {samples[-1][1].line()}")
    quarter = max(1, len(windows) // 5)
    for index, what in enumerate(("planning", "whole query")):
        early = statistics.median(each[index] for each in windows[quarter : 2 * quarter])
        late = statistics.median(each[index] for each in windows[-quarter:])
        print(f"  {what}: {1000 * early:.1f} ms in the second fifth, {1000 * late:.1f} ms in the last: {late / early:.3f}")
        if late > bounds.SLOWER * early:
            problems.append(f"{what} became slower: {late / early:.2f} times")
    problems += bounds.counts_exceeded(samples[0][1], samples[-1][1], 1)
    problems += bounds.memory_exceeded(*_warm(samples))
    _print_growth(samples)
    return problems


def start(folder: Path, is_compiled: bool) -> SparkSession:
    """Spark as users have it, quiet, with all its files in a folder."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    os.environ["PYSPARK_PYTHON"] = sys.executable
    temporary = folder / "tmp"
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    builder = SparkSession.builder.master("local[2]").appName("load").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "4")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.driver.memory", "3g")
    builder = builder.config("spark.local.dir", str(folder / "spark"))
    # The fast compiler alone, and Hadoop's few settings instead of its thousand: less time for each query, more queries.
    options = f"-Djava.io.tmpdir={temporary} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn256m"
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
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--queries", type=int, help="a long life instead: so many queries in one thread")
    parser.add_argument("--compiled", action="store_true", help="with Spark's code generation: fewer queries in a minute")
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    seed = SystemRandom().randrange(10**9) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = start(folder, given.compiled)
        folders = [folder]
        with world(spark, folder / "world") as made:
            gc.collect()
            if given.queries is not None:
                problems = long_life(made, folders, given.queries, seed)
            else:
                problems = under_load(made, folders, given.threads, given.minutes, seed)
        spark.stop()
    for problem in problems[:40]:
        print(f"PROBLEM {problem}")
    print(f"{len(problems)} problems" if problems else "every result was right, and nothing grew beyond its bound")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
