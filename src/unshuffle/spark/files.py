"""Files in Spark's own formats, read and written, and the all-or-nothing of a script's outputs.

Outputs are written beside their targets, under hidden names, and moved into place together when all of them are
complete. A job that fails before leaves every target as it was. Everything goes through Hadoop's file systems, so any
URI that Spark can write works; where a file system's rename is not atomic, neither is `commit`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal
from weakref import WeakKeyDictionary

from py4j.java_gateway import is_instance_of
from pyspark import AccumulatorParam
from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.functions import col

from unshuffle.algebra.expressions import Value
from unshuffle.algebra.logical import Format, Scan, Target, UserClass
from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.types import STRING, spark_name
from unshuffle.errors import FileProblem, Span, TypeProblem, did_you_mean
from unshuffle.operators import Outputter
from unshuffle.spark import relations, worker
from unshuffle.spark.user_operators import code_of, shipped

# Our names of formats: Spark's, and the options that are not Spark's defaults.
_FORMATS: dict[str, tuple[str, dict[str, str]]] = {
    "parquet": ("parquet", {}),
    "csv": ("csv", {}),
    "tsv": ("csv", {"sep": "\t"}),
    "json": ("json", {}),
    "text": ("text", {}),
}
NAMES = ("Parquet", "Csv", "Tsv", "Json", "Text")
# Of a stream no row may be wrong: a damaged page is an error.
_OF_STREAMS = {"parquet.page.verify-checksum.enabled": "true"}


# ------------------------------------------------------------------------------------------------------------- reading


# What was read of files before, by session: to list files and make a relation of them takes Spark longer than to plan
# most queries. It is only used for files that have not changed since.
_READ: WeakKeyDictionary[SparkSession, dict[tuple[object, ...], DataFrame]] = WeakKeyDictionary()
_KEPT = 256


def read(spark: SparkSession, node: Scan) -> DataFrame:
    """Files, with at least the columns of a scan, of exactly their types."""
    files = node.files
    if files.relation is not None:
        return relations.scan(spark, node)
    if files.version is None:
        return _read(spark, node, [(column.name, column.type) for column in node.columns])
    known = _READ.setdefault(spark, {})
    key = (files.paths, files.format, files.base, files.version)
    found = known.pop(key, None)
    known[key] = _read(spark, node, files.stored) if found is None else found  # the latest used is the last
    if len(known) > _KEPT:
        del known[next(iter(known))]
    return known[key]


def _read(spark: SparkSession, node: Scan, columns: Sequence[tuple[str, DataType]]) -> DataFrame:
    files = node.files
    assert isinstance(files.format, Format)
    name, options = _spark_format(files.format, node.span)
    reader = spark.read.format(name).options(**options)
    if files.base is not None:
        reader = reader.option("basePath", files.base)
    if node.stream is not None:
        if not files.paths:
            return spark.createDataFrame([], _schema(columns))
        return reader.options(**_OF_STREAMS).schema(_schema(columns)).load(list(map(_exactly, files.paths)))
    try:
        if name == "text":
            return _text(reader.load(list(files.paths)), node)
        if name == "csv" and options.get("header", "").lower() == "true":
            reader = _with_header(reader, node, options)
        elif columns and all(type is not None for _, type in columns):
            reader = reader.schema(_schema(columns))
        return reader.load(list(files.paths))
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            missing = (error.getMessageParameters() or {}).get("path", ", ".join(files.paths))
            raise FileProblem(f"no such file or folder: {missing}", node.span) from None
        raise


def _exactly(path: str) -> str:
    """A path in which nothing is a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def _schema(columns: Sequence[tuple[str, DataType]]) -> str:
    return ", ".join(f"{_quoted(name)} {spark_name(type)}" for name, type in columns)


def _with_header(reader: DataFrameReader, node: Scan, options: dict[str, str]) -> DataFrameReader:
    """Spark takes the columns of CSV by position. A header gives them names, so here they go by those."""
    found = reader.load(list(node.files.paths)).schema
    known = {field.name.lower(): field for field in found}
    declared = {column.name.lower(): column for column in node.columns}
    for lower, column in declared.items():
        if known and lower not in known:
            raise FileProblem(
                f"no column {column.name!r} in the header of {node.files.paths[0]}",
                node.span,
                did_you_mean(column.name, found.names) or f"it has {', '.join(found.names)}",
            )
    names = list(known) or list(declared)
    schema = ", ".join(
        f"{_quoted(known[n].name if n in known else declared[n].name)} "
        f"{spark_name(declared[n].type) if n in declared else known[n].dataType.simpleString()}"
        for n in names
    )
    # Every file's header is held against the first one's.
    return reader.options(**({"enforceschema": "false"} | options)).schema(schema)


def _text(frame: DataFrame, node: Scan) -> DataFrame:
    """Lines, as the one column that no folder's name supplies."""
    from_folders = {name.lower(): name for name in frame.columns[1:]}
    lines = [column for column in node.columns if column.name.lower() not in from_folders]
    if len(lines) != 1 or lines[0].type != STRING:
        found = ", ".join(f"{column.name}:{spark_name(column.type)}" for column in lines)
        raise TypeProblem(f"Text() reads one column of strings, not {found or 'none'}", node.span)

    def source(column: Column) -> SparkColumn:
        name = from_folders.get(column.name.lower())
        return col("value") if name is None else col(_quoted(name)).cast(spark_name(column.type))

    return frame.select(*(source(column).alias(column.name) for column in node.columns))


# ------------------------------------------------------------------------------------------------------------- writing


@dataclass(frozen=True)
class _Pending:
    shown: str
    target: Any  # these three are Hadoop paths, as are those of `made`
    staging: Any
    old: Any
    overwrite: bool
    made: tuple[Any, ...]  # folders above the target that were not there, the deepest first
    span: Span | None


class PendingOutputs:
    """The outputs of one script: written aside, then all put in place by `commit`, or none.

    Used as a context manager, it removes on the way out whatever was not committed.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        jvm = spark._jvm
        assert jvm is not None
        self._jvm: Any = jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._pending: list[_Pending] = []

    def write(self, frame: DataFrame, names: Sequence[str], target: Target, span: Span | None = None) -> None:
        """Runs the job that makes an output. The frame's columns go by `names`, in order; its rows keep their order."""
        pending = self._stage(target, span)
        self._pending.append(pending)
        staging = pending.staging.toString()
        if isinstance(target.format, UserClass):
            self._write_by_user(frame, names, target.format, pending.staging)
        else:
            name, options = _spark_format(target.format, span)
            if name == "text" and [type for _, type in frame.dtypes] != ["string"]:
                found = ", ".join(f"{n}:{t}" for n, (_, t) in zip(names, frame.dtypes, strict=True))
                raise TypeProblem(f"Text() writes one column of strings, not {found}", span)
            frame.toDF(*names).write.format(name).options(**options).save(staging)
        self._drop_checksums(pending.staging)

    def commit(self) -> None:
        """Moves every output into place, old ones aside first. Should one move fail, the others are undone."""
        for one in self._pending:
            self._refuse_existing(one)
        undo: list[tuple[Any, Any]] = []
        try:
            for one in self._pending:
                if self._fs(one.target).exists(one.target):
                    self._move(one.target, one.old, one)
                    undo.append((one.old, one.target))
                self._move(one.staging, one.target, one)
                undo.append((one.target, one.staging))
        except BaseException:
            for source, goal in reversed(undo):
                self._fs(source).rename(source, goal)
            self.discard()
            raise
        for one in self._pending:
            self._delete(one.old)
        self._pending.clear()

    def discard(self) -> None:
        """Removes what was written and not committed, and folders that were made for it."""
        for one in self._pending:
            self._delete(one.staging)
        for one in self._pending:
            for folder in one.made:
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

    def _stage(self, target: Target, span: Span | None) -> _Pending:
        path = self._jvm.org.apache.hadoop.fs.Path(target.path)
        path = self._fs(path).makeQualified(path)
        folder = path.getParent()
        if folder is None:
            raise FileProblem(f"{target.path} cannot be an output", span)
        if any(one.target.equals(path) for one in self._pending):
            raise FileProblem(f"two outputs go to {target.path}", span)
        hidden = f".{path.getName()}.unshuffle-{secrets.token_hex(4)}"
        made = []
        while folder is not None and not self._fs(folder).exists(folder):
            made.append(folder)
            folder = folder.getParent()
        new = self._jvm.org.apache.hadoop.fs.Path
        one = _Pending(
            target.path,
            path,
            new(path.getParent(), hidden),
            new(path.getParent(), f"{hidden}-old"),
            target.overwrite,
            tuple(made),
            span,
        )
        self._refuse_existing(one)
        return one

    def _refuse_existing(self, one: _Pending) -> None:
        if not one.overwrite and self._fs(one.target).exists(one.target):
            raise FileProblem(f"{one.shown} exists already", one.span, "write OVERWRITE after its path to replace it")

    def _write_by_user(self, frame: DataFrame, names: Sequence[str], user_class: UserClass, staging: Any) -> None:
        """Spark writes the user's bytes as lines, so that any URI works; a line end too many is cut off afterwards."""
        code = code_of(user_class, Outputter)
        unended = self._spark.sparkContext.accumulator([], _Parts())
        run = worker.output(code, worker.Input(tuple(frame.columns), tuple(names)), unended.add)
        pieces = frame.mapInArrow(shipped(run, user_class), "value binary").select(col("value").cast("string"))
        options = {"lineSep": "\n", "compression": "none", "maxRecordsPerFile": "0"}
        pieces.write.options(**options).text(staging.toString())
        numbers = {f"part-{part:05d}" for part in unended.value}
        for status in self._fs(staging).listStatus(staging):
            if status.getPath().getName()[: len("part-00000")] in numbers:
                self._cut_last_byte(status)

    def _cut_last_byte(self, status: Any) -> None:
        path, hadoop = status.getPath(), self._jvm.org.apache.hadoop
        fs = self._fs(path)
        shorter = hadoop.fs.Path(path.getParent(), f".{path.getName()}.cut")
        kept = hadoop.util.LimitInputStream(fs.open(path), status.getLen() - 1)
        hadoop.io.IOUtils.copyBytes(kept, fs.create(shorter, True), 1 << 20, True)
        fs.delete(path, False)
        fs.rename(shorter, path)

    def _drop_checksums(self, staging: Any) -> None:
        """Hadoop keeps a hidden checksum beside each local file; other programs stumble over them."""
        fs = self._fs(staging)
        if is_instance_of(self._spark.sparkContext._gateway, fs, "org.apache.hadoop.fs.ChecksumFileSystem"):
            raw = fs.getRawFileSystem()
            for status in raw.listStatus(staging):
                if status.getPath().getName().endswith(".crc"):
                    raw.delete(status.getPath(), False)

    # --- file systems

    def _fs(self, path: Any) -> Any:
        return path.getFileSystem(self._conf)

    def _move(self, source: Any, goal: Any, one: _Pending) -> None:
        # Hadoop would move a folder *into* one that exists.
        if self._fs(goal).exists(goal) or not self._fs(source).rename(source, goal):
            raise FileProblem(f"{one.shown} could not be put in place", one.span)

    def _delete(self, path: Any) -> None:
        fs = self._fs(path)
        if fs.exists(path):
            fs.delete(path, True)


class _Parts(AccumulatorParam[list[int]]):
    """Collects part numbers; a task that is run again only repeats itself."""

    def zero(self, value: list[int]) -> list[int]:
        return []

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:  # noqa: N802
        return value1 + value2


def _spark_format(format: Format, span: Span | None) -> tuple[str, dict[str, str]]:
    if format.name.lower() not in _FORMATS:
        raise FileProblem(f"no format {format.name!r}", span, did_you_mean(format.name, NAMES))
    name, options = _FORMATS[format.name.lower()]
    return name, options | {key.lower(): _option(value) for key, value in format.options}


def _option(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
