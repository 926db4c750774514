"""`unshuffle explain` is a short command: most of its time is imports, so it imports only what a plan needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROGRAM = """
import gc, json, sys
from unshuffle.cli import main

before = [each["collections"] for each in gc.get_stats()]
try:
    main()
except SystemExit as exit:
    assert not exit.code
after = [each["collections"] for each in gc.get_stats()]
print(json.dumps({"modules": sorted(sys.modules), "collections": sum(after) - sum(before)}))
"""
# What runs queries, reads rows, prints tables or writes.
NOT_NEEDED = (
    "asyncio",
    "multiprocessing",
    "pandas",
    "py4j",
    "pyarrow.acero",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyspark",
    "rich",
    "sqlglot.executor",
    "sqlglot.lineage",
    "sqlglot.planner",
    "unittest",
    "unshuffle.catalog.constraints.constraint_discovery",
    "unshuffle.catalog.statistics.analyze",
    "unshuffle.catalog.statistics.distinct_sketch",
    "unshuffle.spark",
    "unshuffle.sstream",
)


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("cold")
    pq.write_table(pa.table({"a": [3, 1, 2], "b": ["x", None, "y"]}), folder / "t.parquet")
    script = folder / "s.scope"
    script.write_text(f'r = SELECT b, COUNT(*) AS n FROM t GROUP BY b; OUTPUT r TO "{folder}/r.csv";')
    command = [sys.executable, "-c", PROGRAM, "explain", str(script), "--tables", str(folder)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Aggregate" in printed
    measured: dict[str, object] = json.loads(printed.splitlines()[-1])
    return measured


def test_explain_imports_only_what_a_plan_needs(explained: dict[str, object]) -> None:
    modules = explained["modules"]
    assert isinstance(modules, list)
    assert "unshuffle.optimizer" in modules
    imported = [name for name in modules if any(name == each or name.startswith(f"{each}.") for each in NOT_NEEDED)]
    assert imported == []


def test_explain_does_not_collect_garbage(explained: dict[str, object]) -> None:
    assert explained["collections"] == 0


def test_what_is_not_needed_exists() -> None:
    """A module that was renamed would not be found among those that are imported."""
    ours = Path(__file__).parent.parent.parent / "src"
    for name in NOT_NEEDED:
        if name.startswith("unshuffle."):
            path = ours / name.replace(".", "/")
            assert path.is_dir() or path.with_suffix(".py").is_file(), name
