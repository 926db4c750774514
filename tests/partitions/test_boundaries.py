"""Range boundaries: Algorithm 1 and our additions to it."""

from __future__ import annotations

import datetime
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given

from tests.support import brute_partitions
from tests.support.brute_partitions import Choices, all_reads, choices, half
from unshuffle.catalog.statistics import table_statistics
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.partitions import (
    Bucket,
    Division,
    KeyColumn,
    KeyHistogram,
    KeyOrder,
    Ranges,
    closed_interval,
    connect,
    divide,
    histogram_of_column,
    histogram_of_partitions,
    histogram_of_rows,
    interval,
    interval_of_value,
)

A, B, S = KeyColumn(pa.int64()), KeyColumn(pa.string()), KeyColumn(pa.string())


def partitions(*sizes: float, key: KeyColumn = S) -> KeyHistogram:
    """String partitions, one letter each, which cannot be divided further."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return histogram_of_partitions(
        (key,), [(interval((a,), (b,)), n) for a, b, n in zip(letters, letters[1:], sizes, strict=False)]
    )


def cuts(division: Division) -> list[object]:
    return [boundary[0] if len(boundary) == 1 else boundary for boundary in division.ranges.boundaries]


# --- Algorithm 1


def test_partitions_are_added_while_the_size_approaches_the_target() -> None:
    found = divide(partitions(60, 60, 60, 60, 60), 100)
    assert (cuts(found), found.sizes) == (["c", "e"], (120, 120, 60))
    found = divide(partitions(40, 40, 50, 40, 30, 20), 100)  # 80 + 50 / 2 is past 100
    assert (cuts(found), found.sizes) == (["c", "e"], (80, 90, 50))


def test_large_targets_give_one_range_and_small_targets_one_per_partition() -> None:
    assert divide(partitions(60, 60, 60), 1000).ranges == Ranges((S,), ())
    assert divide(partitions(60, 60, 60), 1, grain=1000).sizes == (60, 60, 60)


def test_the_boundaries_of_figure_6() -> None:
    """(a, b) becomes a; partitions that begin with the same a are merged."""
    stored = histogram_of_partitions(
        (A, B),
        [
            (interval((0, "A"), (1, "B")), 100),
            (interval((1, "B"), (1, "K")), 100),
            (interval((1, "K"), (2, "D")), 100),
            (interval((2, "D"), (5, "A")), 100),
        ],
    )
    found = divide(stored, 150, columns=1)
    assert cuts(found) == [1, 2]
    assert found.sizes == (50, 200, 150)
    assert found.ranges.keys == (A,)


def test_rows_are_counted_in_the_range_that_they_go_to() -> None:
    """As printed, the algorithm counts the partition that begins at (2, A) into a range that ends before 2."""
    stored = histogram_of_partitions(
        (A, B), [(interval((1,), (2,)), 90), (interval((2,), (2, "C")), 10), (interval((2, "C"), (3,)), 90)]
    )
    found = divide(stored, 100, columns=1, grain=9)
    assert (cuts(found), found.sizes) == ([2], (90, 100))


def test_the_worked_example() -> None:
    stored = histogram_of_partitions(
        (A, B),
        [
            (interval((1, "A"), (1, "F")), 60),
            (interval((1, "F"), (2, "C")), 40),
            (interval((2, "C"), (4, "A")), 90),
            (interval((4, "A"), (6, "A")), 30),
        ],
    )
    found = divide(stored, 100, columns=1)
    assert (cuts(found), found.sizes) == ([2, 4], (80, 87.5, 52.5))


def test_nothing_to_divide() -> None:
    empty = divide(histogram_of_partitions((A,), []), 10)
    assert (empty.sizes, empty.skew, empty.average) == ((0.0,), 1.0, 0.0)


# --- division inside partitions


def test_a_large_partition_of_numbers_is_divided() -> None:
    stored = histogram_of_partitions(
        (A,), [(interval((0,), (10,)), 50), (interval((10,), (50,)), 400), (interval((50,), (60,)), 50)]
    )
    found = divide(stored, 100)
    assert (cuts(found), found.sizes) == ([10, 20, 30, 40, 50], (50, 100, 100, 100, 100, 50))
    assert divide(stored, 100, grain=9).sizes == (50, 400, 50)
    even = divide(stored, 100, grain=0.1)
    assert even.skew == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("type", "low", "high"),
    [
        (pa.float64(), 0.0, 1.0),
        (pa.decimal128(38, 10), Decimal(0), Decimal("9" * 20)),
        (pa.date32(), datetime.date(2020, 1, 1), datetime.date(2024, 1, 1)),
        (pa.timestamp("us"), datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("descending", [False, True])
def test_types_with_values_between_two_others(type: pa.DataType, low: object, high: object, descending: bool) -> None:
    ends = (high, low) if descending else (low, high)
    stored = histogram_of_partitions((KeyColumn(type, descending),), [(interval((ends[0],), (ends[1],)), 1000)])
    found = divide(stored, 100)
    assert len(found.sizes) == 10
    assert found.skew == pytest.approx(1.0, abs=0.01)


def test_string_partitions_are_not_divided() -> None:
    assert divide(partitions(1000, 10), 100).sizes == (1000, 10)


def test_a_partition_between_neighbours_is_not_divided_further() -> None:
    assert divide(histogram_of_partitions((A,), [(interval((0,), (2,)), 1000)]), 10).sizes == (500, 500)


# --- skew


def test_a_heavy_value_has_a_range_of_its_own() -> None:
    rows = [(i,) for i in range(100)] + [(42,)] * 300
    found = divide(histogram_of_rows((A,), rows, buckets=20), 50)
    (alone,) = found.heavy
    assert found.ranges.interval(alone).holds((A,), (42,))
    assert not any(found.ranges.interval(alone).holds((A,), (v,)) for v in (41, 43))
    assert found.sizes[alone] == 301
    assert found.skew == pytest.approx(found.largest / found.average)


def test_heavy_strings_and_nulls() -> None:
    rows = [("b",)] * 100 + [("ba",)] * 10 + [(None,)] * 100 + [("c",)] * 10
    found = divide(histogram_of_rows((S,), rows, buckets=10), 50)
    assert found.sizes == (100, 100, 20)
    assert found.heavy == (0, 1)
    assert cuts(found) == ["b", "ba"]


def test_pieces_of_one_value_add_up_to_a_heavy_one() -> None:
    """No partition of (a, b) is large, but those inside a = 2 together are."""
    pieces = [interval((2, a), (2, b)) for a, b in zip("abcd", "bcde", strict=True)]
    stored = histogram_of_partitions(
        (A, B), [(interval((0,), (2, "a")), 60), *((p, 30) for p in pieces), (interval((2, "e"), (9,)), 60)]
    )
    found = divide(stored, 100, columns=1)
    assert cuts(found) == [2, 3]
    assert found.sizes[1] >= 120


def test_a_heavy_value_without_a_successor_shares_its_range() -> None:
    down = KeyColumn(pa.string(), descending=True)
    stored = KeyHistogram((down,), (Bucket(interval_of_value(("m",)), 100), Bucket(interval(("l",), ("a",)), 10)))
    found = divide(stored, 50)
    assert (cuts(found), found.heavy) == (["l"], (0,))


def test_a_range_that_may_hold_other_values_is_not_a_single_value_range() -> None:
    down = KeyColumn(pa.string(), descending=True)
    stored = histogram_of_partitions(
        (down, A),
        [(interval(("m", 0), ("m", 9)), 100), (interval(("m", 9), ("c", 5)), 60), (interval(("c", 5), ("a", 0)), 60)],
    )
    found = divide(stored, 90, columns=1)
    assert cuts(found) == ["c"]
    assert found.sizes[0] > 100
    assert found.heavy == ()


def test_buckets_that_begin_after_a_value_are_cut_there() -> None:
    """As the buckets of analyzed columns do: (11, 20] begins at 12, for integers."""
    known = ColumnStatistics(
        histogram=table_statistics.EquiDepthHistogram((0, 10, 11, 20), (40.0, 30.0, 30.0), (5.0, 1.0, 6.0))
    )
    up = histogram_of_column(A, known, 100)
    assert up is not None
    found = divide(up, 30)
    assert (cuts(found), found.sizes, found.heavy) == ([11, 12], (40, 30, 30), (1,))
    texts = ColumnStatistics(histogram=table_statistics.EquiDepthHistogram(("a", "k", "z"), (40.0, 30.0), (5.0, 6.0)))
    of_texts = histogram_of_column(S, texts, 70)
    assert of_texts is not None
    assert cuts(divide(of_texts, 30)) == ["k\0"]


# --- strings by their first characters


def test_boundaries_are_cut_to_the_first_characters() -> None:
    edges = ["aaa", "aab", "abc", "abd", "acx", "b", "ba"]
    stored = histogram_of_partitions((S,), [(interval((a,), (b,)), 50) for a, b in pairwise(edges)])
    found = divide(stored, 100, characters=2)
    assert all(len(boundary[0]) <= 2 for boundary in found.ranges.boundaries)
    assert sum(found.sizes) == 300
    for text in edges:
        together = found.ranges.numbers([(text[:2],), (text,), (text[:2] + "zzz",)])
        assert len(text) < 2 or len(set(together)) == 1


def test_a_heavy_prefix_has_a_range_of_its_own() -> None:
    stored = histogram_of_partitions(
        (S,),
        [
            (closed_interval(("aa1",), ("aa4",)), 80),
            (closed_interval(("aa5",), ("aa9",)), 80),
            (closed_interval(("ac",), ("b",)), 10),
        ],
    )
    found = divide(stored, 100, characters=2)
    assert (cuts(found), found.sizes, found.heavy) == (["ac"], (160, 10), (0,))


def test_a_descending_string_has_no_prefix_ranges() -> None:
    with pytest.raises(ValueError, match="ascending string"):
        divide(partitions(key=KeyColumn(pa.string(), descending=True)), 10, characters=2)
    with pytest.raises(ValueError, match="ascending string"):
        divide(histogram_of_partitions((A,), []), 10, characters=2)


# --- several inputs


def test_inputs_over_different_domains_get_boundaries_that_suit_both() -> None:
    left = histogram_of_partitions((A,), [(interval((i,), (i + 10,)), 100) for i in range(0, 100, 10)])
    right = histogram_of_partitions((A,), [(interval((i,), (i + 10,)), 100) for i in range(80, 180, 10)])
    both = left.union(right)
    found = divide(both, 200)
    assert found.skew < 1.2
    pushed = divide(
        left, 100
    ).ranges  # boundaries of one input, used for both: half of the other input is in the last range
    last = both.rows_in(pushed.interval(len(pushed) - 1))
    assert last / (both.rows / len(pushed)) > 4


# --- against brute force


@half
@given(choices)
def test_every_division_is_valid(ch: Choices) -> None:
    keys = brute_partitions.keys(ch)
    rows = [brute_partitions.row(ch, keys) for _ in range(16)]
    histogram = histogram_of_rows(keys, rows, buckets=1 + ch.below(12))
    columns = 1 + ch.below(len(keys))
    characters = 1 + ch.below(2) if keys[columns - 1].type == pa.string() and not keys[columns - 1].descending else None
    found = divide(histogram, 1 + ch.below(30), columns, characters, ch.pick([0.2, 1.5, 9.0]))
    ranges = found.ranges
    assert len(ranges) == len(found.sizes)
    assert sum(found.sizes) == pytest.approx(len(rows))
    assert all(size > 0 for size in found.sizes)
    assert ranges.plain() == ranges
    assert len(ranges.keys) <= columns
    numbers = ranges.numbers([row[: len(ranges.keys)] for row in rows])
    # Rows that agree on the columns, and on the first characters, share a range.
    for one, at in zip(rows, numbers, strict=True):
        for other, there in zip(rows, numbers, strict=True):
            if (
                brute_partitions.compare(keys[:columns], cut(one, columns, characters), cut(other, columns, characters))
                == 0
            ):
                assert at == there
    # A range that claims to hold one value holds one.
    for number in found.heavy:
        held = [row for row, at in zip(rows, numbers, strict=True) if at == number]
        assert all(
            brute_partitions.compare(keys[:columns], cut(row, columns, characters), cut(held[0], columns, characters))
            == 0
            for row in held
        )


def cut(row: tuple[object, ...], columns: int, characters: int | None) -> tuple[object, ...]:
    *before, last = row[:columns]
    return (*before, last[:characters] if characters and isinstance(last, str) else last)


@half
@given(choices)
def test_sizes_are_exact_where_no_bucket_is_divided(ch: Choices) -> None:
    key = KeyColumn(pa.string(), False, ch.flag())
    rows = [brute_partitions.row(ch, (key,)) for _ in range(40)]
    found = divide(histogram_of_rows((key,), rows, buckets=4), 1 + ch.below(20))
    numbers = found.ranges.numbers(rows)
    assert list(found.sizes) == [numbers.count(i) for i in range(len(found.sizes))]


@half
@given(choices)
def test_partitions_stay_whole_where_the_key_is_the_same(ch: Choices) -> None:
    """Nothing is divided, so every partition goes to one range and no connection is filtered."""
    keys = brute_partitions.keys(ch)
    stored = Ranges(keys, brute_partitions.boundaries(ch, keys)).plain()
    sizes = [(each, ch.below(5)) for each in stored]
    found = divide(histogram_of_partitions(stored.keys, sizes), 4, grain=1000)
    if found.heavy:
        return
    for reads in all_reads(connect(stored, stored.keys, found.ranges)):
        assert all(read.filter is None for read in reads if sizes[read.input][1])
    place = KeyOrder(stored.keys).row
    assert {place(b) for b in found.ranges.boundaries} <= set(stored.places)


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        divide(partitions(1), 0)
    with pytest.raises(ValueError, match="on its first 2"):
        divide(partitions(1), 1, columns=2)
