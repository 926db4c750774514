"""Crash points of what Spark writes: of the jobs that write outputs where nobody sees them, and of the commit that puts all of
them in place. What must hold after a fault at an operation:

    a run that returns has put every output in place; one that fails has put none, and says so in one message for users
    a run that dies leaves each target old, new, or moved aside; the next run that names one of them first makes all of them
    old, or finds all of them new
    then nothing is left beside the targets, and the next commit succeeds

A crash is simulated: from an operation on, no operation of Spark's JVM or of Python has an effect. The disk is then as after
a SIGKILL, and the same Spark can try the next point. tools/crash_points.py kills real processes at some points.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession

from tests.support.crash.hadoop_faults import CHANGING, HadoopFaults, faulty_file_system
from tests.support.crash.local_faults import CHANGING as CHANGING_HERE
from tests.support.crash.local_faults import Crashed, LocalFaults, local_faults
from tests.support.crash.points import ERRORS, Broken, Ended, Point, is_for_users, renew, require
from tests.support.crash.script_shapes import NEW_ROWS, OLD_ROWS, Rows, ScriptShape, Target, data, rows_at
from unshuffle import Session
from unshuffle.frozen import dataclass
from unshuffle.plan.logical import Script
from unshuffle.spark.execution.run import Execution, failures_explained, stage_outputs, write_outputs
from unshuffle.spark.io import commit_record
from unshuffle.spark.io.pending_outputs import PendingOutputs
from unshuffle.spark.io.sstream_writer import PendingStreams
from unshuffle.sstream import storage_of
from unshuffle.sstream.vacuum import vacuum

SPARK, HERE = "Spark", "Python"


@dataclass(frozen=True, slots=True)
class Operation:
    side: str  # who performs it
    number: int
    text: str

    @property
    def kind(self) -> str:
        return self.text.split()[0]


Prepared = tuple[Execution, Script]


class _Staged(Exception):
    """All outputs are written, and none is in place."""


def faults_at(operation: Operation, is_commit: bool) -> tuple[str, ...]:
    """Errors of Spark's own jobs all go the same way, so each operation of a job gets one of them in turn."""
    changing = operation.kind in (CHANGING if operation.side == SPARK else CHANGING_HERE)
    in_turn = ERRORS[operation.number % len(ERRORS)]
    if not changing:
        return (in_turn,)
    crashes = ("crash", "crash partly") if operation.kind == "write" else ("crash",)
    if not is_commit:
        return (in_turn, *crashes)
    refused = ("refused",) if operation.kind in ("rename", "delete", "mkdirs") and operation.side == SPARK else ()
    return (in_turn, "after", *refused, *crashes)


class ScriptPoints:
    """The points of one shape, in one Spark session."""

    def __init__(self, spark: SparkSession, faults: HadoopFaults, shape: ScriptShape, folder: Path) -> None:
        self._faults, self._shape = faults, shape
        self.data, self._before, self.work = folder / "data", folder / "before", folder / "work"
        self._staged = folder / "staged"
        shutil.rmtree(folder, ignore_errors=True)
        data(self.data)
        self._before.mkdir()
        shape.prepare(self._before)
        self._session = Session(spark, effort="full")
        self._file = self.data / "script.scope"
        self._file.write_text(shape.script(self.data, self.work))

    @contextmanager
    def prepared(self) -> Iterator[Prepared]:
        """The script, planned once for all points."""
        self.renew()
        script = self._session.pipeline.bind_file(self._file, None)
        with self._session.pipeline.executing(script) as execution:
            yield execution, script

    def renew(self) -> None:
        renew(self._before, self.work)

    def operations(self, prepared: Prepared) -> list[Operation]:
        """All operations of a run."""
        execution, script = prepared
        self.renew()
        return self._operations(lambda: write_outputs(execution, script))

    def problem_after(self, prepared: Prepared, death: Callable[[], None]) -> str | None:
        """What does not hold after another process has run the script, and died."""
        execution, script = prepared
        self.renew()
        try:
            death()
            self.check(Ended(), lambda: write_outputs(execution, script))
        except (Broken, AssertionError) as broken:
            return str(broken)
        return None

    def job_points(self, step: int = 1, first: int = 1) -> Iterator[Point]:
        """Faults while the jobs write: at every operation before the commit."""
        with self.prepared() as prepared:
            execution, script = prepared

            def stage() -> None:
                with PendingOutputs(execution.spark) as outputs, PendingStreams(execution.spark) as streams:
                    stage_outputs(execution, script, outputs, streams)
                    raise _Staged

            def run() -> Ended:
                self.renew()
                return self._attempt(lambda: write_outputs(execution, script), script)

            self.renew()
            for operation in self._operations(stage)[first - 1 :: step]:
                for fault in faults_at(operation, is_commit=False):
                    yield self._point("job", operation, fault, run, lambda: write_outputs(execution, script))

    def commit_points(self, step: int = 1, first: int = 1) -> Iterator[Point]:
        """Faults while outputs are put in place: at every operation of the commit. The jobs run once."""
        with self.prepared() as (execution, script):
            outputs, streams = PendingOutputs(execution.spark), PendingStreams(execution.spark)
            stage_outputs(execution, script, outputs, streams)
            shutil.rmtree(self._staged, ignore_errors=True)
            shutil.copytree(self.work, self._staged)
            pending = list(outputs._pending)

            def commit() -> None:
                outputs._pending = list(pending)
                for writer in streams._pending:
                    writer._published = False
                with outputs, streams:
                    outputs.commit(streams)

            def run() -> Ended:
                renew(self._staged, self.work)
                return self._attempt(commit, script)

            def again() -> None:
                shutil.copytree(self._staged, self.work, dirs_exist_ok=True)
                commit()

            renew(self._staged, self.work)
            for operation in self._operations(commit)[first - 1 :: step]:
                for fault in faults_at(operation, is_commit=True):
                    yield self._point("commit", operation, fault, run, again)

    def _operations(self, run: Callable[[], object]) -> list[Operation]:
        self._faults.arm(self.work)
        with local_faults(LocalFaults(str(self.work))) as here, suppress(_Staged):
            run()
        of_spark = [Operation(SPARK, i, text) for i, text in enumerate(self._faults.operations, 1)]
        self._faults.disarm()
        return [*of_spark, *(Operation(HERE, i, text) for i, text in enumerate(here.operations, 1))]

    def _attempt(self, run: Callable[[], object], script: Script) -> Ended:
        operation, fault = self._armed
        here = LocalFaults(
            str(self.work),
            operation.number if operation.side == HERE else 0,
            fault,
            self._faults.die,
            lambda: self._faults.is_dead,
        )
        self._faults.arm(self.work, operation.number if operation.side == SPARK else 0, fault)
        try:
            with local_faults(here), failures_explained(script):
                run()
            return Ended(returned=not self._faults.is_dead)
        except Crashed:
            return Ended()
        except Exception as error:
            return Ended() if self._faults.is_dead else Ended(error=error)
        finally:
            self._faults.disarm()
            commit_record._active.clear()

    def _point(
        self, phase: str, operation: Operation, fault: str, run: Callable[[], Ended], again: Callable[[], object]
    ) -> Point:
        self._armed = operation, fault
        problem = None
        try:
            self.check(run(), again)
        except (Broken, AssertionError) as broken:
            problem = str(broken)
        text = f"{operation.side}, {phase}: {operation.text}"
        return Point(self._shape.name, text, operation.number, fault, problem)

    # --- what must hold

    def check(self, ended: Ended, again: Callable[[], object]) -> None:
        require(bool(ended.error) <= is_for_users(ended.error), f"the error is {ended.error!r}")
        found = self._states()
        if ended.returned:
            require(set(found) == {"new"}, f"the run returned, and the outputs are {found}")
        if ended.error is not None:
            require(set(found) == {"old"}, f"the run failed with {ended.error}, and the outputs are {found}")
        require("other" not in found, f"after the crash the outputs are {found}")
        self._recover()
        found = self._states()
        require(len(set(found)) == 1 and found[0] in ("old", "new"), f"after the crash the outputs stay {found}")
        self._check_clean()
        if found[0] == "old" and ended != Ended(returned=True):
            again()
            require(set(self._states()) == {"new"}, "the next run does not write")
            self._check_clean()

    def _states(self) -> list[str]:
        return [self._state(target) for target in self._shape.targets]

    def _recover(self) -> None:
        """The first step of the next run over the last target."""
        commit_record.recover(self._session.spark, [str(self.work / self._shape.targets[-1].path)])

    def _state(self, target: Target) -> str:
        path = self.work / target.path
        try:
            rows = rows_at(path, target)
        except Exception as error:
            raise Broken(f"{target.path} cannot be read: {error!r}") from error
        if rows == NEW_ROWS:
            return "new"
        if rows == (OLD_ROWS if target.exists else None):
            return "old"
        return "moved aside" if rows is None and self._backup(target) == OLD_ROWS else "other"

    def _backup(self, target: Target) -> Rows | None:
        path = self.work / target.path
        found = list(path.parent.glob(f".{path.name}.unshuffle-*-old"))
        if len(found) != 1:
            return None
        moved = found[0].with_name(path.name)
        found[0].rename(moved)  # so that its name tells its format
        rows = rows_at(moved, target)
        moved.rename(found[0])
        return rows

    def _check_clean(self) -> None:
        """Runs that are older than a day leave nothing after the next run, nor writers of streams after a vacuum."""
        with patch.object(commit_record, "KEPT_HOURS", 0.0):
            commit_record.recover(self._session.spark, [str(self.work / each.path) for each in self._shape.targets])
        self._vacuum()
        left = sorted(self._left())
        require(not left, f"the next run leaves {left}")

    def _vacuum(self) -> None:
        for target in self._shape.targets:
            path = str(self.work / target.path)
            if target.is_stream and rows_at(Path(path), target) is not None:
                vacuum(storage_of(path), path, hours=0)

    def _left(self) -> Iterator[str]:
        """Files that are no output's."""
        places = [self.work / target.path for target in self._shape.targets]
        for file in self.work.rglob("*"):
            inside = [place for place in places if place in file.parents]
            if file.is_file() and (not inside or file.name.startswith(".")) and not self._is_of_new_stream(file):
                yield str(file.relative_to(self.work))

    def _is_of_new_stream(self, file: Path) -> bool:
        """Without a version there is nothing to vacuum; the next writer's vacuum removes it."""
        streams = [self.work / each.path for each in self._shape.targets if each.is_stream and not each.exists]
        return any(place in file.parents and not list(place.glob("_stream/*.json")) for place in streams)


def moves(operations: Iterable[Operation]) -> list[Operation]:
    """The operations of Spark that put outputs in place."""
    hidden = ("/_temporary", "/part-", "/.part-", "/_SUCCESS", "/._SUCCESS")
    moving = [each for each in operations if each.side == SPARK and each.kind in ("rename", "delete")]
    return [each for each in moving if not any(name in each.text for name in hidden)]


def script_points(spark: SparkSession, shapes: Iterable[ScriptShape], folder: Path, step: int = 1) -> Iterator[Point]:
    """Every point of the commits of some shapes, and every point of their jobs, or every `step`th operation of each."""
    with faulty_file_system(spark) as faults:
        for shape in shapes:
            points = ScriptPoints(spark, faults, shape, folder)
            yield from points.commit_points(step)
            yield from points.job_points(step)


def written(spark: SparkSession, faults: HadoopFaults, work: Path, at: int, fault: str) -> None:
    """Runs the script that belongs to a folder, in a process of its own. It is planned before operations are counted."""
    session = Session(spark, effort="full")
    script = session.pipeline.bind_file(work.parent / "data" / "script.scope", None)
    with session.pipeline.executing(script) as execution:
        faults.arm(work, at, fault)
        write_outputs(execution, script)
