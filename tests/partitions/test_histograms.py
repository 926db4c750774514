"""How many rows lie where: against the rows, and where the answer can only be a guess, against what is certain."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given

from unshuffle.catalog import statistics
from unshuffle.catalog.statistics import ColumnStatistics
from unshuffle.partitions import (
    END,
    START,
    Bucket,
    Cut,
    Histogram,
    Interval,
    Key,
    Order,
    interval,
    of_column,
    of_partitions,
    of_rows,
    only,
    spanning,
)

from . import brute
from .brute import NAN, Choices, choices, half

A, B = Key(pa.int64()), Key(pa.string())


def below(histogram: Histogram, *values: object) -> float:
    return histogram.rows_below(Cut(values))


def of(type: pa.DataType, low: object, high: object, rows: float = 100, descending: bool = False) -> Histogram:
    return of_partitions((Key(type, descending, not descending),), [(interval((low,), (high,)), rows)])


def test_rows_are_spread_evenly_over_numbers_dates_and_decimals() -> None:
    assert below(of(pa.int64(), 0, 10), 3) == 30
    assert below(of(pa.float64(), 0.0, 10.0), 2.5) == 25
    assert below(of(pa.decimal128(9, 2), Decimal(0), Decimal(10)), Decimal("2.50")) == 25
    day = datetime.date(2024, 1, 1)
    assert below(of(pa.date32(), day, day + datetime.timedelta(10)), day + datetime.timedelta(4)) == 40
    assert below(of(pa.int64(), 10, 0, descending=True), 3) == 70
    assert below(of(pa.string(), "a", "e"), "b") == pytest.approx(25)
    assert below(of(pa.string(), "e", "a", descending=True), "b") == pytest.approx(75)


def test_outside_of_the_buckets_nothing_lies() -> None:
    histogram = of_partitions((A,), [(interval((0,), (10,)), 100), (interval((20,), (30,)), 50)])
    assert [below(histogram, at) for at in (-5, 0, 10, 15, 20, 25, 30, 99)] == [0, 0, 100, 100, 100, 125, 150, 150]
    assert histogram.rows_in(Interval()) == histogram.rows == 150
    assert histogram.rows_in(interval((25,), (5,))) == 0


def test_whole_numbers_are_as_wide_as_a_step() -> None:
    three = of_partitions((A,), [(spanning((1,), (3,)), 90)])
    assert [below(three, at) for at in (1, 2, 3, 4)] == [0, 30, 60, 90]
    assert three.rows_below(Cut((2,), after=True)) == 60


def test_an_end_with_more_columns_lies_in_the_middle_of_its_value() -> None:
    histogram = of_partitions((A, B), [(interval((1, "B"), (3, "D")), 100)])
    assert [below(histogram, at) for at in (1, 2, 3, 4)] == [0, 25, 75, 100]


def test_of_what_nothing_is_known_half_is_guessed() -> None:
    histogram = of_partitions((A,), [(interval(None, (5,)), 10), (interval((5,), None), 20)])
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
    heavy = Histogram((A,), (Bucket(only((5,)), 1000),))
    both = of(pa.int64(), 0, 10).union(heavy)
    assert both.rows_in(only((5,))) == 1010


def test_buckets_that_overlap_or_end_early_are_refused() -> None:
    with pytest.raises(ValueError, match="not overlap"):
        Histogram((A,), (Bucket(interval((0,), (5,)), 1), Bucket(interval((4,), (9,)), 1)))
    with pytest.raises(ValueError, match="ends before"):
        Histogram((A,), (Bucket(interval((5,), (5,)), 1),))


def test_empty_partitions_are_left_out_and_others_put_in_order() -> None:
    histogram = of_partitions(
        (A,),
        [(interval((5,), None), 3), (interval((5,), (5,)), 0), (interval(None, (2,)), 1), (interval((2,), (5,)), 0)],
    )
    assert [b.rows for b in histogram.buckets] == [1, 3]
    assert of_partitions((A,), []).rows == 0


@half
@given(choices)
def test_a_histogram_of_rows_is_right_at_the_ends_of_its_buckets(ch: Choices) -> None:
    keys = brute.keys(ch)
    rows = [brute.row(ch, keys) for _ in range(25)]
    histogram = of_rows(keys, rows, buckets=1 + ch.below(8))
    assert histogram.rows == len(rows)
    for bucket in histogram.buckets:
        assert bucket.rows == sum(brute.holds(keys, bucket.interval, row) for row in rows)
        for end in (bucket.interval.low, bucket.interval.high):
            assert histogram.rows_below(end) == sum(brute.below(keys, row, end) for row in rows)


@half
@given(choices)
def test_guesses_lie_between_what_is_certain(ch: Choices) -> None:
    """Below a cut are all buckets that end before it, and none that begins after it."""
    keys = brute.keys(ch)
    first, second = (of_rows(keys, [brute.row(ch, keys) for _ in range(12)], buckets=4) for _ in range(2))
    both = first.union(second)
    assert both.rows == pytest.approx(24)
    place = Order(keys).place
    for _ in range(5):
        cut = brute.cut(ch, keys)
        for histogram in (first, second, both):
            found = histogram.rows_below(cut)
            inside = [b for b in histogram.buckets if place(b.interval.high) <= place(cut)]
            touched = [b for b in histogram.buckets if place(b.interval.low) < place(cut)]
            assert sum(b.rows for b in inside) - 1e-9 <= found <= sum(b.rows for b in touched) + 1e-9
    assert (both.rows_below(START), both.rows_below(END)) == (0, both.rows)


@half
@given(choices)
def test_rows_below_never_fall_as_the_cut_rises(ch: Choices) -> None:
    keys = brute.keys(ch)
    histogram = of_rows(keys, [brute.row(ch, keys) for _ in range(12)], buckets=1 + ch.below(3))
    cuts = sorted((brute.cut(ch, keys) for _ in range(15)), key=Order(keys).place)
    found = [histogram.rows_below(cut) for cut in cuts]
    assert found == sorted(found)


def test_from_the_statistics_of_a_column() -> None:
    known = ColumnStatistics(
        distinct=12,
        null_fraction=0.2,
        histogram=statistics.Histogram((0, 10, 11, 20), (40.0, 30.0, 10.0), (5.0, 1.0, 6.0)),
    )
    up = of_column(A, known, 100)
    assert up is not None
    assert [str(b.interval) for b in up.buckets] == [
        "[(NULL), after (NULL))",
        "[(0), after (10))",
        "[(11), after (11))",
        "[after (11), after (20))",
    ]
    assert [b.rows for b in up.buckets] == [20, 40, 30, 10]
    down = of_column(Key(pa.int64(), descending=True, nulls_first=False), known, 100)
    assert down is not None
    assert [str(b.interval) for b in down.buckets] == [
        "[(20), (11))",
        "[(11), after (11))",
        "[(10), after (0))",
        "[(NULL), after (NULL))",
    ]
    assert of_column(A, ColumnStatistics(), 100) is None


def test_a_histogram_can_be_scaled_to_bytes() -> None:
    assert of(pa.int64(), 0, 10).scaled(8).rows == 800


def test_within_keeps_the_rows_of_some_intervals() -> None:
    """Intervals may touch, repeat, come in any order, and reach beyond all rows or end on more columns than there are."""
    key = (Key(pa.int64()),)
    even = of_partitions(key, [(interval((low,), (low + 10,)), 100) for low in range(0, 50, 10)])
    kept = even.within([interval((30,), None), interval((5,), (10,)), interval((5,), (10,)), only((12, "x"))])
    assert [(str(bucket.interval), round(bucket.rows)) for bucket in kept.buckets] == [
        ("[(5), (10))", 50),
        ("[(12), after (12))", 10),
        ("[(30), (40))", 100),
        ("[(40), (50))", 100),
    ]
    assert even.within([interval((60,), None)]).rows == 0
