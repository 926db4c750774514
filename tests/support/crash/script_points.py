"""Crash points of what Spark writes. What must hold after a fault at an operation:

    a run that returns has put every output in place; one that fails has put none, and says so in one message for users
    a run that dies leaves each target old, new, or moved aside; the next run that names one of them first makes all of them
    old, or finds all of them new
    the next run succeeds, and leaves nothing beside the targets

A crash is simulated: from an operation on, no operation of Spark's JVM or of Python has an effect. The disk is then as after
a SIGKILL, and the same Spark can try the next point. `--kill` of tools/crash_points.py kills real processes at some points.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
from unshuffle.spark.execution.run import Execution, failures_explained, write_outputs
from unshuffle.spark.io import commit_record
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

    @property
    def is_of_job(self) -> bool:
        """Is it one of Spark's job, which writes an output where nobody sees it?"""
        return self.side == SPARK and ("/_temporary" in self.text or "/part-" in self.text or "/_SUCCESS" in self.text)


def faults_at(operation: Operation) -> tuple[str, ...]:
    """Errors of Spark's own job all go the same way, so each of its operations gets one of them in turn."""
    changing = operation.kind in (CHANGING if operation.side == SPARK else CHANGING_HERE)
    in_turn = ERRORS[operation.number % len(ERRORS)]
    if not changing:
        return (in_turn,)
    crashes = ("crash", "crash partly") if operation.kind == "write" else ("crash",)
    if operation.is_of_job:
        return (in_turn, *crashes)
    refused = ("refused",) if operation.kind in ("rename", "delete", "mkdirs") and operation.side == SPARK else ()
    return (in_turn, "after", *refused, *crashes)


class ScriptPoints:
    """The points of one shape, in one Spark session."""

    def __init__(self, spark: SparkSession, faults: HadoopFaults, shape: ScriptShape, folder: Path) -> None:
        self._faults, self._shape = faults, shape
        self.data, self._before, self.work = folder / "data", folder / "before", folder / "work"
        shutil.rmtree(folder, ignore_errors=True)
        data(self.data)
        self._before.mkdir()
        shape.prepare(self._before)
        renew(self._before, self.work)
        self._session = Session(spark)
        self._file = self.data / "script.scope"
        self._file.write_text(shape.script(self.data, self.work))

    def run(self) -> None:
        self._session.run(self._file)

    @contextmanager
    def prepared(self) -> Iterator[tuple[Execution, Script]]:
        """The script, planned once for all points."""
        renew(self._before, self.work)
        script = self._session.pipeline.bind_file(self._file, None)
        with self._session.pipeline.executing(script) as execution:
            yield execution, script

    def operations(self, prepared: tuple[Execution, Script]) -> list[Operation]:
        here = LocalFaults(str(self.work))
        ended = self._write(prepared, here, 0, "")
        if ended.error is not None:
            raise ended.error
        of_spark = [Operation(SPARK, i, text) for i, text in enumerate(self._faults.operations, 1)]
        return [*of_spark, *(Operation(HERE, i, text) for i, text in enumerate(here.operations, 1))]

    def _write(self, prepared: tuple[Execution, Script], here: LocalFaults, at: int, fault: str) -> Ended:
        renew(self._before, self.work)
        execution, script = prepared
        self._faults.arm(self.work, at, fault)
        try:
            with local_faults(here), failures_explained(script):
                write_outputs(execution, script)
        except Crashed:
            return Ended()
        except Exception as error:
            return Ended() if self._faults.is_dead else Ended(error=error)
        finally:
            died = self._faults.is_dead
            self._faults.disarm()
        return Ended() if died else Ended(returned=True)

    def points(self, step: int = 1, first: int = 1) -> Iterator[Point]:
        with self.prepared() as prepared:
            for operation in self.operations(prepared)[first - 1 :: step]:
                for fault in faults_at(operation):
                    yield self._point(prepared, operation, fault)

    def _point(self, prepared: tuple[Execution, Script], operation: Operation, fault: str) -> Point:
        at = operation.number if operation.side == SPARK else 0
        here = LocalFaults(
            str(self.work),
            0 if operation.side == SPARK else operation.number,
            fault,
            self._faults.die,
            lambda: self._faults.is_dead,
        )
        text = f"{operation.side}: {operation.text}"
        problem = None
        try:
            ended = self._write(prepared, here, at, fault)
            self.check(ended, prepared)
        except (Broken, AssertionError) as broken:
            problem = str(broken)
        return Point(self._shape.name, text, operation.number, fault, problem)

    # --- what must hold

    def check(self, ended: Ended, prepared: tuple[Execution, Script]) -> None:
        require(bool(ended.error) <= is_for_users(ended.error), f"the error is {ended.error!r}")
        found = [self._state(target) for target in self._shape.targets]
        if ended.returned:
            require(set(found) == {"new"}, f"the run returned, and the outputs are {found}")
        if ended.error is not None:
            require(set(found) == {"old"}, f"the run failed with {ended.error}, and the outputs are {found}")
        require("other" not in found, f"after the crash the outputs are {found}")
        self._recover()
        found = [self._state(target) for target in self._shape.targets]
        require(len(set(found)) == 1 and found[0] in ("old", "new"), f"after the crash the outputs stay {found}")
        self._check_next(prepared)

    def _recover(self) -> None:
        """The first step of the next run over the last target."""
        path = str(self.work / self._shape.targets[-1].path)
        commit_record.recover(self._session.spark, [path])

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

    def _check_next(self, prepared: tuple[Execution, Script]) -> None:
        execution, script = prepared
        for target in self._shape.targets:
            if not target.exists:  # it may be new by now, and the script does not say OVERWRITE
                self._remove(target)
        with patch.object(commit_record, "KEPT_HOURS", 0.0):
            write_outputs(execution, script)
        require({self._state(target) for target in self._shape.targets} == {"new"}, "the next run does not write")
        self._vacuum()
        left = sorted(self._left())
        require(not left, f"the next run leaves {left}")

    def _remove(self, target: Target) -> None:
        shutil.rmtree(self.work / target.path, ignore_errors=True)

    def _vacuum(self) -> None:
        for target in self._shape.targets:
            if target.is_stream:
                path = str(self.work / target.path)
                vacuum(storage_of(path), path, hours=0)

    def _left(self) -> Iterator[str]:
        """Files that are no output's."""
        places = [self.work / target.path for target in self._shape.targets]
        for file in self.work.rglob("*"):
            inside = [place for place in places if place in file.parents]
            if file.is_file() and (not inside or file.name.startswith(".")):
                yield str(file.relative_to(self.work))


def script_points(
    spark: SparkSession, shapes: Iterable[ScriptShape], folder: Path, step: int = 1, first: int = 1
) -> Iterator[Point]:
    """Every point of some shapes, or every `step`th operation of each."""
    with faulty_file_system(spark) as faults:
        for shape in shapes:
            yield from ScriptPoints(spark, faults, shape, folder).points(step, first)
