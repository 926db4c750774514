"""What a repartitioning reads and keeps."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from unshuffle.partitions import (
    HashConnections,
    Key,
    Ranges,
    connect,
    hash_flow,
    interval,
    of_partitions,
    of_rows,
    range_flow,
)

from . import brute
from .brute import Choices, choices, half

A, B, C = Key(pa.int64()), Key(pa.string()), Key(pa.int64())


def test_splitting_a_hash_reads_every_input_twice() -> None:
    found = hash_flow(HashConnections(100, 200), [10.0] * 100)
    assert set(found.read) == {10.0}
    assert set(found.kept) == {5.0}
    assert (found.again, found.skew) == (2.0, 1.0)


def test_merging_a_hash_reads_every_input_once_and_adds_up_skew() -> None:
    found = hash_flow(HashConnections(200, 50), [100.0] + [1.0] * 199)
    assert (found.again, found.largest) == (1.0, 103.0)
    assert found.skew == pytest.approx(103 / (299 / 50))


def test_ranges_are_told_by_the_histograms_of_the_inputs() -> None:
    stored = Ranges((A,), ((10,), (20,)))
    inputs = [
        of_partitions((A,), [(each, rows)])
        for each, rows in zip(
            [interval((0,), (10,)), interval((10,), (20,)), interval((20,), (30,))], (100, 200, 300), strict=True
        )
    ]
    found = range_flow(connect(stored, stored.keys, Ranges((A,), ((15,),))), inputs)
    assert found.kept == (200, 400)
    assert found.read == (300, 500)
    assert found.again == pytest.approx(800 / 600)


def test_of_a_value_that_the_shared_columns_cannot_divide_half_is_guessed() -> None:
    stored = [interval((1,), (4,))]
    inputs = [of_partitions((A, B), [(stored[0], 90)])]
    found = range_flow(connect(stored, (A, B), Ranges((A, C), ((2, 7),)), shared=1), inputs)
    assert found.kept == (45, 45)


@half
@given(choices)
def test_every_row_is_kept_once(ch: Choices) -> None:
    keys = brute.keys(ch)
    parts = [[brute.row(ch, keys) for _ in range(ch.below(6))] for _ in range(4)]
    inputs = [of_rows(keys, rows, buckets=50) for rows in parts]
    outputs = Ranges(keys, brute.boundaries(ch, keys))
    spans = [
        interval(None, None)
        if not each.buckets
        else type(each.buckets[0].interval)(each.buckets[0].interval.low, each.buckets[-1].interval.high)
        for each in inputs
    ]
    found = range_flow(connect(spans, keys, outputs), inputs)
    everything = [row for rows in parts for row in rows]
    numbers = outputs.numbers(everything)
    if all(each.interval.low.values == each.interval.high.values for one in inputs for each in one.buckets):
        assert list(found.kept) == [numbers.count(i) for i in range(len(outputs))]
    assert sum(found.kept) == pytest.approx(len(everything))
    assert all(kept <= read + 1e-9 for kept, read in zip(found.kept, found.read, strict=True))


def test_sizes_must_be_those_of_the_inputs() -> None:
    with pytest.raises(ValueError, match="1 sizes for 2 inputs"):
        hash_flow(HashConnections(2, 2), [1.0])
    with pytest.raises(ValueError, match="0 histograms for 1 inputs"):
        range_flow(connect(Ranges((A,), ()), (A,), Ranges((A,), ())), [])


def test_nothing_flows_where_nothing_is() -> None:
    found = hash_flow(HashConnections(2, 3), [0.0, 0.0])
    assert (found.largest, found.skew, found.again) == (0.0, 1.0, 1.0)
