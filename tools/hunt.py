"""Hunts for wrong answers: random tables, queries and settings, each answered by plain Spark and by us.

    python tools/hunt.py --minutes 10            new seeds each time
    python tools/hunt.py --minutes 10 --seed 7   from a seed on
    python tools/hunt.py --replay 112 4711       some seeds again

A failing case is shrunk and printed as lines that can be pasted into tests/support/hunt/found.py. The program ends with 1
if it found something.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import SystemRandom

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from pyspark.errors import PySparkException  # noqa: E402
from pyspark.logger import PySparkLogger  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from tests.support.hunt.cases import SEEDS_PER_TABLES, case_of, stored, tables_of  # noqa: E402
from tests.support.hunt.oracles import Finding, Tally, findings  # noqa: E402
from tests.support.hunt.shrink import as_test, shrunk  # noqa: E402
from unshuffle.errors import UserError  # noqa: E402

SECONDS_BETWEEN_LINES = 5
SHRINK_SECONDS = 40
REASONS = 12


class Hunt:
    def __init__(self, spark: SparkSession, folder: Path, out: Path | None) -> None:
        self._spark = spark
        self._folder = folder
        self._out = out
        self._begun = self._told = time.monotonic()
        self.tally = Tally()
        self.found: Counter[str] = Counter()

    def tables(self, seeds: list[int]) -> None:
        """Seeds that share their tables."""
        tables, _ = tables_of(seeds[0])
        found: list[Finding] = []
        try:
            with stored(self._spark, tables, self._folder):
                for seed in seeds:
                    found += list(findings(self._spark, case_of(seed), self.tally))[:1]
                    self._progress()
        except (PySparkException, UserError) as error:
            print(f"cannot make the tables of seed {seeds[0]}: {error}", flush=True)
        for finding in found:
            self._report(finding)

    def _report(self, finding: Finding) -> None:
        self.found[finding.kind] += 1
        small = shrunk(self._spark, finding, self._folder, SHRINK_SECONDS)
        text = as_test(small)
        print(text, flush=True)
        if self._out is not None:
            with self._out.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    def _progress(self) -> None:
        if time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            print(self.line(), flush=True)

    def line(self) -> str:
        seconds = time.monotonic() - self._begun
        tally = self.tally
        of_kinds = (f"{kind} {100 * tally.understood[kind] // asked}%" for kind, asked in sorted(tally.asked.items()))
        counted = ", ".join(f"{kind} {count}" for kind, count in self.found.items()) or "none"
        return (
            f"{seconds:5.0f} s: {tally.queries} queries ({tally.errors} that Spark rejects), {tally.planned} plans made, "
            f"{tally.plans} compared, fully understood: {', '.join(of_kinds)}; findings: {counted}"
        )


def start(folder: Path) -> SparkSession:
    """Spark as users have it, quiet, with its tables in a folder."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("hunt").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.driver.memory", "2g")
    # The fast compiler alone: most code runs once. Hadoop's few settings instead of its thousand.
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn256m")
    builder = builder.config("spark.driver.extraClassPath", str(ROOT / "tests" / "hadoop"))
    spark = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> int:
    parser = argparse.ArgumentParser(description="Hunts for wrong answers.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--replay", type=int, nargs="*", default=[], metavar="SEED")
    parser.add_argument("--out", type=Path, help="also append findings to this file")
    given = parser.parse_args()
    first = SystemRandom().randrange(10**9) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory() as name:
        hunt = Hunt(start(Path(name)), Path(name), given.out)
        for seed in given.replay:
            hunt.tables([seed])
        if not given.replay:
            print(f"seeds from {first}", flush=True)
        until = time.monotonic() + 60 * given.minutes
        try:
            while not given.replay and time.monotonic() < until:
                last = first - first % SEEDS_PER_TABLES + SEEDS_PER_TABLES
                hunt.tables(list(range(first, last)))
                first = last
        except KeyboardInterrupt:
            print("stopped")
    print(hunt.line())
    for reason, count in hunt.tally.fallbacks.most_common(REASONS):
        print(f"  left to Spark {count} times: {reason[:100]}")
    exercised = hunt.tally.exercised
    for what in ("fired", "super_operators", "operators"):
        counts = getattr(exercised, what).most_common()
        print(f"  {what}: {', '.join(f'{each} {count}' for each, count in counts)}")
    print(f"  never seen: {', '.join(exercised.never) or 'nothing'}")
    return 1 if hunt.found else 0


if __name__ == "__main__":
    sys.exit(main())
