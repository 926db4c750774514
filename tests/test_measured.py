"""README's table is what the benchmarks wrote, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import report
from tools import measured

ROOT = Path(__file__).parent.parent


def test_the_table_of_the_readme_is_of_the_results() -> None:
    text = (ROOT / "README.md").read_text()
    _, begun, rest = text.partition(measured.BEGIN)
    table, ended, _ = rest.partition(measured.END)
    assert begun
    assert ended
    assert table == measured.table()


def test_parts_that_are_measured_alone_leave_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    drawn = []
    for found in (
        {"a": [{"name": "x", "n": 1}, {"name": "y", "n": 1}], "b": [{"name": "z", "n": 1}]},
        {"a": [{"name": "x", "n": 2}]},
    ):
        report.write("some", {"suites": found}, lambda parts, _: drawn.append(parts), parts="suites")
    written = json.loads((tmp_path / "some.json").read_text())["suites"]
    assert {suite: {q["name"]: q["n"] for q in queries} for suite, queries in written.items()} == {
        "a": {"x": 2, "y": 1},
        "b": {"z": 1},
    }
    # On another machine, or with other versions, nothing is left.
    report.write("some", {"suites": {"b": [{"name": "z", "n": 3}]}}, lambda *_: None, parts="suites", spark="9")
    assert json.loads((tmp_path / "some.json").read_text())["suites"].keys() == {"b"}
