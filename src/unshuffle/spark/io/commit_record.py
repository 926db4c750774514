"""The record of a commit, by which a run that dies while it puts its outputs in place is undone.

    .out.csv.unshuffle-3f2a9c1d           a finished output that is not in place yet
    .out.csv.unshuffle-3f2a9c1d-old       what was in its place before
    .out.csv.unshuffle-3f2a9c1d.commit    the record, beside each target
    .out.csv.unshuffle-3f2a9c1d.done      the record beside the first target, once every output is in place

A record names all outputs of a run. It is written beside each target before anything is moved, and beside the first target
last. Renaming that one to `.done` is the moment at which the run has written its outputs; until then the run is undone. So
the state of the first target decides for all of them:

    .done       every output is in place: old ones are removed
    .commit     perhaps some outputs are in place: they are taken back, and the old ones put back
    neither     nothing was moved: the outputs are removed

`undo` and `finish` only look at what is there, so they can be interrupted and run again. The next run over one of the targets
calls them, through `recover`, if the run of the record is dead.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from unshuffle.catalog.json_files import MAX_BYTES, checked_size, count, items, parse, path, shown, text
from unshuffle.catalog.unfinished import COMMIT, DONE, OLD, hidden_name, name_pattern
from unshuffle.errors import FileProblem
from unshuffle.frozen import dataclass
from unshuffle.spark.io.hadoop_files import Entry, HadoopFiles
from unshuffle.spark.io.hadoop_storage import storage_for
from unshuffle.sstream.store import withdraw

# Outputs that were never put in place, of runs that died, are removed after this time. So long may a run take.
KEPT_HOURS = 24.0
# A run of another machine is taken for dead after this time. Putting outputs in place takes moments.
SILENT_SECONDS = 600.0
_PART = "-part"  # a record that is being written
# Runs of this process that are committing now.
_active: set[str] = set()


@dataclass(frozen=True, slots=True)
class FileOutput:
    """An output in files. The paths are Hadoop's, as text."""

    target: str
    staging: str
    backup: str
    part: str  # a file that only this output has


@dataclass(frozen=True, slots=True)
class StreamOutput:
    """A version of a stream."""

    target: str
    version: int
    writer: str


@dataclass(frozen=True, slots=True)
class CommitRecord:
    run: str
    process: str  # that runs it
    outputs: tuple[FileOutput, ...]
    streams: tuple[StreamOutput, ...]

    @property
    def targets(self) -> list[str]:
        return [*(each.target for each in self.outputs), *(each.target for each in self.streams)]


# --- a run's own record


class Commit:
    """The commit of one run. Without a record if one step puts everything in place, since one step cannot be half done."""

    def __init__(self, spark: SparkSession, record: CommitRecord, is_recorded: bool) -> None:
        self._spark, self._files, self._record = spark, HadoopFiles(spark), record
        self._is_recorded = is_recorded
        self._is_in_doubt = False

    def begin(self) -> None:
        _active.add(self._record.run)
        if self._is_recorded:
            for target in reversed(self._record.targets):
                _write_whole(self._files, self._at(target, COMMIT), _to_bytes(self._record))

    def _at(self, target: str, suffix: str) -> Any:
        return _beside(self._files, target, self._record.run, suffix)

    def end(self) -> None:
        """All outputs are in place. If this cannot be recorded, they are not to stay."""
        if self._is_recorded:
            first = self._record.targets[0]
            try:
                self._files.rename(self._at(first, COMMIT), self._at(first, DONE))
            except OSError:
                self._is_in_doubt = True
                is_done = self._files.exists(self._at(first, DONE))
                self._is_in_doubt = False
                if not is_done:
                    raise
            with suppress(OSError):  # what is left is removed by the next run
                finish(self._files, self._record)
        _active.discard(self._record.run)

    def undo(self) -> None:
        """Raises if something could not be put back; then the next run does it. In doubt whether all outputs are in place,
        the next run looks again."""
        try:
            if not self._is_in_doubt:
                undo(self._spark, self._files, self._record)
        finally:
            _active.discard(self._record.run)


def _beside(files: HadoopFiles, target: str, run: str, suffix: str) -> Any:
    path = files.hadoop.fs.Path(target)
    return files.beside(path, hidden_name(path.getName(), run) + suffix)


def _write_whole(files: HadoopFiles, path: Any, data: bytes) -> None:
    """Writes a file that is whole as soon as it has its name."""
    part = files.beside(path, f"{path.getName()}{_PART}")
    try:
        files.write(part, data)
        files.rename(part, path)
    except OSError:
        with suppress(OSError):
            files.delete(part)
        raise


# --- what a record asks for


def finish(files: HadoopFiles, record: CommitRecord) -> None:
    """Every output is in place: removes what is no longer needed. The first record goes last."""
    for output in record.outputs:
        files.delete(files.hadoop.fs.Path(output.backup))
    _remove_records(files, record)


def undo(spark: SparkSession, files: HadoopFiles, record: CommitRecord) -> None:
    """Takes back every output that is in place, and puts back what was there."""
    for output in reversed(record.outputs):
        _put_back(files, output)
    for stream in reversed(record.streams):
        withdraw(storage_for(spark, stream.target), stream.version, stream.writer)
    for output in record.outputs:
        files.delete(files.hadoop.fs.Path(output.staging))
    _remove_records(files, record)


def _put_back(files: HadoopFiles, output: FileOutput) -> None:
    target, staging, backup = (files.hadoop.fs.Path(p) for p in (output.target, output.staging, output.backup))
    if not files.exists(staging) and files.exists(files.inside(target, output.part)):
        files.rename(target, staging)
    if files.exists(backup) and not files.exists(target):
        files.rename(backup, target)


def _remove_records(files: HadoopFiles, record: CommitRecord) -> None:
    first, *others = record.targets
    for target in others:
        files.delete(_beside(files, target, record.run, COMMIT))
    for suffix in (COMMIT, DONE):
        files.delete(_beside(files, first, record.run, suffix))


# --- the records of other runs


def recover(spark: SparkSession, targets: Iterable[str]) -> None:
    """Ends the commits of dead runs at these targets, and removes what they left there long ago."""
    files = HadoopFiles(spark)
    for given in targets:
        target = files.path(given)
        if target.getParent() is None:
            continue
        for entry, run, suffix in _left(files, target):
            if suffix in (COMMIT, DONE):
                _recover(spark, files, entry, given, run)
            elif suffix in ("", f"{COMMIT}{_PART}") and run not in _active and _is_old(entry):
                files.delete(entry.path)


def _is_old(entry: Entry) -> bool:
    return entry.modified <= time.time() - KEPT_HOURS * 3600


def _left(files: HadoopFiles, target: Any) -> list[tuple[Entry, str, str]]:
    """What runs have left beside a target: the entry, the run, and the rest of its name. Records come first."""
    pattern = name_pattern(target.getName())
    matches = ((entry, pattern.fullmatch(entry.name)) for entry in files.entries(target.getParent()))
    found = [(entry, match[1], match[2]) for entry, match in matches if match is not None]
    return sorted(found, key=lambda each: each[2] not in (COMMIT, DONE))


def _recover(spark: SparkSession, files: HadoopFiles, entry: Entry, target: str, run: str) -> None:
    try:
        record = _confined(files, _from_bytes(checked_size(files.read(entry.path, MAX_BYTES + 1))), run)
    except FileNotFoundError:  # its run has ended in the meantime
        return
    except ValueError as error:
        raise FileProblem(
            f"the record of an interrupted run, {entry.path.toString()}, is damaged: {error}",
            hint="the old output may be beside it, under a name that ends with -old; remove the record afterwards",
        ) from None
    if _is_alive(record, entry):
        raise FileProblem(f"another run is writing {target}", hint="wait for it to end, and run this again")
    if any(files.exists(_beside(files, each, run, DONE)) for each in record.targets):
        finish(files, record)
    else:
        undo(spark, files, record)


def _confined(files: HadoopFiles, record: CommitRecord, run: str) -> CommitRecord:
    """The record without outputs that have none beside them: nothing of theirs was moved. A record asks to remove and rename
    what is under the names of its run, beside its targets. So whoever can have something removed by a record that he plants
    could have removed it himself."""
    if record.run != run:
        raise ValueError(f"it is of the run {shown(record.run)}")
    for output in record.outputs:
        staging, backup = (_beside(files, output.target, run, suffix) for suffix in ("", OLD))
        paths = files.hadoop.fs.Path(output.staging), files.hadoop.fs.Path(output.backup)
        if (
            not (paths[0].equals(staging) and paths[1].equals(backup))
            or "/" in output.part
            or output.part in ("", "..")
        ):
            raise ValueError(f"it names other files than those of the run: {shown(output.staging)}")

    def is_recorded(target: str) -> bool:
        return any(files.exists(_beside(files, target, run, suffix)) for suffix in (COMMIT, DONE))

    outputs = tuple(each for each in record.outputs if is_recorded(each.target))
    streams = tuple(each for each in record.streams if is_recorded(each.target))
    if not outputs and not streams:
        raise ValueError("it is beside none of the outputs that it names")
    return replace(record, outputs=outputs, streams=streams)


def _is_alive(record: CommitRecord, entry: Entry) -> bool:
    machine, _, rest = record.process.partition(" ")
    if machine != socket.gethostname():
        return time.time() - entry.modified < SILENT_SECONDS
    if record.process == this_process():
        return record.run in _active
    process, _, begun = rest.partition(" ")
    return _exists(int(process)) and begun == _begun(int(process))


def this_process() -> str:
    return f"{socket.gethostname()} {os.getpid()} {_begun(os.getpid())}"


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def _begun(process: int) -> str:
    """When a process began, so that another one of the same number is not taken for it; empty where that is not known."""
    with suppress(OSError), open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
        state, *numbers = file.read().rpartition(")")[2].split()
        return "" if state == "Z" else numbers[18]
    return ""


def _to_bytes(record: CommitRecord) -> bytes:
    body = {
        "format": "unshuffle commit",
        "run": record.run,
        "process": record.process,
        "outputs": [
            {"target": o.target, "staging": o.staging, "backup": o.backup, "part": o.part} for o in record.outputs
        ],
        "streams": [{"target": s.target, "version": s.version, "writer": s.writer} for s in record.streams],
    }
    return json.dumps(body, indent=1).encode()


def _from_bytes(data: bytes) -> CommitRecord:
    body = parse(data)
    outputs = tuple(FileOutput(*(path(o, key) for key in _FILE_KEYS)) for o in items(body, "outputs"))
    streams = tuple(
        StreamOutput(path(s, "target"), count(s, "version"), text(s, "writer")) for s in items(body, "streams")
    )
    record = CommitRecord(text(body, "run"), text(body, "process"), outputs, streams)
    if not record.targets:
        raise ValueError("it names no output")
    return record


_FILE_KEYS = ("target", "staging", "backup", "part")
