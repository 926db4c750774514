"""The partition index tree, against all parts compared one by one."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from unshuffle.partitions import (
    EVERYTHING,
    Cut,
    KeyColumn,
    KeyInterval,
    KeyOrder,
    PartitionIndex,
    closed_interval,
    interval_of_value,
    merged,
)

KEY = (KeyColumn(pa.int64()),)
ORDER = KeyOrder(KEY)

values = st.integers(-6, 20)
cuts = st.one_of(st.builds(lambda v, after: Cut((v,), after), st.none() | values, st.booleans()), st.just(Cut(())))
intervals = st.builds(KeyInterval, cuts, st.one_of(cuts, st.just(Cut((), after=True))))
parts = st.lists(st.lists(intervals, max_size=3), max_size=12)


def overlap(one: KeyInterval, other: KeyInterval) -> bool:
    low = max(ORDER.place(one.low), ORDER.place(other.low))
    return low < min(ORDER.place(one.high), ORDER.place(other.high))


def test_the_example() -> None:
    index = PartitionIndex(
        KEY,
        [
            [closed_interval((0,), (9,))],
            [closed_interval((10,), (19,))],
            [closed_interval((5,), (39,))],
            [interval_of_value((None,)), closed_interval((20,), (29,))],
        ],
    )
    assert index.overlapping(closed_interval((20,), (24,))) == [2, 3]
    assert index.overlapping(interval_of_value((None,))) == [3]
    assert index.overlapping(interval_of_value((40,))) == []
    assert index.overlapping(EVERYTHING) == [0, 1, 2, 3]


@given(parts, intervals)
def test_finds_all_parts_that_overlap(some: list[list[KeyInterval]], probe: KeyInterval) -> None:
    expected = [number for number, part in enumerate(some) if any(overlap(each, probe) for each in part)]
    assert PartitionIndex(KEY, some).overlapping(probe) == expected


@given(st.lists(intervals, max_size=8), values | st.none())
def test_merged_intervals_have_the_same_values(some: list[KeyInterval], value: int | None) -> None:
    together = merged(KEY, some)
    point = interval_of_value((value,))
    assert any(overlap(each, point) for each in some) == any(overlap(each, point) for each in together)
    ends = [(ORDER.place(each.low), ORDER.place(each.high)) for each in together]
    assert all(low < high for low, high in ends)
    assert all(one[1] < other[0] for one, other in pairwise(ends))


def test_neighbours_without_a_value_between_them_become_one() -> None:
    assert merged(KEY, [closed_interval((4,), (6,)), closed_interval((1,), (3,))]) == [closed_interval((1,), (6,))]
    apart = [closed_interval((1,), (3,)), closed_interval((5,), (6,))]
    assert merged(KEY, apart) == apart
