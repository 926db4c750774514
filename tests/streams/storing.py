"""A writer of streams without Spark, and small rows of every type that a stream can be clustered by."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from functools import cmp_to_key
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.functions import compare_values
from unshuffle.streams import SortedName, Stream, Wanted, open_stream, settle
from unshuffle.streams.manifest import ranges_of
from unshuffle.streams.murmur import partition_numbers
from unshuffle.streams.places import LocalPlace, Step, no_step
from unshuffle.streams.writing import Writing

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
    """`-a` descends, NULLs last."""
    return tuple(SortedName(name.lstrip("-"), name.startswith("-"), not name.startswith("-")) for name in names)


def store(
    path: Path | str, rows: pa.Table, wanted: Wanted, step: Step = no_step, files: int = 1, row_group: int = 1 << 20
) -> Stream:
    """The next version of a stream; each partition in so many files."""
    place = LocalPlace(str(path), step)
    reference = open_stream(wanted.reference) if wanted.reference else None
    settled = settle(wanted, [(field.name, field.type) for field in rows.schema], reference)
    assert settled.function is not None
    with Writing(place, str(path), wanted.overwrite) as writing:
        put(
            Path(place.path) / writing.staging,
            rows,
            settled.function,
            settled.clustered_by,
            settled.sorted_by,
            files,
            row_group,
        )
        writing.prepare(settled, settled.function)
        return writing.publish()


def put(
    folder: Path,
    rows: pa.Table,
    function: HashFunction | RangeFunction,
    clustered_by: Sequence[SortedName],
    sorted_by: Sequence[SortedName],
    files: int,
    row_group: int,
) -> None:
    keys = [rows[each.name].combine_chunks() for each in clustered_by[: function.arity]]
    if isinstance(function, HashFunction):
        numbers = partition_numbers(keys, function.partitions).tolist() if rows.num_rows else []
    else:
        numbers = ranges_of(function).numbers(zip(*(key.to_pylist() for key in keys), strict=True))
    columns = [rows[each.name].to_pylist() for each in sorted_by]

    def compare(one: int, other: int) -> int:
        for column, key in zip(columns, sorted_by, strict=True):
            found = compare_values(column[one], column[other], key.descending, key.nulls_first)
            if found:
                return found
        return 0

    order = sorted(range(rows.num_rows), key=cmp_to_key(compare))
    for number in range(function.partitions):
        mine = [row for row in order if numbers[row] == number]
        share = -(-len(mine) // files) or 1
        for part, start in enumerate(range(0, len(mine), share)):
            goal = folder / f"_p={number}" / f"part-{part}.parquet"
            goal.parent.mkdir(parents=True, exist_ok=True)
            write_file(goal, rows.take(mine[start : start + share]), row_group)


def write_file(path: Path, rows: pa.Table, row_group: int = 1 << 20) -> None:
    pq.write_table(rows, path, row_group_size=row_group, write_page_index=True, write_page_checksum=True)


def table_of(stream: Stream) -> list[tuple[Any, ...]]:
    """All rows of a stream as any reader of Parquet sees them, by partition."""
    return [tuple(row.values()) for path in stream.paths for row in pq.ParquetFile(path).read().to_pylist()]
