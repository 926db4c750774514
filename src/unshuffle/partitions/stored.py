"""Keys, ranges and histograms as JSON, for the manifests of stored data.

    a cut        [1, "B"], or {"after": [1, "B"]}; null where there is no bound
    a key        {"type": "bigint", "descending": false, "nulls_first": true}
    ranges       {"keys": [key, ..], "boundaries": [[1, "B"], ..]}
    a histogram  {"keys": [key, ..], "buckets": [[low, high, rows], ..]}

Values keep their types: those that JSON has no form for are written as in stored statistics, {"decimal": "1.50"}. What is
read is checked against the types of the keys; anything else than what was written is a ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from unshuffle.catalog.stored_statistics import decoded_value, encoded_value
from unshuffle.catalog.types import from_spark_name, spark_name
from unshuffle.partitions.histograms import Bucket, Histogram
from unshuffle.partitions.intervals import END, START, Boundary, Cut, Interval, Key, Ranges
from unshuffle.partitions.values import SortedKey

Json = Any
_Read = TypeVar("_Read")


def encoded_ranges(ranges: Ranges) -> dict[str, Json]:
    return {"keys": _encoded_keys(ranges.keys), "boundaries": [_encoded(each) for each in ranges.boundaries]}


def decoded_ranges(shown: Json) -> Ranges:
    return _reading("ranges", _ranges, shown)


def encoded_histogram(histogram: Histogram) -> dict[str, Json]:
    buckets = [[*encoded_interval(each.interval), each.rows] for each in histogram.buckets]
    return {"keys": _encoded_keys(histogram.keys), "buckets": buckets}


def decoded_histogram(shown: Json) -> Histogram:
    return _reading("a histogram", _histogram, shown)


def encoded_interval(interval: Interval) -> list[Json]:
    low, high = interval.low, interval.high
    return [None if low == START else _encoded_cut(low), None if high == END else _encoded_cut(high)]


def decoded_interval(shown: Json) -> Interval:
    return _reading("an interval", _interval, shown)


def _reading(what: str, read: Callable[[Json], _Read], shown: Json) -> _Read:
    try:
        return read(shown)
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise ValueError(f"this is no form of {what}: {error}") from error


def _ranges(shown: Json) -> Ranges:
    return Ranges(_keys(shown["keys"]), tuple(_boundary(each) for each in shown["boundaries"]))


def _histogram(shown: Json) -> Histogram:
    buckets = (Bucket(_interval(each[:2]), float(each[2])) for each in shown["buckets"])
    return Histogram(_keys(shown["keys"]), tuple(buckets))


def _interval(shown: Json) -> Interval:
    low, high = shown
    return Interval(START if low is None else _cut(low), END if high is None else _cut(high))


def _encoded_cut(cut: Cut) -> Json:
    return {"after": _encoded(cut.values)} if cut.after else _encoded(cut.values)


def _cut(shown: Json) -> Cut:
    return Cut(_boundary(shown["after"]), after=True) if isinstance(shown, dict) else Cut(_boundary(shown))


def _encoded(values: Boundary) -> list[Json]:
    return [encoded_value(value) for value in values]


def _boundary(shown: Json) -> Boundary:
    if not isinstance(shown, list):
        raise ValueError(f"{shown!r} is no boundary")
    return tuple(decoded_value(value) for value in shown)


def _encoded_keys(keys: Sequence[SortedKey]) -> list[dict[str, Json]]:
    return [
        {"type": spark_name(key.type), "descending": key.descending, "nulls_first": key.nulls_first} for key in keys
    ]


def _keys(shown: Json) -> tuple[SortedKey, ...]:
    return tuple(_key(each) for each in shown)


def _key(shown: Json) -> Key:
    type = None if shown["type"] == "?" else from_spark_name(shown["type"])
    descending, nulls_first = shown["descending"], shown["nulls_first"]
    if not isinstance(descending, bool) or not isinstance(nulls_first, bool):
        raise ValueError("a key is descending or not, its NULLs first or not")
    return Key(type, descending, nulls_first)
