"""Ranges of two tables in parts that are joined in the same way: every value is in one of them, and none is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import examples
from unshuffle.partitions import (
    EVERYTHING,
    ChildJoin,
    KeyColumn,
    KeyInterval,
    SizedPart,
    Sizes,
    child_joins,
    closed_interval,
)

KEYS = (KeyColumn(pa.int32()),)
VALUES = range(-2, 40)
SETTINGS = settings(max_examples=examples(400, 80), deadline=None)


def part(low: int, high: int, size: float) -> SizedPart:
    return SizedPart((closed_interval((low,), (high,)),), size)


def values(intervals: Sequence[KeyInterval]) -> set[int]:
    return {each for each in VALUES if any(interval.holds(KEYS, (each,)) for interval in intervals)}


def found(left: Sequence[SizedPart], right: Sequence[SizedPart]) -> dict[Sizes, set[int]]:
    return {each.sizes: values(each.intervals) for each in child_joins(KEYS[0], left, right)}


def test_each_kind_of_sizes_is_one_child_join() -> None:
    visits = [part(10 * month, 10 * month + 9, size) for month, size in enumerate((900, 800, 10))]
    bought = [part(10 * month, 10 * month + 9, size) for month, size in enumerate((9, 8, 700, 600))]
    assert found(visits, bought) == {
        Sizes.RIGHT_SMALL: set(range(-2, 20)),
        Sizes.LEFT_SMALL: set(range(20, 30)),
        Sizes.RIGHT_ALONE: set(range(30, 40)),
    }


def test_a_chain_of_overlaps_is_divided() -> None:
    """Each part overlaps the next of the other table, so there is one cluster of all pairs."""
    left = [part(low, low + 9, size) for low, size in ((0, 900), (10, 900), (20, 40))]
    right = [part(low, low + 9, size) for low, size in ((5, 40), (15, 40), (25, 900))]
    assert found(left, right) == {
        Sizes.LEFT_ALONE: set(range(-2, 5)),
        Sizes.RIGHT_SMALL: set(range(5, 20)),
        Sizes.ALIKE: set(range(20, 25)),
        Sizes.LEFT_SMALL: set(range(25, 30)),
        Sizes.RIGHT_ALONE: set(range(30, 40)),
    }


def test_ranges_with_few_bytes_are_joined_with_their_neighbours() -> None:
    left = [part(0, 9, 1000.0), part(10, 10, 0.1), part(11, 39, 1000.0)]
    right = [part(0, 39, 10.0)]
    assert found(left, right) == {Sizes.RIGHT_SMALL: set(VALUES)}


def test_few_bytes_are_not_no_rows() -> None:
    """The right has a part of hardly any bytes beside 10^12 on the left: it is joined nevertheless."""
    left = [part(0, 9, 1e12), part(10, 19, 1e12)]
    right = [part(0, 9, 1.0), part(15, 15, 1.0)]
    joined = found(left, right)
    assert 15 not in joined.get(Sizes.LEFT_ALONE, set())


PARTS = st.lists(
    st.one_of(
        st.builds(
            lambda low, length, size: part(low, low + length, size),
            st.integers(0, 35),
            st.integers(0, 12),
            st.sampled_from((0.0, 1e-6, 1.0, 50.0, 1e9)),
        ),
        st.builds(lambda size: SizedPart((EVERYTHING,), size), st.sampled_from((0.0, 1.0, 1e6))),
        st.just(SizedPart((), 5.0)),
    ),
    max_size=14,
)


@SETTINGS
@given(PARTS, PARTS)
def test_every_value_is_in_one_child_join(left: list[SizedPart], right: list[SizedPart]) -> None:
    joins: list[ChildJoin] = child_joins(KEYS[0], left, right)
    of_values = [values(each.intervals) for each in joins]
    assert sum(map(len, of_values)) == len(set().union(*of_values))
    if any(each.intervals for each in (*left, *right)):
        assert set().union(*of_values) == set(VALUES)
    assert len(joins) == len({each.sizes for each in joins})


@SETTINGS
@given(PARTS, PARTS)
def test_only_ranges_without_parts_of_the_other_table_are_alone(left: list[SizedPart], right: list[SizedPart]) -> None:
    alone = found(left, right)
    for others, sizes in ((right, Sizes.LEFT_ALONE), (left, Sizes.RIGHT_ALONE)):
        present = set().union(*(values(each.intervals) for each in others))
        assert alone.get(sizes, set()).isdisjoint(present)
