"""What a user can get wrong in describing a stream, and what is chosen where nothing was said."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from unshuffle.catalog.declared import DeclaredDependency, DeclaredKey
from unshuffle.errors import UserError
from unshuffle.partitions import Key
from unshuffle.properties import HashFunction
from unshuffle.streams import SortedName, Wanted, open_stream, settle
from unshuffle.streams.chosen import partitions_for, ranges_for
from unshuffle.streams.manifest import ranges_of
from unshuffle.streams.wanted import sorted_names

from .storing import by, store

SCHEMA = [
    ("a", pa.int64()),
    ("s", pa.string()),
    ("m", pa.map_(pa.string(), pa.int64())),
    ("list", pa.list_(pa.int64())),
]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted(), "needs columns to be clustered by"),
        (Wanted(by("x")), "there is no column 'x'"),
        (Wanted(by("A"), by("S", "z")), "there is no column 'z'"),
        (Wanted(by("m")), "cannot be clustered by 'm' of type map"),
        (Wanted(by("a"), by("list")), "cannot be sorted by 'list' of type array"),
        (Wanted(by("a", "A")), "clustered by 'a' twice"),
        (Wanted(by("a"), partitions=0), "between 1 and 100,000 partitions, not 0"),
        (Wanted(by("a"), partitions=10**9), "between 1 and 100,000"),
        (Wanted(by("a"), keys=(DeclaredKey(("list",)),)), "can be in no key"),
        (Wanted(by("a"), dependencies=(DeclaredDependency(("a",), ("q",)),)), "there is no column 'q'"),
        (Wanted(by("a"), boundaries=(("text",),)), "do not fit the columns"),
        (Wanted(by("a"), boundaries=((2,), (1,))), "boundaries descend"),
        (Wanted(by("a"), boundaries=((1,),), partitions=5), "1 boundaries make 2 partitions"),
    ],
)
def test_what_cannot_be_stored_is_refused(wanted: Wanted, said: str) -> None:
    with pytest.raises(UserError, match=said):
        settle(wanted, SCHEMA, None)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([("a", pa.int64()), ("A", pa.int64())], "two columns to write are called 'A'"),
        ([("a", None)], "cannot store the column 'a'"),
        ([("", pa.int64())], "has no name"),
        ([], "at least one column"),
    ],
)
def test_columns_that_cannot_be_stored_are_refused(columns: list[Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        settle(Wanted(by("a")), columns, None)


def test_names_are_taken_as_people_write_them() -> None:
    assert sorted_names("a") == (SortedName("a"),)
    assert sorted_names(["a desc", " b ", "c ASC", "desc"]) == (*by("-a", "b", "c", "desc"),)


@pytest.mark.parametrize(
    ("wanted", "columns", "said"),
    [
        (Wanted(by("k")), [("k", pa.int32())], "'k' is int, and 'a' of the REFERENCE is bigint"),
        (Wanted(by("k"), ranged=True), [("k", pa.int64())], "partitioned by hash, not by ranges"),
        (Wanted(by("k"), partitions=4), [("k", pa.int64())], "has 3 partitions, not 4"),
        (Wanted(by("k", "j")), [("k", pa.int64()), ("j", pa.int64())], "clustered by 1 columns"),
        (Wanted(), [("k", pa.int64())], "there is no column 'a'"),
    ],
)
def test_a_reference_that_cannot_be_repeated_is_refused(
    tmp_path: Path, wanted: Wanted, columns: list[Any], said: str
) -> None:
    other = store(tmp_path / "y.ss", pa.table({"a": [1, 2]}), Wanted(by("a"), partitions=3))
    with pytest.raises(UserError, match=said):
        settle(wanted, columns, other)


def test_a_range_reference_is_repeated_boundary_by_boundary(tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array([1, 5, None], pa.int32()), "b": list("xyz")})
    other = store(tmp_path / "y.ss", rows, Wanted(by("-a", "b"), boundaries=((4,), (2, "x"))))
    same = pa.table({"k": pa.array([7, 5, 2, None], pa.int64()), "t": list("wxyz")})
    stream = store(tmp_path / "x.ss", same, Wanted(by("-k", "t"), reference=str(tmp_path / "y.ss")))
    assert stream.manifest.function == other.manifest.function
    assert [partition.rows for partition in stream.manifest.partitions] == [2, 0, 2]
    assert open_stream(stream.path).manifest.reference == stream.manifest.reference
    with pytest.raises(UserError, match="is in the order of a desc, and this stream of k"):
        settle(Wanted(by("k", "t")), [("k", pa.int64()), ("t", pa.string())], other)
    with pytest.raises(UserError, match="not both"):
        settle(Wanted(by("-k", "t"), boundaries=()), [("k", pa.int64()), ("t", pa.string())], other)


def test_ranges_are_even_and_no_more_than_asked_for() -> None:
    chance = random.Random(1)
    sample = [(chance.randrange(1000),) for _ in range(5000)]
    for wanted in (1, 2, 7, 64):
        ranges = ranges_of(ranges_for((Key(pa.int64()),), sample, wanted))
        sizes = [0] * len(ranges)
        for number in ranges.numbers(sample):
            sizes[number] += 1
        assert len(ranges) == wanted
        assert max(sizes) < 1.6 * len(sample) / wanted
    skewed = [(1,)] * 90 + [(2,)] * 5 + [(None,)] * 5
    assert len(ranges_of(ranges_for((Key(pa.int64()),), skewed, 8))) <= 3
    assert ranges_for((Key(pa.int64()),), [], 8).partitions == 1


def test_the_number_of_partitions_grows_with_the_rows() -> None:
    schema = (("a", pa.int64()), ("s", pa.string()))
    assert [partitions_for(schema, rows) for rows in (0, 1000, 10**8, 10**15)] == [1, 1, 11, 100_000]
    settled = settle(Wanted(by("a", "s")), schema, None)
    assert settled.hashed(5) == HashFunction((pa.int64(), pa.string()), 5)
