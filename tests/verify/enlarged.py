"""Queries of the benchmarks over larger tables than there are, and a machine for their plans."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.described import with_scans

from unshuffle.algebra.logical import Scan, Script
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options

EIGHT = Options(machine=Machine(cores=8))


def enlarged(script: Script, by: int) -> Script:
    """The same script over tables of so many times the rows, so that its plan is a parallel one."""

    def change(scan: Scan) -> Scan:
        files = replace(scan.files, rows=(scan.files.rows or 1) * by, bytes=(scan.files.bytes or 1) * by)
        known = scan.statistics
        if known is not None:
            known = replace(known, rows=known.rows and known.rows * by, bytes=known.bytes and known.bytes * by)
        return replace(scan, files=files, statistics=known)

    return with_scans(script, change)
