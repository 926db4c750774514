"""Estimates beside the rows that Spark counts: `python benchmarks/estimates.py [--suite NAME]... [--query N]... [--scale N]`.

The 22 TPC-H queries with their primary keys declared and the 99 TPC-DS queries without declarations are planned as
`unshuffle run` plans them. Nothing was analyzed. Each chosen plan is lowered with a counter on every operator that changes
the number of rows: filters, joins, aggregates, unions, set operations, grouping sets and limits. Spark runs it once, without
adaptive execution. Exchanges, sorts, projections and windows return the rows of their input and are left out, and so are
partial aggregates, whose rows depend on the number of tasks.

The q-error of an estimate is the factor by which it is too high or too low; 1 is exact. Both numbers count as at least one
row.

`benchmarks/results/estimates.json` gets every number, `estimates.png` the distribution. A run of a few queries keeps the
others.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import quantiles
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql.functions import count, lit  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks.execute import started, use_tpcds, use_tpch  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle.optimizer import PlannedQuery  # noqa: E402
from unshuffle.plan import physical  # noqa: E402
from unshuffle.plan.expressions import Expression  # noqa: E402
from unshuffle.plan.physical import PhysicalPlan  # noqa: E402
from unshuffle.plan.sql import to_sql  # noqa: E402
from unshuffle.spark.lowering.lowered import Lowered  # noqa: E402
from unshuffle.spark.lowering.lowering import Lowering  # noqa: E402
from workloads import tpcds, tpch  # noqa: E402

SUITES = ("tpch", "tpcds")
GOALS = {"median": 1.5, "p90": 4.0, "p99": 30.0}
WORST = 10
OWN = 2.0  # an operator whose inputs explain the error but for this factor inherited it
JOINS = (physical.HashJoin, physical.MergeJoin, physical.NestedLoopJoin)
AGGREGATES = (physical.HashAggregate, physical.SortAggregate)
COUNTED = (
    physical.Filter,
    *JOINS,
    *AGGREGATES,
    physical.Expand,
    physical.Concatenate,
    physical.MultisetOperation,
    physical.Limit,
)
PASSED_BY = (physical.LocalSort, physical.PartialTopN, physical.OrderBy)


class Counting(Lowering):
    """Lowers plans with a counter on every operator that changes the number of rows. Exchanges and sorts are left to Spark:
    they change no count, but a sampled one would run its input twice."""

    def __init__(self, spark: SparkSession, planned: PlannedQuery) -> None:
        super().__init__(spark, planned)
        self.counted: dict[str, PhysicalPlan] = {}

    def _lower(self, node: PhysicalPlan) -> Lowered:
        operator = node.operator
        if isinstance(operator, PASSED_BY) or (isinstance(operator, physical.Exchange) and not node.size.copies):
            return Lowered(self.lower(node.inputs[0]).sql)
        rows = super()._lower(node)
        if not isinstance(operator, COUNTED) or getattr(operator, "phase", None) in ("partial", "combining"):
            return rows
        name = f"rows_{len(self.counted)}"
        self.counted[name] = node
        return replace(rows, sql=self.select_from(self.query(rows.sql).observe(name, count(lit(1)).alias("rows"))))

    def changed(self, sql: str, change: Any) -> str:
        return sql

    def spool(self, number: int) -> str:
        return self.lower(self.spools[number]).sql


def counted(spark: SparkSession, planned: PlannedQuery) -> Iterator[tuple[PhysicalPlan, int]]:
    """Runs a plan. Its operators with the rows that each returned."""
    lowering = Counting(spark, planned)
    for output, plan in planned.outputs:
        frame = lowering.output(plan, [column.name for column in output.plan.columns])
        execution = frame._jdf.queryExecution()
        execution.toRdd().count()
        metrics = execution.observedMetrics()
        for name, node in lowering.counted.items():
            if metrics.contains(name):
                yield node, int(metrics.apply(name).getLong(0))


def q_error(estimated: float, actual: float) -> float:
    one, other = max(1.0, estimated), max(1.0, actual)
    return max(one / other, other / one)


def examined(name: str, planned: PlannedQuery, spark: SparkSession) -> list[dict[str, Any]]:
    """The operators of a query: their estimates, their rows, and where errors come from."""
    actual = {id(node): (node, rows) for node, rows in counted(spark, planned)}
    return [
        {
            "operator": told(node),
            "estimated": round(node.size.rows, 1),
            "rows": rows,
            "q_error": round(q_error(node.size.rows, rows), 3),
            "cause": cause(node, rows, actual),
            "query": name,
        }
        for node, rows in actual.values()
    ]


def told(node: PhysicalPlan) -> str:
    """An operator in a few words."""
    operator = node.operator
    match operator:
        case physical.Filter():
            return f"Filter {expression_text(operator.predicate)}"[:160]
        case physical.HashJoin() | physical.MergeJoin() | physical.NestedLoopJoin():
            on = operator.join.condition
            return f"{operator.kind.value} join {expression_text(on) if on is not None else ''}"[:160]
        case physical.HashAggregate() | physical.SortAggregate():
            return f"GroupBy {', '.join(map(str, operator.keys))}"[:160]
        case _:
            return type(operator).__name__


def expression_text(expression: Expression) -> str:
    return to_sql(expression, lambda column: column.name, lambda plan: "...")


def cause(node: PhysicalPlan, rows: int, actual: dict[int, tuple[PhysicalPlan, int]]) -> str:
    """Where the error of an estimate arises: in an input, or in this kind of operator."""
    inherited = 1.0
    for below in inputs(node, actual):
        inherited *= max(1.0, below.size.rows) / max(1.0, actual[id(below)][1])
    if q_error(node.size.rows, rows) <= OWN:
        return ""
    own = max(1.0, node.size.rows) / max(1.0, rows) / inherited
    if max(own, 1.0 / own) <= OWN:
        return "input"
    match node.operator:
        case physical.Filter():
            return "condition"
        case physical.HashJoin() | physical.MergeJoin() | physical.NestedLoopJoin() as join:
            return f"{join.kind.value} join"
        case physical.HashAggregate() | physical.SortAggregate():
            return "groups"
        case operator:
            return type(operator).__name__


def inputs(node: PhysicalPlan, actual: dict[int, tuple[PhysicalPlan, int]]) -> Iterator[PhysicalPlan]:
    """The nearest operators below that were counted."""
    for below in node.inputs:
        if id(below) in actual:
            yield below
        else:
            yield from inputs(below, actual)


def summary(errors: Sequence[float]) -> dict[str, float]:
    if len(errors) < 2:
        return dict.fromkeys(GOALS, errors[0] if errors else 1.0)
    cuts = quantiles(errors, n=100, method="inclusive")
    return {"median": round(cuts[49], 2), "p90": round(cuts[89], 2), "p99": round(cuts[98], 2)}


def show(found: dict[str, list[dict[str, Any]]], console: Console) -> dict[str, dict[str, float]]:
    operators = {suite: [each for q in queries for each in q["operators"]] for suite, queries in found.items()}
    operators["both"] = [each for suite in operators.values() for each in suite]
    table = Table(title="q-errors of estimated rows")
    for heading in ("suite", "operators", *GOALS):
        table.add_column(heading, justify="right")
    totals = {}
    for suite, each in operators.items():
        totals[suite] = summary([operator["q_error"] for operator in each])
        table.add_row(suite, str(len(each)), *(f"{value:,.2f}" for value in totals[suite].values()))
    table.caption = ", ".join(f"{name} {goal:g}" for name, goal in GOALS.items())
    console.print(table)
    worst = sorted(operators["both"], key=lambda each: -each["q_error"])[:WORST]
    for each in worst:
        console.print(
            f"{each['query']}: estimated {each['estimated']:,.0f}, was {each['rows']:,}; {each['cause']}: {each['operator']}",
            markup=False,
            highlight=False,
        )
    return totals


def suite(name: str, spark: SparkSession, chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    session = (use_tpch if name == "tpch" else use_tpcds)(spark, chosen.scale)
    texts = (tpch if name == "tpch" else tpcds).queries()
    found = []
    for number in chosen.query or sorted(texts):
        if number not in texts:
            continue
        planned, *_ = session.pipeline.plan(session.pipeline.bind(texts[number]))
        operators = examined(f"{name} Q{number}", planned, spark)
        found.append({"name": f"Q{number}", "size": chosen.scale, "operators": operators})
        errors = summary([each["q_error"] for each in operators])
        console.print(f"{name} Q{number}: {errors}, planned in {planned.optimize_ms:.0f} ms", highlight=False)
    return found


def drawn(found: dict[str, list[dict[str, Any]]], pyplot: Any) -> Any:
    """The share of estimates within each q-error."""
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, queries in found.items():
        errors = sorted(each["q_error"] for q in queries for each in q["operators"])
        axes.step(errors, [(place + 1) / len(errors) for place in range(len(errors))], label=name)
    axes.set_xscale("log")
    axes.set_xlabel("q-error")
    axes.set_ylabel("share of operators")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description="Estimated rows beside counted rows.")
    options.add_argument("--suite", action="append", choices=SUITES, help="only this one; may be repeated")
    options.add_argument("--query", action="append", type=int, help="only this one; may be repeated")
    options.add_argument("--scale", type=float, default=1.0, help="of the data")
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    spark = started()
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    found = {name: suite(name, spark, chosen, console) for name in chosen.suite or SUITES}
    totals = show(found, console)
    numbers = {"suites": found, "q_errors": totals}
    benchmark_report.write("estimates", numbers, drawn, parts="suites", spark=spark.version)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
