"""Planned queries on Spark: lowered into DataFrames, and run for their outputs.

An `Execution` is one query's: its DataFrames, the session they belong to, and what fell back to Spark. Nothing of it stays
in a `Session`, so any number of threads can use one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from unshuffle.catalog import files
from unshuffle.effort import Stakes
from unshuffle.errors import UnshuffleError, disk_problems, located
from unshuffle.frozen import dataclass
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan.logical import FileTarget, Output, Scan, Script, StreamTarget
from unshuffle.plan.sstream_output import as_planned, layout_request_for
from unshuffle.properties import Delivered
from unshuffle.results import Measured, Result
from unshuffle.spark.execution import executed_plan_diff, results
from unshuffle.spark.execution.failures import explain_failure
from unshuffle.spark.execution.metrics import Measurement, measure
from unshuffle.spark.execution.progress import progress
from unshuffle.spark.execution.session_settings import handed_over, session_of_query
from unshuffle.spark.io import sstream_writer
from unshuffle.spark.io.commit_record import recover
from unshuffle.spark.io.pending_outputs import PendingOutputs
from unshuffle.spark.lowering.baseline import baseline as baseline_translation
from unshuffle.spark.lowering.lowering import lowering
from unshuffle.spark.udf.user_operators import spans_of


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """The outputs of one query as DataFrames of `spark`, ready to run."""

    spark: SparkSession
    frames: list[DataFrame]
    layouts: tuple[Delivered | None, ...]  # of each output; None where the plan does not determine it
    reasons: tuple[str, ...] = ()  # why parts of the query, or all of it, fell back to Spark
    added: Callable[[], tuple[str, ...]] = tuple  # asks Spark which exchanges it adds to the plan
    optimize_ms: float = 0.0
    left_as_is: Stakes | None = None  # why planning the user's DataFrame did not pay
    # Jobs of the outputs run in this context, if whoever runs them can begin again (see `replanning`).
    watching: Callable[[], AbstractContextManager[None]] = nullcontext
    replaced: tuple[Replacement, ...] = ()  # the plans before this one that were given up while they ran

    @property
    def fallbacks(self) -> tuple[str, ...]:
        return (*self.reasons, *self.added())

    def handed_over(self, spark: SparkSession) -> Execution:
        """The same with DataFrames of the user's session."""
        return replace(self, spark=spark, frames=[handed_over(frame, spark) for frame in self.frames])


@dataclass(frozen=True, slots=True)
class Replacement:
    """Why a plan was given up, and how long it had run."""

    reason: str
    seconds: float
    is_for_spark: bool = False  # the query then ran as plain Spark runs it

    def __str__(self) -> str:
        instead = "left to Spark's adaptive execution" if self.is_for_spark else "planned again"
        return f"after {self.seconds:.1f} s the query was {instead}: {self.reason}"


@contextmanager
def lowered(spark: SparkSession, planned: PlannedQuery, script: Script) -> Iterator[Execution]:
    """A planned query in the user's session, under settings of its own. Persisted rowsets are released at the end."""
    session = session_of_query(spark, planned.settings, planned.target.is_managed)
    with spark_failures_explained(script), lowering(session, planned) as lowering_:
        try:
            frames = [lowering_.output(plan, [c.name for c in o.plan.columns]) for o, plan in planned.outputs]
        except BaseException:
            lowering_.release()
            raise

    spark_exchanges = lowering_.spark_exchanges

    @cache
    def added() -> tuple[str, ...]:
        return executed_plan_diff.added(planned, spark_exchanges, frames)

    layouts = tuple(output.layout for output, _ in planned.outputs)
    try:
        yield Execution(session, frames, layouts, planned.fallbacks, added, planned.optimize_ms)
    finally:
        lowering_.release()


def baseline(spark: SparkSession, script: Script, reasons: Sequence[str] = ()) -> Execution:
    """Every output as plain Spark would run it."""
    with failures_explained(script), baseline_translation(spark) as translated:
        frames = [translated.result(output.plan) for output in script.outputs]
    return Execution(spark, frames, (None,) * len(frames), tuple(reasons))


def write_outputs(execution: Execution, script: Script) -> tuple[Measured, tuple[Result, ...]]:
    """Runs every output and writes it to its target: all of them, or, if anything fails, none."""
    spark = execution.spark
    targets = [output.target.path for output in script.outputs if output.target is not None]
    with disk_problems(f"{', '.join(targets)} cannot be written"):
        recover(spark, targets)
    with (
        measured(spark) as measurement,
        PendingOutputs(spark) as pending,
        sstream_writer.PendingStreams(spark) as streams,
    ):
        with execution.watching():
            counts = stage_outputs(execution, script, pending, streams)
        pending.commit(streams)
    rows = [count() for count in counts]
    shown = []
    for output, frame, number in zip(script.outputs, execution.frames, rows, strict=True):
        path = output.target.path if output.target is not None else None
        first = tuple(tuple(row) for row in _first_rows(spark, frame, output))
        shown.append(Result(path, tuple(frame.columns), number, first))
    run = as_measured([measurement], sum(rows))
    seconds = run.seconds[0] + sum(each.seconds for each in execution.replaced)
    return replace(run, seconds=(seconds,)), tuple(shown)


def _first_rows(spark: SparkSession, frame: DataFrame, output: Output) -> list[Row]:
    """The rows to show. An output is in place by now, so that a failure to read it back is not one of the run."""
    try:
        return results.first_rows(spark, frame, output)
    except Exception:
        if output.target is None:
            raise
        return []


def stage_outputs(
    execution: Execution, script: Script, pending: PendingOutputs, streams: sstream_writer.PendingStreams
) -> list[Callable[[], int]]:
    """Runs every output, and writes it where nobody sees it yet. Returns the number of rows of each."""
    counts: list[Callable[[], int]] = []
    for output, frame, layout in zip(script.outputs, execution.frames, execution.layouts, strict=True):
        match output.target:
            case FileTarget() as target:
                counted, count = results.counted(frame)
                pending.write(counted, [c.name for c in output.plan.columns], target)
            case StreamTarget() as target:
                with located(output.span):
                    count = _stream_written(streams, frame, target, layout, script)
            case None:
                counted, count = results.counted(frame)
                results.consume(counted)
        counts.append(count)
    return counts


def _stream_written(
    streams: sstream_writer.PendingStreams,
    frame: DataFrame,
    target: StreamTarget,
    layout: Delivered | None,
    script: Script,
) -> Callable[[], int]:
    """Writes the files of a stream. Returns the number of its rows. They are counted in the files, which tasks that Spark
    repeats do not change."""
    request = as_planned(layout_request_for(target), layout)
    input_layout: sstream_writer.InputLayout = "partitioned" if layout is not None else "none"
    follows = version_read(script, target.path)
    manifest = streams.write(frame, target.path, request, follows=follows, input_layout=input_layout)
    return lambda: manifest.rows


def version_read(script: Script, path: str) -> int | None:
    """The version of a stream that a script reads, if it reads the stream. Its next version is computed from that one."""
    stream = files.absolute(path)
    scans = (node for node in script.operators() if isinstance(node, Scan) and node.stream is not None)
    return next((scan.stream.version for scan in scans if scan.stream and scan.stream.path == stream), None)


def consume(execution: Execution) -> int:
    """Computes every row of every output and drops it. Returns the number of rows."""
    counted = [results.counted(frame) for frame in execution.frames]
    with execution.watching():
        for frame, _ in counted:
            results.consume(frame)
    return sum(count() for _, count in counted)


@contextmanager
def measured(spark: SparkSession) -> Iterator[Measurement]:
    """Measures what runs inside the block, and shows its progress on a terminal."""
    with progress(spark), measure(spark) as measurement:
        yield measurement


def as_measured(runs: Sequence[Measurement], rows: int) -> Measured:
    """The seconds of all runs, and the rest of the last one."""
    last = runs[-1]
    return Measured(
        tuple(run.seconds for run in runs),
        last.exchanges,
        last.shuffle_bytes,
        last.spill_bytes,
        last.task_seconds,
        rows,
        last.peak_memory_bytes,
    )


@contextmanager
def failures_explained(script: Script) -> Iterator[None]:
    """Turns errors of a running job into ours: one sentence, the place in the script, no Java stack trace."""
    try:
        yield
    except UnshuffleError:
        raise
    except Exception as error:
        raise explain_failure(error, spans_of(script)) from error


@contextmanager
def spark_failures_explained(script: Script) -> Iterator[None]:
    """The same for Spark's errors alone: anything else that is raised while lowering is a fault of ours."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise explain_failure(error, spans_of(script)) from error
