"""Cuts, intervals and ranges: every row is in exactly one range, whatever the boundaries."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from tests.support import brute_partitions
from tests.support.brute_partitions import Choices, choices, half
from unshuffle.partitions import (
    END,
    START,
    Cut,
    KeyColumn,
    KeyInterval,
    KeyOrder,
    Ranges,
    closed_interval,
    interval,
    interval_of_value,
)
from unshuffle.properties import RangeFunction, RangeKey

A, B = KeyColumn(pa.int64()), KeyColumn(pa.string())


@half
@given(choices)
def test_a_row_is_below_a_cut_or_not(ch: Choices) -> None:
    keys = brute_partitions.keys(ch)
    order = KeyOrder(keys)
    for cut in [brute_partitions.cut(ch, keys) for _ in range(3)]:
        for row in brute_partitions.rows(ch, keys):
            assert (order.row(row) < order.place(cut)) == brute_partitions.below(keys, row, cut)


@half
@given(choices)
def test_every_row_is_in_exactly_one_range(ch: Choices) -> None:
    keys = brute_partitions.keys(ch)
    ranges = Ranges(keys, brute_partitions.boundaries(ch, keys))
    rows = brute_partitions.rows(ch, keys)
    numbers = ranges.numbers(rows)
    for row, number in zip(rows, numbers, strict=True):
        assert number == ranges.number(row) == brute_partitions.range_of(keys, ranges.boundaries, row)
        assert [i for i, each in enumerate(ranges) if each.holds(keys, row)] == [number]


@half
@given(choices)
def test_intervals_contain_the_rows_between_their_cuts(ch: Choices) -> None:
    keys = brute_partitions.keys(ch)
    where = brute_partitions.interval(ch, keys)
    for row in brute_partitions.rows(ch, keys):
        assert where.holds(keys, row) == brute_partitions.holds(keys, where, row)
        assert not (where.empty(keys) and where.holds(keys, row))


@half
@given(choices)
def test_the_boundary_of_a_cut_divides_rows_like_the_cut(ch: Choices) -> None:
    keys = brute_partitions.keys(ch)
    cut = brute_partitions.cut(ch, keys)
    boundary = KeyOrder(keys).boundary(cut)
    if not boundary:
        return
    for row in brute_partitions.rows(ch, keys):
        assert brute_partitions.below(keys, row, Cut(boundary)) == brute_partitions.below(keys, row, cut)


@half
@given(choices)
def test_plain_ranges_keep_rows_together_and_apart_as_before(ch: Choices) -> None:
    keys = brute_partitions.keys(ch)
    ranges = Ranges(keys, brute_partitions.boundaries(ch, keys))
    plain = ranges.plain()
    rows = brute_partitions.rows(ch, keys)
    pairs = {(ranges.number(row), plain.number(row[: len(plain.keys)])) for row in rows}
    assert len({before for before, _ in pairs}) == len({after for _, after in pairs}) == len(pairs)
    assert not any(each.empty(plain.keys) for each in plain)


@half
@given(choices)
def test_ranges_number_rows_like_the_range_function_of_the_properties(ch: Choices) -> None:
    keys = brute_partitions.keys(ch)
    plain = Ranges(keys, brute_partitions.boundaries(ch, keys)).plain()
    if not plain.boundaries:
        return
    function = RangeFunction(
        tuple(RangeKey(key.type, key.descending, key.nulls_first) for key in plain.keys), plain.boundaries
    )
    again = Ranges(function.keys, plain.boundaries)
    for row in brute_partitions.rows(ch, plain.keys):
        assert function.number(row) == plain.number(row) == again.number(row)


def test_a_short_boundary_is_the_first_point_with_its_values() -> None:
    ranges = Ranges((A, B), ((1, "B"), (2,), (2, "D")))
    rows = [(1, "A"), (1, "B"), (1, None), (2, None), (2, "C"), (2, "D"), (None, "Z")]
    assert ranges.numbers(rows) == [0, 1, 0, 2, 2, 3, 0]


def test_equal_boundaries_make_an_empty_range() -> None:
    ranges = Ranges((A,), ((5,), (5,), (7,)))
    assert ranges.numbers([(4,), (5,), (6,), (7,)]) == [0, 2, 2, 3]
    assert ranges.interval(1).empty(ranges.keys)
    assert ranges.plain() == Ranges((A,), ((5,), (7,)))


def test_a_boundary_at_leading_nulls_divides_nothing() -> None:
    assert Ranges((A,), ((None,),)).plain().boundaries == ()
    last = Ranges((KeyColumn(pa.int64(), nulls_first=False),), ((None,),))
    assert last.numbers([(2**63 - 1,), (None,)]) == [0, 1]


def test_equivalent_ranges_are_equal() -> None:
    number = KeyColumn(pa.float64())
    assert Ranges((number,), ((0.0,), (float("nan"),))) == Ranges((number,), ((-0.0,), (float("nan"),)))
    assert Ranges((A, B), ((1,), (2,))) == Ranges((A, B), ((1, None), (2,)))


def test_descending_boundaries_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"descend: \(2\), \(1\)"):
        Ranges((A,), ((2,), (1,)))
    assert Ranges((KeyColumn(pa.int64(), descending=True),), ((2,), (1,))).numbers([(3,), (2,), (1,)]) == [0, 1, 2]


def test_too_many_values_are_rejected() -> None:
    with pytest.raises(ValueError, match="2 values for a key of 1"):
        Ranges((A,), ((2, "x"),))
    with pytest.raises(ValueError, match="2 values for a key of 1"):
        KeyOrder((A,)).place(Cut((2, "x"), after=True))


def test_ways_to_write_an_interval() -> None:
    keys = (A, B)
    assert interval((1, "B"), (2, "D")).holds(keys, (2, "C"))
    assert not interval((1, "B"), (2, "D")).holds(keys, (2, "D"))
    assert closed_interval((1, "B"), (2, "D")).holds(keys, (2, "D"))
    assert interval_of_value((2,)).holds(keys, (2, "Z"))
    assert interval(None, None) == KeyInterval(START, END)
    assert [str(each) for each in (interval((1, None), (2, "D")), interval_of_value((2,)), KeyInterval())] == [
        "[(1, NULL), (2, D))",
        "[(2), after (2))",
        "(-, -)",
    ]
