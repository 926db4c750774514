"""Which inputs feed which outputs: the figures of the paper, and every map against rows that are really sent."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import brute_partitions
from tests.support.brute_partitions import Choices, all_reads, choices, half
from unshuffle.partitions import (
    HashConnections,
    KeyColumn,
    KeyInterval,
    PartitionRead,
    Ranges,
    Residue,
    cheaper_partition_counts,
    closed_interval,
    connect,
    interval,
)

A, B, C = KeyColumn(pa.int64()), KeyColumn(pa.string()), KeyColumn(pa.int64())


# --- hashes


def test_figure_5() -> None:
    merged = HashConnections(4, 2)
    assert [merged.reads(i) for i in range(2)] == [
        [PartitionRead(0, None), PartitionRead(2, None)],
        [PartitionRead(1, None), PartitionRead(3, None)],
    ]
    split = HashConnections(2, 4)
    assert [split.reads(i) for i in range(4)] == [[PartitionRead(i % 2, Residue(4, i))] for i in range(4)]


def test_figure_4() -> None:
    split, merged = HashConnections(100, 200), HashConnections(200, 50)
    assert (split.total, split.most, split.filtered) == (200, 1, True)
    assert (merged.total, merged.most, merged.filtered) == (200, 4, False)
    assert [read.input for read in merged.reads(7)] == [7, 57, 107, 157]


def test_coprime_counts_connect_all() -> None:
    full = HashConnections(7, 10)
    assert full.full
    assert full.total == 70
    assert str(full) == "7 -> 10: 70 connections, 7 an output, full"


def test_ninety_partitions_instead_of_a_hundred() -> None:
    assert 90 in cheaper_partition_counts(45, 100)
    assert HashConnections(45, 90).most == 1
    assert HashConnections(45, 100).most == 9
    assert cheaper_partition_counts(100, 100) == [100]
    assert cheaper_partition_counts(7, 1) == [1]


@given(st.integers(1, 16), st.integers(1, 16))
def test_hash_maps_against_every_hash_value(inputs: int, outputs: int) -> None:
    found = HashConnections(inputs, outputs)
    reads = [found.reads(i) for i in range(outputs)]
    pairs = {(read.input, i) for i in range(outputs) for read in reads[i]}
    needed = {(h % inputs, h % outputs) for h in range(inputs * outputs)}
    assert pairs == needed
    assert len(pairs) == found.total == sum(map(len, reads))
    assert max(map(len, reads)) == found.most
    assert {(j, i) for j in range(inputs) for i in found.feeds(j)} == pairs
    assert found.full == (len(pairs) == inputs * outputs)
    for output in range(outputs):
        for input, kept in reads[output]:
            holds = {h % outputs for h in range(input, inputs * outputs, inputs)}
            assert (kept is None) == (holds == {output})
            assert kept in (None, Residue(outputs, output))


def test_a_hash_into_no_partitions_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one partition"):
        HashConnections(0, 3)


# --- ranges


def test_figure_6() -> None:
    """Partitions on (a, b) become ranges of a: only the one in the middle is divided."""
    stored = Ranges((A, B), ((1, "B"), (2, "D")))
    found = connect(stored, stored.keys, Ranges((A,), ((2,),)))
    assert all_reads(found) == [
        [PartitionRead(0, None), PartitionRead(1, interval(None, (2,)))],
        [PartitionRead(1, interval((2,), None)), PartitionRead(2, None)],
    ]
    assert (found.total, found.most, found.full) == (4, 2, False)
    assert [str(read) for read in found.reads(0)] == ["0", "1 where (-, (2))"]


def test_the_same_boundaries_connect_one_to_one_without_filters() -> None:
    ranges = Ranges((A, B), ((1, "B"), (2,), (2, "D")))
    assert all_reads(connect(ranges, ranges.keys, ranges)) == [[PartitionRead(i, None)] for i in range(4)]


def test_files_are_connected_by_their_minimum_and_maximum_rows() -> None:
    outputs = Ranges((A,), ((10,), (20,)))
    files = [closed_interval((15,), (19,)), closed_interval((0,), (10,)), closed_interval((20,), (20,))]
    assert all_reads(connect(files, (A,), outputs)) == [
        [PartitionRead(1, interval(None, (10,)))],
        [PartitionRead(0, None), PartitionRead(1, interval((10,), None))],
        [PartitionRead(2, None)],
    ]


def test_an_input_over_several_outputs_is_filtered_on_both_sides_in_the_middle() -> None:
    found = connect([interval((0,), (40,))], (A,), Ranges((A,), ((10,), (20,))))
    assert [reads[0].filter for reads in all_reads(found)] == [
        interval(None, (10,)),
        interval((10,), (20,)),
        interval((20,), None),
    ]


def test_keys_that_share_a_prefix_are_connected_by_it() -> None:
    """From (a, b) to (a, c): rows that a alone does not place must be filtered."""
    stored = Ranges((A, B), ((1, "B"), (2, "D"), (5,), (6,)))
    found = connect(stored, stored.keys, Ranges((A, C), ((2, 7), (5,))), shared=1)
    assert [[read.input for read in reads] for reads in all_reads(found)] == [[0, 1, 2], [1, 2], [3, 4]]
    assert found.reads(2) == [PartitionRead(3, None), PartitionRead(4, None)]
    assert found.reads(0)[0] == PartitionRead(0, None)
    assert found.reads(0)[2] == PartitionRead(2, interval(None, (2, 7)))


def test_keys_that_share_nothing_connect_all() -> None:
    stored = Ranges((A,), ((1,), (2,)))
    found = connect(stored, stored.keys, Ranges((B,), (("m",),)), shared=0)
    assert found.full
    assert found.total == 6
    assert all(read.filter is not None for reads in all_reads(found) for read in reads)


def test_empty_partitions_are_connected_to_nothing() -> None:
    outputs = Ranges((A,), ((5,), (5,), (9,)))
    found = connect([interval((4,), (6,)), interval((7,), (7,)), interval((9,), (3,))], (A,), outputs)
    assert [[read.input for read in reads] for reads in all_reads(found)] == [[0], [], [0], []]
    assert found.counts() == [1, 0, 1, 0]
    assert [list(found.feeds(j)) for j in range(3)] == [[0, 2], [], []]


def test_one_partition_and_none() -> None:
    one = Ranges((A,), ())
    assert all_reads(connect(one, one.keys, one)) == [[PartitionRead(0, None)]]
    assert all_reads(connect([], (A,), one)) == [[]]
    assert connect([], (A,), one).most == 0


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.float32(), pa.float64(), True),
        (pa.decimal128(5, 2), pa.decimal128(9, 4), True),
        (pa.string(), pa.large_string(), True),
        (pa.date32(), pa.timestamp("us"), False),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), False),
        (pa.int64(), pa.string(), False),
        (pa.int64(), pa.bool_(), False),
        (None, None, False),
    ],
    ids=str,
)
def test_only_types_of_one_kind_can_be_shared(one: pa.DataType, other: pa.DataType, alike: bool) -> None:
    if alike:
        assert connect([KeyInterval()], (KeyColumn(one),), Ranges((KeyColumn(other),), ())).total == 1
    else:
        with pytest.raises(ValueError, match="comparable types"):
            connect([KeyInterval()], (KeyColumn(one),), Ranges((KeyColumn(other),), ()))


def test_columns_with_another_order_share_nothing() -> None:
    with pytest.raises(ValueError, match="the same order"):
        connect([KeyInterval()], (A,), Ranges((KeyColumn(pa.int64(), descending=True),), ()))
    with pytest.raises(ValueError, match="cannot share 2"):
        connect([KeyInterval()], (A,), Ranges((A,), ()), shared=2)


@half
@given(choices)
def test_range_maps_against_rows(ch: Choices) -> None:
    """Rows may be anywhere in an input's interval. Each must arrive in its output, and only there."""
    keys = brute_partitions.keys(ch)
    shared = 1 + ch.below(len(keys))
    others = brute_partitions.keys(ch, most=2) if shared < len(keys) and ch.flag() else ()
    out_keys = (*keys[:shared], *others)
    outputs = Ranges(out_keys, brute_partitions.boundaries(ch, out_keys))
    inputs = [brute_partitions.interval(ch, keys) for _ in range(ch.below(5))]
    found = connect(inputs, keys, outputs, shared)
    reads = all_reads(found)
    rows = [(brute_partitions.row(ch, keys), brute_partitions.row(ch, others)) for _ in range(25)]
    for number, where in enumerate(inputs):
        for row, more in rows:
            if not brute_partitions.holds(keys, where, row):
                continue
            seen = (*row[:shared], *more)
            target = brute_partitions.range_of(out_keys, outputs.boundaries, seen)
            arrived = [
                output
                for output in range(len(outputs))
                for read in reads[output]
                if read.input == number and (read.filter is None or brute_partitions.holds(out_keys, read.filter, seen))  # type: ignore[arg-type]
            ]
            assert arrived == [target]
    assert found.counts() == [len(each) for each in reads]
    assert found.total == sum(map(len, reads))
    assert found.most == max(map(len, reads))
    assert all([read.input for read in each] == sorted({read.input for read in each}) for each in reads)
    for number in range(len(inputs)):
        assert list(found.feeds(number)) == [i for i, each in enumerate(reads) if number in {r.input for r in each}]


@half
@given(choices)
def test_no_connection_or_filter_is_superfluous(ch: Choices) -> None:
    """Integers, each of which is a row: every connection carries a row, and every filter rejects one."""
    key = KeyColumn(pa.int64(), ch.flag(), ch.flag())
    every = [(value,) for value in (None, *range(-1, 9))]

    def ranges() -> Ranges:
        values = sorted((ch.below(8) for _ in range(ch.below(6))), reverse=key.descending)
        return Ranges((key,), tuple((value,) for value in values))

    stored, outputs = ranges(), ranges()
    for output, reads in enumerate(all_reads(connect(stored, stored.keys, outputs))):
        for input, kept in reads:
            there = [row for row in every if stored.number(row) == input]
            arriving = [row for row in there if outputs.number(row) == output]
            assert arriving
            assert (kept is None) == (arriving == there)


def test_ten_thousand_partitions_stay_sparse() -> None:
    stored = Ranges((A,), tuple((3 * i,) for i in range(1, 10_000)))
    outputs = Ranges((A,), tuple((3 * i + 1,) for i in range(1, 10_000)))
    found = connect(stored, stored.keys, outputs)
    assert found.total == 19_999
    assert found.most == 2
