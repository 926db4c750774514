"""How long it takes to write partitions, in the traditional way and by an index: `python benchmarks/partition_writing.py`.

Figure 11 of SIGMOD 2012. An exchange can write a file for each partition (traditional), or sort rows by the number of their
partition and write one file with an index of where each begins (index-based). Spark has both: it takes the first up to
`spark.shuffle.sort.bypassMergeThreshold` partitions, 200 by default. Here each writer is made to write from 250 to 4,000
partitions, in a Spark of its own; the time is that of the stage that writes, the best of some runs, over the time of the
traditional writer at 250, as in the paper.

`benchmarks/results/partition_writing.json` gets every number, `partition_writing.png` the figure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a program, this file is in no package
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from benchmarks import report  # noqa: E402

COUNTS = (250, 500, 1000, 2000, 4000)
WRITERS = {"traditional": 1_000_000, "index-based": 0}  # the most partitions with a file each


def measure(threshold: int, rows: int, runs: int) -> dict[int, float]:
    """Seconds to write, by the number of partitions."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "6g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.shuffle.sort.bypassMergeThreshold", str(threshold))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.range(rows).select(F.col("id").alias("a"), F.sha2(F.col("id").cast("string"), 256).alias("text"))
    frame = frame.cache()
    frame.count()
    context = spark.sparkContext._jsc.sc()
    found: dict[int, float] = {}
    for _ in range(runs):
        for count in COUNTS:
            exchange = frame.repartition(count, "a")._jdf.queryExecution().executedPlan()
            dependency = exchange.shuffleDependency()
            began = time.perf_counter()
            context.submitMapStage(dependency).get()  # partitions are written, and nobody reads them
            found[count] = min(found.get(count, float("inf")), time.perf_counter() - began)
    spark.stop()
    return found


def drawn(found: dict[str, dict[int, float]], pyplot: Any) -> Any:
    figure, plot = pyplot.subplots(figsize=(6, 4))
    unit = found["traditional"][COUNTS[0]]
    for name, seconds in found.items():
        plot.plot(COUNTS, [seconds[count] / unit for count in COUNTS], marker="o", label=name)
    plot.set_xlabel("partitions")
    plot.set_ylabel("time to write, traditional into 250 = 1")
    plot.legend()
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description="Partitions written to a file each, or to one file with an index.")
    options.add_argument("--rows", type=int, default=4_000_000)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure is not None:
        print(json.dumps(measure(chosen.measure, chosen.rows, chosen.runs)))
        return
    found: dict[str, dict[int, float]] = {}
    for name, threshold in WRITERS.items():
        command = [sys.executable, __file__, "--measure", str(threshold), "--rows", str(chosen.rows)]
        done = subprocess.run([*command, "--runs", str(chosen.runs)], stdout=subprocess.PIPE, text=True, check=True)
        found[name] = {int(count): seconds for count, seconds in json.loads(done.stdout.splitlines()[-1]).items()}
    unit = found["traditional"][COUNTS[0]]
    for count in COUNTS:
        print(f"{count:>6,}", *(f"{name} {found[name][count] / unit:.2f}" for name in WRITERS))
    report.write("partition_writing", {"rows": chosen.rows, "seconds": found}, partial(drawn, found))


if __name__ == "__main__":
    main()
