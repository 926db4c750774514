"""What a wrong estimate costs: `python benchmarks/wrong_estimates.py [--query N]... [--runs N] [--factor N]`.

Each of the 22 TPC-H queries, with primary keys declared, is planned three times:

    run      with the estimates as they are
    low      one estimate is a hundredth of what it would be
    high     one estimate is a hundred times what it would be

The estimate is that of the first join that is estimated, or of the first filter in a query without joins. What is above it is
estimated from it. A plan runs as `unshuffle run` runs it, which may replace it meanwhile; what is planned then has the same
wrong estimate, unless it was observed. Plain Spark runs beside it under its default settings with 8 shuffle partitions. All
sides run once before they are measured, and then alternate. A side's time is the best of its runs, and includes binding,
planning and lowering. The rows of all sides are compared with plain Spark's.

`benchmarks/results/wrong_estimates.json` gets every number, `wrong_estimates.png` the figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from pyspark.sql import SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402

from benchmarks.execute import DATA, Action, Side, drawn, measured, ours, query_sides, show, started  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle import Session, optimizer  # noqa: E402
from unshuffle.plan.logical import Filter, Join, Plan, Script, walk  # noqa: E402
from workloads import tpch  # noqa: E402

GOAL = 1.5  # times as long as the plan with right estimates, in the median


@contextmanager
def planted(kind: type[Plan], factor: float) -> Iterator[None]:
    """Inside, the first operator of a kind that is estimated has so many times its rows, as far as its inputs allow; also
    when it is estimated again."""
    right: Callable[..., Any] = optimizer.estimate
    first: list[Plan] = []

    def wrong(node: Plan, inputs: Sequence[Any], facts: Any) -> Any:
        found = right(node, inputs, facts)
        if not isinstance(node, kind):
            return found
        if not first:
            first.append(node)
        if node is not first[0]:
            return found
        most = inputs[0].rows * (inputs[1].rows if len(inputs) > 1 else 1.0)
        return replace(found, rows=max(1.0, min(found.rows * factor, most)))

    optimizer.estimate = wrong
    try:
        yield
    finally:
        optimizer.estimate = right  # type: ignore[assignment]


def misled(session: Session, bind: Callable[[], Script], factor: float, action: Action) -> Any:
    script = bind()
    has_joins = any(isinstance(node, Join) for output in script.outputs for node in walk(output.plan))
    with planted(Join if has_joins else Filter, factor):
        return ours(session, lambda: script, action)


def sides(spark: SparkSession, session: Session, query: str, factor: float) -> dict[str, Side]:
    bind = partial(session.pipeline.bind, query)
    return {
        **query_sides(spark, session, query, ("run",)),
        "low": partial(misled, session, bind, 1 / factor),
        "high": partial(misled, session, bind, factor),
    }


def cost_of_errors(found: list[dict[str, Any]], console: Console) -> None:
    for side in ("low", "high"):
        slower = sorted((q[side]["best"] / q["run"]["best"], q["name"]) for q in found)
        worst = ", ".join(f"{name} {ratio:.2f}" for ratio, name in reversed(slower[-3:]))
        middle = median(ratio for ratio, _ in slower)
        met = "met" if middle <= GOAL else "missed"
        console.print(f"{side}: {middle:.2f} times as long in the median, goal {GOAL:g}: {met}; the worst: {worst}")


def main() -> None:
    options = argparse.ArgumentParser(description="The cost of a wrong estimate in the TPC-H queries.")
    options.add_argument("--query", action="append", type=int, help="only this one; may be repeated")
    options.add_argument("--runs", type=int, default=3, help="of each side of each query")
    options.add_argument("--scale", type=float, default=1.0, help="of the data")
    options.add_argument("--factor", type=float, default=100.0, help="by which the estimate is wrong")
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    spark = started()
    folder = DATA / f"tpch-{chosen.scale:g}"
    tpch.generate(folder, chosen.scale)
    session = Session(spark, tables=folder)
    for table, key in tpch.KEYS.items():
        session.declare_key(table, *key)
        spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    queries = tpch.queries()
    found = [
        {
            **measured(
                f"Q{n}", sides(spark, session, queries[n], chosen.factor), spark, chosen.runs, console, warm=True
            ),
            "size": chosen.scale,
        }
        for n in chosen.query or sorted(queries)
    ]
    show({"tpch": found}, console)
    cost_of_errors(found, console)
    benchmark_report.write("wrong_estimates", {"suites": {"tpch": found}}, drawn, parts="suites", spark=spark.version)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
