"""Stored statistics as JSON."""

from __future__ import annotations

from typing import Any

from unshuffle.catalog.json_values import decoded_value, encoded_value
from unshuffle.catalog.statistics.file_fingerprints import FileFingerprint
from unshuffle.catalog.statistics.stored_statistics import StoredColumn, StoredStatistics
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, EquiDepthHistogram

_FORMAT = "unshuffle statistics"
_VERSION = 1


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
        "files": [{"path": file.path, "size": file.size, "modified": file.modified} for file in stored.files],
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


def decode(content: dict[str, Any]) -> StoredStatistics:
    if content["format"] != _FORMAT or content["version"] != _VERSION:
        raise ValueError("another format")
    return StoredStatistics(
        content["path"],
        tuple(FileFingerprint(file["path"], file["size"], file["modified"]) for file in content["files"]),
        content["rows"],
        content["bytes"],
        content["exact"],
        tuple(_decoded_column(column) for column in content["columns"]),
        tuple(tuple(key) for key in content["keys"]),
        tuple((tuple(each["from"]), tuple(each["to"])) for each in content["dependencies"]),
        tuple((each["with"], tuple(each["columns"])) for each in content["rising"]),
    )


def _decoded_column(content: dict[str, Any]) -> StoredColumn:
    histogram = content.get("histogram")
    return StoredColumn(
        content["name"],
        content["type"],
        ColumnStatistics(
            content["distinct"],
            content["null_fraction"],
            decoded_value(content["low"]),
            decoded_value(content["high"]),
            content["width"],
            tuple((decoded_value(value), share) for value, share in content["common"]),
            EquiDepthHistogram(
                tuple(decoded_value(bound) for bound in histogram["bounds"]),
                tuple(histogram["rows"]),
                tuple(histogram["distinct"]),
            )
            if histogram is not None
            else None,
        ),
    )
