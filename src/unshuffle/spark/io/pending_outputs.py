"""Writing the outputs of a script, all or none.

Outputs are written beside their targets, under hidden names, and moved into place together when all of them are complete. A
job that fails before that leaves every target unchanged. Everything goes through Hadoop's file systems, so any URI that
Spark can write works. `commit` is as atomic as the file system's rename.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal

from pyspark import AccumulatorParam
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from unshuffle.errors import FileProblem, Span, TypeProblem
from unshuffle.frozen import dataclass
from unshuffle.operators import Outputter
from unshuffle.plan.logical import FileTarget, UserClass
from unshuffle.spark.io.files import spark_format
from unshuffle.spark.shims.gateway import is_instance
from unshuffle.spark.shims.hadoop import hadoop, hadoop_configuration
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
        self._hadoop = hadoop(spark)
        self._configuration = hadoop_configuration(spark)
        self._pending: list[_Pending] = []

    def write(self, frame: DataFrame, names: Sequence[str], target: FileTarget, span: Span | None = None) -> None:
        """Runs the job of one output. `names` are the names of the frame's columns, in order; rows keep their order."""
        pending = self._stage(target, span)
        self._pending.append(pending)
        staging = pending.staging.toString()
        if isinstance(target.format, UserClass):
            self._write_by_user(frame, names, target.format, pending.staging)
        else:
            name, options = spark_format(target.format, span)
            if name == "text" and [type for _, type in frame.dtypes] != ["string"]:
                columns = ", ".join(f"{n}:{t}" for n, (_, t) in zip(names, frame.dtypes, strict=True))
                raise TypeProblem(f"Text() writes one column of strings, not {columns}", span)
            frame.toDF(*names).write.format(name).options(**options).save(staging)
        self._drop_checksums(pending.staging)

    def commit(self) -> None:
        """Moves every output into place, after moving an old one aside. If a move fails, the others are undone."""
        for one in self._pending:
            self._refuse_existing(one)
        undo: list[tuple[Any, Any]] = []
        try:
            for one in self._pending:
                if self._fs(one.target).exists(one.target):
                    self._move(one.target, one.backup, one)
                    undo.append((one.backup, one.target))
                self._move(one.staging, one.target, one)
                undo.append((one.target, one.staging))
        except BaseException:
            for source, goal in reversed(undo):
                self._fs(source).rename(source, goal)
            self.discard()
            raise
        for one in self._pending:
            self._delete(one.backup)
        self._pending.clear()

    def discard(self) -> None:
        """Removes what was written but not committed, and the folders that were made for it."""
        for one in self._pending:
            self._delete(one.staging)
        for one in self._pending:
            for folder in one.new_folders:
                fs = self._fs(folder)
                if fs.exists(folder) and not fs.listStatus(folder):
                    fs.delete(folder, False)
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
        path = self._hadoop.fs.Path(target.path)
        path = self._fs(path).makeQualified(path)
        folder = path.getParent()
        if folder is None:
            raise FileProblem(f"{target.path} cannot be an output", span)
        if any(one.target.equals(path) for one in self._pending):
            raise FileProblem(f"two outputs go to {target.path}", span)
        hidden = f".{path.getName()}.unshuffle-{secrets.token_hex(4)}"
        new_folders = []
        while folder is not None and not self._fs(folder).exists(folder):
            new_folders.append(folder)
            folder = folder.getParent()
        beside = self._hadoop.fs.Path
        one = _Pending(
            target.path,
            path,
            beside(path.getParent(), hidden),
            beside(path.getParent(), f"{hidden}-old"),
            tuple(new_folders),
            target.overwrite,
            span,
        )
        self._refuse_existing(one)
        return one

    def _refuse_existing(self, one: _Pending) -> None:
        if not one.overwrite and self._fs(one.target).exists(one.target):
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
        for status in self._fs(staging).listStatus(staging):
            if status.getPath().getName()[: len("part-00000")] in parts:
                self._cut_last_byte(status)

    def _cut_last_byte(self, status: Any) -> None:
        path = status.getPath()
        fs = self._fs(path)
        shorter = self._hadoop.fs.Path(path.getParent(), f".{path.getName()}.cut")
        kept = self._hadoop.util.LimitInputStream(fs.open(path), status.getLen() - 1)
        self._hadoop.io.IOUtils.copyBytes(kept, fs.create(shorter, True), 1 << 20, True)
        fs.delete(path, False)
        fs.rename(shorter, path)

    def _drop_checksums(self, staging: Any) -> None:
        """Removes the hidden checksum files that Hadoop writes beside local files; they confuse other programs."""
        fs = self._fs(staging)
        if is_instance(self._spark, fs, "org.apache.hadoop.fs.ChecksumFileSystem"):
            raw = fs.getRawFileSystem()
            for status in raw.listStatus(staging):
                if status.getPath().getName().endswith(".crc"):
                    raw.delete(status.getPath(), False)

    # --- file systems

    def _fs(self, path: Any) -> Any:
        return path.getFileSystem(self._configuration)

    def _move(self, source: Any, goal: Any, one: _Pending) -> None:
        # Hadoop moves a folder *into* a folder that exists.
        if self._fs(goal).exists(goal) or not self._fs(source).rename(source, goal):
            raise FileProblem(f"{one.path} could not be put in place", one.span)

    def _delete(self, path: Any) -> None:
        fs = self._fs(path)
        if fs.exists(path):
            fs.delete(path, True)


class _PartNumbers(AccumulatorParam[list[int]]):
    """Collects part numbers. A task that runs again adds the same number again."""

    def zero(self, value: list[int]) -> list[int]:
        return []

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:  # noqa: N802
        return value1 + value2
