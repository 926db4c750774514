"""The values in Parquet files, as Spark reads them. A column has one type in all files. It is NULL where a file lacks it, and
comes from the folder's name if it is a partition column. Column names compare without case, as in Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from unshuffle.catalog.files import DataFile
from unshuffle.catalog.folder_types import partition_value
from unshuffle.catalog.parquet_files import open_parquet


class OnlySparkReads(Exception):
    """A file has values that do not fit the column's type, or two columns of one name. Spark may read it, or fail."""


def read_batches(
    file: DataFile, partition_columns: Sequence[str], columns: Sequence[tuple[str, pa.DataType]]
) -> Iterator[pa.RecordBatch]:
    """Some columns of one file."""
    with open_parquet(file.path) as source:
        names_in_file = {
            name: _name_in_file(name, source.schema_arrow.names) for name, _ in columns if name not in partition_columns
        }
        present = [name for name in names_in_file.values() if name is not None]
        # With no column to read, one batch of all rows suffices: nothing is decoded for it.
        batches = source.iter_batches(columns=present) if present else [_empty_batch(source.metadata.num_rows)]
        for batch in batches:
            arrays = []
            for name, type in columns:
                if name in partition_columns:
                    if pa.types.is_timestamp(type):
                        raise OnlySparkReads(name)  # by the time zone of a session
                    value = partition_value(dict(file.partition).get(name, ""), type)
                    arrays.append(pa.repeat(pa.scalar(value, type), batch.num_rows))
                elif (name_in_file := names_in_file[name]) is None:
                    arrays.append(pa.nulls(batch.num_rows, type))
                else:
                    arrays.append(_cast(batch.column(name_in_file), type))
            yield pa.RecordBatch.from_arrays(arrays, [name for name, _ in columns])


def _empty_batch(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["nothing"])


def _name_in_file(name: str, names: Sequence[str]) -> str | None:
    same = [each for each in names if each.lower() == name.lower()]
    if len(same) > 1:
        raise OnlySparkReads(name)
    return same[0] if same else None


def _cast(values: pa.Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        return values if values.type == type else values.cast(type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise OnlySparkReads(type) from None
