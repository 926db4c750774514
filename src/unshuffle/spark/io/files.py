"""Reading files in Spark's own formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.functions import col

from unshuffle.catalog.files import for_spark, from_root
from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.types import STRING, spark_name, sql_name
from unshuffle.errors import FileProblem, Span, TypeProblem, did_you_mean
from unshuffle.plan.expressions import Value
from unshuffle.plan.logical import Format, Scan
from unshuffle.plan.sql import quote
from unshuffle.plan.stored_reads import needed_paths
from unshuffle.spark.reader import relations
from unshuffle.spark.session import why_plain
from unshuffle.spark.shims.catalyst import analyzed_plan, frame_of

# Spark's format for each of ours, and options that differ from Spark's defaults.
_FORMATS: dict[str, tuple[str, dict[str, str]]] = {
    "parquet": ("parquet", {}),
    "csv": ("csv", {}),
    "tsv": ("csv", {"sep": "\t"}),
    "json": ("json", {}),
    "text": ("text", {}),
}
NAMES = ("Parquet", "Csv", "Tsv", "Json", "Text")
# A damaged page of a stream is an error, never a wrong row.
_STREAM_OPTIONS = {"parquet.page.verify-checksum.enabled": "true"}


# Plans of files that were read before, by session: listing files and resolving a relation takes Spark longer than planning
# most queries. The version in the key changes when the files do. (A DataFrame would keep its session alive, and with it the
# entry in this dictionary.)
_CACHE: WeakKeyDictionary[SparkSession, dict[tuple[object, ...], Any]] = WeakKeyDictionary()
_CACHE_SIZE = 256
_LOCK = Lock()


def read(spark: SparkSession, node: Scan) -> DataFrame:
    """Files, with at least the columns of a scan, in exactly their types. Of a structured stream, only those that the query
    needs."""
    files = node.files
    if node.stream is not None and node.needed is not None:
        node = replace(node, files=replace(files, paths=needed_paths(node), relation=None))
        files = node.files
    if files.relation is not None:
        return relations.scan(spark, node)
    if files.version is None:
        return _read(spark, node, [(column.name, column.type) for column in node.columns])
    if why_plain(spark) is not None:  # its plans cannot be kept
        return _read(spark, node, files.stored)
    key = (tuple(for_spark(files.paths)), files.format, files.base and from_root(files.base), files.version)
    with _LOCK:
        cached = _CACHE.setdefault(spark, {}).get(key)
    frame = _read(spark, node, files.stored) if cached is None else frame_of(spark, cached)
    with _LOCK:
        cache = _CACHE.setdefault(spark, {})
        cache.pop(key, None)
        cache[key] = analyzed_plan(frame)  # the most recently used is the last
        if len(cache) > _CACHE_SIZE:
            del cache[next(iter(cache))]
    return frame


def _read(spark: SparkSession, node: Scan, columns: Sequence[tuple[str, DataType]]) -> DataFrame:
    files = node.files
    assert isinstance(files.format, Format)
    name, options = spark_format(files.format, node.span)
    reader = spark.read.format(name).options(**options)
    if files.base is not None:
        reader = reader.option("basePath", from_root(files.base))
    paths = for_spark(files.paths)
    if node.stream is not None:
        if not files.paths:
            return _no_rows(spark, columns)
        return reader.options(**_STREAM_OPTIONS).schema(_schema(columns)).load(paths)
    try:
        if name == "text":
            return _text(reader.load(paths), node)
        if name == "csv" and options.get("header", "").lower() == "true":
            reader = _with_header(reader, node, options)
        elif columns and all(type is not None for _, type in columns):
            reader = reader.schema(_schema(columns))
        return reader.load(paths)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            missing = (error.getMessageParameters() or {}).get("path", ", ".join(files.paths))
            raise FileProblem(f"no such file or folder: {missing}", node.span) from None
        raise


def _no_rows(spark: SparkSession, columns: Sequence[tuple[str, DataType]]) -> DataFrame:
    nulls = ", ".join(f"CAST(NULL AS {sql_name(type)})" for _, type in columns)
    names = ", ".join(quote(name) for name, _ in columns)
    return spark.sql(f"SELECT * FROM VALUES ({nulls}) AS t({names}) WHERE FALSE")


def _schema(columns: Sequence[tuple[str, DataType]]) -> str:
    return ", ".join(f"{quote(name)} {sql_name(type)}" for name, type in columns)


def _with_header(reader: DataFrameReader, node: Scan, options: dict[str, str]) -> DataFrameReader:
    """Reads CSV columns by the names in the header. Spark alone would take them by position."""
    schema = reader.load(for_spark(node.files.paths)).schema
    stored = {field.name.lower(): field for field in schema}
    declared = {column.name.lower(): column for column in node.columns}
    for lower, column in declared.items():
        if stored and lower not in stored:
            raise FileProblem(
                f"no column {column.name!r} in the header of {node.files.paths[0]}",
                node.span,
                did_you_mean(column.name, schema.names) or f"it has {', '.join(schema.names)}",
            )
    ddl = ", ".join(
        f"{quote(stored[n].name if n in stored else declared[n].name)} "
        f"{sql_name(declared[n].type) if n in declared else stored[n].dataType.simpleString()}"
        for n in list(stored) or list(declared)
    )
    # Spark then checks the header of every file against the schema.
    return reader.options(**({"enforceschema": "false"} | options)).schema(ddl)


def _text(frame: DataFrame, node: Scan) -> DataFrame:
    """Lines of text, as the only column that is not in the names of folders."""
    from_folders = {name.lower(): name for name in frame.columns[1:]}
    lines = [column for column in node.columns if column.name.lower() not in from_folders]
    if len(lines) != 1 or lines[0].type != STRING:
        columns = ", ".join(f"{column.name}:{spark_name(column.type)}" for column in lines)
        raise TypeProblem(f"Text() reads one column of strings, not {columns or 'none'}", node.span)

    def source(column: Column) -> SparkColumn:
        name = from_folders.get(column.name.lower())
        return col("value") if name is None else col(quote(name)).cast(sql_name(column.type))

    return frame.select(*(source(column).alias(column.name) for column in node.columns))


def spark_format(format: Format, span: Span | None) -> tuple[str, dict[str, str]]:
    if format.name.lower() not in _FORMATS:
        raise FileProblem(f"no format {format.name!r}", span, did_you_mean(format.name, NAMES))
    name, options = _FORMATS[format.name.lower()]
    return name, options | {key.lower(): _option(value) for key, value in format.options}


def _option(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
