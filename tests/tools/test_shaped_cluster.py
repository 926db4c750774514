"""The cluster of the benchmarks: two workers behind links of a known speed, and nothing left of it afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.shaped_cluster import ClusterProblem, ShapedCluster

ROOT = Path(__file__).resolve().parents[2]
CAN_BE_MADE = os.geteuid() == 0 and all(map(shutil.which, ("ip", "tc")))
USED = """
import sys, time
from benchmarks.shaped_cluster import ShapedCluster
with ShapedCluster("200mbit") as cluster:
    print("up", flush=True)
    time.sleep(100)
"""

pytestmark = pytest.mark.spark


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    """A program that has such a cluster."""
    used = subprocess.Popen([sys.executable, "-c", USED], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    yield used
    used.kill()
    used.wait()


def named(prefix: str) -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if line.startswith(prefix)]


@pytest.mark.skipif(not CAN_BE_MADE, reason="network namespaces need root, ip and tc")
def test_a_program_that_is_ended_leaves_nothing(program: subprocess.Popen[str]) -> None:
    assert program.stdout is not None
    assert program.stdout.readline() == "up\n"
    namespaces = named(f"unshuffle-{program.pid}-")
    assert len(namespaces) == 4
    inside = [
        int(process)
        for each in namespaces
        for process in subprocess.run(
            ["ip", "netns", "pids", each.split()[0]], capture_output=True, text=True, check=True
        ).stdout.split()
    ]
    assert len(inside) >= 3  # a master and two workers
    shape = ["ip", "netns", "exec", f"unshuffle-{program.pid}-2", "tc", "qdisc", "show", "dev", "e0"]
    assert "rate 200Mbit" in subprocess.run(shape, capture_output=True, text=True, check=True).stdout

    program.send_signal(signal.SIGTERM)
    program.wait(timeout=60)
    assert program.returncode != 0
    assert named(f"unshuffle-{program.pid}-") == []
    assert not any(Path(f"/proc/{process}").exists() for process in inside)


def test_a_rate_that_tc_does_not_know_is_told_and_leaves_nothing() -> None:
    before = named("unshuffle-") if CAN_BE_MADE else []
    with pytest.raises(ClusterProblem), ShapedCluster("fast"):
        raise AssertionError("it was made")
    assert not CAN_BE_MADE or named("unshuffle-") == before
