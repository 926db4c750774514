"""A few of the faults of tools/cluster_faults.py: a dead executor, lost shuffle files and broadcasts, a speculative task.

The user's code in the scripts fails in the first attempt of some tasks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.cluster_faults import SLICE

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
