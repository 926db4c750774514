"""Files before anything reads their rows: which there are, what columns Parquet footers name, how many rows they count.

pyarrow reads footers and lists folders, on a local disk or at any URI its file systems know, so no JVM is needed. Names
that begin with `_` or `.` are not data, as in Spark.
"""

from __future__ import annotations

import datetime
import glob
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache, partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from unshuffle.catalog.footers import footer_statistics, partition_statistics
from unshuffle.catalog.sampled import FEWEST_ROWS, sampled_domains
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.statistics import ColumnStatistics

# Past this many files, row counts come from an even sample of their footers.
EXACT_FOOTERS = 256
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_URI = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*://")


class NotParquet(Exception):
    """A file that should be Parquet is not; its path is the message."""


@dataclass(frozen=True, slots=True)
class DataFile:
    path: str
    size: int
    partition: tuple[tuple[str, str], ...]  # from folders named column=value below the path asked for
    modified: int | None = None  # nanoseconds since 1970


@dataclass(frozen=True, slots=True)
class ParquetContents:
    """What footers say of a set of files. `partition_columns` come from folder names, and are the last of `columns`."""

    columns: tuple[tuple[str, DataType], ...]
    partition_columns: tuple[str, ...]
    rows: int
    bytes: int
    statistics: tuple[tuple[str, ColumnStatistics], ...]  # of columns, by name


def is_uri(path: str) -> bool:
    return bool(_URI.match(path))


def absolute(path: str) -> str:
    """The one spelling of a path by which two paths can be compared."""
    if path.startswith("file:"):
        path = unquote(re.sub(r"^file:(//[^/]*)?", "", path))
    return path.rstrip("/") if is_uri(path) else os.path.realpath(path)


def overlaps(a: str, b: str) -> bool:
    """Whether one of two paths is the other, or lies inside it."""
    a, b = absolute(a), absolute(b)
    return a == b or a.startswith(b + "/") or b.startswith(a + "/")


def exists(path: str) -> bool:
    return bool(_info(path)) or bool(expand(path))


def expand(path: str) -> list[str]:
    """The files or folders a path with wildcards names, sorted; without wildcards itself, if it is there."""
    if not any(c in path for c in "*?[{"):
        return [path] if _info(path) else []
    if os.path.exists(path):
        return [path]
    if not is_uri(path):
        return sorted(p for one in _braces(path) for p in glob.glob(one))
    system, inner = pa.fs.FileSystem.from_uri(path)
    root = re.split(r"[*?\[{]", inner, maxsplit=1)[0].rsplit("/", 1)[0]
    prefix = path[: len(path) - len(inner)]
    selector = pa.fs.FileSelector(root, recursive=True, allow_not_found=True)
    depth = inner.count("/")
    found = [i.path for i in system.get_file_info(selector) if i.path.count("/") == depth]
    return sorted(prefix + p for p in found if any(fnmatch(p, one) for one in _braces(inner)))


def _braces(path: str) -> list[str]:
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [p for part in match[1].split(",") for p in _braces(path[: match.start()] + part + path[match.end() :])]


def _info(path: str) -> pa.fs.FileInfo | None:
    try:
        system, inner = _system(path)
        info = system.get_file_info(inner)
    except (pa.ArrowInvalid, OSError):
        return None
    return None if info.type == pa.fs.FileType.NotFound else info


def _system(path: str) -> tuple[pa.fs.FileSystem, str]:
    if is_uri(path):
        system, inner = pa.fs.FileSystem.from_uri(path)
        return system, inner
    if path.startswith("file:"):
        path = absolute(path)
    return pa.fs.LocalFileSystem(), os.path.abspath(path)


def data_files(paths: Iterable[str], base: str | None = None) -> list[DataFile]:
    """Every data file at or below some paths. Folders named column=value below `base` give partition values."""
    found: list[DataFile] = []
    for path in paths:
        system, inner = _system(path)
        info = system.get_file_info(inner)
        root = _system(base)[1] if base is not None else inner
        prefix = path[: len(path) - len(inner)] if path.endswith(inner) else ""
        if info.type == pa.fs.FileType.File:
            infos = [info]
        else:
            infos = system.get_file_info(pa.fs.FileSelector(inner, recursive=True, allow_not_found=True))
        for one in sorted(infos, key=lambda i: i.path):
            relative = one.path[len(inner) :].lstrip("/")
            hidden = any(part[:1] in ("_", ".") and "=" not in part for part in relative.split("/") if part)
            if one.type == pa.fs.FileType.File and not hidden:
                folders = one.path[len(root) :].lstrip("/").split("/")[:-1]
                pairs = tuple(_pair(folder) for folder in folders if "=" in folder)
                found.append(DataFile(prefix + one.path, one.size, pairs, one.mtime_ns))
    return found


def _pair(folder: str) -> tuple[str, str]:
    name, _, value = folder.partition("=")
    return name, unquote(value)


def parquet_contents(files: Sequence[DataFile]) -> ParquetContents:
    """Columns, row count, size and statistics of Parquet files, from their footers. Those of files that have not changed
    are not read again."""
    return _contents(tuple(files)) if all(each.modified is not None for each in files) else _read_contents(files)


@lru_cache(maxsize=256)
def _contents(files: tuple[DataFile, ...]) -> ParquetContents:
    return _read_contents(files)


def _read_contents(files: Sequence[DataFile]) -> ParquetContents:
    step = max(1, len(files) // EXACT_FOOTERS) if len(files) > EXACT_FOOTERS else 1
    sample = files[::step]
    with ThreadPoolExecutor(min(8, len(sample))) as pool:
        footers = list(pool.map(lambda f: footer(f.path), sample))
    counted = sum(one.num_rows for one in footers)
    total, sampled = sum(f.size for f in files), sum(f.size for f in sample)
    rows = counted if step == 1 else round(counted * total / max(1, sampled))
    names = [name for name, _ in files[0].partition]
    partition = [(name, partition_type([dict(f.partition).get(name, "") for f in files])) for name in names]
    stored = [(n, t) for n, t in _columns(footers[0]) if n.lower() not in {name.lower() for name in names}]
    folders = []
    for name, type in partition:
        values = [partition_value(dict(f.partition).get(name, ""), type) for f in sample]
        counts = ((value, float(one.num_rows)) for value, one in zip(values, footers, strict=True))
        folders.append((name, partition_statistics(counts, type)))
    samples = partial(sampled_domains, [f.path for f in files], _buffered) if rows >= FEWEST_ROWS else None
    statistics = (*footer_statistics(footers, stored, rows, samples), *folders)
    return ParquetContents((*stored, *partition), tuple(names), rows, total, statistics)


def footer(path: str) -> pa.parquet.FileMetaData:
    system, inner = _system(path)
    try:
        with system.open_input_file(inner) as file:
            return pa.parquet.read_metadata(file)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise NotParquet(path) from None


def _buffered(path: str) -> pa.parquet.ParquetFile:
    """A file of which a few rows are read, and not all around them."""
    system, inner = _system(path)
    return pa.parquet.ParquetFile(inner, filesystem=system, buffer_size=1 << 16)


def parquet_file(path: str, verify: bool = False) -> pa.parquet.ParquetFile:
    """A file to read rows from. INT96 timestamps are read in full: in nanoseconds, those far off would wrap around.
    `verify` has the checksums of its pages looked at, where it has some."""
    system, inner = _system(path)
    return pa.parquet.ParquetFile(
        inner, filesystem=system, coerce_int96_timestamp_unit="us", page_checksum_verification=verify
    )


def input_file(path: str) -> pa.NativeFile:
    """The bytes of a file."""
    system, inner = _system(path)
    return system.open_input_file(inner)


def is_file(path: str) -> bool:
    info = _info(path)
    return info is not None and info.type == pa.fs.FileType.File


def _columns(footer: pa.parquet.FileMetaData) -> list[tuple[str, DataType]]:
    physical = footer.schema
    # INT96 timestamps mean an instant to Spark, though Arrow gives them no zone.
    int96 = {physical.column(i).path for i in range(len(physical.names)) if physical.column(i).physical_type == "INT96"}
    return [
        (f.name, pa.timestamp("us", tz="UTC") if f.name in int96 else as_spark_reads(f.type))
        for f in physical.to_arrow_schema()
    ]


_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def as_spark_reads(type: pa.DataType) -> DataType:
    """The type that Spark gives a Parquet column which Arrow reads as this; None where only Spark can tell."""
    t = pa.types
    if t.is_dictionary(type):
        return as_spark_reads(type.value_type)
    if t.is_large_string(type) or t.is_string_view(type):
        return pa.string()
    if t.is_large_binary(type) or t.is_fixed_size_binary(type) or t.is_binary_view(type):
        return pa.binary()
    if type in _UNSIGNED:
        return _UNSIGNED[type]
    if t.is_timestamp(type):
        return pa.timestamp("us", tz="UTC" if type.tz else None) if type.unit != "ns" else None
    if t.is_list(type) or t.is_large_list(type):
        inner = as_spark_reads(type.value_type)
        return None if inner is None else pa.list_(inner)
    if t.is_map(type):
        key, item = as_spark_reads(type.key_type), as_spark_reads(type.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if t.is_struct(type):
        fields = [(type.field(i).name, as_spark_reads(type.field(i).type)) for i in range(type.num_fields)]
        return None if any(inner is None for _, inner in fields) else pa.struct(fields)
    known = t.is_integer(type) or t.is_boolean(type) or t.is_string(type) or t.is_binary(type) or t.is_date32(type)
    return type if known or type in (pa.float32(), pa.float64()) or t.is_decimal128(type) else None


def partition_type(values: Sequence[str]) -> pa.DataType:
    """Spark's guess at the type of a folder name's values: int, bigint, double, date or string."""
    real = [v for v in values if v != _NO_VALUE]
    if not real:
        return pa.string()
    if all(re.fullmatch(r"[+-]?\d+", v) for v in real):
        largest = max(abs(int(v)) for v in real)
        return pa.int32() if largest < 2**31 else pa.int64() if largest < 2**63 else pa.string()
    if all(re.fullmatch(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", v) for v in real):
        return pa.float64()
    return pa.date32() if all(_is_day(v) for v in real) else pa.string()


def partition_value(text: str, type: pa.DataType) -> Any:
    """The value that a folder's name gives a partition column of a type."""
    if text == _NO_VALUE:
        return None
    if pa.types.is_integer(type):
        return int(text)
    if pa.types.is_floating(type):
        return float(text)
    return datetime.date.fromisoformat(text) if pa.types.is_date(type) else text


def _is_day(text: str) -> bool:
    try:
        return bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}", text)) and datetime.date.fromisoformat(text) is not None
    except ValueError:
        return False
