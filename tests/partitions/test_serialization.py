"""Round trips through JSON keep values and types."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given

from tests.support import brute_partitions
from tests.support.brute_partitions import Choices, choices, half
from unshuffle.partitions import (
    KeyColumn,
    Ranges,
    histogram_from_json,
    histogram_of_rows,
    histogram_to_json,
    interval,
    interval_from_json,
    interval_of_value,
    interval_to_json,
    ranges_from_json,
    ranges_to_json,
)


def through_json(shown: object) -> object:
    return json.loads(json.dumps(shown, allow_nan=False))


@half
@given(choices)
def test_round_trip(ch: Choices) -> None:
    keys = brute_partitions.keys(ch)
    ranges = Ranges(keys, brute_partitions.boundaries(ch, keys))
    again = ranges_from_json(through_json(ranges_to_json(ranges)))
    assert again == ranges
    rows = brute_partitions.rows(ch, keys)
    assert again.numbers(rows) == ranges.numbers(rows)
    histogram = histogram_of_rows(keys, rows, buckets=3)
    read = histogram_from_json(through_json(histogram_to_json(histogram)))
    assert read.keys == histogram.keys
    assert [b.rows for b in read.buckets] == [b.rows for b in histogram.buckets]
    for _ in range(4):
        cut = brute_partitions.cut(ch, keys)
        assert read.rows_below(cut) == histogram.rows_below(cut)
    where = brute_partitions.interval(ch, keys)
    there = interval_from_json(through_json(interval_to_json(where)))
    assert [there.holds(keys, row) for row in rows] == [where.holds(keys, row) for row in rows]


def test_json_format() -> None:
    ranges = Ranges(
        (KeyColumn(pa.decimal128(5, 2)), KeyColumn(pa.string(), True, False)),
        ((Decimal("1.50"), None), (Decimal("2"),)),
    )
    assert ranges_to_json(ranges) == {
        "keys": [
            {"type": "decimal(5,2)", "descending": False, "nulls_first": True},
            {"type": "string", "descending": True, "nulls_first": False},
        ],
        "boundaries": [[{"decimal": "1.50"}, None], [{"decimal": "2"}]],
    }
    assert interval_to_json(interval_of_value((3,))) == [[3], {"after": [3]}]
    assert interval_to_json(interval(None, None)) == [None, None]


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
def test_damaged_ranges_are_rejected(shown: object) -> None:
    with pytest.raises(ValueError, match="not a valid encoding of ranges"):
        ranges_from_json(shown)


def test_damaged_histograms_are_rejected() -> None:
    with pytest.raises(ValueError, match="not a valid encoding of a histogram"):
        histogram_from_json({"keys": [INT], "buckets": [[[5], [1], 3]]})
