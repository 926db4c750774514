"""Bounds of columns in row groups: from footers and folders, and what they tell."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from unshuffle.catalog.files import data_files
from unshuffle.catalog.schema import Column
from unshuffle.partitions import EVERYTHING, Ranges, closed_interval, interval_of_value
from unshuffle.plan.logical import Files, Format, Scan
from unshuffle.plan.part_bounds import NULLS, PartBounds, with_bounds
from unshuffle.properties import RangeFunction, RangeKey

INT, DAY, HALF = pa.int64(), pa.date32(), pa.float64()
K, D, F, T = (
    Column(1, "k", INT),
    Column(2, "d", DAY),
    Column(3, "f", HALF),
    Column(4, "t", pa.timestamp("us", tz="UTC")),
)


def bounds(folder: Path, *parts: dict[str, pa.Array], columns: tuple[Column, ...] = (K,)) -> PartBounds:
    for number, part in enumerate(parts):
        pq.write_table(pa.table(part), folder / f"{number}.parquet")
    scan = Scan("t", Files((str(folder),), Format("Parquet"), rows=1), columns)
    found = with_bounds(scan, data_files((str(folder),), None), ()).bounds
    assert found is not None
    return found


def keys(*values: int | None) -> dict[str, pa.Array]:
    return {"k": pa.array(values, INT)}


def test_footers_give_intervals_and_nulls(tmp_path: Path) -> None:
    found = bounds(tmp_path, keys(3, 1, 2), keys(None, 7), keys(None, None), keys()).on(K)
    assert found is not None
    assert found.intervals == (
        (closed_interval((1,), (3,)),),
        (NULLS, closed_interval((7,), (7,))),
        (NULLS,),
        (),
    )
    assert found.ends((0, 1)) == (1, 7)
    assert found.ends((2, 3)) is None
    assert found.overlapping([interval_of_value((7,))]) == {1}


def test_what_is_not_certain_may_be_anything(tmp_path: Path) -> None:
    old = datetime.date(1500, 1, 1)
    parts = [
        {"k": pa.array([1], INT), "d": pa.array([old], DAY), "f": pa.array([1.0], HALF)},
        {"k": pa.array([1], pa.int32()), "d": pa.array([datetime.date(2026, 1, 1)], DAY)},
        {"d": pa.array([None], DAY)},
    ]
    found = bounds(tmp_path, *parts, columns=(K, D, F))
    key, day = found.on(K), found.on(D)
    assert key is not None
    assert key.intervals == ((closed_interval((1,), (1,)),), (EVERYTHING,), (EVERYTHING,))  # another type; no column
    assert day is not None
    assert day.intervals[0] == (EVERYTHING,)  # the footer may be in another calendar
    assert day.intervals[2] == (NULLS,)
    assert found.on(F) is None


def test_bounds_are_useful_if_parts_differ(tmp_path: Path) -> None:
    (tmp_path / "apart").mkdir()
    apart = bounds(tmp_path / "apart", keys(1, 2, None), keys(3, 4, None), keys(5, None)).on(K)
    assert apart is not None
    assert apart.are_useful
    (tmp_path / "alike").mkdir()
    alike = bounds(tmp_path / "alike", keys(1, 9, None), keys(2, 8, None), keys(0, 7, None)).on(K)
    assert alike is not None
    assert not alike.are_useful


def test_tasks_read_the_parts_that_reach_into_their_range(tmp_path: Path) -> None:
    found = bounds(tmp_path, keys(0, 9), keys(5, 25), keys(None, 30))
    function = RangeFunction((RangeKey(INT),), ((10,), (20,)))
    reads = found.reads(K, Ranges(function.keys, ((10,), (20,))), None)
    assert [[(each.part, each.is_whole) for each in task] for task in reads or ()] == [
        [(0, True), (1, False), (2, False)],
        [(1, False)],
        [(1, False), (2, False)],
    ]
    every = found.readers(K, function, None)
    assert every is not None
    assert 1.9 < every < 2.1
    assert found.readers(K, function, (0,)) == 1.0
    descending = RangeFunction((RangeKey(INT, descending=True, nulls_first=False),), ((10,),))
    assert found.readers(K, descending, None) is None


def test_rows_of_overlapping_parts_are_added_up(tmp_path: Path) -> None:
    found = bounds(tmp_path, keys(*range(100)), keys(*range(50, 150)), keys(*range(300, 400))).on(K)
    assert found is not None
    histogram = found.histogram()
    assert histogram is not None
    rows = [round(bucket.rows) for bucket in histogram.buckets]
    assert rows == [50, 100, 50, 100]
    some = found.histogram((2,))
    assert some is not None
    assert [bucket.interval for bucket in some.buckets] == [closed_interval((300,), (399,))]


def test_a_file_that_is_gone_has_no_bounds(tmp_path: Path) -> None:
    pq.write_table(pa.table(keys(1, 2)), tmp_path / "0.parquet")
    scan = Scan("t", Files((str(tmp_path),), Format("Parquet"), rows=2), (K,))
    found = with_bounds(scan, data_files((str(tmp_path),), None), ()).bounds
    (tmp_path / "0.parquet").unlink()
    assert found is not None
    assert found.on(K) is None
