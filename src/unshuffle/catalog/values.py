"""The values in Parquet files, as Spark reads them: of one type in all files, NULL where a file lacks the column, from
the folder's name where that gives them. Names compare without case, as Spark's do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from unshuffle.catalog import files
from unshuffle.catalog.files import DataFile


class OnlySparkReads(Exception):
    """A file holds values that are none of a column's type, or two columns of a name: Spark may read it, or fail."""


def batches(
    file: DataFile, partition_columns: Sequence[str], columns: Sequence[tuple[str, pa.DataType]]
) -> Iterator[pa.RecordBatch]:
    """Some columns of one file."""
    with files.parquet_file(file.path) as source:
        stored = {
            name: _stored(name, source.schema_arrow.names) for name, _ in columns if name not in partition_columns
        }
        there = [name for name in stored.values() if name is not None]
        # With no column to read, one batch of all rows: nothing is decoded for it.
        counted = source.iter_batches(columns=there) if there else [_of_length(source.metadata.num_rows)]
        for batch in counted:
            made = []
            for name, type in columns:
                if name in partition_columns:
                    value = files.partition_value(dict(file.partition).get(name, ""), type)
                    made.append(pa.repeat(pa.scalar(value, type), batch.num_rows))
                elif (read := stored[name]) is None:
                    made.append(pa.nulls(batch.num_rows, type))
                else:
                    made.append(_as(batch.column(read), type))
            yield pa.RecordBatch.from_arrays(made, [name for name, _ in columns])


def _of_length(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["nothing"])


def _stored(name: str, names: Sequence[str]) -> str | None:
    """What a file calls a column."""
    same = [each for each in names if each.lower() == name.lower()]
    if len(same) > 1:
        raise OnlySparkReads(name)
    return same[0] if same else None


def _as(values: pa.Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        return values if values.type == type else values.cast(type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise OnlySparkReads(type) from None
