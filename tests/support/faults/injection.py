"""Faults that strike while the k-th stage of a query runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from tests.support.faults.cluster import Cluster, Started

T = TypeVar("T")
POLL_SECONDS = 0.005
SECONDS = 240.0  # after which a query counts as hanging


class Fault:
    """Strikes once, when the first task of its stage starts. Tasks that `holds` is true of wait."""

    def __init__(self, cluster: Cluster, stage: int) -> None:
        self.cluster, self._stage = cluster, stage
        self.stages: list[int] = []  # that have started, in this order
        self.struck: Started | None = None  # the first task of the stage
        self._seen: set[int] = set()
        self._held: list[Started] = []

    def poll(self) -> None:
        for task in self.cluster.started():
            if task.task not in self._seen:
                self._seen.add(task.task)
                self._held.append(task)
                self._saw(task)
        self.watch()
        held = [task for task in self._held if self.holds(task)]
        for task in self._held:
            if task not in held:
                self.cluster.release(task.task)
        self._held = held

    def _saw(self, task: Started) -> None:
        if task.stage not in self.stages:
            self.stages.append(task.stage)
        if self.struck is None and self.stages.index(task.stage) == self._stage:
            self.struck = task
            self.strike(task)

    def strike(self, task: Started) -> None:
        pass

    def watch(self) -> None:
        pass

    def holds(self, task: Started) -> bool:
        return False


class ExecutorDies(Fault):
    """The executor of the stage's first task dies before the task computes anything."""

    def strike(self, task: Started) -> None:
        self.cluster.kill(task.executor)


class ExecutorDiesLater(Fault):
    """The executor of the stage's first task dies once the task has ended, and what it computed is lost with it. The other
    tasks of the stage have not begun."""

    is_dead = False

    def watch(self) -> None:
        if self.struck is not None and not self.is_dead and self.cluster.has_ended(self.struck.task):
            self.cluster.kill(self.struck.executor)
            self.is_dead = True

    def holds(self, task: Started) -> bool:
        return self.struck is not None and task.stage == self.struck.stage and task != self.struck and not self.is_dead


class AllExecutorsDie(Fault):
    def strike(self, task: Started) -> None:
        for executor in self.cluster.executors():
            self.cluster.kill(executor)


class ShuffleFilesAreLost(Fault):
    def strike(self, task: Started) -> None:
        self.cluster.lose_shuffle_files()


class BroadcastsAreLost(Fault):
    def strike(self, task: Started) -> None:
        self.cluster.lose_broadcasts()


class TaskIsKilled(Fault):
    def strike(self, task: Started) -> None:
        self.cluster.kill_task(task.task)


class TaskIsSlow(Fault):
    """The stage's first task waits until the query has ended: only a speculative copy of it can end the stage. The stages of
    one task have no copies, since Spark compares a task with others of its stage."""

    has_copies = False

    def strike(self, task: Started) -> None:
        self.has_copies = self.cluster.tasks_of(task.stage) > 1

    def holds(self, task: Started) -> bool:
        return task == self.struck and self.has_copies


FAULTS: dict[str, type[Fault]] = {
    "executor dies": ExecutorDies,
    "executor dies after a task": ExecutorDiesLater,
    "all executors die": AllExecutorsDie,
    "shuffle files lost": ShuffleFilesAreLost,
    "broadcasts lost": BroadcastsAreLost,
    "task killed": TaskIsKilled,
    "task slow": TaskIsSlow,
}


def run_under(fault: Fault, query: Callable[[], T]) -> T:
    """The result of a query, under a fault."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(query())
        except BaseException as error:
            errors.append(error)

    running = Thread(target=run, daemon=True)
    until = time.monotonic() + SECONDS
    with fault.cluster.holding():
        running.start()
        while running.is_alive():
            fault.poll()
            if time.monotonic() > until:
                raise TimeoutError(f"the query has not ended after {SECONDS:.0f} s")
            running.join(POLL_SECONDS)
    if errors:
        raise errors[0]
    return answers[0]
