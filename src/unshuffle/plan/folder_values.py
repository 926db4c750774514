"""The values of partition columns, from the names of folders: `day=2026-01-03/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from unshuffle.catalog.folder_types import NULL_PARTITION, partition_type, partition_value, unescaped
from unshuffle.catalog.schema import Column, DataType
from unshuffle.plan.logical import Scan


def columns_named(scan: Scan, names: Sequence[str]) -> tuple[Column, ...] | None:
    """The columns of a scan with these names; None if one is missing, or if names do not tell columns apart."""
    read: Mapping[str, Column] = {column.name.lower(): column for column in scan.columns}
    if len(read) < len(scan.columns) or any(column.type is None for column in scan.columns):
        return None  # names that differ in case only, or a type that only Spark knows
    found = tuple(read[name.lower()] for name in names if name.lower() in read)
    return found if found and len(found) == len(names) else None


def have_names(columns: Sequence[Column]) -> bool:
    """Whether values of the columns can be read from the names of folders."""
    t = pa.types
    return all(any(is_type(column.type) for is_type in (t.is_integer, t.is_date, t.is_string)) for column in columns)


def folder_values(path: str, columns: Sequence[Column]) -> tuple[Any, ...] | None:
    """The values of the partition columns, which are the innermost folders of a file, in order."""
    folders = path.split("/")[-1 - len(columns) : -1]
    if len(folders) != len(columns):
        return None
    values: list[Any] = []
    for folder, column in zip(folders, columns, strict=True):
        name, separator, text = folder.partition("=")
        if not separator or unescaped(name).lower() != column.name.lower():
            return None
        if text != NULL_PARTITION and not _is_certain(text, column.type):
            return None
        values.append(partition_value(text, column.type))
    return tuple(values)


def _is_certain(text: str, type: DataType) -> bool:
    """Whether a text is a value of the type, and not one that only a cast by Spark would make of it."""
    if pa.types.is_string(type):
        return True
    inferred = partition_type([text])
    return bool(inferred == type or (pa.types.is_integer(inferred) and pa.types.is_integer(type)))
