"""A progress bar on the terminal: completed tasks out of those that Spark has planned so far.

A separate thread polls Spark's status tracker a few times a second. The bar goes to stderr, and only if that is a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from unshuffle.spark.session import is_connect

_PERIOD = 0.2  # seconds


@contextmanager
def progress(spark: SparkSession, label: str = "running", console: Console | None = None) -> Iterator[None]:
    """Shows a bar while the block runs."""
    console = console or Console(stderr=True)
    if not console.is_terminal or is_connect(spark):
        yield
        return
    done = Event()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        thread = Thread(target=_watch, args=(spark, bar, label, done), daemon=True, name="unshuffle-progress")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _watch(spark: SparkSession, bar: Progress, label: str, done: Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    task = bar.add_task(label, total=None)
    stages: dict[int, tuple[int, int]] = {}  # completed tasks, and all tasks
    before = set(tracker.getActiveStageIds())  # stages of other queries in the same session
    while not done.wait(_PERIOD):
        try:
            active = set(tracker.getActiveStageIds()) - before
            for id, (_, total) in stages.items():
                if id not in active:
                    stages[id] = (total, total)
            for id in active:
                if (info := tracker.getStageInfo(id)) is not None:
                    stages[id] = (info.numCompletedTasks, info.numTasks)
        except (Py4JError, OSError):
            return  # Spark is stopping; the query itself reports that
        if stages:
            bar.update(task, completed=sum(d for d, _ in stages.values()), total=sum(t for _, t in stages.values()))
