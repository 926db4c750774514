"""The files that a DataFrame reads, as a scan of ours with the statistics of the files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from unshuffle.catalog import files
from unshuffle.catalog.files import DataFile
from unshuffle.catalog.parquet_files import NotParquet, parquet_contents
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.statistics_lookup import scan_facts
from unshuffle.plan.logical import Files, Format, Scan
from unshuffle.plan.part_bounds import with_bounds
from unshuffle.plan.stored_tables import TableFile, in_buckets, in_folders, table_files
from unshuffle.spark.reader.sstreams import as_stream
from unshuffle.spark.shims.catalyst import analyzed_plan
from unshuffle.spark.shims.gateway import sequence

_FORMATS = {
    "ParquetFileFormat": "Parquet",
    "CSVFileFormat": "Csv",
    "JsonFileFormat": "Json",
    "OrcFileFormat": "Orc",
    "TextFileFormat": "Text",
}
_STATUS = re.compile(r"^\w+\{path=(.*?); isDirectory=", re.MULTILINE)  # Hadoop's text of a file's status
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
    spark: SparkSession, relation: Any, columns: tuple[Column, ...], catalog: str | Path | None
) -> Scan | None:
    """The scan of a file relation; None for any other source."""
    source = relation.relation()
    if source.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    name = _FORMATS.get(source.fileFormat().getClass().getSimpleName())
    index = source.location()
    stored = source.schema().length()
    # A scan that also returns Spark's metadata of files has one more column.
    if name is None or index.getClass().getSimpleName() not in _INDEXES or stored != len(columns):
        return None
    paths = tuple(index.rootPaths().mkString("\n").split("\n"))
    options = _options(source.options())
    base = options.get("basepath")
    if base is None and source.partitionSchema().length() > 0 and len(paths) == 1:
        base = paths[0]
    kept = tuple((key, value) for key, value in sorted(options.items()) if key not in ("path", "paths", "basepath"))
    listed = _listed_by_spark(spark, index)
    where = Files(paths, Format(name, kept), base, None, listed.sizeInBytes(), relation)
    catalog_name = relation_name(relation)
    label = catalog_name[-1] if catalog_name is not None else paths[0].rstrip("/").rsplit("/", 1)[-1].partition(".")[0]
    scan = Scan(label, where, columns)
    if name != "Parquet" or options.keys() & _FILE_FILTERS:
        return scan
    return as_stream(scan) or _with_statistics(scan, catalog, source, _paths_in(listed.allFiles().mkString("\n")))


def _with_statistics(scan: Scan, catalog: str | Path | None, source: Any, listed: tuple[str, ...]) -> Scan:
    """The scan with statistics from Parquet footers and the catalog, for columns whose types are those of the files, and with
    the layout of its folders or buckets."""
    where = scan.files
    has_parts = source.partitionSchema().length() > 0 or source.bucketSpec().isDefined()
    try:
        found = _local_files(listed, where)
        is_listed = found is not None
        if found is None:
            found = files.data_files(where.paths, where.base)
            is_listed = sorted(map(files.without_scheme, listed)) == sorted(
                files.without_scheme(file.path) for file in found
            )
        if not is_listed and source.location().getClass().getSimpleName() != "InMemoryFileIndex":
            return scan  # the folders of a table may be anywhere
        contents = parquet_contents(found) if found else None
    except (NotParquet, OSError, pa.ArrowException):
        return scan  # a file system that only Spark can read: there are no statistics
    if contents is None:
        return scan
    stored = dict(contents.columns)
    same = [column for column in scan.columns if stored.get(column.name) == column.type and column.type is not None]
    known = scan_facts(same, where.paths, where.base, found, contents, catalog)
    counted = Files(where.paths, where.format, where.base, contents.rows, contents.bytes, where.relation)
    counted_scan = Scan(scan.label, counted, scan.columns, known.keys, known.dependencies, None, known.statistics)
    if not is_listed or source.overlappedPartCols().nonEmpty() or _has_options(scan):
        return counted_scan
    bounded = with_bounds(counted_scan, found, source.partitionSchema().fieldNames())
    return _in_parts(bounded, source, table_files(found, contents)) or bounded if has_parts else bounded


def _listed_by_spark(spark: SparkSession, index: Any) -> Any:
    """The index of the files that Spark has listed for a relation, and will read. The catalog's own index of a partitioned
    table lists nothing, and says that the table has 8 EiB unless ANALYZE was run."""
    if index.getClass().getSimpleName() == "CatalogFileIndex":
        return index.filterPartitions(sequence(spark, []))
    return index


@lru_cache(maxsize=16)
def _paths_in(text: str) -> tuple[str, ...]:
    """The files of a listing. It is one text, because reading the elements of a sequence takes a call for each."""
    return tuple(sorted(_STATUS.findall(text)))


def _local_files(listed: tuple[str, ...], where: Files) -> Sequence[DataFile] | None:
    """These files as they are now, without listing any folder; None if they are not all local, or not all data."""
    base = where.base or (where.paths[0] if len(where.paths) == 1 else "")
    listing = _listing(listed, base) if base.startswith("file:/") else None
    return None if listing is None else listing.files()


class _Listing:
    """Local files, and what they were when they were last looked at."""

    def __init__(self, paths: tuple[str, ...], base: str) -> None:
        self._paths, self._base = paths, base
        self._known: tuple[DataFile, ...] = ()

    def files(self) -> tuple[DataFile, ...]:
        """The same object as long as no file has changed, so that what is known of it is found quickly."""
        known = self._known
        if not known or not files.are_unchanged(known):
            known = self._known = files.local_files(self._paths, self._base)
        return known


@lru_cache(maxsize=16)
def _listing(paths: tuple[str, ...], base: str) -> _Listing | None:
    below = f"{base.rstrip('/')}/"
    are_data = all(path.startswith(below) and not files.is_hidden(path[len(below) :]) for path in paths)
    return _Listing(paths, base) if paths and are_data else None


def _in_parts(scan: Scan, source: Any, found: Sequence[TableFile]) -> Scan | None:
    folders = tuple(source.partitionSchema().fieldNames())
    if folders:
        return in_folders(scan, folders, found)
    spec = source.bucketSpec().get()
    names = spec.bucketColumnNames().mkString("\x01").split("\x01")
    return in_buckets(scan, names, spec.numBuckets(), found)


def _has_options(scan: Scan) -> bool:
    """Whether the files are read with options. Those that a table always has say nothing about its rows."""
    assert isinstance(scan.files.format, Format)
    return any(key not in ("serialization.format", "path") for key, _ in scan.files.format.options)


def _options(scala_options: Any) -> dict[str, str]:
    """A Scala map in one call, as text. No option contains the separator."""
    text = scala_options.mkString("\x01")
    pairs = (each.partition(" -> ") for each in text.split("\x01") if each)
    return {key.lower(): value for key, _, value in pairs}
