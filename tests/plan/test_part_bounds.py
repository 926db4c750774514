"""Bounds of columns in row groups: from footers and folders, and what they tell."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from unshuffle.catalog.constraints.constraint import PartCondition
from unshuffle.catalog.files import DataFile, data_files
from unshuffle.catalog.parquet_files import are_worth_reading, footers_of
from unshuffle.catalog.schema import Column
from unshuffle.partitions import EVERYTHING, Cut, KeyInterval, Ranges, closed_interval, interval_of_value
from unshuffle.plan.expressions import Call, Literal, Ref, connect
from unshuffle.plan.logical import Files, Format, Scan
from unshuffle.plan.part_bounds import PartBounds, with_bounds
from unshuffle.plan.predicate_intervals import NULLS
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


def condition(path: Path, *comparisons: tuple[str, Column, int | None]) -> PartCondition:
    parts = [
        Call(name, (Ref(column), Literal(value, INT)) if name != "isnull" else (Ref(column),), pa.bool_())
        for name, column, value in comparisons
    ]
    return PartCondition(str(path), " ".join(map(str, comparisons)), connect("and", parts))


def test_declared_conditions_narrow_what_footers_say(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number, values in enumerate(([1, 5, None], [6, 9], [None, 12])):
        pq.write_table(pa.table(keys(*values)), tmp_path / "a" / f"{number}.parquet", write_statistics=number == 0)
    found = bounds(tmp_path)
    narrowed = found.narrowed(
        (
            condition(tmp_path / "a" / "0.parquet", ("<", K, 4)),
            condition(tmp_path / "a" / "1.parquet", (">=", K, 6), ("<", K, 10)),
            condition(tmp_path / "b", ("=", K, 100)),
        )
    )
    on_k = narrowed.on(K)
    assert on_k is not None
    assert on_k.intervals == (
        (KeyInterval(Cut((1,)), Cut((4,))),),  # not NULL, which is not less than 4
        (KeyInterval(Cut((6,)), Cut((10,))),),
        (EVERYTHING,),
    )
    assert narrowed.is_declared(K)
    assert not found.is_declared(K)
    assert not narrowed.is_declared(D)
    assert narrowed.on(Column(9, "k", pa.int32())) is not None  # read as another type: nothing is known of it
    assert not narrowed.is_declared(Column(9, "k", pa.int32()))
    whole = found.narrowed((condition(tmp_path, (">", K, 2)), condition(tmp_path / "a", ("<", K, 8)))).on(K)
    assert whole is not None
    assert whole.intervals[2] == (KeyInterval(Cut((2,), after=True), Cut((8,))),)  # both are true


def test_conditions_with_other_columns_of_the_same_numbers_are_others(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1], "j": [7]}), tmp_path / "0.parquet", write_statistics=False)
    other = Column(K.id, "j", INT)
    found = bounds(tmp_path, columns=(K,))
    one = PartCondition(str(tmp_path), "k = 1", Call("=", (Ref(K), Literal(1, INT)), pa.bool_()))
    two = PartCondition(str(tmp_path), "j = 7", Call("=", (Ref(other), Literal(7, INT)), pa.bool_()))
    assert found.narrowed((one,)).is_declared(K)
    assert not found.narrowed((two,)).is_declared(K)
    assert found.narrowed((one,)) is found.narrowed((one,))  # so that footers are read once


def test_a_file_without_a_column_has_no_condition_on_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"j": [7]}), tmp_path / "0.parquet")
    found = bounds(tmp_path, columns=(K,))
    assert not found.narrowed((condition(tmp_path, ("isnull", K, None)),)).is_declared(K)


def test_histograms_of_declared_intervals(tmp_path: Path) -> None:
    for number, values in enumerate(([1, 2], [11, 12], [21, 25])):
        pq.write_table(pa.table(keys(*values)), tmp_path / f"{number}.parquet", write_statistics=False)
    found = bounds(tmp_path)
    files = [tmp_path / f"{number}.parquet" for number in range(3)]
    one_sided = (condition(files[0], ("<", K, 10)), condition(files[1], (">=", K, 10), ("<", K, 20)))
    on_k = found.narrowed((*one_sided, condition(files[2], (">=", K, 20)))).on(K)
    assert on_k is not None
    assert on_k.are_useful
    histogram = on_k.histogram()
    assert histogram is not None
    assert [each.rows for each in histogram.buckets] == [2, 2, 2]
    assert on_k.ends((0, 1)) is None
    unknown = found.narrowed(one_sided).on(K)
    assert unknown is not None
    assert unknown.histogram() is None  # the third part may have any value


def test_tables_of_many_files_have_bounds(tmp_path: Path) -> None:
    parts = [keys(10 * number, 10 * number + 9) for number in range(400)]
    found = bounds(tmp_path, *parts).on(K)
    assert found is not None
    assert len(found.intervals) == 400
    assert len(found.overlapping([closed_interval((100,), (119,))])) == 2
    assert found.values(range(400)) == found.values(range(400))


def test_more_footers_are_read_of_larger_tables() -> None:
    def files(count: int, size: int, folder: str) -> list[DataFile]:
        return [DataFile(f"{folder}/{number}.parquet", size, (), number) for number in range(count)]

    assert are_worth_reading(files(256, 1, "s3://bucket/t"))
    assert are_worth_reading(files(5_000, 1_000, "/t"))
    assert not are_worth_reading(files(50_000, 1_000, "/t"))
    assert are_worth_reading(files(50_000, 10_000_000, "/t"))
    assert not are_worth_reading(files(5_000, 1_000_000, "s3://bucket/t"))
    assert are_worth_reading(files(5_000, 100_000_000, "s3://bucket/t"))


def test_a_new_file_leaves_the_footers_of_the_others(tmp_path: Path) -> None:
    bounds(tmp_path, keys(1), keys(2))
    before = footers_of(data_files((str(tmp_path),), None))
    pq.write_table(pa.table(keys(3, 4)), tmp_path / "2.parquet")
    after = footers_of(data_files((str(tmp_path),), None))
    assert all(one is other for one, other in zip(before, after, strict=False))
    pq.write_table(pa.table(keys(5, 6, 7)), tmp_path / "0.parquet")
    assert [footer.num_rows for footer in footers_of(data_files((str(tmp_path),), None))] == [3, 1, 2]
