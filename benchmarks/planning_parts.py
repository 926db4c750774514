"""How planning time grows with the parts of tables: `python benchmarks/planning_parts.py [--quick]`.

Two tables of a million rows each lie in 1, 10, 100, 1,000 and 10,000 daily folders with one small file each. They are joined
on (day, user), after a filter that leaves out a quarter of the days. Nothing runs. Times are elapsed, the best of some runs:

    first      the first query over the tables: footers and names of folders are read
    again      the same query again, as a new DataFrame: what is known of unchanged files is kept
    reading    of that, what reads Spark's analyzed plan, lists the files, and finds what is known of them
    planning   of that, the search for the cheapest plan
    lowering   of that, verifying the plan and handing it to Spark
    Spark      plain Spark's own planning of the same query, from its text to its physical plan

Spark has listed the files before, when it made the tables: that is not in these times.

`benchmarks/results/planning_parts.json` gets every number, `planning_parts.png` the figure.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from pyspark.sql import SparkSession  # noqa: E402

from benchmarks import timed_shapes  # noqa: E402
from benchmarks.execute import DATA, started  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle import Session  # noqa: E402

SIZES = (1, 10, 100, 1000, 10_000)
ROWS = 1_000_000
FIRST_DAY = datetime.date(2000, 1, 1)
GOAL_PARTS, GOAL = 1000, 50.0  # milliseconds more than for one part
QUERY = """select v.day, v.user, count(*) as visits, sum(b.amount) as amount
    from visits v join bought b on v.day = b.day and v.user = b.user
    where v.day >= '{first}' and b.amount > 10 group by v.day, v.user"""
TIMES = {
    "first_ms": "first",
    "again_ms": "again",
    "reading_ms": "reading",
    "planning_ms": "planning",
    "lowering_ms": "lowering",
    "spark_ms": "Spark",
}


def write_tables(parts: int) -> Path:
    """Both tables in folders, kept for later runs."""
    folder = DATA / f"planning-parts-{parts}"
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    random = np.random.default_rng(parts)
    for name in ("visits", "bought"):
        for part, rows in enumerate(np.array_split(np.arange(ROWS, dtype=np.int64), parts)):
            user, amount = (random.integers(0, 1000, len(rows), dtype=np.int32) for _ in range(2))
            where = folder / name / f"day={FIRST_DAY + datetime.timedelta(part)}"
            where.mkdir(parents=True)
            pa.parquet.write_table(
                pa.table({"id": rows, "user": user, "amount": amount}), where / "part-0.snappy.parquet"
            )
    (folder / "done").touch()
    return folder


def elapsed(run: Callable[[], Any]) -> tuple[Any, float]:
    began = perf_counter()
    found = run()
    return found, (perf_counter() - began) * 1000


def planned_by_spark(spark: SparkSession, query: str) -> None:
    spark.sql(query)._jdf.queryExecution().executedPlan()


def stages(session: Session, query: str) -> dict[str, float]:
    """The times of one query, from a DataFrame to another."""
    frame, pipeline = session.spark.sql(query), session.pipeline
    script, reading = elapsed(lambda: pipeline.read(frame))
    (planned, *_), planning = elapsed(lambda: pipeline.plan(script, pipeline.target(is_managed=False)))

    def lower() -> None:
        with pipeline._lowered(planned, script):
            pass

    _, lowering = elapsed(lower)
    return {
        "again_ms": reading + planning + lowering,
        "reading_ms": reading,
        "planning_ms": planning,
        "lowering_ms": lowering,
    }


def measured(spark: SparkSession, session: Session, parts: int, runs: int) -> dict[str, Any]:
    folder = write_tables(parts)
    for name in ("visits", "bought"):
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    query = QUERY.format(first=FIRST_DAY + datetime.timedelta(parts // 4))
    first = stages(session, query)["again_ms"]
    again = min((stages(session, query) for _ in range(runs)), key=lambda times: times["again_ms"])
    plain = min(elapsed(lambda: planned_by_spark(spark, query))[1] for _ in range(runs))
    return {"parts": parts, "rows": ROWS, "first_ms": first, **again, "spark_ms": plain}


def draw(results: timed_shapes.Results, pyplot: Any) -> Any:
    (points,) = results.values()
    return timed_shapes.drawn(results, "parts", TIMES, points[0]["again_ms"] + GOAL, pyplot)


def main() -> None:
    options = argparse.ArgumentParser(description="Planning time of tables in 1 to 10,000 parts.")
    options.add_argument("--quick", action="store_true", help="three runs of each instead of fifteen")
    chosen = options.parse_args()
    spark = started()
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    session = Session(spark, effort="full")
    for _ in range(10):  # so that Java and Python have warmed up
        measured(spark, session, SIZES[1], 1)
    points = [measured(spark, session, parts, 3 if chosen.quick else 15) for parts in SIZES]
    results = {"daily folders": points}
    timed_shapes.show_times(results, ("parts", "rows"), TIMES)
    of_parts = {point["parts"]: point["again_ms"] for point in points}
    more = of_parts[GOAL_PARTS] - of_parts[1]
    met = "met" if more < GOAL else "missed"
    print(f"{GOAL_PARTS:,} parts take {more:.0f} ms more than one, goal {GOAL:g} ms: {met}")
    benchmark_report.write(
        "planning_parts", {"quick": chosen.quick, "shapes": results}, draw, parts="shapes", spark=spark.version
    )


if __name__ == "__main__":
    main()
