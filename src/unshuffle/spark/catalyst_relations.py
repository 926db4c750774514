"""The files that a DataFrame reads, as our scan of them, so that what is known of the files is known of the DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from unshuffle.algebra.logical import Files, Format, Scan
from unshuffle.catalog import files
from unshuffle.catalog.known import known_of
from unshuffle.catalog.schema import Column
from unshuffle.spark.catalyst_streams import as_stream

_FORMATS = {
    "ParquetFileFormat": "Parquet",
    "CSVFileFormat": "Csv",
    "JsonFileFormat": "Json",
    "OrcFileFormat": "Orc",
    "TextFileFormat": "Text",
}
# With these, a DataFrame does not read all the files that are there.
_CHOOSE_FILES = {"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "ignorecorruptfiles"}


def name_of_table(frame: DataFrame) -> tuple[str, ...] | None:
    """What Spark calls the table or view that a DataFrame reads whole."""
    plan = frame._jdf.queryExecution().analyzed()
    while plan.getClass().getSimpleName() == "SubqueryAlias":
        plan = plan.child()
    return name_of_relation(plan)


def name_of_relation(plan: Any) -> tuple[str, ...] | None:
    """What Spark calls a table or view, the same however a query calls it; None for what has no name, or is neither."""
    match plan.getClass().getSimpleName():
        case "View":
            return _parts(plan.desc().identifier())
        case "HiveTableRelation":
            return _parts(plan.tableMeta().identifier())
        case "LogicalRelation" if plan.catalogTable().isDefined():
            return _parts(plan.catalogTable().get().identifier())
        case "DataSourceV2Relation" if plan.identifier().isDefined() and plan.catalog().isDefined():
            found = plan.identifier().get()
            return (plan.catalog().get().name(), *found.namespace(), found.name())
    return None


def _parts(identifier: Any) -> tuple[str, ...]:
    return tuple(identifier.nameParts().mkString("\x01").split("\x01"))


def file_scan(relation: Any, columns: tuple[Column, ...], catalog: str | Path | None) -> Scan | None:
    """The scan of a relation of files, None for any other source."""
    source = relation.relation()
    if source.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    name = _FORMATS.get(source.fileFormat().getClass().getSimpleName())
    index = source.location()
    stored = source.schema().length()
    # A scan that also asks for what Spark knows of each file has one column more.
    if name is None or index.getClass().getSimpleName() != "InMemoryFileIndex" or stored != len(columns):
        return None
    paths = tuple(index.rootPaths().mkString("\n").split("\n"))
    options = _options(source.options())
    base = options.get("basepath")
    if base is None and source.partitionSchema().length() > 0 and len(paths) == 1:
        base = paths[0]
    said = tuple((key, value) for key, value in sorted(options.items()) if key not in ("path", "paths", "basepath"))
    where = Files(paths, Format(name, said), base, None, source.sizeInBytes(), relation)
    of_catalog = name_of_relation(relation)
    label = of_catalog[-1] if of_catalog is not None else paths[0].rstrip("/").rsplit("/", 1)[-1].partition(".")[0]
    scan = Scan(label, where, columns)
    if name != "Parquet" or options.keys() & _CHOOSE_FILES:
        return scan
    return as_stream(scan) or _known(scan, catalog)


def _known(scan: Scan, catalog: str | Path | None) -> Scan:
    """With what footers and stored statistics say of the columns that are read as the files have them."""
    where = scan.files
    try:
        found = files.data_files(where.paths, where.base)
        contents = files.parquet_contents(found) if found else None
    except (files.NotParquet, OSError, pa.ArrowException):
        return scan  # a file system that only Spark can read: nothing is known, and nothing is wrong
    if contents is None:
        return scan
    stored = dict(contents.columns)
    same = [column for column in scan.columns if stored.get(column.name) == column.type and column.type is not None]
    known = known_of(same, where.paths, where.base, found, contents, catalog)
    counted = Files(where.paths, where.format, where.base, contents.rows, contents.bytes, where.relation)
    return Scan(scan.label, counted, scan.columns, known.keys, known.dependencies, None, known.statistics)


def _options(found: Any) -> dict[str, str]:
    """A Scala map in one call: as text, where no option has the mark between two of them."""
    text = found.mkString("\x01")
    pairs = (each.partition(" -> ") for each in text.split("\x01") if each)
    return {key.lower(): value for key, _, value in pairs}
