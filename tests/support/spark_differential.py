"""Compares optimized plans with plain Spark: the same rows, the planned exchanges and sorts, and the claimed layouts.

Spark takes long to start a job, not to run it. So tasks are few and small: plain Spark has its rows in memory and one
partition, a plan equal to the previous one is not run again, and only some nodes of each plan are checked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from tests.support.claimed_layouts import broken, can_be_checked, collected, with_places
from tests.support.generated_queries import machines
from unshuffle import Session
from unshuffle.explain.render.physical import physical_tree
from unshuffle.explain.render.text import text
from unshuffle.explore.rules import EXPLORATION
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.spark.execution import executed_plan_diff
from unshuffle.spark.lowering.lowering import Lowering, lowering
from unshuffle.target import Target
from unshuffle.verify import verify

MACHINES = machines(partition_bytes=1e6)
QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.parquet.columnarReaderBatchSize": "64",
}
PLAIN = {
    **QUICK,
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


@dataclass(frozen=True, slots=True)
class Sides:
    """Plain Spark and ours: two sessions of one Spark, with their own settings."""

    plain: SparkSession
    ours: Session


def in_two_sessions(spark: SparkSession) -> tuple[SparkSession, SparkSession]:
    """A session for plain Spark, and one for ours."""
    plain, ours = spark.newSession(), spark.newSession()
    for settings, session in ((PLAIN, plain), (QUICK, ours)):
        for name, value in settings.items():
            session.conf.set(name, value)
    return plain, ours


def problems(sides: Sides, seed: int, query: str) -> Iterator[str]:
    draw = random.Random(seed)
    # Adaptive execution plans again after each stage, which takes long, so only some queries use it. Without it, Spark
    # would reuse an exchange that occurs twice. (With it, that is decided later, and a plan with a stage of ours needs
    # it to finish.)
    adaptive = str(seed % 10 == 0).lower()
    for name in ("spark.sql.adaptive.enabled", "spark.sql.exchange.reuse"):
        sides.ours.spark.conf.set(name, adaptive)
    expected = _counted(tuple(row) for row in sides.plain.sql(query).collect())
    seen: set[str] = set()
    for optimized in _plans(sides.ours, query, draw):
        plan = optimized.outputs[0][1]
        shown = text(physical_tree(optimized, renumbered=True))
        if shown in seen:
            continue
        seen.add(shown)
        nodes = [plan]
        others = [node for node in can_be_checked(plan) if node is not plan]
        # One more node of one of the plans.
        if others and len(seen) == 1:
            nodes.append(draw.choice(others))
        with lowering(sides.ours.spark, optimized) as lowered:
            frames = [with_places(lowered, node) for node in nodes]
        for node, frame in zip(nodes, frames, strict=True):
            if node is plan and (found := _not_as_planned(lowered, optimized, frame)):
                yield f"{seed}: {query}\n{shown}\n  {found}"
            placed = collected(frame, node)
            if node is plan and _counted(placed.rows) != expected:
                ours = _counted(placed.rows)
                yield f"{seed}: {query}\n{shown}\n  Spark: {expected - ours}\n  ours: {ours - expected}"
            found = broken(node, placed)
            if found is not None:
                yield f"{seed}: {query}\n{shown}\n  {node.operator}\n  claims {node.delivered}\n  breaks {found}"


def _plans(session: Session, query: str, draw: random.Random) -> Iterator[PlannedQuery]:
    """The plans for some machine, and again with some of the rules that fired disabled."""
    script, machine = session.pipeline.bind(query), draw.choice(MACHINES)
    first = optimize(script, Options(Target(machine, is_managed=False)))
    used = [rule.__name__ for rule in EXPLORATION if first.trace.rules[rule.__name__]]
    disabled = {rule for rule in used if draw.random() < 0.5}
    plans = (
        [first, optimize(script, Options(Target(machine, is_managed=False), frozenset(disabled)))]
        if disabled
        else [first]
    )
    for optimized in plans:
        verify(optimized)
        yield optimized


def _not_as_planned(lowered: Lowering, optimized: PlannedQuery, frame: DataFrame) -> list[str]:
    planned = executed_plan_diff.as_planned(optimized, lowered.spark_exchanges)
    # The plan that will run. The frame keeps it, so Spark plans once.
    executed = executed_plan_diff.of_text(frame._jdf.queryExecution().executedPlan().toString().splitlines())
    return executed_plan_diff.differences(planned, executed)


def _counted(rows) -> Counter:  # type: ignore[no-untyped-def, type-arg]
    """Rows with their number of occurrences. Zero has two signs that are equal, and a group may return either."""
    return Counter(tuple("NaN" if value != value else value for value in row) for row in rows)
