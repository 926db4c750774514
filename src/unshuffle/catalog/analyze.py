"""What `unshuffle analyze` computes: statistics, keys and dependencies of Parquet data.

Data of moderate size is read one column at a time and counted exactly. Of larger data, distinct values are counted by a
sketch, the rest on an even sample of the rows, and no keys or dependencies are looked for, because those must be exact.
Nothing is written here; see `stored_statistics`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from unshuffle.catalog import files, found
from unshuffle.catalog.files import DataFile
from unshuffle.catalog.profile import Profile, profile
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.sketch import DistinctSketch
from unshuffle.catalog.statistics import ColumnStatistics
from unshuffle.catalog.stored_statistics import StoredColumn, StoredStatistics, marks
from unshuffle.catalog.types import spark_name
from unshuffle.catalog.values import OnlySparkReads, batches
from unshuffle.errors import FileProblem

# Values (rows times columns) that are counted exactly; each takes four bytes while keys and dependencies are looked for.
EXACT_VALUES = 150_000_000
_SAMPLED_ROWS = 1_000_000

Step = Callable[[str, int, int], None]  # what is being read, how many are done, of how many


def tables_at(path: str) -> list[str]:
    """The data at a path: a file, a folder of files that are one table, or the tables of a folder of tables.

    Files of a folder are tables of their own if they have different columns; a single file is one unless it is called
    part-..., as the files of one table are.
    """
    found_files = _files(path)
    folder = Path(files.absolute(path))
    if files.is_uri(path) or not folder.is_dir() or folder.suffix == ".parquet":
        return [path]
    entries = sorted(e for e in folder.iterdir() if e.suffix == ".parquet" and not e.name.startswith(("_", ".")))
    if any(entry.is_dir() for entry in entries):
        return [str(entry) for entry in entries]
    if not entries or len(entries) < len(found_files):
        return [path]
    if len(entries) == 1:
        return [path] if entries[0].name.startswith("part-") else [str(entries[0])]
    columns = {_footer_columns(str(entry)) for entry in entries}
    return [path] if len(columns) == 1 else [str(entry) for entry in entries]


def _files(path: str) -> list[DataFile]:
    if not files.exists(path):
        raise FileProblem(f"there is no file or folder {path!r}")
    try:
        return files.data_files([path])
    except OSError as error:
        raise FileProblem(f"{path!r} cannot be read: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _footer_columns(path: str) -> tuple[tuple[str, DataType], ...]:
    return _contents([DataFile(path, 0, ())]).columns


def _contents(found_files: Sequence[DataFile]) -> files.ParquetContents:
    try:
        return files.parquet_contents(found_files)
    except files.NotParquet as problem:
        raise FileProblem(f"{str(problem)!r} is not a Parquet file", hint="only Parquet can be analyzed") from None
    except (OSError, pa.ArrowException) as error:
        raise FileProblem(f"{found_files[0].path!r} cannot be read: {_first_line(error)}") from None


def analyze(path: str, step: Step | None = None, exact_values: int = EXACT_VALUES) -> StoredStatistics:
    """All that can be found out about one table."""
    found_files = _files(path)
    if not found_files:
        raise FileProblem(f"{path!r} holds no files")
    contents = _contents(found_files)
    rows = contents.rows if len(found_files) <= files.EXACT_FOOTERS else _counted(found_files)
    columns = [(name, type) for name, type in contents.columns if type is not None and not pa.types.is_nested(type)]
    exact = rows * max(1, len(columns)) <= exact_values
    try:
        if exact:
            result = _exact(path, found_files, contents, columns, rows, step)
        else:
            result = _sampled(path, found_files, contents, columns, rows, step)
    except (OSError, pa.ArrowException) as error:
        raise FileProblem(f"{path!r} cannot be read: {_first_line(error)}") from None
    if marks(_files(path), path) != result.files:
        raise FileProblem(f"{path!r} was changed while it was being read", hint="analyze it again")
    return result


def _counted(found_files: Sequence[DataFile]) -> int:
    return sum(_contents([file]).rows for file in found_files)


def _exact(
    path: str,
    found_files: Sequence[DataFile],
    contents: files.ParquetContents,
    columns: Sequence[tuple[str, DataType]],
    rows: int,
    step: Step | None,
) -> StoredStatistics:
    profiles: list[tuple[str, Profile]] = []
    stored: list[StoredColumn] = []
    for place, (name, type) in enumerate(columns):
        if step is not None:
            step(name, place, len(columns))
        assert type is not None
        column = _read(found_files, contents, name, type)
        if column is None:
            continue
        profiles.append((name, profile(column, type)))
        stored.append(StoredColumn(name, spark_name(type), profiles[-1][1].statistics))
    if step is not None:
        step("keys and dependencies", len(columns), len(columns))
    return StoredStatistics(
        files.absolute(path),
        marks(found_files, path),
        rows,
        contents.bytes,
        True,
        tuple(stored),
        found.keys(profiles, rows),
        found.dependencies(profiles, rows),
        found.rising(profiles, rows),
    )


def _read(
    found_files: Sequence[DataFile], contents: files.ParquetContents, name: str, type: pa.DataType
) -> pa.ChunkedArray | None:
    """A column of all files; None where a file holds something that is no value of the column's type."""
    try:
        return pa.chunked_array(_batches(found_files, contents, name, type), type)
    except OnlySparkReads:
        return None


def _sampled(
    path: str,
    found_files: Sequence[DataFile],
    contents: files.ParquetContents,
    columns: Sequence[tuple[str, DataType]],
    rows: int,
    step: Step | None,
) -> StoredStatistics:
    stored: list[StoredColumn] = []
    for place, (name, type) in enumerate(columns):
        if step is not None:
            step(name, place, len(columns))
        assert type is not None
        try:
            statistics = _sampled_column(_batches(found_files, contents, name, type), type, rows)
        except OnlySparkReads:
            continue
        stored.append(StoredColumn(name, spark_name(type), statistics))
    return StoredStatistics(files.absolute(path), marks(found_files, path), rows, contents.bytes, False, tuple(stored))


def _batches(
    found_files: Sequence[DataFile], contents: files.ParquetContents, name: str, type: pa.DataType
) -> Iterator[pa.Array]:
    for file in found_files:
        for batch in batches(file, contents.partition_columns, [(name, type)]):
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
    known = profile(pa.chunked_array(sample, type), type).statistics
    distinct = sketch.count()
    null_fraction = nulls / rows if rows else 0.0
    # The sample's histogram counts the sample's values; all rows hold more of them, in the same proportion.
    grown = distinct / known.distinct if known.distinct else 1.0
    histogram = known.histogram
    if histogram is not None and grown > 1.0:
        histogram = replace(histogram, distinct=tuple(count * grown for count in histogram.distinct))
    return replace(known, distinct=distinct, null_fraction=null_fraction, histogram=histogram)
