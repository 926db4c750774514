"""The results of `analyze`: compared with exact counts, stored and loaded, and outdated by changed data."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections import Counter
from decimal import Decimal
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.drawn_columns import drawn_column
from unshuffle import cli
from unshuffle.catalog import files, parquet_files
from unshuffle.catalog.constraints import constraint_discovery
from unshuffle.catalog.files import data_files
from unshuffle.catalog.json_values import decoded_value, encoded_value
from unshuffle.catalog.parquet_files import parquet_contents
from unshuffle.catalog.statistics.analyze import analyze, tables_at
from unshuffle.catalog.statistics.column_statistics import profile_column
from unshuffle.catalog.statistics.file_fingerprints import FileFingerprint
from unshuffle.catalog.statistics.persistence import load, save, statistics_path
from unshuffle.catalog.statistics.statistics_json import decode, encode
from unshuffle.catalog.statistics.stored_statistics import StoredColumn, StoredStatistics
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, EquiDepthHistogram, default_width
from unshuffle.catalog.types import spark_name
from unshuffle.errors import FileProblem, Source
from unshuffle.plan.logical import Project, Scan
from unshuffle.plan.logical import walk as operators
from unshuffle.session import Session

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, float("nan")]),
    pa.string(): st.text(max_size=5) | st.sampled_from(["a", "b"]),
    pa.binary(): st.binary(max_size=3),
    pa.date32(): st.dates(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(datetime.UTC)),
    pa.timestamp("us"): st.datetimes(),
    pa.decimal128(20, 2): st.decimals(-(10**9), 10**9, places=2),
    pa.bool_(): st.booleans(),
}
SMALL = st.integers(0, 2) | st.none()


def _same(value: Any) -> Any:
    """Maps values that are equal under GROUP BY to the same value."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


# --- one column


@given(st.data())
def test_a_column_is_counted(data: st.DataObject) -> None:
    type = data.draw(st.sampled_from(list(VALUES)))
    values = data.draw(drawn_column(VALUES[type], 0, 200))
    known = profile_column(pa.chunked_array([pa.array(values, type)]), type).statistics
    counts = Counter(_same(value) for value in values if value is not None)
    assert known.distinct == len(counts)
    assert known.null_fraction == pytest.approx(values.count(None) / len(values) if values else 0)
    assert all(share == pytest.approx(counts[_same(value)] / len(values)) for value, share in known.common)
    if len(counts) <= 100:
        assert known.lists_all_values == bool(counts)
    ordered = sorted(value for value in counts if value != "NaN")
    if ordered:
        assert (known.low, known.high) == (ordered[0], ordered[-1])
    if known.histogram is not None:
        _check(known.histogram, {value: count for value, count in counts.items() if value != "NaN"})


def _check(histogram: EquiDepthHistogram, counts: dict[Any, int]) -> None:
    """Compares each bucket with its values."""
    bounds = histogram.bounds
    assert all(low < high for low, high in pairwise(bounds[1:]))
    assert bounds[0] <= bounds[1]
    for place, (low, high) in enumerate(pairwise(bounds)):
        inside = [v for v in counts if (low < v <= high) or (place == 0 and v == low)]
        assert histogram.rows[place] == sum(counts[value] for value in inside)
        assert histogram.distinct[place] == len(inside)
    assert sum(histogram.rows) == sum(counts.values())


def test_a_heavy_value_has_a_bucket_of_its_own() -> None:
    values = list(range(1000)) + [500] * 500 + [0] * 500
    histogram = profile_column(pa.chunked_array([pa.array(values)]), pa.int64()).statistics.histogram
    assert histogram is not None
    alone = {bound for bound, count in zip(histogram.bounds[1:], histogram.distinct, strict=True) if count == 1}
    assert {0, 500} <= alone
    assert len(histogram.rows) <= 64 + 4


def test_long_texts_are_cut() -> None:
    values = [letter * 1000 for letter in "abcdefghij"] * 2
    known = profile_column(pa.chunked_array([pa.array(values)]), pa.string()).statistics
    assert known.histogram is not None
    assert max(map(len, (known.low, known.high, *known.histogram.bounds))) <= 256
    assert known.common == ()
    assert known.width == 1000


# --- keys and dependencies


def _table(data: st.DataObject) -> tuple[int, dict[str, list[Any]]]:
    rows = data.draw(st.integers(0, 8))
    names = data.draw(st.integers(1, 4))
    return rows, {name: data.draw(st.lists(SMALL, min_size=rows, max_size=rows)) for name in "abcd"[:names]}


@given(st.data())
def test_discovered_keys_and_dependencies_are_exact(data: st.DataObject) -> None:
    rows, table = _table(data)
    columns = [
        (name, profile_column(pa.chunked_array([pa.array(v, pa.int64())]), pa.int64())) for name, v in table.items()
    ]

    def unique(names: tuple[str, ...]) -> bool:
        seen = list(zip(*(table[name] for name in names), strict=True))
        return len(set(seen)) == rows and not any(None in row for row in seen)

    expected: list[set[str]] = []
    if rows:
        for size in (1, 2, 3):
            if size == 3 and expected:
                break
            sized = [set(names) for names in combinations(table, size) if unique(names)]
            expected += [names for names in sized if not any(old < names for old in expected)]
    assert sorted(map(sorted, constraint_discovery.keys(columns, rows))) == sorted(map(sorted, expected))

    holds = set()
    for left, right in combinations(table, 2):
        for a, b in ((left, right), (right, left)):
            if len(set(zip(table[a], table[b], strict=True))) == len(set(table[a])):
                holds.add((a, b))
    claimed = set()
    for left_side, right_side in constraint_discovery.dependencies(columns, rows):
        for b in right_side:
            assert all((a, b) in holds for a in left_side or table if a != b)
            claimed |= {(a, b) for a in (left_side or table) if a != b}
    trivial = {(a, b) for a, b in holds if rows and len(set(table[a])) == rows}
    assert claimed | trivial >= holds if rows else not claimed


def test_a_late_violation_is_seen() -> None:
    """A sample can only refute a constraint. Constraints that it does not refute are checked on every row."""
    rows = 60_000
    a = np.arange(rows) % 1000
    b = a % 10
    b[-1] = 11
    k = np.arange(rows)
    k[-1] = 0
    columns = [
        (name, profile_column(pa.chunked_array([pa.array(values)]), pa.int64()))
        for name, values in (("a", a), ("b", b), ("k", k))
    ]
    assert constraint_discovery.dependencies(columns, rows) == ()
    assert constraint_discovery.keys(columns, rows) == ()
    b[-1] = a[-1] % 10
    columns[1] = ("b", profile_column(pa.chunked_array([pa.array(b)]), pa.int64()))
    assert constraint_discovery.dependencies(columns, rows) == ((("a",), ("b",)),)


def test_columns_that_increase_together() -> None:
    """Years increase with days, and so does a column with gaps. Months decrease once a year, and one row out of order
    is enough."""
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(800)]
    order = np.random.default_rng(1).permutation(800)
    table = {
        "day": [days[i] for i in order],
        "number": [int(i) for i in order],
        "year": [days[i].year for i in order],
        "gaps": [None if i % 3 else int(i) // 10 for i in order],
        "month": [days[i].month for i in order],
        "almost": [int(i) // 10 if i != 799 else 3 for i in order],
    }
    columns = [
        (name, profile_column(pa.chunked_array([array]), array.type))
        for name, v in table.items()
        for array in [pa.array(v)]
    ]
    assert constraint_discovery.order_dependencies(columns, 800) == (("day", ("number", "year", "gaps")),)
    assert constraint_discovery.order_dependencies(columns[:2], 5) == ()


def test_zeros_and_nans_are_single_values() -> None:
    """0.0 and -0.0 are equal under GROUP BY, so a column with both is not a key. NaN equals itself."""
    zeros = profile_column(pa.chunked_array([pa.array([0.0, -0.0])]), pa.float64())
    bits = pa.array([0x7FF8000000000000, 0x7FF8000000000001], pa.int64()).view(pa.float64())
    nans = profile_column(pa.chunked_array([bits]), pa.float64())
    assert (zeros.values, nans.values) == (1, 1)
    assert constraint_discovery.keys([("z", zeros), ("n", nans)], 2) == ()


# --- as JSON


@given(st.one_of(st.none(), *VALUES.values()))
def test_values_survive_json(value: Any) -> None:
    again = decoded_value(json.loads(json.dumps(encoded_value(value), allow_nan=False)))
    assert type(again) is type(value)
    assert repr(again) == repr(value) or again == value
    if isinstance(value, float) and value == 0.0:
        assert str(again) == str(value)


@given(st.data())
def test_statistics_survive_json(data: st.DataObject) -> None:
    share = st.floats(0, 1)
    type = data.draw(st.sampled_from([kind for kind in VALUES if kind != pa.float64()]))
    value = VALUES[type]
    bounds = sorted(data.draw(st.lists(value, min_size=2, max_size=4)))
    counts = tuple(data.draw(st.lists(st.floats(0, 1e12), min_size=len(bounds) - 1, max_size=len(bounds) - 1)))
    low, high = data.draw(st.just((None, None)) | st.just((bounds[0], bounds[-1])))
    known = ColumnStatistics(
        data.draw(st.none() | st.floats(0, 1e12)),
        data.draw(share),
        low,
        high,
        data.draw(st.none() | share),
        tuple(data.draw(st.lists(st.tuples(value, share), max_size=3))),
        data.draw(st.none() | st.just(EquiDepthHistogram(tuple(bounds), counts, counts))),
    )
    name = data.draw(st.text(max_size=8))
    path = name.replace("\0", "")
    stored = StoredStatistics(
        path,
        (FileFingerprint(f"_{path}", 1, 2), FileFingerprint("x", 3, None)),
        5,
        6,
        data.draw(st.booleans()),
        (StoredColumn(name, spark_name(type), known),),
        ((name,), ("a", "b")),
        (((), (name,)), (("a",), ("b", "c"))),
        ((name, ("a", "b")),),
    )
    assert decode(json.loads(json.dumps(encode(stored), ensure_ascii=False, allow_nan=False))) == stored


# --- a table on disk


def _write(path: Path, rows: int = 100, **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = list(range(rows))
    columns = {"id": numbers, "city": [f"c{i % 20}" for i in numbers], "region": [f"r{i % 5}" for i in numbers], **more}
    pq.write_table(pa.table(columns), path)


def _scan(folder: Path, query: str = "select * from t", catalog: Path | None = None, script: str | None = None) -> Scan:
    with Session(tables=folder, catalog=catalog) as session:
        source = Source("test.scope" if script else "<query>", script or query)
        bound = session.pipeline.bind_source(source, None, is_script=script is not None)
    return next(node for node in operators(bound.outputs[0].plan) if isinstance(node, Scan))


def _named(scan: Scan) -> tuple[set[frozenset[str]], set[tuple[str, str]]]:
    keys = {frozenset(column.name for column in key) for key in scan.keys}
    pairs = {(",".join(sorted(c.name for c in d.determinant)), b.name) for d in scan.dependencies for b in d.dependent}
    return keys, pairs


FOUND = ({frozenset({"id"})}, {("city", "region")})
NOTHING: tuple[set[Any], set[Any]] = (set(), set())


def test_stored_statistics_are_loaded_by_scans(tmp_path: Path) -> None:
    _write(tmp_path / "t.parquet")
    assert _named(_scan(tmp_path)) == NOTHING
    with Session() as session:
        (done,) = session.analyze(tmp_path / "t.parquet")
    assert done.stored_in == tmp_path / "_t.parquet.statistics.json"
    scan = _scan(tmp_path)
    assert _named(scan) == FOUND
    assert scan.statistics is not None
    known = {column.name: each for column, each in scan.statistics.columns}
    assert known["city"].distinct == 20
    assert len(known["city"].common) == 20
    assert known["id"].histogram is not None
    assert set(known) == {column.name for column in scan.columns}
    # Each use of a table has its own columns, and the facts refer to them.
    again = _scan(tmp_path, "select a.id from t a join t b on a.id = b.id")
    assert again.statistics is not None
    assert {column for column, _ in again.statistics.columns} == set(again.columns)
    assert all(key <= set(again.columns) for key in again.keys)
    assert files.data_files([str(tmp_path)])[0].path.endswith("t.parquet")
    assert len(files.data_files([str(tmp_path)])) == 1  # stored statistics are not data files


def test_facts_do_not_apply_to_changed_data(tmp_path: Path) -> None:
    """For other rows of the same size, the old key would give wrong results. The statistics are still useful."""
    _write(tmp_path / "t.parquet")
    with Session() as session:
        session.analyze(tmp_path / "t.parquet")
    before = os.stat(tmp_path / "t.parquet")
    _write(tmp_path / "t.parquet", rows=400, city=["x"] * 400)
    scan = _scan(tmp_path)
    assert _named(scan) == NOTHING
    assert scan.statistics is not None
    assert scan.statistics.rows == 400
    known = {column.name: each for column, each in scan.statistics.columns}
    assert known["id"].distinct == 400  # a key grows with the rows
    assert known["id"].high == 399
    assert known["region"].distinct == 5
    assert known["id"].histogram is not None
    assert known["id"].histogram.bounds[-1] == 399
    # Only the modification time shows that a file of the same size changed.
    _write(tmp_path / "t.parquet")
    os.utime(tmp_path / "t.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _named(_scan(tmp_path)) == FOUND
    os.utime(tmp_path / "t.parquet", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert _named(_scan(tmp_path)) == NOTHING


def test_folders(tmp_path: Path) -> None:
    """Facts of an analyzed folder hold for some of its files, but not after a file is added."""
    folder = tmp_path / "t.parquet"
    _write(folder / "day=2024-01-01" / "part-0.parquet")
    _write(folder / "day=2024-01-02" / "part-0.parquet", id=list(range(100, 200)))
    with Session() as session:
        (done,) = session.analyze(folder)
    assert done.stored_in == folder / "_unshuffle" / "_statistics.json"
    known = {column.name: column for column in done.statistics.columns}
    assert known["day"].type == "date"
    assert known["day"].statistics.common == (
        (datetime.date(2024, 1, 1), 0.5),
        (datetime.date(2024, 1, 2), 0.5),
    )
    assert _named(_scan(tmp_path))[0] == {frozenset({"id"})}
    day = (
        f'r = EXTRACT id:long, city:string FROM "{folder}?day=2024-01-02..2024-01-02" USING Parquet(); OUTPUT r TO "o";'
    )
    some = _scan(tmp_path, script=day)
    assert some.files.rows == 100
    assert some.statistics is not None
    assert some.statistics.rows == 100
    assert {c.name: s.low for c, s in some.statistics.columns}["id"] == 100
    assert frozenset({"id"}) in _named(some)[0]
    _write(folder / "day=2024-01-03" / "part-0.parquet")
    assert _named(_scan(tmp_path)) == NOTHING
    assert frozenset({"id"}) in _named(_scan(tmp_path, script=day))[0]


def test_declared_and_discovered_constraints_are_combined(tmp_path: Path) -> None:
    _write(tmp_path / "t.parquet", extra=[i // 7 % 2 for i in range(100)])
    with Session() as session:
        session.analyze(tmp_path / "t.parquet")
    script = f'r = EXTRACT id:long, city:string, extra:long FROM "{tmp_path}/t.parquet" USING Parquet() KEY (id, extra); OUTPUT r TO "o";'
    scan = _scan(tmp_path, script=script)
    keys, pairs = _named(scan)
    assert keys == {frozenset({"id"}), frozenset({"id", "extra"})}
    assert pairs == set()  # region is not read, so it has no facts
    # A declaration on a cast column refers to other values than the file's.
    cast = script.replace("id:long", "id:string")
    assert isinstance(_bound(tmp_path, cast), Project)


def _bound(folder: Path, script: str) -> Any:
    with Session(tables=folder) as session:
        return session.pipeline.bind_source(Source("test.scope", script), None, is_script=True).outputs[0].plan


def test_a_column_read_as_another_type_loses_its_facts(tmp_path: Path) -> None:
    _write(tmp_path / "t.parquet")
    with Session() as session:
        (done,) = session.analyze(tmp_path / "t.parquet")
    stored = json.loads(done.stored_in.read_text())
    stored["columns"][0]["type"] = "int"
    done.stored_in.write_text(json.dumps(stored))
    assert _named(_scan(tmp_path)) == (set(), {("city", "region")})


def test_a_catalog_folder(tmp_path: Path) -> None:
    data, catalog = tmp_path / "data", tmp_path / "catalog"
    _write(data / "t.parquet")
    with Session(catalog=catalog) as session:
        (done,) = session.analyze(data / "t.parquet")
    assert done.stored_in.parent == catalog
    assert [path.name for path in data.iterdir()] == ["t.parquet"]
    assert _named(_scan(data)) == NOTHING
    assert _named(_scan(data, catalog=catalog)) == FOUND


def test_folders_of_tables(tmp_path: Path) -> None:
    _write(tmp_path / "same" / "part-0.parquet")
    _write(tmp_path / "same" / "part-1.parquet")
    assert tables_at(str(tmp_path / "same")) == [str(tmp_path / "same")]
    _write(tmp_path / "tables" / "a.parquet")
    _write(tmp_path / "tables" / "b.parquet", more=[1] * 100)
    _write(tmp_path / "tables" / "_hidden.parquet")
    assert tables_at(str(tmp_path / "tables")) == [str(tmp_path / "tables" / f"{n}.parquet") for n in "ab"]
    _write(tmp_path / "one" / "t.parquet")
    assert tables_at(str(tmp_path / "one")) == [str(tmp_path / "one" / "t.parquet")]
    _write(tmp_path / "nested" / "t.parquet" / "part-0.parquet")
    assert tables_at(str(tmp_path / "nested")) == [str(tmp_path / "nested" / "t.parquet")]
    assert tables_at(str(tmp_path / "nested" / "t.parquet")) == [str(tmp_path / "nested" / "t.parquet")]


def test_types_of_all_kinds(tmp_path: Path) -> None:
    """Columns that cannot be counted are left out without an error. Columns that a file lacks are NULL there."""
    stamp = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "s": pa.array(["a", "b", None]).dictionary_encode(),
            "u": pa.array([2**64 - 1, 1, 1], pa.uint64()),
            "l": pa.array([[1], [], None]),
            "m": pa.array([{"x": 1}, None, None]),
            "t": pa.array([stamp, None, stamp], pa.timestamp("ms", tz="Europe/Oslo")),
            "n": pa.array([stamp] * 3, pa.timestamp("ns", tz="UTC")),
            "b": pa.array([b"\xff", b"", None]),
            "f": pa.array([float("nan"), -0.0, 0.0], pa.float32()),
            "empty": pa.nulls(3, pa.int32()),
            "late": pa.array([1, 2, 3], pa.int32()),
        }
    )
    pq.write_table(table, tmp_path / "part-0.parquet")
    pq.write_table(table.drop_columns(["late"]), tmp_path / "part-1.parquet")
    known = {column.name: column.statistics for column in analyze(str(tmp_path)).columns}
    assert set(known) == {"s", "u", "t", "b", "f", "empty", "late"}
    assert known["s"].distinct == 2
    assert known["u"].high == Decimal(2**64 - 1)
    assert known["t"].low == stamp
    assert known["f"].distinct == 2
    assert known["empty"].null_fraction == 1
    assert known["late"].null_fraction == 0.5
    assert load_again(tmp_path, analyze(str(tmp_path))) is not None


def load_again(folder: Path, stored: StoredStatistics) -> StoredStatistics | None:
    place = statistics_path(str(folder), None)
    assert place is not None
    save(stored, place)
    again = load(place)
    assert again is not None
    assert again.columns[0] == stored.columns[0]
    return again


def test_readers_of_what_a_folder_has_do_not_read_statistics(tmp_path: Path) -> None:
    """As `FOLDER/*` lists it, the folder with the statistics is read too, without hidden files."""
    _write(tmp_path / "t" / "part-0.parquet")
    with Session() as session:
        (done,) = session.analyze(tmp_path / "t")
    listed = [str(tmp_path / "t" / name) for name in ("part-0.parquet", "_unshuffle")]
    assert [file.path for file in data_files(listed)] == listed[:1]
    assert done.stored_in.parent == Path(listed[1])


def test_statistics_under_their_former_name(tmp_path: Path) -> None:
    """They are used, and move once they are written again."""
    folder = tmp_path / "t.parquet"
    _write(folder / "part-0.parquet")
    with Session() as session:
        (done,) = session.analyze(folder)
        former = done.stored_in.with_name("statistics.json")
        done.stored_in.rename(former)
        assert _named(_scan(tmp_path)) == FOUND
        session.analyze(folder)
    assert not former.exists()
    assert _named(_scan(tmp_path)) == FOUND


def test_files_of_different_types(tmp_path: Path) -> None:
    """The first file determines a column's type. A column with another type in another file is left out, with its
    facts."""
    _write(tmp_path / "part-0.parquet")
    _write(tmp_path / "part-1.parquet", city=list(range(100)), id=[f"{i}" for i in range(100)], region=["r"] * 100)
    pq.write_table(pa.table({"id": ["x"], "city": ["y"], "region": ["r"]}), tmp_path / "part-2.parquet")
    stored = analyze(str(tmp_path))
    assert {column.name for column in stored.columns} == {"city", "region"}


def test_dates_outside_pythons_range(tmp_path: Path) -> None:
    days = pa.array([-800_000, 0, 4_000_000], pa.int32()).cast(pa.date32())
    stamps = pa.array([-(2**60), 0, 2**60], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"d": days, "t": stamps}), tmp_path / "t.parquet")
    stored = analyze(str(tmp_path / "t.parquet"))
    assert [(c.statistics.distinct, c.statistics.low, c.statistics.histogram) for c in stored.columns] == [
        (3, None, None),
        (3, None, None),
    ]
    assert _scan(tmp_path).statistics is not None


def test_timestamps_far_off_do_not_wrap_around(tmp_path: Path) -> None:
    """In nanoseconds, years 1 and 586 are the same number."""
    years = [datetime.datetime(1, 1, 1), datetime.datetime(2000, 1, 1), datetime.datetime(9999, 12, 31)]
    pq.write_table(
        pa.table({"t": pa.array(years, pa.timestamp("us"))}),
        tmp_path / "t.parquet",
        use_deprecated_int96_timestamps=True,
    )
    (column,) = analyze(str(tmp_path / "t.parquet")).columns
    assert column.statistics.distinct == 3
    assert column.statistics.high == datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)


def test_large_data_is_sketched(tmp_path: Path) -> None:
    rows = 50_000
    _write(tmp_path / "t.parquet", rows, hole=[None if i % 4 == 0 else i % 7 for i in range(rows)])
    exact, sketched = analyze(str(tmp_path / "t.parquet")), analyze(str(tmp_path / "t.parquet"), exact_values=1000)
    assert not sketched.exact
    assert (sketched.keys, sketched.dependencies) == ((), ())
    for one, other in zip(exact.columns, sketched.columns, strict=True):
        assert other.statistics.distinct == pytest.approx(one.statistics.distinct, rel=0.06)
        assert other.statistics.null_fraction == one.statistics.null_fraction
        assert (other.statistics.low, other.statistics.high) == (one.statistics.low, one.statistics.high)


# --- footers


def test_distinct_values_are_estimated_from_footers(tmp_path: Path) -> None:
    """Estimates from value ranges and dictionary sizes are within a small factor. Without either there is no
    estimate."""
    random = np.random.default_rng(5)
    rows = 40_000
    columns = {
        "flag": [f"f{i}" for i in random.integers(0, 3, rows)],
        "town": [f"town {i}" for i in random.integers(0, 500, rows)],
        "name": [f"name {i:06d}" for i in range(rows)],
        "day": [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(i)) for i in random.integers(0, 300, rows)],
        "price": [float(i) for i in random.integers(0, 2000, rows)],
        "sorted": np.sort(random.integers(0, 2**50, rows)),
        "in_runs": np.repeat(np.arange(rows // 200), 200),
        "runs_again": np.tile(np.repeat(np.arange(20), 100), rows // 2000),
        "hash": random.integers(0, 2**60, rows),
    }
    truth = {name: len(set(np.asarray(values).tolist())) for name, values in columns.items()}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=10_000)
    contents = parquet_contents(files.data_files([str(tmp_path / "t.parquet")]))
    for name, known in contents.statistics:
        assert known.distinct is not None
        assert max(known.distinct / truth[name], truth[name] / known.distinct) < 2.5, name
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", use_dictionary=False, write_statistics=False)
    contents = parquet_contents(files.data_files([str(tmp_path / "t.parquet")]))
    assert {known.distinct for _, known in contents.statistics} == {None}


@pytest.mark.parametrize(
    ("values", "overlap"),
    [
        (list(range(40)), 1 / 4),
        ([value // 8 for value in range(40)], 1 / 4),  # values that go on in the next row group
        ([value * 7 % 40 for value in range(40)], 1.0),
        ([5] * 40, 1.0),
        ([None] * 40, 1.0),
        ([*range(20), *range(20)], 2 / 4),
    ],
)
def test_footers_tell_how_many_row_groups_have_similar_values(
    values: list[int | None], overlap: float, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"v": pa.array(values, pa.int64())}), tmp_path / "t.parquet", row_group_size=10)
    ((_, known),) = parquet_contents(files.data_files([str(tmp_path / "t.parquet")])).statistics
    assert known.overlap == pytest.approx(overlap)


def test_footers_are_the_same_in_turn_and_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(10):
        pq.write_table(pa.table({"a": list(range(i, 2 * i + 1))}), tmp_path / f"{i}.parquet")
    listed = files.data_files([str(tmp_path)])
    contents = []
    for slow in (0.0, 60.0):
        monkeypatch.setattr(parquet_files, "_SLOW_FOOTER", slow)
        parquet_files._cached_contents.cache_clear()
        contents.append(parquet_contents(listed))
    assert contents[0] == contents[1]
    assert contents[0].rows == 55


def test_footers_count_nulls_and_missing_columns(tmp_path: Path) -> None:
    _write(tmp_path / "a.parquet", hole=[None, 1] * 50, late=[1] * 100)
    _write(tmp_path / "b.parquet", hole=pa.nulls(100, pa.int64()))
    known = dict(parquet_contents(files.data_files([str(tmp_path)])).statistics)
    assert known["hole"].null_fraction == 0.75
    assert known["late"].null_fraction == 0.5
    assert (known["hole"].low, known["hole"].high) == (1, 1)
    assert known["city"].width == pytest.approx(3, abs=1)


def test_default_widths() -> None:
    assert default_width(None) == 16
    assert default_width(pa.decimal128(10, 2)) == 8
    assert default_width(pa.list_(pa.int32())) == 20
    assert default_width(pa.struct([("a", pa.int64()), ("b", pa.string())])) == 28


# --- the command


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["unshuffle", *arguments])
    try:
        cli.main()
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path / "a.parquet")
    _write(tmp_path / "b.parquet", more=[None] * 100)
    assert _run(monkeypatch, "analyze", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert "key id" in shown
    assert "city -> region" in shown
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("_")) == [
        "_a.parquet.statistics.json",
        "_b.parquet.statistics.json",
    ]
    assert _run(monkeypatch, "analyze", str(tmp_path), "--catalog", str(tmp_path / "c"), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["rows"] for each in printed] == [100, 100]
    assert printed[0]["columns"]["city"] == {"distinct": 20.0, "null_fraction": 0.0}
    assert printed[0]["keys"] == [["id"]]
    assert printed[0]["dependencies"] == [{"from": ["city"], "to": ["region"]}]
    assert Path(printed[0]["stored_in"]).parent == tmp_path / "c"


def test_data_that_cannot_be_analyzed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One message, exit code 2, nothing on standard output, and nothing written, not even for the valid data beside
    it."""
    (tmp_path / "good").mkdir()
    _write(tmp_path / "good" / "t.parquet")
    (tmp_path / "text.parquet").write_text("not Parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "good" / "t.parquet").read_bytes()[:-20])
    whole = bytearray((tmp_path / "good" / "t.parquet").read_bytes())
    whole[4:200] = b"\xff" * 196  # damages pages, which only reading the rows detects
    (tmp_path / "broken.parquet").write_bytes(whole)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    good = str(tmp_path / "good" / "t.parquet")
    cases = {
        ("analyze", good, str(tmp_path / "missing")): "there is no file or folder",
        ("analyze", good, str(tmp_path / "text.parquet")): "is not a Parquet file",
        ("analyze", good, str(tmp_path / "cut.parquet")): "is not a Parquet file",
        ("analyze", good, str(tmp_path / "broken.parquet")): "cannot be read",
        ("analyze", good, str(tmp_path / "empty")): "holds no files",
        ("analyze", good, "--catalog", str(tmp_path / "file" / "c")): "cannot be written",
    }
    for arguments, message in cases.items():
        assert _run(monkeypatch, *arguments) == 2, arguments
        printed = capsys.readouterr()
        assert message in printed.err, arguments
        assert "Traceback" not in printed.err
        assert printed.out == ""
        assert [path.name for path in (tmp_path / "good").iterdir()] == ["t.parquet"]


def test_data_that_changes_during_analyze(tmp_path: Path) -> None:
    _write(tmp_path / "t.parquet")

    def change(what: str, done: int, total: int) -> None:
        if done == total:
            _write(tmp_path / "t.parquet", rows=7)

    with pytest.raises(FileProblem, match="changed while"):
        analyze(str(tmp_path / "t.parquet"), change)
