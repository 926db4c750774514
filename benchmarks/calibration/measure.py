"""Measures a job: the processor seconds of its tasks, stage by stage.

On a shared machine, wall-clock times vary by factors, while the processor time of the same tasks varies by a few per cent.
So the seconds of a job are the processor seconds of its tasks, stage by stage, spread over the cores as the cost model
spreads them. Work outside tasks comes from Linux's process statistics: Python workers are separate processes, and the
driver builds and sends broadcasts in its own threads.

Waiting (the start of stages and tasks) must be measured in wall-clock time, as the minimum of many short repetitions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

_PATIENCE_MS = 60_000
_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stage:
    tasks: int
    seconds: float  # processor seconds of all tasks

    def elapsed(self, cores: int) -> float:
        return self.seconds / min(self.tasks, cores)


@dataclass(frozen=True, slots=True)
class Taken:
    """One run of a job."""

    stages: tuple[Stage, ...]
    wall: float
    driver: float = 0.0  # processor seconds of the driver while no task ran

    def elapsed(self, cores: int) -> float:
        return sum(stage.elapsed(cores) for stage in self.stages) + self.driver


def measure(spark: Any, run: Callable[[], object], tag: str, python: bool = False) -> Taken:
    """Runs something, and finds its stages by a unique job tag. `python` if its last stage runs Python."""
    context = spark.sparkContext
    before = _outside_tasks()
    context.addJobTag(tag)
    began = time.perf_counter()
    try:
        run()
    finally:
        wall = time.perf_counter() - began
        context.removeJobTag(tag)
    stages = _stages(context._jsc.sc(), tag)
    after = _outside_tasks()
    if python:
        stages[-1] = Stage(stages[-1].tasks, stages[-1].seconds + _more(after.python, before.python))
    return Taken(tuple(stages), wall, _more(after.driver, before.driver))


def _stages(context: Any, tag: str) -> list[Stage]:
    context.listenerBus().waitUntilEmpty(_PATIENCE_MS)
    found: dict[int, Stage] = {}
    for job in context.statusTracker().getJobIdsForTag(tag):
        ids = context.statusStore().job(job).stageIds()
        for id in (ids.apply(i) for i in range(ids.size())):
            try:
                stage = context.statusStore().lastStageAttempt(id)
            except Py4JJavaError:
                continue  # its output was already there
            if stage.numCompleteTasks():
                found[id] = Stage(stage.numTasks(), stage.executorCpuTime() / 1e9)
    return [found[id] for id in sorted(found)]


@dataclass(slots=True)
class _Outside:
    """Processor seconds so far, by process and by thread."""

    python: dict[int, float]
    driver: dict[int, float]


def _more(after: dict[int, float], before: dict[int, float]) -> float:
    """The increase. Nothing is known about processes that have ended meanwhile."""
    return sum(seconds - before.get(id, 0.0) for id, seconds in after.items())


def _outside_tasks() -> _Outside:
    """The Python workers of this process, and the driver's threads that fetch, build and send broadcasts."""
    below: dict[int, list[tuple[int, float, str]]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may just have ended
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
            parts = rest.split()
            seconds = sum(map(int, parts[11:13])) * _TICK  # user and system
            below.setdefault(int(parts[1]), []).append((int(path.parent.name), seconds, name))
    found, waiting = _Outside({}, {}), [os.getpid()]
    while waiting:
        for id, seconds, name in below.get(waiting.pop(), ()):
            if name.startswith("python"):
                found.python[id] = seconds
            elif name == "java":
                found.driver |= _driver_threads(id)
            waiting.append(id)
    return found


def _driver_threads(process: int) -> dict[int, float]:
    found = {}
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):
            if (thread / "comm").read_text().startswith(("broadcast-excha", "task-result-get")):
                found[int(thread.name)] = int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found
