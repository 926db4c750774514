"""Threads that share one session, and a watcher that sees what other threads would see of it."""

from __future__ import annotations

import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from pyspark.sql import SparkSession

from tests.support.load.footprint import settings, temporary_views
from tests.support.load.operations import OPERATIONS, World, drawn, perform

_WATCH_SECONDS = 0.05


class Load:
    """Runs operations in threads until told to stop. `problems` are the results that were wrong."""

    def __init__(self, made: World, threads: int, seed: int, on_problem: Callable[[str], None] | None = None) -> None:
        self._made = made
        self._threads = threads
        self._seed = seed
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self.done: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.problems: list[str] = []

    @property
    def operations(self) -> int:
        return sum(self.done.values())

    def each_once(self) -> None:
        """Every operation in this thread, so that classes are loaded and caches are filled."""
        for number, operation in enumerate(OPERATIONS):
            self._perform(operation, number, Random(number))

    def run(self, may_go_on: Callable[[int], bool]) -> None:
        """Runs all threads as long as `may_go_on` says of the number of operations begun."""
        begun = iter(range(1 << 62))

        def work(thread: int) -> None:
            draw = Random(f"{self._seed} {thread} {self.operations}")
            while may_go_on(next(begun)):
                self._perform(drawn(draw), thread, draw)

        threads = [threading.Thread(target=work, args=(i,), name=f"load-{i}") for i in range(self._threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _perform(self, operation: Callable[..., None], thread: int, draw: Random) -> None:
        name, began = operation.__name__, time.perf_counter()
        try:
            perform(self._made, operation, self._made.folder / f"out-{thread}", draw)
        except Exception as error:
            self.report(f"{name}: {error}\n{''.join(traceback.format_exception(error)[-4:])}")
        with self._lock:
            self.done[name] += 1
            self.seconds[name] += time.perf_counter() - began

    def report(self, problem: str) -> None:
        with self._lock:
            self.problems.append(problem)
        if self._on_problem is not None:
            self._on_problem(problem)


@contextmanager
def watched(spark: SparkSession, load: Load) -> Iterator[None]:
    """Reports a setting or a view of the user's session that differs from what it was, even for a moment, and warnings that
    a query was not optimized because of a fault."""
    before, ended = settings(spark), threading.Event()
    views, seen = temporary_views(spark), set[str]()

    def look() -> None:
        now = settings(spark)
        for key in before.keys() | now.keys():
            if before.get(key) != now.get(key) and key not in seen:
                seen.add(key)
                load.report(f"other threads see {key} = {now.get(key)} instead of {before.get(key)}")
        for view in temporary_views(spark):
            if view not in views and "views" not in seen:
                seen.add("views")
                load.report(f"other threads see the view {view}")

    def watch() -> None:
        try:
            while not ended.wait(_WATCH_SECONDS):
                look()
        except Exception as error:
            load.report(f"the watcher failed: {error}")

    watcher = threading.Thread(target=watch, name="load-watcher")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
    for message in {str(each.message) for each in caught if "NotOptimized" in each.category.__name__}:
        load.report(f"not optimized: {message}")
