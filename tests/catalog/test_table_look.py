"""Looks at tables: all rows of a small one, a sample of a large one, and nothing of what cannot be read."""

import datetime
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unshuffle.catalog import files
from unshuffle.catalog.parquet_files import parquet_contents
from unshuffle.catalog.statistics.column_statistics import count_values, profile_column
from unshuffle.catalog.statistics.distinct_estimate import in_all_rows
from unshuffle.catalog.statistics.table_look import TableLook, look_at
from unshuffle.constants import LOOKS


def look(path: Path) -> TableLook:
    listed = files.data_files([str(path)])
    found = look_at(listed, parquet_contents(listed))
    assert found is not None
    return found


def written(folder: Path, table: pa.Table, name: str = "t.parquet", rows: int | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name, row_group_size=rows)
    return folder / name


def test_all_rows_of_a_small_table(tmp_path: Path) -> None:
    table = pa.table({"a": [3, None, 1, 3], "b": ["ä", "", None, "z"], "c": [0.0, -0.0, float("nan"), None]})
    found = look(written(tmp_path, table, rows=3))
    assert found.is_complete
    assert found.rows == 4
    assert found.column("a").to_pylist() == [3, None, 1, 3]
    known = found.statistics("a")
    assert known is not None
    assert (known.distinct, known.null_fraction, known.low, known.high) == (2, 0.25, 1, 3)
    assert known.common[0] == (3, 0.5)
    text, number = found.statistics("b"), found.statistics("c")
    assert text is not None
    assert number is not None
    assert (text.low, text.high, text.distinct) == ("", "ä", 3)
    assert number.distinct == 2
    assert number.low == number.high == 0.0


def test_files_of_a_folder_with_columns_that_some_lack(tmp_path: Path) -> None:
    written(tmp_path / "t" / "day=1", pa.table({"a": [1, 2], "b": ["x", "y"]}), "1.parquet")
    written(
        tmp_path / "t" / "day=2", pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())}), "2.parquet"
    )
    written(tmp_path / "t" / "day=3", pa.table({"a": [5]}), "3.parquet")
    found = look(tmp_path / "t")
    assert found.column("a").to_pylist() == [1, 2, 5]
    assert found.column("b").to_pylist() == ["x", "y", None]
    assert found.column("day").to_pylist() == [1, 1, 3]
    assert found.column("missing") is None


def test_a_sample_has_the_same_rows_in_every_column_and_each_time(tmp_path: Path) -> None:
    rows = LOOKS.complete_rows + 1
    random = np.random.default_rng(7)
    keys = pa.array(random.integers(0, 500, rows))
    table = pa.table({"a": pa.array(np.arange(rows)), "twice": pa.array(np.arange(rows) * 2), "key": keys})
    path = written(tmp_path, table, rows=20_000)
    found = look(path)
    assert not found.is_complete
    assert abs(found.rows - LOOKS.sampled_rows) < 100
    ours, theirs = found.column("a").to_numpy(), found.column("twice").to_numpy()
    assert (ours * 2 == theirs).all()
    listed = files.data_files([str(path)])
    again = TableLook(listed, parquet_contents(listed))
    assert again.column("a") == found.column("a")
    known = found.statistics("key")
    assert known is not None
    assert known.distinct == pytest.approx(500, rel=0.01)
    unique = found.statistics("a")
    assert unique is not None
    assert unique.distinct is None or unique.distinct > 0.3 * rows


def test_a_look_at_unchanged_files_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path, pa.table({"a": [1]}))
    before = look(path)
    assert look(path) is before
    written(tmp_path, pa.table({"a": [1, 2, 3]}))
    after = look(path)
    assert after is not before
    assert after.column("a").to_pylist() == [1, 2, 3]


def test_files_that_vanish_or_are_damaged_have_no_values(tmp_path: Path) -> None:
    path = written(tmp_path / "gone", pa.table({"a": [1]}))
    gone = look(path)
    path.unlink()
    assert gone.column("a") is None
    assert gone.statistics("a") is None
    path = written(tmp_path / "damaged", pa.table({"a": list(range(1000))}))
    damaged = look(path)
    content = bytearray(path.read_bytes())
    content[4:200] = b"\xff" * 196
    path.write_bytes(bytes(content))
    assert damaged.column("a") is None
    assert damaged.codes("a") is None


def test_values_are_forgotten_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [written(tmp_path, pa.table({"a": list(range(1000))}), f"{i}.parquet") for i in range(4)]
    first = look(paths[0])
    first.column("a")
    too_many = int(LOOKS.kept_bytes)
    first.bytes += too_many
    for path in paths[1:]:
        look(path).column("a")
    assert look(paths[0]) is not first
    assert first.column("a") is not None  # a plan that holds it can go on


def test_remote_and_too_many_files_are_not_looked_at(tmp_path: Path) -> None:
    path = written(tmp_path, pa.table({"a": [1]}))
    listed = files.data_files([str(path)])
    contents = parquet_contents(listed)
    assert look_at(listed * (LOOKS.files + 1), contents) is None
    remote = [files.DataFile("s3://bucket/t.parquet", 1, (), 1)]
    assert look_at(remote, contents) is None
    assert look_at([], contents) is None


VALUES = {
    pa.int32(): st.integers(-5, 5),
    pa.int64(): st.integers(-(2**62), 2**62),
    pa.string(): st.text(max_size=3),
    pa.float64(): st.sampled_from([0.0, -0.0, math.nan, math.inf, -1.5, 2.0]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
    pa.decimal128(9, 2): st.decimals(-100, 100, places=2),
}


@given(st.data())
def test_counted_values_are_those_of_analyze(data: st.DataObject) -> None:
    type = data.draw(st.sampled_from(list(VALUES)))
    values = pa.array(data.draw(st.lists(st.none() | VALUES[type], max_size=40)), type)
    found, counts = count_values(values, 1000)
    expected = profile_column(pa.chunked_array([values], type), type)
    assert str(found) == str(expected.statistics)
    assert sorted(counts) == sorted(np.bincount(expected.codes[expected.codes >= 0], minlength=expected.values))


@pytest.mark.parametrize("domain", [3, 100, 5000, 60_000])
def test_the_values_of_all_rows_from_a_sample(domain: int) -> None:
    random = np.random.default_rng(domain)
    population = 400_000
    rows = random.integers(0, domain, population)
    sample = random.choice(rows, 20_000, replace=False)
    counts = np.unique(sample, return_counts=True)[1]
    found = in_all_rows(len(counts), int((counts == 1).sum()), int((counts == 2).sum()), 20_000, population)
    assert found == pytest.approx(len(np.unique(rows)), rel=0.15)
