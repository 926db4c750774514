"""Statistics and results of checks that an enemy wrote are refused with one message, or read as what they say."""

from __future__ import annotations

import itertools
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile_json import changed, is_same
from unshuffle.catalog.constraints.check_results import _decoded, _encoded
from unshuffle.catalog.json_files import MAX_BYTES
from unshuffle.catalog.statistics.persistence import is_usable, load
from unshuffle.catalog.statistics.statistics_json import encode
from unshuffle.errors import FileProblem, UserError
from unshuffle.session import Session

ROWS = 40
_TIMES = itertools.count(1)
QUERY = "select b, count(*) as n, min(a) as m from t where a > 3 and b < 'b2' group by b order by n"
TABLE = pa.table(
    {
        "a": list(range(ROWS)),
        "b": [f"b{i % 3}" for i in range(ROWS)],
        "c": [None if i % 7 == 0 else i / 4 for i in range(ROWS)],
    }
)


def _analyzed(folder: Path) -> Path:
    """The file with the statistics of a small table."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(TABLE, folder / "t.parquet")
    with Session(tables=folder) as session:
        session.declare_key("t", "a")
        (done,) = session.analyze(folder / "t.parquet")
    return done.stored_in


def _explained(folder: Path) -> str:
    with Session(tables=folder) as session:
        return session.explain(QUERY)


@pytest.fixture(scope="module")
def analyzed() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = _analyzed(Path(folder))
        yield path, json.loads(path.read_bytes())


@given(st.data())
def test_changed_statistics_are_refused_or_read_as_they_are(analyzed: Any, data: st.DataObject) -> None:
    path, content = analyzed
    hostile = data.draw(changed(content), "statistics")
    path.write_text(json.dumps(hostile))
    os.utime(path, ns=(0, next(_TIMES)))  # an unchanged file is not read again
    try:
        read = load(path)
    except FileProblem:
        with pytest.raises(FileProblem) as refused:
            _explained(path.parent)
        assert str(path) in str(refused.value)
        assert refused.value.hint
        assert len(str(refused.value)) < 1000
        return
    assert read is not None
    assert is_same(encode(read), hostile)
    assert "Scan" in _explained(path.parent)


@given(st.data())
def test_changed_checks_are_refused_or_read_as_they_are(data: st.DataObject) -> None:
    files = [{"path": "x", "size": 1, "modified": 2}, {"path": "y", "size": 1, "modified": None}]
    checks = [
        {"key": ["a"], "read": "Parquet: a", "files": 0},
        {"from": ["a"], "to": ["b"], "read": "Parquet", "files": 0},
    ]
    content = {"format": "unshuffle checks", "version": 1, "path": "/data", "checks": checks, "files": [files]}
    hostile = data.draw(changed(content))
    try:
        read = _decoded(hostile)
    except ValueError:
        return
    again = _encoded(hostile["path"], read)
    if len(hostile["files"]) == 1 and read:
        assert is_same(again, hostile)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"\x00",
        b"\xff",
        b'{"format": "unshuffle statistics", "version": 99}',
        b'{"format": "unshuffle statistics", "version": true}',
        b"[" * 100_000,
        b'{"format": "unshuffle statistics", "version": NaN}',
        b" " * (MAX_BYTES + 1),
    ],
    ids=lambda text: repr(text[:50]),
)
def test_texts_that_are_no_statistics(tmp_path: Path, text: bytes) -> None:
    path = _analyzed(tmp_path)
    for each in (path, path.with_name("_t.parquet.checks.json")):
        before = each.read_bytes()
        each.write_bytes(text)
        with Session(tables=tmp_path) as session, pytest.raises(FileProblem, match="cannot be used") as refused:
            session.declare_key("t", "c", "b")
        assert str(each) in str(refused.value)
        assert refused.value.hint
        each.write_bytes(before)


@pytest.mark.parametrize(
    ("column", "change"),
    [
        (0, {"low": "x"}),
        (0, {"low": 2**63}),
        (0, {"low": 7, "high": 3}),
        (0, {"distinct": -1}),
        (0, {"distinct": 1e300}),
        (0, {"null_fraction": 1.5}),
        (0, {"width": -8}),
        (0, {"common": [[1, 2.0]]}),
        (0, {"histogram": {"bounds": [3, 2, 1], "rows": [1, 1], "distinct": [1, 1]}}),
        (0, {"histogram": {"bounds": [1, 2], "rows": [], "distinct": [1]}}),
        (0, {"histogram": {"bounds": list(range(20_000)), "rows": [1] * 19_999, "distinct": [1] * 19_999}}),
        (1, {"low": 5, "high": 6}),
        (2, {"low": {"decimal": "1E+999999999"}}),
    ],
)
def test_numbers_that_cannot_be(tmp_path: Path, column: int, change: dict[str, Any]) -> None:
    path = _analyzed(tmp_path)
    content = json.loads(path.read_bytes())
    content["columns"][column] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(FileProblem, match="cannot be used"):
        _explained(tmp_path)


def test_a_pipe_or_device_instead_of_statistics_is_no_file(tmp_path: Path) -> None:
    path = _analyzed(tmp_path)
    path.unlink()
    os.mkfifo(path)
    assert "Scan" in _explained(tmp_path)
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "Scan" in _explained(tmp_path)


@pytest.mark.spark
def test_lies_about_numbers_cost_no_rows(tmp_path: Path, spark: Any) -> None:
    """Statistics that are possible and false. Only keys and dependencies are facts, and these are left as they are."""
    path = _analyzed(tmp_path)
    content = json.loads(path.read_bytes())
    for column in content["columns"]:
        column |= {"distinct": 1.0, "null_fraction": 1.0, "common": []}
        column["high"] = column["low"]
        column.pop("histogram", None)
    content["keys"], content["dependencies"] = [], []
    path.write_text(json.dumps(content))
    spark.read.parquet(str(tmp_path / "t.parquet")).createOrReplaceTempView("lied_about")
    with Session(spark, tables=tmp_path, effort="full") as session:
        for query in (
            "select x.b, count(*) as n, count(y.c) as m from {} x join {} y on x.a = y.a where y.c > 2 group by x.b",
            "select count(*) from {} where c is null or a > 38",
        ):
            ours = session.sql(query.replace("{}", "t")).collect()
            theirs = spark.sql(query.replace("{}", "lied_about")).collect()
            assert sorted(map(str, ours)) == sorted(map(str, theirs))


# --- whose file it is, and who may read it


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to someone else")
@pytest.mark.parametrize("in_folder", [False, True])
def test_a_strangers_file_in_a_folder_like_tmp_is_ignored(tmp_path: Path, in_folder: bool) -> None:
    """There, a stranger can add a file beside the data and cannot change the data."""
    data = tmp_path / "t.parquet"
    path = _analyzed(data if in_folder else tmp_path)
    content = json.loads(path.read_bytes())
    content["keys"] = [["b"]]  # false
    path.write_text(json.dumps(content))
    found = load(path)
    assert found is not None
    assert found.keys == (("b",),)
    shared = data if in_folder else tmp_path
    for owner, mode, believed in ((0, 0o1777, True), (12345, 0o1777, False), (12345, 0o777, True)):
        shared.chmod(mode)
        os.chown(path, owner, owner)
        assert is_usable(path) is believed


def test_statistics_are_as_private_as_the_data(tmp_path: Path) -> None:
    """They have values of the data in them."""
    pq.write_table(TABLE, tmp_path / "t.parquet")
    for mode in (0o600, 0o640, 0o644):
        (tmp_path / "t.parquet").chmod(mode)
        with Session() as session:
            (done,) = session.analyze(tmp_path / "t.parquet")
        assert stat.S_IMODE(done.stored_in.stat().st_mode) == mode
    folder = tmp_path / "folder.parquet"
    folder.mkdir()
    for name, mode in (("a", 0o644), ("b", 0o600)):
        pq.write_table(TABLE, folder / f"{name}.parquet")
        (folder / f"{name}.parquet").chmod(mode)
    with Session() as session:
        (done,) = session.analyze(folder)
    assert stat.S_IMODE(done.stored_in.stat().st_mode) == 0o600
    assert not [each for each in folder.rglob("*") if each.name.startswith(".")]


def test_statistics_too_large_to_be_read_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unshuffle.catalog.statistics.persistence.MAX_BYTES", 100)
    with pytest.raises(UserError, match="more than"):
        _analyzed(tmp_path)
