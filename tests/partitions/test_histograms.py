"""Estimated rows below a cut: compared with the rows, and where the answer is a guess, with its bounds."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given

from tests.support import brute_partitions
from tests.support.brute_partitions import NAN, Choices, choices, half
from unshuffle.catalog.statistics import table_statistics
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.partitions import (
    END,
    START,
    Bucket,
    Cut,
    KeyColumn,
    KeyHistogram,
    KeyInterval,
    KeyOrder,
    closed_interval,
    histogram_of_column,
    histogram_of_partitions,
    histogram_of_rows,
    interval,
    interval_of_value,
)

A, B = KeyColumn(pa.int64()), KeyColumn(pa.string())


def below(histogram: KeyHistogram, *values: object) -> float:
    return histogram.rows_below(Cut(values))


def of(type: pa.DataType, low: object, high: object, rows: float = 100, descending: bool = False) -> KeyHistogram:
    return histogram_of_partitions((KeyColumn(type, descending, not descending),), [(interval((low,), (high,)), rows)])


def test_rows_are_spread_evenly_over_numbers_dates_and_decimals() -> None:
    assert below(of(pa.int64(), 0, 10), 3) == 30
    assert below(of(pa.float64(), 0.0, 10.0), 2.5) == 25
    assert below(of(pa.decimal128(9, 2), Decimal(0), Decimal(10)), Decimal("2.50")) == 25
    day = datetime.date(2024, 1, 1)
    assert below(of(pa.date32(), day, day + datetime.timedelta(10)), day + datetime.timedelta(4)) == 40
    assert below(of(pa.int64(), 10, 0, descending=True), 3) == 70
    assert below(of(pa.string(), "a", "e"), "b") == pytest.approx(25)
    assert below(of(pa.string(), "e", "a", descending=True), "b") == pytest.approx(75)


def test_there_are_no_rows_outside_the_buckets() -> None:
    histogram = histogram_of_partitions((A,), [(interval((0,), (10,)), 100), (interval((20,), (30,)), 50)])
    assert [below(histogram, at) for at in (-5, 0, 10, 15, 20, 25, 30, 99)] == [0, 0, 100, 100, 100, 125, 150, 150]
    assert histogram.rows_in(KeyInterval()) == histogram.rows == 150
    assert histogram.rows_in(interval((25,), (5,))) == 0


def test_integers_have_width_one() -> None:
    three = histogram_of_partitions((A,), [(closed_interval((1,), (3,)), 90)])
    assert [below(three, at) for at in (1, 2, 3, 4)] == [0, 30, 60, 90]
    assert three.rows_below(Cut((2,), after=True)) == 60


def test_an_end_with_more_columns_is_in_the_middle_of_its_value() -> None:
    histogram = histogram_of_partitions((A, B), [(interval((1, "B"), (3, "D")), 100)])
    assert [below(histogram, at) for at in (1, 2, 3, 4)] == [0, 25, 75, 100]


def test_without_information_the_guess_is_half() -> None:
    histogram = histogram_of_partitions((A,), [(interval(None, (5,)), 10), (interval((5,), None), 20)])
    assert [below(histogram, at) for at in (0, 5, 9)] == [5, 10, 20]
    assert below(of(pa.float64(), 0.0, NAN), 7.0) == 50
    assert below(of(pa.float64(), float("-inf"), 3.0), 1.0) == 50


def test_a_union_adds_up_and_is_cut_at_all_ends() -> None:
    one, other = of(pa.int64(), 0, 100), of(pa.int64(), 50, 150, 1000)
    both = one.union(other)
    assert [(str(b.interval), b.rows) for b in both.buckets] == [
        ("[(0), (50))", 50),
        ("[(50), (100))", 550),
        ("[(100), (150))", 500),
    ]
    assert one.union() == one
    with pytest.raises(ValueError, match="no union"):
        one.union(of(pa.int64(), 0, 1, descending=False).union(), of(pa.string(), "a", "b"))


def test_a_heavy_value_stays_one_in_a_union() -> None:
    heavy = KeyHistogram((A,), (Bucket(interval_of_value((5,)), 1000),))
    both = of(pa.int64(), 0, 10).union(heavy)
    assert both.rows_in(interval_of_value((5,))) == 1010


def test_buckets_that_overlap_or_end_early_are_rejected() -> None:
    with pytest.raises(ValueError, match="be disjoint"):
        KeyHistogram((A,), (Bucket(interval((0,), (5,)), 1), Bucket(interval((4,), (9,)), 1)))
    with pytest.raises(ValueError, match="must not be empty"):
        KeyHistogram((A,), (Bucket(interval((5,), (5,)), 1),))


def test_empty_partitions_are_left_out_and_others_sorted() -> None:
    histogram = histogram_of_partitions(
        (A,),
        [(interval((5,), None), 3), (interval((5,), (5,)), 0), (interval(None, (2,)), 1), (interval((2,), (5,)), 0)],
    )
    assert [b.rows for b in histogram.buckets] == [1, 3]
    assert histogram_of_partitions((A,), []).rows == 0


@half
@given(choices)
def test_a_histogram_of_rows_is_exact_at_the_ends_of_its_buckets(ch: Choices) -> None:
    keys = brute_partitions.keys(ch)
    rows = [brute_partitions.row(ch, keys) for _ in range(25)]
    histogram = histogram_of_rows(keys, rows, buckets=1 + ch.below(8))
    assert histogram.rows == len(rows)
    for bucket in histogram.buckets:
        assert bucket.rows == sum(brute_partitions.holds(keys, bucket.interval, row) for row in rows)
        for end in (bucket.interval.low, bucket.interval.high):
            assert histogram.rows_below(end) == sum(brute_partitions.below(keys, row, end) for row in rows)


@half
@given(choices)
def test_guesses_are_within_their_bounds(ch: Choices) -> None:
    """Below a cut are all buckets that end before it, and none that begins after it."""
    keys = brute_partitions.keys(ch)
    first, second = (
        histogram_of_rows(keys, [brute_partitions.row(ch, keys) for _ in range(12)], buckets=4) for _ in range(2)
    )
    both = first.union(second)
    assert both.rows == pytest.approx(24)
    place = KeyOrder(keys).place
    for _ in range(5):
        cut = brute_partitions.cut(ch, keys)
        for histogram in (first, second, both):
            found = histogram.rows_below(cut)
            inside = [b for b in histogram.buckets if place(b.interval.high) <= place(cut)]
            touched = [b for b in histogram.buckets if place(b.interval.low) < place(cut)]
            assert sum(b.rows for b in inside) - 1e-9 <= found <= sum(b.rows for b in touched) + 1e-9
    assert (both.rows_below(START), both.rows_below(END)) == (0, both.rows)


@half
@given(choices)
def test_rows_below_never_fall_as_the_cut_rises(ch: Choices) -> None:
    keys = brute_partitions.keys(ch)
    histogram = histogram_of_rows(keys, [brute_partitions.row(ch, keys) for _ in range(12)], buckets=1 + ch.below(3))
    cuts = sorted((brute_partitions.cut(ch, keys) for _ in range(15)), key=KeyOrder(keys).place)
    found = [histogram.rows_below(cut) for cut in cuts]
    assert found == sorted(found)


def test_from_the_statistics_of_a_column() -> None:
    known = ColumnStatistics(
        distinct=12,
        null_fraction=0.2,
        histogram=table_statistics.EquiDepthHistogram((0, 10, 11, 20), (40.0, 30.0, 10.0), (5.0, 1.0, 6.0)),
    )
    up = histogram_of_column(A, known, 100)
    assert up is not None
    assert [str(b.interval) for b in up.buckets] == [
        "[(NULL), after (NULL))",
        "[(0), after (10))",
        "[(11), after (11))",
        "[after (11), after (20))",
    ]
    assert [b.rows for b in up.buckets] == [20, 40, 30, 10]
    down = histogram_of_column(KeyColumn(pa.int64(), descending=True, nulls_first=False), known, 100)
    assert down is not None
    assert [str(b.interval) for b in down.buckets] == [
        "[(20), (11))",
        "[(11), after (11))",
        "[(10), after (0))",
        "[(NULL), after (NULL))",
    ]
    assert histogram_of_column(A, ColumnStatistics(), 100) is None


def test_a_histogram_can_be_scaled_to_bytes() -> None:
    assert of(pa.int64(), 0, 10).scaled(8).rows == 800


def test_within_keeps_the_rows_of_some_intervals() -> None:
    """Intervals may touch, repeat, come in any order, reach beyond all rows, or end on more columns than there are."""
    key = (KeyColumn(pa.int64()),)
    even = histogram_of_partitions(key, [(interval((low,), (low + 10,)), 100) for low in range(0, 50, 10)])
    kept = even.within(
        [interval((30,), None), interval((5,), (10,)), interval((5,), (10,)), interval_of_value((12, "x"))]
    )
    assert [(str(bucket.interval), round(bucket.rows)) for bucket in kept.buckets] == [
        ("[(5), (10))", 50),
        ("[(12), after (12))", 10),
        ("[(30), (40))", 100),
        ("[(40), (50))", 100),
    ]
    assert even.within([interval((60,), None)]).rows == 0
