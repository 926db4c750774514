"""A writer of streams without Spark, and values of every type that a stream can be clustered by."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cmp_to_key
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unshuffle.errors import disk_problems
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.layouts.partition_functions import compare_values
from unshuffle.sstream import LayoutRequest, SortedName, Stream, open_stream, resolve_layout
from unshuffle.sstream.manifest import ranges_of
from unshuffle.sstream.murmur import partition_numbers
from unshuffle.sstream.storage import LocalStorage, Step, no_step
from unshuffle.sstream.version_writer import VersionWriter

UTC = datetime.UTC
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tinyint": (pa.int8(), [1, -3, None, 127]),
    "bigint": (pa.int64(), [2**62, -5, None, 0, 7, 7]),
    "double": (pa.float64(), [1.5, -0.0, 0.0, float("nan"), float("-inf"), None, 2.5]),
    "float": (pa.float32(), [1.5, -0.0, 0.0, float("nan"), None]),
    "short decimal": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-0.01"), None]),
    "long decimal": (pa.decimal128(30, 3), [Decimal("12345678901234567890.125"), Decimal("-1.500"), None]),
    "string": (pa.string(), ["a", "", "é", "\U0001f600", "\uffff", None, "ab", "abcde"]),
    "binary": (pa.binary(), [b"\x00", b"\xff\x00", b"", None, b"abcdefgh"]),
    "boolean": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2024, 2, 29), None]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime.datetime(1969, 12, 31, 23, 59, 59, 1, UTC), None]),
    "timestamp_ntz": (pa.timestamp("us"), [datetime.datetime(9999, 12, 31, 1, 2, 3, 4), None]),
}


def by(*names: str) -> tuple[SortedName, ...]:
    """Sort columns; `-a` is descending, with NULLs last."""
    return tuple(SortedName(name.lstrip("-"), name.startswith("-"), not name.startswith("-")) for name in names)


def store(
    path: Path | str,
    rows: pa.Table,
    request: LayoutRequest,
    step: Step = no_step,
    files: int = 1,
    row_group: int = 1 << 20,
) -> Stream:
    """Writes the next version of a stream, with a number of files in each partition."""
    storage = LocalStorage(str(path), step)
    reference = open_stream(request.reference) if request.reference else None
    layout = resolve_layout(request, [(field.name, field.type) for field in rows.schema], reference)
    assert layout.function is not None
    with VersionWriter(storage, str(path), request.overwrite) as writer:
        staging = Path(storage.path) / writer.staging
        with disk_problems(f"{str(path)!r} cannot be written"):
            for name, data in _files(rows, layout.function, layout.clustered_by, layout.sorted_by, files, row_group):
                target = staging / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        writer.prepare(layout, layout.function)
        return writer.publish()


_written: dict[object, tuple[pa.Table, list[tuple[str, bytes]]]] = {}


def _files(rows: pa.Table, *layout: Any) -> list[tuple[str, bytes]]:
    """The Parquet files of some rows, by name. Tests that write the same rows many times encode them once."""
    key = (id(rows), *layout)
    if key not in _written:
        _written[key] = rows, list(_encode_files(rows, *layout))  # keeps the table alive, so that its id is unique
    return _written[key][1]


def _encode_files(
    rows: pa.Table,
    function: HashFunction | RangeFunction,
    clustered_by: Sequence[SortedName],
    sorted_by: Sequence[SortedName],
    files: int,
    row_group: int,
) -> Iterator[tuple[str, bytes]]:
    keys = [rows[each.name].combine_chunks() for each in clustered_by[: function.arity]]
    if isinstance(function, HashFunction):
        numbers = partition_numbers(keys, function.partitions).tolist() if rows.num_rows else []
    else:
        numbers = ranges_of(function).numbers(zip(*(key.to_pylist() for key in keys), strict=True))
    columns = [rows[each.name].to_pylist() for each in sorted_by]

    def compare(one: int, other: int) -> int:
        for column, key in zip(columns, sorted_by, strict=True):
            sign = compare_values(column[one], column[other], key.descending, key.nulls_first)
            if sign:
                return sign
        return 0

    order = sorted(range(rows.num_rows), key=cmp_to_key(compare))
    for number in range(function.partitions):
        partition = [row for row in order if numbers[row] == number]
        share = -(-len(partition) // files) or 1
        for part, start in enumerate(range(0, len(partition), share)):
            buffer = BytesIO()
            write_file(buffer, rows.take(partition[start : start + share]), row_group)
            yield f"_p={number}/part-{part}.parquet", buffer.getvalue()


def write_file(target: Path | BytesIO, rows: pa.Table, row_group: int = 1 << 20) -> None:
    pq.write_table(rows, target, row_group_size=row_group, write_page_index=True, write_page_checksum=True)


def table_of(stream: Stream) -> list[tuple[Any, ...]]:
    """All rows of a stream, by partition, as any Parquet reader sees them."""
    return [tuple(row.values()) for path in stream.paths for row in pq.ParquetFile(path).read().to_pylist()]
