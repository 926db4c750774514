"""Stored statistics as JSON."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from unshuffle.catalog.json_files import (
    Json,
    as_list,
    as_number,
    as_texts,
    check_format,
    count,
    flag,
    items,
    member,
    no_duplicates,
    path,
    shown,
    text,
    texts,
)
from unshuffle.catalog.json_values import decoded_value, encoded_value
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.statistics.file_fingerprints import fingerprints_from_json, fingerprints_to_json
from unshuffle.catalog.statistics.stored_statistics import StoredColumn, StoredStatistics
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, EquiDepthHistogram
from unshuffle.catalog.type_names import from_spark_name

_FORMAT = "unshuffle statistics"
_VERSION = 1
_MAX_VALUES = 10_000  # many more than are ever stored; the time of an estimate grows with them


def encode(stored: StoredStatistics) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "path": stored.root,
        "rows": stored.rows,
        "bytes": stored.bytes,
        "exact": stored.exact,
        "keys": [list(key) for key in stored.keys],
        "dependencies": [{"from": list(left), "to": list(right)} for left, right in stored.dependencies],
        "rising": [{"with": key, "columns": list(columns)} for key, columns in stored.order_dependencies],
        "columns": [_encoded_column(column) for column in stored.columns],
        "files": fingerprints_to_json(stored.files),
    }


def _encoded_column(column: StoredColumn) -> dict[str, Any]:
    statistics = column.statistics
    content: dict[str, Any] = {
        "name": column.name,
        "type": column.type,
        "distinct": statistics.distinct,
        "null_fraction": statistics.null_fraction,
        "low": encoded_value(statistics.low),
        "high": encoded_value(statistics.high),
        "width": statistics.width,
        "common": [[encoded_value(value), share] for value, share in statistics.common],
    }
    if statistics.histogram is not None:
        content["histogram"] = {
            "bounds": [encoded_value(bound) for bound in statistics.histogram.bounds],
            "rows": list(statistics.histogram.rows),
            "distinct": list(statistics.histogram.distinct),
        }
    return content


def decode(content: Json) -> StoredStatistics:
    """Raises a ValueError for anything malformed."""
    check_format(content, _FORMAT, _VERSION)
    columns = tuple(_decoded_column(column) for column in items(content, "columns"))
    no_duplicates((column.name for column in columns), "the column")
    return StoredStatistics(
        path(content, "path"),
        fingerprints_from_json(member(content, "files")),
        count(content, "rows"),
        count(content, "bytes"),
        flag(content, "exact"),
        columns,
        tuple(as_texts(key, "a key") for key in items(content, "keys")),
        tuple((texts(each, "from"), texts(each, "to")) for each in items(content, "dependencies")),
        tuple((text(each, "with"), texts(each, "columns")) for each in items(content, "rising")),
    )


def _decoded_column(content: Json) -> StoredColumn:
    name, spark_type = text(content, "name"), text(content, "type")
    # A column whose type has no name has values of any type.
    type = None if "?" in spark_type else from_spark_name(spark_type)
    low, high = (decoded_value(member(content, end), type) for end in ("low", "high"))
    if (low is None) != (high is None) or (low is not None and not low <= high):
        raise ValueError(f"the column {shown(name)} has a low that is not below its high")
    histogram = content.get("histogram")
    statistics = ColumnStatistics(
        _number_or_none(content, "distinct"),
        as_number(member(content, "null_fraction"), "null_fraction", 1.0),
        low,
        high,
        _number_or_none(content, "width"),
        tuple(_decoded_common(each, type) for each in items(content, "common", _MAX_VALUES)),
        None if histogram is None else _decoded_histogram(histogram, type),
    )
    return StoredColumn(name, spark_type, statistics)


def _number_or_none(content: Json, name: str) -> float | None:
    value = member(content, name)
    return None if value is None else as_number(value, name)


def _decoded_common(content: Json, type: DataType) -> tuple[Any, float]:
    value, share = as_list(content, "a common value")
    if value is None:
        raise ValueError("NULL is not a common value")
    return decoded_value(value, type), as_number(share, "the share of a common value", 1.0)


def _decoded_histogram(content: Json, type: DataType) -> EquiDepthHistogram:
    bounds = tuple(decoded_value(bound, type) for bound in items(content, "bounds", _MAX_VALUES))
    rows, distinct = (tuple(as_number(each, name) for each in items(content, name)) for name in ("rows", "distinct"))
    if not len(bounds) == len(rows) + 1 == len(distinct) + 1 >= 2:
        raise ValueError("the parts of a histogram have different lengths")
    if None in bounds or not all(a <= b for a, b in pairwise(bounds)):
        raise ValueError("the bounds of a histogram do not ascend")
    return EquiDepthHistogram(bounds, rows, distinct)
