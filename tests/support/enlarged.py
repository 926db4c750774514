"""Benchmark queries over enlarged tables, and a machine to plan them for."""

from __future__ import annotations

from dataclasses import replace

from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options
from unshuffle.plan.logical import Scan, Script
from unshuffle.target import Target
from workloads.described import with_scans

EIGHT = Options(Target(Machine(cores=8)))


def enlarged(script: Script, factor: int) -> Script:
    """The same script over tables with `factor` times the rows, so that its plan is parallel."""

    def change(scan: Scan) -> Scan:
        files = replace(scan.files, rows=(scan.files.rows or 1) * factor, bytes=(scan.files.bytes or 1) * factor)
        statistics = scan.statistics
        if statistics is not None:
            rows, size = statistics.rows, statistics.bytes
            statistics = replace(statistics, rows=rows and rows * factor, bytes=size and size * factor)
        return replace(scan, files=files, statistics=statistics)

    return with_scans(script, change)
