"""What is written as JSON is read back the same, types and all."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given

from unshuffle.partitions import (
    Key,
    Ranges,
    decoded_histogram,
    decoded_interval,
    decoded_ranges,
    encoded_histogram,
    encoded_interval,
    encoded_ranges,
    interval,
    of_rows,
    only,
)

from . import brute
from .brute import Choices, choices, half


def through_json(shown: object) -> object:
    return json.loads(json.dumps(shown, allow_nan=False))


@half
@given(choices)
def test_everything_survives(ch: Choices) -> None:
    keys = brute.keys(ch)
    ranges = Ranges(keys, brute.boundaries(ch, keys))
    again = decoded_ranges(through_json(encoded_ranges(ranges)))
    assert again == ranges
    rows = brute.rows(ch, keys)
    assert again.numbers(rows) == ranges.numbers(rows)
    histogram = of_rows(keys, rows, buckets=3)
    read = decoded_histogram(through_json(encoded_histogram(histogram)))
    assert read.keys == histogram.keys
    assert [b.rows for b in read.buckets] == [b.rows for b in histogram.buckets]
    for _ in range(4):
        cut = brute.cut(ch, keys)
        assert read.rows_below(cut) == histogram.rows_below(cut)
    where = brute.interval(ch, keys)
    there = decoded_interval(through_json(encoded_interval(where)))
    assert [there.holds(keys, row) for row in rows] == [where.holds(keys, row) for row in rows]


def test_how_it_looks() -> None:
    ranges = Ranges(
        (Key(pa.decimal128(5, 2)), Key(pa.string(), True, False)), ((Decimal("1.50"), None), (Decimal("2"),))
    )
    assert encoded_ranges(ranges) == {
        "keys": [
            {"type": "decimal(5,2)", "descending": False, "nulls_first": True},
            {"type": "string", "descending": True, "nulls_first": False},
        ],
        "boundaries": [[{"decimal": "1.50"}, None], [{"decimal": "2"}]],
    }
    assert encoded_interval(only((3,))) == [[3], {"after": [3]}]
    assert encoded_interval(interval(None, None)) == [None, None]


INT = {"type": "bigint", "descending": False, "nulls_first": True}


@pytest.mark.parametrize(
    "shown",
    [
        None,
        {},
        {"keys": [], "boundaries": []},
        {"keys": [INT], "boundaries": [["1"]]},
        {"keys": [INT], "boundaries": [[2], [1]]},
        {"keys": [INT], "boundaries": [5]},
        {"keys": [INT], "boundaries": [[{"decimal": "x"}]]},
        {"keys": [{**INT, "type": "bigin"}], "boundaries": []},
        {"keys": [{**INT, "descending": "no"}], "boundaries": []},
        {"keys": [INT], "boundaries": [[1, 2]]},
    ],
    ids=str,
)
def test_damaged_ranges_are_refused(shown: object) -> None:
    with pytest.raises(ValueError, match="no form of ranges"):
        decoded_ranges(shown)


def test_damaged_histograms_are_refused() -> None:
    with pytest.raises(ValueError, match="no form of a histogram"):
        decoded_histogram({"keys": [INT], "buckets": [[[5], [1], 3]]})
