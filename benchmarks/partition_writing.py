"""Measures how long it takes to write partitions, as files or with an index: `python benchmarks/partition_writing.py`.

Figure 11 of SIGMOD 2012. An exchange can write one file per partition (traditional), or sort rows by partition number and
write one file with an index (index-based). Spark has both: it writes files up to `spark.shuffle.sort.bypassMergeThreshold`
partitions, 200 by default. Here each writer writes from 250 to 4,000 partitions, in its own Spark. The time is that of the
writing stage, the best of several runs, relative to the traditional writer at 250 partitions, as in the paper.

The measured number of partitions at which both cost the same is printed beside the number that the cost model predicts
(`unshuffle.cost.shuffle_writing`), with the current constants and with those that these runs suggest.

`benchmarks/results/partition_writing.json` gets every number, `partition_writing.png` the figure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from tools import benchmark_report  # noqa: E402
from unshuffle.cost.machine import Machine, this_machine  # noqa: E402
from unshuffle.cost.shuffle_writing import crossover  # noqa: E402

COUNTS = (25, 50, 100, 250, 500, 1000, 2000, 4000)
UNIT = 250  # partitions; the time of the traditional writer for them is 1
WRITERS = {"traditional": 1_000_000, "index-based": 0}  # the maximum number of partitions with a file each


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
    for run in range(runs + 1):
        for count in COUNTS if run else COUNTS[-2:]:  # the first writes of a JVM are slow
            exchange = frame.repartition(count, "a")._jdf.queryExecution().executedPlan()
            dependency = exchange.shuffleDependency()
            began = time.perf_counter()
            context.submitMapStage(dependency).get()  # writes partitions without reading them
            if run:
                found[count] = min(found.get(count, float("inf")), time.perf_counter() - began)
    spark.stop()
    return found


def crossed(found: dict[str, dict[int, float]]) -> float | None:
    """The number of partitions from which the index was faster; None if it never was, 0 if it always was."""
    before = 0
    for count in COUNTS:
        more = found["traditional"][count] - found["index-based"][count]
        if more > 0 and before == 0:
            return 0.0
        if more > 0:
            less = found["index-based"][before] - found["traditional"][before]
            return before + (count - before) * less / (less + more)
        before = count
    return None


def suggested(found: dict[str, dict[int, float]], rows: int) -> Machine:
    """The constants under which the model fits lines through the measured times. Each core ran one task."""
    slopes, starts = {}, {}
    for name, seconds in found.items():
        middle, average = sum(COUNTS) / len(COUNTS), sum(seconds.values()) / len(COUNTS)
        along = sum((count - middle) ** 2 for count in COUNTS)
        slopes[name] = sum((count - middle) * (seconds[count] - average) for count in COUNTS) / along
        starts[name] = average - slopes[name] * middle
    sorting = max(0.0, starts["index-based"] - starts["traditional"]) / (rows / (os.cpu_count() or 1))
    block, index_block = max(0.0, slopes["traditional"]), max(0.0, slopes["index-based"])
    return replace(this_machine(), block=block, index_block=index_block, index_row=sorting)


def report(found: dict[str, dict[int, float]], rows: int) -> dict[str, Any]:
    of_a_task, used, fitted = rows / (os.cpu_count() or 1), this_machine(), suggested(found, rows)
    return {
        "measured": crossed(found),
        "predicted": crossover(used, of_a_task),
        "predicted with suggested constants": crossover(fitted, of_a_task),
        "suggested": {name: getattr(fitted, name) for name in ("block", "index_block", "index_row")},
    }


def drawn(found: dict[str, dict[str, float]], pyplot: Any) -> Any:
    figure, plot = pyplot.subplots(figsize=(6, 4))
    unit = found["traditional"][str(UNIT)]
    for name, seconds in found.items():
        plot.plot(COUNTS, [seconds[str(count)] / unit for count in COUNTS], marker="o", label=name)
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
    unit = found["traditional"][UNIT]
    for count in COUNTS:
        print(f"{count:>6,}", *(f"{name} {found[name][count] / unit:.2f}" for name in WRITERS))
    predicted = report(found, chosen.rows)
    print("an index is faster from so many partitions on:", json.dumps(predicted))
    numbers = {"rows": chosen.rows, "seconds": found, "crossing": predicted}
    benchmark_report.write("partition_writing", numbers, drawn, parts="seconds")


if __name__ == "__main__":
    main()
