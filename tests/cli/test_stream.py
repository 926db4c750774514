"""`unshuffle stream write | inspect | check | vacuum` from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle import cli
from unshuffle.sstream import open_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    monkeypatch.chdir(tmp_path)
    table = pa.table({"a": list(range(10)), "b": list("aabbccddee"), "c": [1] * 10})
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "q.sql").write_text("select b, count(*) as n from t where a < @most group by b")
    (tmp_path / "q.scope").write_text(
        "#DECLARE most int = 4;\nr = SELECT * FROM t WHERE a < @most;\nOUTPUT r TO 'r.csv';"
    )
    return tmp_path


def stream(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    # Spark resolves paths against the folder in which it was started, so a table needs an absolute path.
    arguments = [
        str(Path("t.parquet").resolve()) if i > 1 and word == "t.parquet" else word for i, word in enumerate(words)
    ]
    monkeypatch.setattr(sys, "argv", ["unshuffle", "stream", *arguments])
    with pytest.raises(SystemExit) as done:
        cli.main()
    return int(done.value.code or 0)


def test_a_stream_from_the_command_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = ["write", "x.ss", "t.parquet", "--range", "--clustered-by", "b desc,a", "--into", "3"]
    assert stream(monkeypatch, *write, "--key", "a", "--depends", "a -> b,c") == 0
    assert "version 1, 10 rows" in capsys.readouterr().out
    assert stream(monkeypatch, *write) == 2
    assert "exists already" in capsys.readouterr().err
    like = ["--reference", "x.ss", "--clustered-by", "b desc,a"]
    sub = ["write", "y.ss", "q.scope", "--tables", str(folder), "--param", "most=6", *like]
    assert stream(monkeypatch, *sub) == 0
    capsys.readouterr()

    assert stream(monkeypatch, "inspect", "y.ss") == 0
    shown = capsys.readouterr().out
    assert "clustered by  b desc, a  (range)" in shown
    assert f"like          {folder}/x.ss, version 1" in shown
    assert stream(monkeypatch, "inspect", "x.ss", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["version"], found["versions"], found["rows"], found["keys"]) == (1, [1], 10, [["a"]])
    assert sum(partition["rows"] for partition in found["partitions"]) == 10

    assert stream(monkeypatch, "check", "x.ss") == 0
    assert "the manifest is correct" in capsys.readouterr().out
    assert stream(monkeypatch, *write, "--overwrite") == 0
    assert stream(monkeypatch, "vacuum", "x.ss", "--older-than", "0") == 0
    assert "removed version 1" in capsys.readouterr().out

    victim = Path(open_stream("x.ss").paths[0])
    victim.write_bytes(victim.read_bytes()[:-1])
    assert stream(monkeypatch, "check", "x.ss") == 1
    assert victim.name in capsys.readouterr().err
    assert stream(monkeypatch, "check", "x.ss", "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["faults"][0]["file"].endswith(victim.name)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inspect", "nowhere.ss"], "is not a structured stream"),
        (["check", "t.parquet"], "is not a structured stream"),
        (["vacuum", "."], "is not a structured stream"),
        (["write", "x.ss", "nothing.parquet", "--clustered-by", "a"], "no table and no file"),
        (["write", "x.ss", "t.parquet"], "needs columns to be clustered by"),
        (["write", "x.ss", "t.parquet", "--clustered-by", "z"], "there is no column 'z'"),
        (["write", "x.ss", "t.parquet", "--clustered-by", "a", "--into", "0"], "between 1 and"),
        (["write", "x.ss", "t.parquet", "--clustered-by", "a", "--depends", "a"], "is not of the form"),
        (["write", "x.ss", "t.parquet", "--clustered-by", "a", "--key", "b", "--into", "2"], "KEY (b) does not hold"),
        (["write", "x.ss", "t.parquet", "--clustered-by", "a", "--reference", "t.parquet"], "not a structured stream"),
        (["write", "t.parquet", "q.sql", "--clustered-by", "n", "--tables", ".", "--param", "most=3"], "most"),
        (["write", "/proc/x.ss", "t.parquet", "--clustered-by", "a", "--into", "2"], ""),
    ],
)
def test_a_mistake_is_one_clear_message(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    before = sorted(folder.rglob("*"))
    assert stream(monkeypatch, *words) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("error:") == 1
    assert "Traceback" not in printed.err
    assert "java" not in printed.err.lower()
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == [path for path in before if path.is_file()]
