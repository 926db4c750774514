"""Spark's own metrics of a piece of work.

The jobs of the work are found by a tag, so that nothing else in the user's session counts. Exchanges are counted in the final
adaptive plans; reused exchanges and broadcasts do not count. A fragment that reaches Spark as an RDD hides its exchanges from
the plan, but not their stages, so the larger of the two counts is taken.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from unshuffle.frozen import dataclass
from unshuffle.spark.session import untested
from unshuffle.spark.shims.gateway import items_of, java_array, java_session, jvm

_PATIENCE_MS = 30_000


@dataclass
class Measurement:
    """Filled in when the measured work has ended, also when it failed."""

    seconds: float = 0.0
    exchanges: int = 0
    shuffle_bytes: int = 0  # written
    spill_bytes: int = 0  # to disk
    task_seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the tasks: on a busy machine they also wait
    peak_memory_bytes: int = 0  # for sorting, joining and grouping, of the task that took most at once
    longest_task: float = 0.0  # of the stage with most work, as a multiple of its average task


@contextmanager
def measure(spark: SparkSession) -> Iterator[Measurement]:
    """Measures what this thread runs on Spark inside the block. (For other threads, use pyspark.InheritableThread.)"""
    measured, context, tag = Measurement(), spark.sparkContext, f"unshuffle-{secrets.token_hex(4)}"
    context.addJobTag(tag)
    began = time.perf_counter()
    try:
        yield measured
    finally:
        measured.seconds = time.perf_counter() - began
        context.removeJobTag(tag)
        if untested(spark.version) is None:  # the metrics are read from Spark's internals
            _fill(measured, spark, tag)


def _fill(measured: Measurement, spark: SparkSession, tag: str) -> None:
    context = spark.sparkContext._jsc.sc()
    try:
        context.listenerBus().waitUntilEmpty(_PATIENCE_MS)
    except Py4JJavaError:
        return  # a listener hangs; incomplete metrics would mislead
    jobs = set(context.statusTracker().getJobIdsForTag(tag))
    stages = {job: _stages(context, job) for job in jobs}
    distinct = {id: data for of_job in stages.values() for id, data in of_job.items()}.values()
    for stage in distinct:
        measured.shuffle_bytes += stage.shuffleWriteBytes()
        measured.spill_bytes += stage.diskBytesSpilled()
        measured.task_seconds += stage.executorRunTime() / 1000
        measured.cpu_seconds += stage.executorCpuTime() / 1e9
        measured.peak_memory_bytes = max(measured.peak_memory_bytes, _peak_memory(spark, context, stage))
    if distinct:
        measured.longest_task = _longest_task(spark, context, max(distinct, key=lambda stage: stage.executorRunTime()))

    def writing(of_jobs: set[int]) -> int:
        return len({id for job in of_jobs for id, data in stages[job].items() if data.shuffleWriteBytes() > 0})

    outside = set(jobs)
    for of_execution, exchanges in _executions(spark, jobs):
        measured.exchanges += max(exchanges, writing(of_execution))
        outside -= of_execution
    measured.exchanges += writing(outside)


def _stages(context: Any, job: int) -> dict[int, Any]:
    """The stages of a job that ran. Stages whose output already existed are skipped by Spark."""
    found = {}
    store = context.statusStore()
    for id in items_of(store.job(job).stageIds()):
        try:
            stage = store.lastStageAttempt(id)
        except Py4JJavaError:
            continue  # never attempted
        if stage.numCompleteTasks() or stage.numFailedTasks():
            found[id] = stage
    return found


def _peak_memory(spark: SparkSession, context: Any, stage: Any) -> int:
    """The peak execution memory of any one task of a stage. The stage's own figure is the sum over its tasks, which did not
    all run at once; where it is 0, so is every task's."""
    if not stage.peakExecutionMemory():
        return 0
    highest = _highest(spark, context, stage)
    return int(highest.peakExecutionMemory().apply(0)) if highest is not None else 0


def _longest_task(spark: SparkSession, context: Any, stage: Any) -> float:
    highest, total = _highest(spark, context, stage), stage.executorRunTime()
    if highest is None or not total:
        return 0.0
    return float(highest.executorRunTime().apply(0) * stage.numCompleteTasks() / total)


def _highest(spark: SparkSession, context: Any, stage: Any) -> Any:
    """The highest metrics of any task of a stage, if Spark still has them."""
    highest = java_array(spark, jvm(spark).double, [1.0])
    summary = context.statusStore().taskSummary(stage.stageId(), stage.attemptId(), highest)
    return summary.get() if summary.isDefined() else None


def _executions(spark: SparkSession, jobs: set[int]) -> Iterator[tuple[set[int], int]]:
    """Each SQL execution among the jobs: its jobs, and the exchanges of its final plan, its subqueries' included. Spark lists
    the last thousand executions, so they are asked for one by one, the newest first."""
    store = java_session(spark).sharedState().statusStore()
    oldest = min(jobs, default=0)
    executions = store.executionsList()
    for position in range(executions.size() - 1, -1, -1):
        execution = executions.apply(position)
        own = {int(id) for id in items_of(execution.jobs().keys().toSeq())}
        if own & jobs:
            nodes = items_of(store.planGraph(execution.executionId()).allNodes())
            yield own & jobs, sum(node.name() == "Exchange" for node in nodes)
        elif own and max(own) < oldest:
            return
