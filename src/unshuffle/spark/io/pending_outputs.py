"""Writing the outputs of a script, all or none.

Outputs are written beside their targets, under hidden names, and moved into place together when all of them are complete. A
job that fails before that leaves every target unchanged. Everything goes through Hadoop's file systems, so any URI that
Spark can write works. If a move fails, the others are undone; if the process dies between two moves, the next run over one of
the targets undoes them (`commit_record`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Literal

from py4j.protocol import Py4JError
from pyspark import AccumulatorParam
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from unshuffle.catalog.unfinished import OLD, hidden_name
from unshuffle.errors import FileProblem, Span, TypeProblem, UserError, disk_problems
from unshuffle.frozen import dataclass
from unshuffle.operators import Outputter
from unshuffle.plan.logical import FileTarget, UserClass
from unshuffle.spark.io.commit_record import Commit, CommitRecord, FileOutput, this_process
from unshuffle.spark.io.files import spark_format
from unshuffle.spark.io.hadoop_files import HadoopFiles, as_os_errors, write_problems
from unshuffle.spark.io.sstream_writer import PendingStreams
from unshuffle.spark.udf import worker
from unshuffle.spark.udf.user_operators import code_of, shipped


@dataclass(frozen=True)
class _Pending:
    path: str  # as the user wrote it
    target: Any  # a Hadoop path, as are the following
    staging: Any
    backup: Any
    new_folders: tuple[Any, ...]  # folders above the target that do not exist yet, the deepest first
    overwrite: bool
    span: Span | None


class PendingOutputs:
    """The outputs of one script. They are written to staging folders; `commit` puts all of them in place, or none.

    As a context manager it removes at the end what was not committed.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._files = HadoopFiles(spark)
        self._run = secrets.token_hex(4)
        self._pending: list[_Pending] = []

    def write(self, frame: DataFrame, names: Sequence[str], target: FileTarget, span: Span | None = None) -> None:
        """Runs the job of one output. `names` are the names of the frame's columns, in order; rows keep their order."""
        with write_problems(f"{target.path} cannot be written", span):
            pending = self._stage(target, span)
            self._pending.append(pending)
            if isinstance(target.format, UserClass):
                self._write_by_user(frame, names, target.format, pending.staging)
            else:
                name, options = spark_format(target.format, span)
                if name == "text" and [type for _, type in frame.dtypes] != ["string"]:
                    columns = ", ".join(f"{n}:{t}" for n, (_, t) in zip(names, frame.dtypes, strict=True))
                    raise TypeProblem(f"Text() writes one column of strings, not {columns}", span)
                frame.toDF(*names).write.format(name).options(**options).save(pending.staging.toString())
            self._drop_checksums(pending.staging)

    def commit(self, streams: PendingStreams | None = None) -> None:
        """Puts every output in place, and publishes the streams of the same script. If something fails, nothing is."""
        for one in self._pending:
            with disk_problems(f"{one.path} cannot be written", one.span):
                self._refuse_existing(one)
        with disk_problems("the outputs could not be put in place"):
            commit = self._commit(streams)
        with self._undone_unless_whole(commit):
            commit.begin()
            if streams is not None:
                streams.publish()
            for one in self._pending:
                with disk_problems(f"{one.path} could not be put in place", one.span):
                    self._put_in_place(one)
            commit.end()
        self._pending.clear()

    def _commit(self, streams: PendingStreams | None) -> Commit:
        outputs = tuple(self._output(one) for one in self._pending)
        published = () if streams is None else streams.outputs()
        replaced = sum(self._files.exists(one.target) for one in self._pending)
        record = CommitRecord(self._run, this_process(), outputs, published)
        return Commit(self._spark, record, is_recorded=len(outputs) + len(published) + replaced > 1)

    def _output(self, one: _Pending) -> FileOutput:
        parts = [entry.name for entry in self._files.entries(one.staging)]
        part = next((name for name in parts if name.startswith("part-")), parts[-1] if parts else "")
        return FileOutput(one.target.toString(), one.staging.toString(), one.backup.toString(), part)

    @contextmanager
    def _undone_unless_whole(self, commit: Commit) -> Iterator[None]:
        try:
            with disk_problems("the outputs could not be put in place"):
                yield
        except BaseException as error:
            try:
                commit.undo()
            except (OSError, UserError, Py4JError):
                raise _half_undone(error, self._pending) from error
            raise

    def _put_in_place(self, one: _Pending) -> None:
        if self._files.exists(one.target):
            self._files.rename(one.target, one.backup)
        # An attempt of a task that Spark no longer needs may have written after Spark removed this folder.
        self._files.delete(self._files.inside(one.staging, "_temporary"))
        self._files.rename(one.staging, one.target)

    def discard(self) -> None:
        """Removes what was written but not committed, and the folders that were made for it."""
        # Hidden files that are left do no harm, and an error here would hide the one that led here.
        for one in self._pending:
            with suppress(OSError, Py4JError):
                self._files.delete(one.staging)
        for one in self._pending:
            with suppress(OSError, Py4JError):
                for folder in one.new_folders:
                    if self._files.exists(folder) and not self._files.entries(folder):
                        self._files.delete(folder)
        self._pending.clear()

    def __enter__(self) -> PendingOutputs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self.discard()
        return False

    # --- one output

    def _stage(self, target: FileTarget, span: Span | None) -> _Pending:
        path = self._files.path(target.path)
        folder = path.getParent()
        if folder is None:
            raise FileProblem(f"{target.path} cannot be an output", span)
        if any(one.target.equals(path) for one in self._pending):
            raise FileProblem(f"two outputs go to {target.path}", span)
        hidden = hidden_name(path.getName(), self._run)
        new_folders = []
        while folder is not None and not self._files.exists(folder):
            new_folders.append(folder)
            folder = folder.getParent()
        one = _Pending(
            target.path,
            path,
            self._files.beside(path, hidden),
            self._files.beside(path, f"{hidden}{OLD}"),
            tuple(new_folders),
            target.overwrite,
            span,
        )
        self._refuse_existing(one)
        return one

    def _refuse_existing(self, one: _Pending) -> None:
        if not one.overwrite and self._files.exists(one.target):
            raise FileProblem(f"{one.path} exists already", one.span, "write OVERWRITE after its path to replace it")

    def _write_by_user(self, frame: DataFrame, names: Sequence[str], user_class: UserClass, staging: Any) -> None:
        """Spark writes the user's bytes as lines, so that any URI works. A superfluous last newline is removed afterwards."""
        code = code_of(user_class, Outputter)
        without_newline = self._spark.sparkContext.accumulator([], _PartNumbers())
        columns = worker.InputColumns(tuple(frame.columns), tuple(names))
        run = worker.output(code, columns, without_newline.add)
        pieces = frame.mapInArrow(shipped(run, user_class), "value binary").select(col("value").cast("string"))
        options = {"lineSep": "\n", "compression": "none", "maxRecordsPerFile": "0"}
        pieces.write.options(**options).text(staging.toString())
        parts = {f"part-{part:05d}" for part in without_newline.value}
        _accumulatorRegistry.pop(without_newline.aid, None)  # PySpark would keep it for the life of the process
        for entry in self._files.entries(staging):
            if entry.name[: len("part-00000")] in parts:
                self._cut_last_byte(entry.path)

    def _cut_last_byte(self, path: Any) -> None:
        shorter = self._files.beside(path, f".{path.getName()}.cut")
        with as_os_errors(path):
            fs = self._files.system(path)
            kept = self._files.hadoop.util.LimitInputStream(fs.open(path), fs.getFileStatus(path).getLen() - 1)
            self._files.hadoop.io.IOUtils.copyBytes(kept, fs.create(shorter, True), 1 << 20, True)
        self._files.delete(path)
        self._files.rename(shorter, path)

    def _drop_checksums(self, staging: Any) -> None:
        """Removes the hidden checksum files that Hadoop writes beside local files; they confuse other programs."""
        with as_os_errors(staging):
            raw = self._files.raw_system(staging)
            if raw.getUri().getScheme() == "file":
                for status in raw.listStatus(staging):
                    if status.getPath().getName().endswith(".crc"):
                        raw.delete(status.getPath(), False)


def _half_undone(error: BaseException, pending: Sequence[_Pending]) -> FileProblem:
    """An output that could not be put back is not lost: it is beside its place, and so is the record of the run."""
    places = ", ".join(one.path for one in pending)
    reason = error.message if isinstance(error, UserError) else str(error) or type(error).__name__
    return FileProblem(
        f"{reason}; then not everything could be put back: {places}",
        hint="the next run that writes one of them puts it back first; old outputs are beside them, as .NAME.unshuffle-*-old",
    )


class _PartNumbers(AccumulatorParam[list[int]]):
    """Collects part numbers. A task that runs again adds the same number again."""

    def zero(self, value: list[int]) -> list[int]:
        return []

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:  # noqa: N802
        return value1 + value2
