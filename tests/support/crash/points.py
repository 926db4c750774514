"""Crash points of streams without Spark: the write runs once to count its operations, then once for every fault at each.

What must hold after a fault, of a reader, of the next writer and of vacuum:

    the newest version is exactly the old one or exactly the new one, and `check` finds nothing
    a write that returns has published the new version; one that fails has not, and says so in one message for users
    the next write succeeds, and vacuum then leaves the files of its version and nothing else
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.crash.local_faults import CHANGING, LocalFaults, local_faults
from tests.support.crash.stream_shapes import NEW, OLD, StreamShape, VacuumShape, has_rows, next_request
from tests.support.storing import store
from unshuffle.errors import FileProblem, UserError
from unshuffle.frozen import dataclass
from unshuffle.sstream import open_stream, storage_of
from unshuffle.sstream.check import check
from unshuffle.sstream.store import manifest_name, versions
from unshuffle.sstream.vacuum import vacuum

ERRORS = ("ENOSPC", "EIO", "EACCES")
LONGEST_MESSAGE = 400
# What a message for users must not have: the traces of a stack.
TRACES = ("java.", "org.apache", "Traceback", "Exception:", "\tat ", "Py4J", "Errno")


@dataclass(frozen=True, slots=True)
class Point:
    """An operation of a write, and what happened at it."""

    shape: str
    operation: str
    number: int
    fault: str
    problem: str | None = None  # what did not hold

    def __str__(self) -> str:
        return f"{self.shape}, {self.fault} at operation {self.number} ({self.operation}): {self.problem}"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a write ended: normally, with an error, or (neither) by dying."""

    returned: bool = False
    error: BaseException | None = None


class Broken(Exception):
    """Something that must hold does not. The message says what."""


def faults_at(operation: str) -> tuple[str, ...]:
    """The faults that can happen at a local operation. Where nothing changes, dying leaves what the operation before left."""
    kind = operation.split()[0]
    if kind == "write":
        return (*ERRORS, "after", "partly", "kill", "kill partly")
    return (*ERRORS, "after", "kill") if kind in CHANGING else ("EIO", "EACCES", "kill")


def local_points(shape: StreamShape | VacuumShape, folder: Path, step: int = 1, first: int = 1) -> Iterator[Point]:
    """Every point of a shape, or every `step`th operation."""
    before, work = folder / "before", folder / "work"
    shutil.rmtree(before, ignore_errors=True)
    before.mkdir(parents=True)
    shape.prepare(before)
    for number, operation in list(enumerate(_operations(shape, before, work), 1))[first - 1 :: step]:
        for fault in faults_at(operation):
            point = Point(shape.name, operation, number, fault)
            try:
                _try(shape, before, work, point)
                yield point
            except Broken as broken:
                yield Point(shape.name, operation, number, fault, str(broken))
    shutil.rmtree(work)


def _operations(shape: StreamShape | VacuumShape, before: Path, work: Path) -> list[str]:
    renew(before, work)
    with local_faults(LocalFaults(str(work))) as faults:
        shape.run(work)
    return faults.operations


def renew(before: Path, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(before, work)


def _try(shape: StreamShape | VacuumShape, before: Path, work: Path, point: Point) -> None:
    renew(before, work)
    ended = killed(lambda: _run(shape, work, point)) if point.fault.startswith("kill") else _run(shape, work, point)
    require(bool(ended.error) <= is_for_users(ended.error), f"the error is {ended.error!r}")
    if isinstance(shape, VacuumShape):
        _check_vacuum(shape, work, ended)
    else:
        _check_versions(shape, work, ended)
        _check_next(work)


def _run(shape: StreamShape | VacuumShape, work: Path, point: Point) -> Ended:
    try:
        with local_faults(LocalFaults(str(work), point.number, point.fault)):
            shape.run(work)
    except Exception as error:
        return Ended(error=error)
    return Ended(returned=True)


def killed(run: Callable[[], Ended]) -> Ended:
    """Runs in a process of its own, which must die."""
    process = os.fork()
    if process == 0:
        try:
            run()
        finally:
            os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    require(code == -signal.SIGKILL, f"the process was not killed, and exited with {code}")
    return Ended()


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


def is_for_users(error: BaseException | None) -> bool:
    if not isinstance(error, UserError):
        return False
    # The text also has the line of the script, which may be long.
    return len(error.message) < LONGEST_MESSAGE and not any(trace in str(error) for trace in TRACES)


# --- what must hold


def _check_versions(shape: StreamShape, folder: Path, ended: Ended) -> None:
    try:
        stream = open_stream(str(folder / "x.ss"))
    except FileProblem as problem:
        require(shape.old is None, f"the old version is lost: {problem}")
        require(not ended.returned, "the write returned, and there is no version")
        return
    faults = check(stream)
    require(not faults, f"check finds: {faults[:1]}")
    is_new = stream.version == (1 if shape.old is None else 2)
    expected = shape.new if is_new else shape.old
    require(expected is not None and has_rows(stream, expected), f"version {stream.version} has other rows")
    require(is_new or not ended.returned, "the write returned, and the old version is the newest")
    require(not is_new or ended.error is None, f"the write failed, and its version is there: {ended.error!r}")
    require(has_rows(open_stream(str(folder / "reference.ss")), OLD), "the REFERENCE has changed")


def _check_next(folder: Path) -> None:
    path = str(folder / "x.ss")
    stream = store(path, NEW, next_request(folder))
    require(has_rows(open_stream(path), NEW), "the next write is not visible")
    vacuum(storage_of(path), path, hours=0, now=time.time() + 1)
    left = {str(each.relative_to(path)) for each in Path(path).rglob("*") if each.is_file()}
    extra = left - {file.path for file in stream.manifest.files()} - {manifest_name(stream.version)}
    require(not extra, f"vacuum leaves {sorted(extra)}")
    require(check(open_stream(path)) == (), "vacuum removed a file of the newest version")


def _check_vacuum(shape: VacuumShape, folder: Path, ended: Ended) -> None:
    path = str(folder / "x.ss")
    existing = versions(storage_of(path))
    require(existing[-1:] == [3], f"the newest version is gone: {existing}")
    for version in existing:
        require(check(open_stream(path, version)) == (), f"version {version} is not whole")
    require(not ended.returned or shape.is_done(folder), "the vacuum returned, and files are left")
    shape.run(folder)
    require(shape.is_done(folder), "the next vacuum leaves files")
