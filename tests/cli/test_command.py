"""The `unshuffle` command on a real Spark: runs, outputs, JSON, and what remains after a job that fails."""

from __future__ import annotations

import csv
import datetime
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from examples.cpu_hours import check, generate
from unshuffle import Session, cli

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parent.parent.parent
MEASURED = {"seconds", "exchanges", "shuffle_bytes", "spill_bytes", "task_seconds", "rows", "peak_memory_bytes"}


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Runs the command in this process, on the tests' Spark: (exit code, standard output, standard error)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["unshuffle", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            cli.main()
        printed = capsys.readouterr()
        return int(exit.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events") / "data"
    generate.generate(folder, processes=3000, days=5, duplicates=0.15, end_date=datetime.date(2025, 6, 30), seed=7)
    return folder


def cpu_hours(events: Path, out: Path) -> list[object]:
    script = ROOT / "examples/cpu_hours/cpu_hours.scope"
    return [script, "--param", f"data={events}", "--param", f"out={out}", "--param", "Today=2025-06-30"]


def read_csv(folder: Path) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for part in sorted(folder.glob("part-*")):
        with open(part, encoding="utf-8", newline="") as lines:
            rows += csv.DictReader(lines)
    return rows


def test_cpu_hours_equals_an_independent_query(command, spark: SparkSession, events: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = command("run", *cpu_hours(events, tmp_path))
    assert code == 0
    assert "cpu_hours.csv" in out
    expected = check.expected(spark, events, datetime.date(2025, 6, 30))
    assert check.differences(expected, check.written(tmp_path / "cpu_hours.csv")) == []
    assert len(expected) > 5
    groups = [row["user_group"] for row in read_csv(tmp_path / "cpu_hours.csv")]
    assert groups == sorted(groups)


def test_json_fields_of_run_and_compare(command, events: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = command("run", *cpu_hours(events, tmp_path), "--json", "--report", tmp_path / "report.html")
    measured = json.loads(out)
    assert code == 0
    assert measured.keys() == MEASURED | {"replanned"}
    assert len(measured["seconds"]) == 1
    assert measured["rows"] == len(read_csv(tmp_path / "cpu_hours.csv"))
    assert "GroupBy" in (tmp_path / "report.html").read_text()
    code, out, _ = command("compare", *cpu_hours(events, tmp_path / "none"), "--runs", 2, "--json")
    compared = json.loads(out)
    assert code == 0
    assert compared.keys() == {"baseline", "optimized", "speedup", "same_rows", "replanned"}
    assert compared["baseline"].keys() == MEASURED
    assert compared["optimized"].keys() == MEASURED | {"optimize_ms"}
    assert len(compared["baseline"]["seconds"]) == len(compared["optimized"]["seconds"]) == 2
    assert compared["same_rows"] is True
    assert compared["baseline"]["shuffle_bytes"] > 0
    assert compared["optimized"]["shuffle_bytes"] < compared["baseline"]["shuffle_bytes"]
    assert not (tmp_path / "none").exists()


def test_a_sql_file_prints_its_rows(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pq.write_table(pa.table({"a": [3, 1, 2], "b": ["x", None, "[bold]"]}), tmp_path / "t.parquet")
    (tmp_path / "q.sql").write_text("select a, b from t order by a; select count(*) as n from t;")
    code, out, _ = command("run", tmp_path / "q.sql", "--tables", tmp_path)
    assert code == 0
    assert [line.split("│")[0].strip() for line in out.splitlines()[2:5]] == ["1", "2", "3"]
    assert "NULL" in out
    assert "[bold]" in out


def test_explain_needs_no_jvm(events: Path) -> None:
    """The plan of a script over Parquet files comes from their footers, without a JVM or pyspark."""
    program = (
        "import sys; from unshuffle.session import Session; "
        "print(Session().explain(sys.argv[1], {'data': sys.argv[2], 'Today': '2025-06-30'}, format='json')); "
        "assert 'pyspark' not in sys.modules"
    )
    script = str(ROOT / "examples/cpu_hours/cpu_hours.scope")
    result = subprocess.run(
        [sys.executable, "-c", program, script, str(events)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    explained = json.loads(result.stdout)
    assert explained.keys() >= {"plan", "cost", "optimize_ms", "exchanges", "avoided", "super_operators", "fallbacks"}
    assert explained["plan"]["children"][0]["operator"] == "Output"


def test_a_failing_job_writes_nothing(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pq.write_table(pa.table({"a": list(range(1000)), "b": [1] * 999 + [0]}), tmp_path / "t.parquet")
    old = tmp_path / "old.csv"
    old.mkdir()
    (old / "part-0").write_text("precious")
    script = tmp_path / "fails.scope"
    script.write_text(
        f"good = SELECT a FROM t; bad = SELECT a / b AS c FROM t;\n"
        f'OUTPUT good TO "{tmp_path}/good.csv"; OUTPUT good TO "{old}" OVERWRITE; OUTPUT bad TO "{tmp_path}/bad.parquet";'
    )
    (tmp_path / "tables").mkdir()
    (tmp_path / "t.parquet").rename(tmp_path / "tables/t.parquet")
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    code, out, err = command("run", script, "--tables", tmp_path / "tables")
    assert code == 2
    assert out == ""
    assert "DIVIDE_BY_ZERO" in err
    assert "Traceback" not in err
    assert "\tat org.apache" not in err
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before
    assert (old / "part-0").read_text() == "precious"


def test_a_class_that_returns_another_schema(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "wrong.py").write_text(
        "from unshuffle.operators import Processor\n"
        "class Wrong(Processor):\n"
        "    def process_row(self, row):\n"
        "        yield {'a': 'text'}\n"
    )
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    script = tmp_path / "wrong.scope"
    script.write_text(f'p = PROCESS t PRODUCE a:int\n    USING wrong.Wrong(); OUTPUT p TO "{tmp_path}/out";')
    code, out, err = command("run", script, "--tables", tmp_path)
    assert code == 2
    assert out == ""
    assert f"{script}:2:11:" in err
    assert "wrong.Wrong" in err
    assert "PRODUCE says int" in err
    assert "^^^^^^^^^^^^^" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["ngrams", "sessions", "interleave", "logs"])
def test_examples(command, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(ROOT)
    code, _, _ = command("run", f"examples/{name}/{name}.scope", "--param", f"out={tmp_path}")
    assert code == 0
    written = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert written
    assert all(any(part.stat().st_size for part in path.glob("part-*")) for path in written)


def test_the_ngrams_are_correct(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    lines = tmp_path / "lines.txt"
    lines.write_text("a b c d e\nb c d e\n\nshort one\n")
    script = ROOT / "examples/ngrams/ngrams.scope"
    code, _, _ = command("run", script, "--param", f"text={lines}", "--param", f"out={tmp_path}")
    assert code == 0
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    text = "".join(part.read_text() for part in sorted(folder.glob("part-*")))
    assert "b c d e" in text
    assert "2" in text.split("b c d e")[1].splitlines()[0]


def test_the_callers_settings_do_not_change(spark: SparkSession, events: Path, tmp_path: Path) -> None:
    before = dict(spark.sparkContext.getConf().getAll()), spark.conf.getAll
    session = Session(spark, effort="full")
    session.run(
        ROOT / "examples/cpu_hours/cpu_hours.scope", {"data": str(events), "out": str(tmp_path), "Today": "2025-06-30"}
    )
    session.close()
    assert (dict(spark.sparkContext.getConf().getAll()), spark.conf.getAll) == before
    assert spark.range(1).count() == 1


def test_standard_output_is_only_json(tmp_path: Path, quick_environment: dict[str, str]) -> None:
    """In its own process, as a tool would call it: an embedded Spark starts, runs and stops."""
    pq.write_table(pa.table({"a": [1, 2, 2]}), tmp_path / "t.parquet")
    (tmp_path / "q.sql").write_text("select a, count(*) as n from t group by a")
    arguments = ["run", str(tmp_path / "q.sql"), "--tables", str(tmp_path), "--json"]
    unshuffle = Path(sys.executable).parent / "unshuffle"
    result = subprocess.run([str(unshuffle), *arguments], capture_output=True, text=True, env=quick_environment)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == 2
    assert result.stderr == ""
