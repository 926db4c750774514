"""The files that a DataFrame reads, as a scan of ours with the statistics of the files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from unshuffle.catalog import files
from unshuffle.catalog.files import DataFile, HashedTuple
from unshuffle.catalog.parquet_files import NotParquet, parquet_contents
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.statistics_lookup import scan_facts
from unshuffle.catalog.statistics.table_look import look_at
from unshuffle.plan.logical import Files, Format, Scan
from unshuffle.plan.part_bounds import with_bounds
from unshuffle.plan.stored_tables import TableFile, in_buckets, in_folders, table_files
from unshuffle.spark.reader.sstreams import as_stream
from unshuffle.spark.shims.catalyst import analyzed_plan
from unshuffle.spark.shims.file_relation import FileRelation, FileRelations
from unshuffle.spark.shims.plan_tree import JavaNode

_FORMATS = {
    "ParquetFileFormat": "Parquet",
    "CSVFileFormat": "Csv",
    "JsonFileFormat": "Json",
    "OrcFileFormat": "Orc",
    "TextFileFormat": "Text",
}
# How Spark lists the files of a DataFrame, and those of a partitioned table.
_INDEXES = ("InMemoryFileIndex", "CatalogFileIndex")
# Options with which a DataFrame does not read all files of its paths.
_FILE_FILTERS = {"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "ignorecorruptfiles"}


def table_name(frame: DataFrame) -> tuple[str, ...] | None:
    """The qualified name of the table or view that a DataFrame consists of."""
    plan = analyzed_plan(frame)
    while plan.getClass().getSimpleName() == "SubqueryAlias":
        plan = plan.child()
    return relation_name(plan)


def relation_name(plan: Any) -> tuple[str, ...] | None:
    """The qualified name of a table or view, the same however a query refers to it. None for other relations."""
    match plan.getClass().getSimpleName():
        case "View":
            return _parts(plan.desc().identifier())
        case "HiveTableRelation":
            return _parts(plan.tableMeta().identifier())
        case "LogicalRelation" if plan.catalogTable().isDefined():
            return _parts(plan.catalogTable().get().identifier())
        case "DataSourceV2Relation" if plan.identifier().isDefined() and plan.catalog().isDefined():
            identifier = plan.identifier().get()
            return (plan.catalog().get().name(), *identifier.namespace(), identifier.name())
    return None


def _parts(identifier: Any) -> tuple[str, ...]:
    return tuple(identifier.nameParts().mkString("\x01").split("\x01"))


def file_scan(
    relations: FileRelations, relation: JavaNode, columns: tuple[Column, ...], catalog: str | Path | None
) -> Scan | None:
    """The scan of a file relation; None for any other source."""
    source = relations.at(relation.path)
    if source is None:
        return None
    name, options = _FORMATS.get(source.format), source.options
    # A scan that also returns Spark's metadata of files has one more column.
    if name is None or source.index not in _INDEXES or source.columns != len(columns):
        return None
    base = options.get("basepath")
    if base is None and source.partition_columns and len(source.paths) == 1:
        base = source.paths[0]
    kept = tuple((key, value) for key, value in sorted(options.items()) if key not in ("path", "paths", "basepath"))
    where = Files(source.paths, Format(name, kept), base, None, source.bytes, relation)
    folder = source.paths[0].rstrip("/").rsplit("/", 1)[-1].partition(".")[0]
    scan = Scan(source.table[-1] if source.table is not None else folder, where, columns)
    if name != "Parquet" or options.keys() & _FILE_FILTERS:
        return scan
    return as_stream(scan, catalog) or _with_statistics(relations, scan, catalog, source)


def _with_statistics(relations: FileRelations, scan: Scan, catalog: str | Path | None, source: FileRelation) -> Scan:
    """The scan with statistics from Parquet footers and the catalog, for columns whose types are those of the files, and with
    the layout of its folders or buckets."""
    where = scan.files
    try:
        listed = relations.listed_files(where.relation.path)
        found = _local_files(listed, where)
        is_listed = found is not None
        if found is None:
            found = files.data_files(where.paths, where.base)
            is_listed = sorted(map(files.without_scheme, listed)) == sorted(
                files.without_scheme(file.path) for file in found
            )
        if not is_listed and source.index != "InMemoryFileIndex":
            return scan  # the folders of a table may be anywhere
        if not all(file.size for file in found):
            found = [file for file in found if file.size]  # Spark skips empty files, though they are not Parquet
        contents = parquet_contents(found) if found else None
    except (NotParquet, OSError, pa.ArrowException):
        return scan  # a file system that only Spark can read: there are no statistics
    if contents is None:
        return scan
    stored = dict(contents.columns)
    same = [column for column in scan.columns if stored.get(column.name) == column.type and column.type is not None]
    known = scan_facts(same, where.paths, where.base, found, contents, catalog)
    counted = Files(where.paths, where.format, where.base, contents.rows, contents.bytes, where.relation)
    look = look_at(found, contents)
    counted_scan = Scan(
        scan.label, counted, scan.columns, known.keys, known.dependencies, None, known.statistics, look=look
    )
    if not is_listed or source.overlapping_columns or _has_options(scan):
        return counted_scan
    bounded = with_bounds(counted_scan, found, source.partition_columns)
    has_parts = source.partition_columns or source.buckets
    return _in_parts(bounded, source, table_files(found, contents)) if has_parts else bounded


def _local_files(listed: tuple[str, ...], where: Files) -> Sequence[DataFile] | None:
    """These files as they are now, without listing any folder; None if they are not all local, or not all data."""
    base = where.base or (where.paths[0] if len(where.paths) == 1 else "")
    listing = _listing(listed, base) if base.startswith("file:/") else None
    return None if listing is None else listing.files()


class _Listing:
    """Local files, and what they were when they were last looked at."""

    def __init__(self, paths: tuple[str, ...], base: str) -> None:
        self._paths, self._base = paths, base
        self._places = [files.without_scheme(path) for path in paths]
        self._last: tuple[HashedTuple[DataFile], list[tuple[int, int]]] | None = None  # with sizes and times of change

    def files(self) -> HashedTuple[DataFile]:
        """The same object as long as no file has changed, so that what is known of it is found quickly."""
        last, now = self._last, [(status.st_size, status.st_mtime_ns) for status in map(os.stat, self._places)]
        if last is not None and last[1] == now:
            return last[0]
        found = files.local_files(self._paths, self._base)
        self._last = found, [(file.size, file.modified or 0) for file in found]
        return found


@lru_cache(maxsize=16)
def _listing(paths: tuple[str, ...], base: str) -> _Listing | None:
    below = f"{base.rstrip('/')}/"
    are_data = all(path.startswith(below) and not files.is_hidden(path[len(below) :]) for path in paths)
    return _Listing(paths, base) if paths and are_data else None


def _in_parts(scan: Scan, source: FileRelation, found: Sequence[TableFile]) -> Scan:
    """The scan with the layout of its folders, and of its buckets."""
    folders = source.partition_columns
    if folders:
        scan = in_folders(scan, folders, found) or scan
    if source.buckets:
        scan = in_buckets(scan, source.bucket_columns, source.buckets, found, folders) or scan
    return scan


def _has_options(scan: Scan) -> bool:
    """Whether the files are read with options. Those that a table always has say nothing about its rows."""
    assert isinstance(scan.files.format, Format)
    return any(key not in ("serialization.format", "path") for key, _ in scan.files.format.options)
