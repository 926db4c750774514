"""A few of the faults of tools/cluster_faults.py: a dead executor, lost shuffle files and broadcasts, a speculative task.

The user's code in the scripts fails in the first attempt of some tasks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faults.shapes import different, miscounted, stream_problems, unexpected, visits
from tests.support.storing import by, store
from tools.cluster_faults import SLICE
from unshuffle.sstream import LayoutRequest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]


def test_faults_do_not_change_rows_files_or_counts(quick_environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "cluster_faults.py"), "--slice"],
        capture_output=True,
        text=True,
        check=False,
        env={**quick_environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-4000:]
    assert ran.stdout.splitlines()[-1] == f"{len(SLICE)} runs; violations: 0"


def test_wrong_rows_files_and_counts_are_noticed(tmp_path: Path) -> None:
    rows = visits(20)
    expected = list(zip(*rows.to_pydict().values(), strict=True))
    path = tmp_path / "x.ss"
    store(path, rows, LayoutRequest(by("user"), partitions=2))
    assert stream_problems(path, expected) == []
    assert unexpected(tmp_path, {"x.ss"}) == []
    assert different(expected, expected[::-1], is_sorted=True)
    assert miscounted([20, 21], expected, expected)
    assert stream_problems(path, [*expected, expected[0]])
    (path / "p=0" / "part-of-another-attempt.parquet").touch()
    assert stream_problems(path, expected) == ["p=0/part-of-another-attempt.parquet is left over"]
    (tmp_path / "_temporary").mkdir()
    assert unexpected(tmp_path, {"x.ss"})
