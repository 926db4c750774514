"""The tables of README.md and docs/benchmarks.md agree with the results of the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import benchmark_report, measured

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "table"), [("README.md", measured.short_table), ("docs/benchmarks.md", measured.full_table)]
)
def test_the_tables_are_made_from_the_results(page: str, table: Callable[[], str]) -> None:
    _, begin, rest = (ROOT / page).read_text().partition(measured.BEGIN)
    written, end, _ = rest.partition(measured.END)
    assert begin
    assert end
    assert written == table()


def test_every_row_of_the_readme_is_on_the_page_of_all_results() -> None:
    short, full = (table().splitlines() for table in (measured.short_table, measured.full_table))
    assert set(short) <= set(full)
    assert len(short) == 2 + 8


def test_benchmarks_write_where_the_tables_read() -> None:
    assert benchmark_report.RESULTS == measured.RESULTS


def test_measuring_some_parts_keeps_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_report, "RESULTS", tmp_path)
    drawn = []
    for found in (
        {"a": [{"name": "x", "n": 1}, {"name": "y", "n": 1}], "b": [{"name": "z", "n": 1}]},
        {"a": [{"name": "x", "n": 2}]},
    ):
        benchmark_report.write("some", {"suites": found}, lambda parts, _: drawn.append(parts), parts="suites")
    written = json.loads((tmp_path / "some.json").read_text())["suites"]
    assert {suite: {q["name"]: q["n"] for q in queries} for suite, queries in written.items()} == {
        "a": {"x": 2, "y": 1},
        "b": {"z": 1},
    }
    # On another machine, or with other versions, earlier results are dropped.
    benchmark_report.write(
        "some", {"suites": {"b": [{"name": "z", "n": 3}]}}, lambda *_: None, parts="suites", spark="9"
    )
    assert json.loads((tmp_path / "some.json").read_text())["suites"].keys() == {"b"}
