"""Keys, ranges and histograms as JSON, for the manifests of stored data.

    a cut        [1, "B"], or {"after": [1, "B"]}; null where there is no bound
    a key        {"type": "bigint", "descending": false, "nulls_first": true}
    ranges       {"keys": [key, ..], "boundaries": [[1, "B"], ..]}
    a histogram  {"keys": [key, ..], "buckets": [[low, high, rows], ..]}

Values keep their types: values without a JSON type are encoded as in stored statistics, {"decimal": "1.50"}. Decoding checks
the values against the types of the keys and raises ValueError for anything malformed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from unshuffle.catalog.json_files import as_list, as_number, flag, text
from unshuffle.catalog.json_values import decoded_value, encoded_value
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.catalog.types import spark_name
from unshuffle.partitions.histograms import Bucket, KeyHistogram
from unshuffle.partitions.intervals import END, START, Boundary, Cut, KeyColumn, KeyInterval, Ranges
from unshuffle.partitions.values import SortedKey

Json = Any
_Read = TypeVar("_Read")

_MAX_BUCKETS = 10_000  # many more than any histogram has; the time of an estimate grows with them


def ranges_to_json(ranges: Ranges) -> dict[str, Json]:
    return {"keys": _encoded_keys(ranges.keys), "boundaries": [_encoded(each) for each in ranges.boundaries]}


def ranges_from_json(shown: Json) -> Ranges:
    return _reading("ranges", _ranges, shown)


def histogram_to_json(histogram: KeyHistogram) -> dict[str, Json]:
    buckets = [[*interval_to_json(each.interval), each.rows] for each in histogram.buckets]
    return {"keys": _encoded_keys(histogram.keys), "buckets": buckets}


def histogram_from_json(shown: Json) -> KeyHistogram:
    return _reading("a histogram", _histogram, shown)


def interval_to_json(interval: KeyInterval) -> list[Json]:
    low, high = interval.low, interval.high
    return [None if low == START else _encoded_cut(low), None if high == END else _encoded_cut(high)]


def interval_from_json(shown: Json) -> KeyInterval:
    return _reading("an interval", _interval, shown)


def _reading(what: str, read: Callable[[Json], _Read], shown: Json) -> _Read:
    try:
        return read(shown)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise ValueError(f"not a valid encoding of {what}: {error}") from error


def _ranges(shown: Json) -> Ranges:
    keys = _keys(shown["keys"])
    return Ranges(keys, tuple(_boundary(each, keys) for each in as_list(shown["boundaries"], "boundaries")))


def _histogram(shown: Json) -> KeyHistogram:
    keys = _keys(shown["keys"])
    return KeyHistogram(keys, tuple(_bucket(each, keys) for each in as_list(shown["buckets"], "buckets", _MAX_BUCKETS)))


def _bucket(shown: Json, keys: Sequence[SortedKey]) -> Bucket:
    low, high, rows = as_list(shown, "a bucket")
    return Bucket(_interval([low, high], keys), as_number(rows, "the rows of a bucket"))


def _interval(shown: Json, keys: Sequence[SortedKey] | None = None) -> KeyInterval:
    low, high = as_list(shown, "an interval")
    return KeyInterval(START if low is None else _cut(low, keys), END if high is None else _cut(high, keys))


def _encoded_cut(cut: Cut) -> Json:
    return {"after": _encoded(cut.values)} if cut.after else _encoded(cut.values)


def _cut(shown: Json, keys: Sequence[SortedKey] | None) -> Cut:
    if isinstance(shown, dict):
        return Cut(_boundary(shown["after"], keys), after=True)
    return Cut(_boundary(shown, keys))


def _encoded(values: Boundary) -> list[Json]:
    return [encoded_value(value) for value in values]


def _boundary(shown: Json, keys: Sequence[SortedKey] | None) -> Boundary:
    values = as_list(shown, "a boundary")
    if keys is None:
        return tuple(decoded_value(value) for value in values)
    if len(values) > len(keys):
        raise ValueError(f"{len(values)} values for a key of {len(keys)} columns")
    return tuple(decoded_value(value, key.type) for value, key in zip(values, keys, strict=False))


def _encoded_keys(keys: Sequence[SortedKey]) -> list[dict[str, Json]]:
    return [
        {"type": spark_name(key.type), "descending": key.descending, "nulls_first": key.nulls_first} for key in keys
    ]


def _keys(shown: Json) -> tuple[SortedKey, ...]:
    return tuple(_key(each) for each in as_list(shown, "keys"))


def _key(shown: Json) -> KeyColumn:
    name = text(shown, "type")
    type = None if name == "?" else from_spark_name(name)
    return KeyColumn(type, flag(shown, "descending"), flag(shown, "nulls_first"))
