"""The keys of row groups as a histogram: finer than the sample's, and right at every row group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.storing import by, store
from unshuffle import Session
from unshuffle.partitions import Cut, divide_into
from unshuffle.plan.logical import Scan
from unshuffle.sstream import LayoutRequest, Stream
from unshuffle.sstream.row_group_histogram import finest_histogram

values = st.none() | st.integers(0, 12)


@given(st.lists(values, min_size=1, max_size=60), st.booleans(), st.integers(1, 3))
@settings(deadline=None)
def test_rows_below_the_first_key_of_a_row_group_are_those_of_the_groups_before(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int | None], descending: bool, size: int
) -> None:
    """Up to the rows of a group that have the first key of the next."""
    folder = tmp_path_factory.mktemp("stream")
    name = "-k" if descending else "k"
    rows = pa.table({"k": pa.array(keys, pa.int64())})
    stream = store(folder / "x.ss", rows, LayoutRequest(by(name), boundaries=((6,),)), row_group=size)
    # Without the limit of 256 buckets, so that small streams are examples too.
    found = finest_histogram(with_buckets(stream, 0).manifest)
    groups = [group for file in stream.manifest.files() for group in file.groups]
    assert found.rows == len(keys)
    before = 0
    for group in groups:
        equal = sum(each.rows for each in groups if each.first == group.first or each.last == group.first)
        assert abs(found.rows_below(Cut(group.first)) - before) <= equal
        before += group.rows


def with_buckets(stream: Stream, count: int) -> Stream:
    histogram = stream.manifest.histogram
    few = type(histogram)(histogram.keys, histogram.buckets[:count])
    return replace(stream, manifest=replace(stream.manifest, histogram=few))


def test_texts_of_a_large_stream_are_divided_at_row_groups(tmp_path: Path) -> None:
    """No value between two texts can be computed, so a histogram of 256 buckets makes at most 256 ranges of them."""
    rows = pa.table({"t": [f"t{i:05}" for i in range(12_000)]})
    stream = store(tmp_path / "x.ss", rows, LayoutRequest(by("t"), boundaries=(("t06000",),)), row_group=20)
    assert len(divide_into(stream.manifest.histogram, 300).ranges) <= 256
    with Session(tables=tmp_path) as session:
        (scan,) = [node for node in session.pipeline.bind("select * from x").operators() if isinstance(node, Scan)]
    assert scan.spread is not None
    ranges = divide_into(scan.spread, 300).ranges
    assert [scan.spread.rows_in(each) for each in ranges] == [40] * 300


@pytest.mark.parametrize("layout", ["few groups", "hashed", "another order"])
def test_other_streams_keep_the_sampled_histogram(tmp_path: Path, layout: str) -> None:
    rows = pa.table({"a": list(range(2_000)), "b": [i % 7 for i in range(2_000)]})
    request = LayoutRequest(by("a"), by("b") if layout == "another order" else (), boundaries=((1_000,),))
    request = LayoutRequest(by("a"), partitions=2) if layout == "hashed" else request
    stream = store(tmp_path / "x.ss", rows, request, row_group=1_000 if layout == "few groups" else 2)
    assert finest_histogram(stream.manifest) is stream.manifest.histogram
