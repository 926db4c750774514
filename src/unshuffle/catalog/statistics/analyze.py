"""What `unshuffle analyze` computes: statistics, keys and dependencies of Parquet data.

Data of moderate size is read one column at a time and counted exactly. For larger data, a sketch counts distinct values, an
even sample of the rows gives the other statistics, and there is no search for keys or dependencies, because those must be
exact. `persistence` stores the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from unshuffle.catalog import files
from unshuffle.catalog.constraints import constraint_discovery
from unshuffle.catalog.files import DataFile
from unshuffle.catalog.parquet_files import EXACT_FOOTERS, NotParquet, ParquetContents, parquet_contents
from unshuffle.catalog.parquet_values import OnlySparkReads, read_batches
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.statistics.column_statistics import ColumnProfile, profile_column
from unshuffle.catalog.statistics.distinct_sketch import DistinctSketch
from unshuffle.catalog.statistics.file_fingerprints import fingerprints
from unshuffle.catalog.statistics.stored_statistics import StoredColumn, StoredStatistics
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.catalog.types import spark_name
from unshuffle.errors import FileProblem

# Values (rows times columns) up to which counts are exact. The search for keys and dependencies takes four bytes for each.
EXACT_VALUES = 150_000_000
_SAMPLED_ROWS = 1_000_000

AnalyzeProgress = Callable[[str, int, int], None]  # the column being read, columns done, columns in all


def tables_at(path: str) -> list[str]:
    """The tables at a path: a file, a structured stream, a folder whose files are one table, or the tables of a folder of
    tables.

    The files of a folder are separate tables if their columns differ. A folder's only file is a table by itself, unless its
    name begins with part-, as the files of a multi-file table do.
    """
    listed = files_at(path)
    folder = Path(files.absolute(path))
    if files.is_uri(path) or not folder.is_dir() or folder.suffix in (".parquet", ".ss"):
        return [path]
    entries = sorted(entry for entry in folder.iterdir() if _is_table(entry))
    if any(entry.is_dir() for entry in entries):
        return [str(entry) for entry in entries]
    if not entries or len(entries) < len(listed):
        return [path]
    if len(entries) == 1:
        return [path] if entries[0].name.startswith("part-") else [str(entries[0])]
    columns = {_columns_in_footer(str(entry)) for entry in entries}
    return [path] if len(columns) == 1 else [str(entry) for entry in entries]


def _is_table(entry: Path) -> bool:
    is_data = entry.suffix == ".parquet" or (entry.suffix == ".ss" and entry.is_dir())
    return is_data and not entry.name.startswith(("_", "."))


def files_at(path: str) -> list[DataFile]:
    if not files.exists(path):
        raise FileProblem(f"there is no file or folder {path!r}")
    try:
        return files.data_files([path])
    except OSError as error:
        raise FileProblem(f"{path!r} cannot be read: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _columns_in_footer(path: str) -> tuple[tuple[str, DataType], ...]:
    return _contents([DataFile(path, 0, ())]).columns


def _contents(listed: Sequence[DataFile]) -> ParquetContents:
    try:
        return parquet_contents(listed)
    except NotParquet as problem:
        raise FileProblem(f"{str(problem)!r} is not a Parquet file", hint="only Parquet can be analyzed") from None
    except (OSError, pa.ArrowException) as error:
        raise FileProblem(f"{listed[0].path!r} cannot be read: {_first_line(error)}") from None


def analyze(
    path: str,
    on_progress: AnalyzeProgress | None = None,
    exact_values: int = EXACT_VALUES,
    list_files: Callable[[str], list[DataFile]] = files_at,
) -> StoredStatistics:
    """The statistics of one table. `list_files` says which files are the table's: by default, all below its path."""
    listed = list_files(path)
    if not listed:
        raise FileProblem(f"{path!r} holds no files")
    contents = _contents(listed)
    rows = contents.rows if len(listed) <= EXACT_FOOTERS else _count_rows(listed)
    columns = [(name, type) for name, type in contents.columns if type is not None and not pa.types.is_nested(type)]
    is_exact = rows * max(1, len(columns)) <= exact_values
    try:
        result = (_exact if is_exact else _sampled)(path, listed, contents, columns, rows, on_progress)
    except (OSError, pa.ArrowException) as error:
        raise FileProblem(f"{path!r} cannot be read: {_first_line(error)}") from None
    if fingerprints(list_files(path), path) != result.files:
        raise FileProblem(f"{path!r} changed while it was read", hint="analyze it again")
    return result


def _count_rows(listed: Sequence[DataFile]) -> int:
    return sum(_contents([file]).rows for file in listed)


def _exact(
    path: str,
    listed: Sequence[DataFile],
    contents: ParquetContents,
    columns: Sequence[tuple[str, DataType]],
    rows: int,
    on_progress: AnalyzeProgress | None,
) -> StoredStatistics:
    profiles: list[tuple[str, ColumnProfile]] = []
    stored: list[StoredColumn] = []
    for index, (name, type) in enumerate(columns):
        if on_progress is not None:
            on_progress(name, index, len(columns))
        assert type is not None
        column = _read(listed, contents, name, type)
        if column is None:
            continue
        profiles.append((name, profile_column(column, type)))
        stored.append(StoredColumn(name, spark_name(type), profiles[-1][1].statistics))
    if on_progress is not None:
        on_progress("keys and dependencies", len(columns), len(columns))
    return StoredStatistics(
        files.absolute(path),
        fingerprints(listed, path),
        rows,
        contents.bytes,
        True,
        tuple(stored),
        constraint_discovery.keys(profiles, rows),
        constraint_discovery.dependencies(profiles, rows),
        constraint_discovery.order_dependencies(profiles, rows),
    )


def _read(
    listed: Sequence[DataFile], contents: ParquetContents, name: str, type: pa.DataType
) -> pa.ChunkedArray | None:
    """A column of all files; None if a file has values that do not fit the column's type."""
    try:
        return pa.chunked_array(_batches(listed, contents, name, type), type)
    except OnlySparkReads:
        return None


def _sampled(
    path: str,
    listed: Sequence[DataFile],
    contents: ParquetContents,
    columns: Sequence[tuple[str, DataType]],
    rows: int,
    on_progress: AnalyzeProgress | None,
) -> StoredStatistics:
    stored: list[StoredColumn] = []
    for index, (name, type) in enumerate(columns):
        if on_progress is not None:
            on_progress(name, index, len(columns))
        assert type is not None
        try:
            statistics = _sampled_column(_batches(listed, contents, name, type), type, rows)
        except OnlySparkReads:
            continue
        stored.append(StoredColumn(name, spark_name(type), statistics))
    return StoredStatistics(
        files.absolute(path), fingerprints(listed, path), rows, contents.bytes, False, tuple(stored)
    )


def _batches(listed: Sequence[DataFile], contents: ParquetContents, name: str, type: pa.DataType) -> Iterator[pa.Array]:
    for file in listed:
        for batch in read_batches(file, contents.partition_columns, [(name, type)]):
            yield batch.column(0)


def _sampled_column(batches: Iterator[pa.Array], type: pa.DataType, rows: int) -> ColumnStatistics:
    every = max(1, rows // _SAMPLED_ROWS)
    sketch = DistinctSketch()
    sample: list[pa.Array] = []
    nulls = seen = 0
    for batch in batches:
        nulls += batch.null_count
        sketch.add(batch.drop_null())
        first = -seen % every
        if first < len(batch):
            sample.append(batch.take(pa.array(range(first, len(batch), every), pa.int64())))
        seen += len(batch)
    in_sample = profile_column(pa.chunked_array(sample, type), type).statistics
    distinct = sketch.count()
    null_fraction = nulls / rows if rows else 0.0
    # The histogram counts the sample's values. All rows have more of them, in the same proportions.
    growth = distinct / in_sample.distinct if in_sample.distinct else 1.0
    histogram = in_sample.histogram
    if histogram is not None and growth > 1.0:
        histogram = replace(histogram, distinct=tuple(count * growth for count in histogram.distinct))
    return replace(in_sample, distinct=distinct, null_fraction=null_fraction, histogram=histogram)
