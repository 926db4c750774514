"""Mistakes in describing a stream's layout, and the defaults of a layout."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.storing import by, store
from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.errors import UserError
from unshuffle.partitions import KeyColumn
from unshuffle.properties import HashFunction
from unshuffle.sstream import LayoutRequest, SortedName, open_stream, resolve_layout
from unshuffle.sstream.layout_defaults import partitions_for, ranges_for
from unshuffle.sstream.layout_request import sorted_names
from unshuffle.sstream.manifest import ranges_of

SCHEMA = [
    ("a", pa.int64()),
    ("s", pa.string()),
    ("m", pa.map_(pa.string(), pa.int64())),
    ("list", pa.list_(pa.int64())),
]


@pytest.mark.parametrize(
    ("layout_request", "message"),
    [
        (LayoutRequest(), "needs columns to be clustered by"),
        (LayoutRequest(by("x")), "there is no column 'x'"),
        (LayoutRequest(by("A"), by("S", "z")), "there is no column 'z'"),
        (LayoutRequest(by("m")), "cannot be clustered by 'm' of type map"),
        (LayoutRequest(by("a"), by("list")), "cannot be sorted by 'list' of type array"),
        (LayoutRequest(by("a", "A")), "clustered by 'a' twice"),
        (LayoutRequest(by("a"), partitions=0), "between 1 and 100,000 partitions, not 0"),
        (LayoutRequest(by("a"), partitions=10**9), "between 1 and 100,000"),
        (LayoutRequest(by("a"), keys=(DeclaredKey(("list",)),)), "cannot be in a key"),
        (LayoutRequest(by("a"), dependencies=(DeclaredDependency(("a",), ("q",)),)), "there is no column 'q'"),
        (LayoutRequest(by("a"), boundaries=(("text",),)), "do not fit the columns"),
        (LayoutRequest(by("a"), boundaries=((2,), (1,))), "boundaries descend"),
        (LayoutRequest(by("a"), boundaries=((1,),), partitions=5), "1 boundaries make 2 partitions"),
    ],
)
def test_invalid_requests(layout_request: LayoutRequest, message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve_layout(layout_request, SCHEMA, None)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([("a", pa.int64()), ("A", pa.int64())], "two columns to write are called 'A'"),
        ([("a", None)], "cannot store the column 'a'"),
        ([("", pa.int64())], "has no name"),
        ([], "at least one column"),
    ],
)
def test_invalid_columns(columns: list[Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve_layout(LayoutRequest(by("a")), columns, None)


def test_sort_columns_from_text() -> None:
    assert sorted_names("a") == (SortedName("a"),)
    assert sorted_names(["a desc", " b ", "c ASC", "desc"]) == (*by("-a", "b", "c", "desc"),)


@pytest.mark.parametrize(
    ("layout_request", "columns", "message"),
    [
        (LayoutRequest(by("k")), [("k", pa.int32())], "'k' is int, and 'a' of the REFERENCE is bigint"),
        (LayoutRequest(by("k"), ranged=True), [("k", pa.int64())], "partitioned by hash, not by ranges"),
        (LayoutRequest(by("k"), partitions=4), [("k", pa.int64())], "has 3 partitions, not 4"),
        (LayoutRequest(by("k", "j")), [("k", pa.int64()), ("j", pa.int64())], "clustered by 1 columns"),
        (LayoutRequest(), [("k", pa.int64())], "there is no column 'a'"),
    ],
)
def test_references_that_do_not_fit(
    tmp_path: Path, layout_request: LayoutRequest, columns: list[Any], message: str
) -> None:
    other = store(tmp_path / "y.ss", pa.table({"a": [1, 2]}), LayoutRequest(by("a"), partitions=3))
    with pytest.raises(UserError, match=message):
        resolve_layout(layout_request, columns, other)


def test_a_range_reference_gives_the_same_boundaries(tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array([1, 5, None], pa.int32()), "b": list("xyz")})
    other = store(tmp_path / "y.ss", rows, LayoutRequest(by("-a", "b"), boundaries=((4,), (2, "x"))))
    same = pa.table({"k": pa.array([7, 5, 2, None], pa.int64()), "t": list("wxyz")})
    stream = store(tmp_path / "x.ss", same, LayoutRequest(by("-k", "t"), reference=str(tmp_path / "y.ss")))
    assert stream.manifest.function == other.manifest.function
    assert [partition.rows for partition in stream.manifest.partitions] == [2, 0, 2]
    assert open_stream(stream.path).manifest.reference == stream.manifest.reference
    with pytest.raises(UserError, match="is in the order of a desc, and this stream of k"):
        resolve_layout(LayoutRequest(by("k", "t")), [("k", pa.int64()), ("t", pa.string())], other)
    with pytest.raises(UserError, match="not both"):
        resolve_layout(LayoutRequest(by("-k", "t"), boundaries=()), [("k", pa.int64()), ("t", pa.string())], other)


def test_ranges_are_even_and_at_most_as_many_as_requested() -> None:
    chance = random.Random(1)
    sample = [(chance.randrange(1000),) for _ in range(5000)]
    for layout_request in (1, 2, 7, 64):
        ranges = ranges_of(ranges_for((KeyColumn(pa.int64()),), sample, layout_request))
        sizes = [0] * len(ranges)
        for number in ranges.numbers(sample):
            sizes[number] += 1
        assert len(ranges) == layout_request
        assert max(sizes) < 1.6 * len(sample) / layout_request
    skewed = [(1,)] * 90 + [(2,)] * 5 + [(None,)] * 5
    assert len(ranges_of(ranges_for((KeyColumn(pa.int64()),), skewed, 8))) <= 3
    assert ranges_for((KeyColumn(pa.int64()),), [], 8).partitions == 1


def test_the_number_of_partitions_grows_with_the_rows() -> None:
    schema = (("a", pa.int64()), ("s", pa.string()))
    assert [partitions_for(schema, rows) for rows in (0, 1000, 10**8, 10**15)] == [1, 1, 11, 100_000]
    layout = resolve_layout(LayoutRequest(by("a", "s")), schema, None)
    assert layout.hashed(5) == HashFunction((pa.int64(), pa.string()), 5)
