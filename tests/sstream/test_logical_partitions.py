"""Each task reads the row groups that can have its rows, and every row is read exactly once."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from unshuffle.partitions import KeyInterval, histogram_of_rows, interval, interval_of_value
from unshuffle.properties import HashFunction, RangeFunction, RangeKey
from unshuffle.sstream.logical_partitions import LogicalPartitions, logical_partitions
from unshuffle.sstream.manifest import Manifest, RowGroup, SortedName, StoredFile, StoredPartition

Row = tuple[int | None, int]
INT = pa.int64()
A, B = SortedName("a"), SortedName("b")
KEY = RangeKey(INT)


def order(row: Row) -> tuple[bool, int, int]:
    return (row[0] is not None, row[0] or 0, row[1])


def ranges(cuts: list[tuple[int | None, ...]]) -> RangeFunction:
    return RangeFunction((KEY, KEY)[: max(map(len, cuts))], tuple(cuts))


def stored(
    rows: list[Row], function: RangeFunction | HashFunction, size: int, sorted_by: tuple[SortedName, ...]
) -> Manifest:
    """A stream of these rows, with `size` rows in a row group and two row groups in a file. The hash of `a` is `a` itself."""
    partitions = []
    for number in range(function.partitions):
        own = sorted((row for row in rows if partition_of(function, row) == number), key=order)
        own = own if sorted_by[0] == A else sorted(own, key=lambda row: (row[1], order(row)))
        chunks = [own[at : at + size] for at in range(0, len(own), size)]
        named = [tuple(row if sorted_by[0] == A else row[::-1] for row in chunk) for chunk in chunks]
        groups = [
            RowGroup(4 + 100 * (i % 2), 100, len(chunk), chunk[0][: len(sorted_by)], chunk[-1][: len(sorted_by)])
            for i, chunk in enumerate(named)
        ]
        files = tuple(
            StoredFile(f"p={number}/{at}.parquet", 300, 0, tuple(groups[at : at + 2]))
            for at in range(0, len(groups), 2)
        )
        partitions.append(StoredPartition(files))
    clustered = (A, B)[: function.arity]
    keys = tuple(RangeKey(INT) for _ in clustered)
    histogram = histogram_of_rows(keys, [row[: len(clustered)] for row in rows])
    return Manifest(1, "w", (("a", INT), ("b", INT)), clustered, function, sorted_by, tuple(partitions), histogram)


def partition_of(function: RangeFunction | HashFunction, row: Row) -> int:
    if isinstance(function, RangeFunction):
        return function.number(row[: function.arity])
    return (row[0] or 0) % function.partitions


def rows_read(
    manifest: Manifest, found: LogicalPartitions, rows: list[Row], output: int, size: int, whole: bool = False
) -> list[Row]:
    """The rows of the row groups that an output reads."""
    result = []
    for part in found.slices[output]:
        if whole and not part.is_whole:
            continue
        number = int(part.file.path.split("/")[0][2:])
        at = int(part.file.path.split("/")[1].split(".")[0])
        own = sorted((row for row in rows if partition_of(manifest.function, row) == number), key=order)
        own = own if manifest.sorted_by[0] == A else sorted(own, key=lambda row: (row[1], order(row)))
        for i, group in enumerate(part.file.groups):
            if part.start <= group.offset and group.offset + group.length <= part.start + part.length:
                result += own[(at + i) * size : (at + i + 1) * size]
    return result


numbers = st.integers(-3, 12)
some_rows = st.lists(st.tuples(st.none() | numbers, numbers), max_size=40)
cuts = st.lists(st.tuples(numbers) | st.tuples(numbers, numbers), min_size=1, max_size=5, unique=True).map(
    lambda found: sorted(found, key=lambda cut: (cut[0], len(cut) > 1, cut))
)
orders = st.sampled_from([(A, B), (A,), (B, A)])


@given(some_rows, cuts, cuts, st.integers(1, 4), orders)
def test_ranges_read_as_other_ranges(
    rows: list[Row], old: list, new: list, size: int, sorted_by: tuple[SortedName, ...]
) -> None:
    manifest, target = stored(rows, ranges(old), size, sorted_by), ranges(new)
    if target.arity > len(manifest.clustered_by):
        return
    check(manifest, target, rows, size)


@given(some_rows, st.integers(1, 12), st.integers(1, 12), st.integers(1, 4))
def test_hash_partitions_read_as_others(rows: list[Row], old: int, new: int, size: int) -> None:
    manifest = stored(rows, HashFunction((INT,), old), size, (A, B))
    check(manifest, HashFunction((INT,), new), rows, size)


def check(manifest: Manifest, target: RangeFunction | HashFunction, rows: list[Row], size: int) -> None:
    found = logical_partitions(manifest, target)
    assert len(found.slices) == target.partitions
    for output in range(target.partitions):
        own = [row for row in rows if partition_of(target, row) == output]
        read = rows_read(manifest, found, rows, output, size)
        whole = rows_read(manifest, found, rows, output, size, whole=True)
        assert all(partition_of(target, row) == output for row in whole)
        kept = [row for row in read if partition_of(target, row) == output] if found.filtered else read
        assert sorted(kept, key=order) == sorted(own, key=order)


def test_the_stored_layout() -> None:
    rows: list[Row] = [(i, 0) for i in range(20)]
    manifest = stored(rows, ranges([(10,)]), 3, (A, B))
    assert logical_partitions(manifest) == logical_partitions(manifest, manifest.function)
    assert not logical_partitions(manifest).filtered


def test_only_row_groups_at_a_border_are_read_twice() -> None:
    rows: list[Row] = [(i, 0) for i in range(100)]
    manifest = stored(rows, ranges([(50,)]), 10, (A, B))
    found = logical_partitions(manifest, ranges([(25,), (75,)]))
    assert found.filtered
    assert [len(rows_read(manifest, found, rows, i, 10)) for i in range(3)] == [30, 60, 30]


@given(some_rows, cuts, st.integers(1, 4), st.lists(st.tuples(numbers, numbers), max_size=3))
def test_row_groups_outside_the_intervals_are_left_out(
    rows: list[Row], old: list, size: int, bounds: list[tuple[int, int]]
) -> None:
    manifest = stored(rows, ranges(old), size, (A, B))
    within: list[KeyInterval] = [
        interval((low,), (high,)) if low < high else interval_of_value((low,)) for low, high in bounds
    ]
    found = logical_partitions(manifest, within=within)
    selected = [
        row
        for row in rows
        if any(lo <= (row[0] if row[0] is not None else -99) < hi if lo < hi else row[0] == lo for lo, hi in bounds)
    ]
    read = [row for output in range(len(found.slices)) for row in rows_read(manifest, found, rows, output, size)]
    assert all(row in read for row in selected)
    if not bounds:
        assert found.bytes == 0
