"""Lets every file-system operation of every shape of write fail, or the process die at it, and checks what readers then see.

    python tools/crash_points.py                      everything: streams without Spark, scripts with Spark, real kills
    python tools/crash_points.py --part streams       one part
    python tools/crash_points.py --step 5             every fifth operation
    python tools/crash_points.py --part scripts --shape stream

Streams without Spark are written by processes that get a real SIGKILL. A Spark that is killed takes seconds to start again,
so at the points of scripts the crash is simulated (tests/support/crash/script_points.py), and real processes, Python's and
Spark's, are killed at some of the same points (--kills). The program ends with 1 if something did not hold.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.support.crash.points import Broken, Point, local_points  # noqa: E402
from tests.support.crash.stream_shapes import SHAPES as STREAMS  # noqa: E402
from tests.support.crash.stream_shapes import VacuumShape  # noqa: E402

PARTS = ("streams", "scripts", "kills")
SECONDS_BETWEEN_LINES = 5
RAM_DISK = Path("/dev/shm")
KILLED_SHAPES = ("three outputs, two replaced", "stream and file, both replaced")


class Report:
    """Counts points, and prints how far it is."""

    def __init__(self) -> None:
        self._begun = self._told = time.monotonic()
        self._numbers: dict[str, set[str]] = {}
        self._faults: dict[str, Counter[str]] = {}
        self._held: Counter[str] = Counter()
        self.broken = 0

    def take(self, part: str, points: Iterable[Point]) -> None:
        for point in points:
            name = f"{part}: {point.shape}"
            side = point.operation.partition(":")[0] if part != "streams" else ""
            self._numbers.setdefault(name, set()).add(f"{side} {point.number}")
            self._faults.setdefault(name, Counter())[point.fault] += 1
            self._held[name] += point.problem is None
            if point.problem is not None:
                self.broken += 1
                print(f"DID NOT HOLD  {part}: {point}", flush=True)
            if time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
                self._told = time.monotonic()
                done = sum(faults.total() for faults in self._faults.values())
                print(f"{self._told - self._begun:5.0f} s: {done:,} points, now {name}", flush=True)

    def table(self) -> str:
        lines = [f"{'shape':52} {'operations':>10} {'points':>7} {'held':>7}  faults"]
        for name, faults in self._faults.items():
            counts = ", ".join(f"{fault} {count}" for fault, count in sorted(faults.items()))
            held, operations = self._held[name], len(self._numbers[name])
            lines.append(f"{name:52} {operations:>10,} {faults.total():>7,} {held:>7,}  {counts}")
        points = sum(faults.total() for faults in self._faults.values())
        operations = sum(map(len, self._numbers.values()))
        lines.append(f"{'all':52} {operations:>10,} {points:>7,} {self._held.total():>7,}")
        return "\n".join(lines)


def streams(folder: Path, step: int) -> Iterator[Point]:
    for shape in (*STREAMS, VacuumShape()):
        yield from local_points(shape, folder, step)


def scripts(folder: Path, step: int, names: Sequence[str]) -> Iterator[Point]:
    """Of the shapes whose names begin like this."""
    from tests.support.crash.script_points import script_points
    from tests.support.crash.script_shapes import SHAPES

    shapes = [shape for shape in SHAPES if shape.name.startswith(tuple(names))]
    yield from script_points(_spark(folder), shapes, folder / "scripts", step)


def _spark(folder: Path):  # type: ignore[no-untyped-def]  # pyspark is imported where it is needed
    from tests.conftest import LEAN
    from tools.hunt import start

    spark = start(folder)
    for name, value in LEAN.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark


# --- real kills


def kills(folder: Path, count: int) -> Iterator[Point]:
    """Kills real Sparks while they put outputs in place. Afterwards this process finds what they left."""
    from tests.support.crash.hadoop_faults import faulty_file_system
    from tests.support.crash.script_points import ScriptPoints, moves
    from tests.support.crash.script_shapes import SHAPES

    spark = _spark(folder)
    with faulty_file_system(spark) as faults:
        for shape in [shape for shape in SHAPES if shape.name in KILLED_SHAPES]:
            points = ScriptPoints(spark, faults, shape, folder / "kills")
            with points.prepared() as prepared:
                found = moves(points.operations(prepared))
                for operation in found[:: max(1, len(found) // count)][:count]:
                    point = Point(shape.name, f"Spark, commit: {operation.text}", operation.number, "SIGKILL")
                    problem = points.problem_after(prepared, partial(_kill, points.work, operation.number))
                    yield point if problem is None else replace(point, problem=problem)


def _kill(work: Path, number: int) -> None:
    """Runs the script in a process of its own, with its own Spark, and both are killed at an operation."""
    command = [sys.executable, __file__, "--child", str(work), str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != -signal.SIGKILL:
        raise Broken(f"the process was not killed, and exited with {done.returncode}: {done.stderr[-300:]}")


def child(work: Path, number: int) -> None:
    """Runs a script, and is killed at an operation."""
    from tests.support.crash.hadoop_faults import faulty_file_system
    from tests.support.crash.script_points import written

    spark = _spark(Path(tempfile.mkdtemp(dir=work.parent)))
    with faulty_file_system(spark) as faults:
        faults.kill_too(os.getpid())
        written(spark, faults, work, number, "kill")


def main() -> int:
    parser = argparse.ArgumentParser(description="Lets every file-system operation of every shape of write fail.")
    parser.add_argument("--part", choices=PARTS, action="append", help="streams, scripts or kills; all by default")
    parser.add_argument("--step", type=int, default=1, help="try every Nth operation")
    parser.add_argument("--shape", action="append", help="shapes of scripts whose names begin so; all by default")
    parser.add_argument("--kills", type=int, default=6, help="real kills of each of two scripts")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(Path(given.child[0]), int(given.child[1]))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="unshuffle-", dir=RAM_DISK if RAM_DISK.is_dir() else None))
    report = Report()
    try:
        for part in given.part or PARTS:
            if part == "streams":
                report.take(part, streams(folder / "streams", given.step))
            elif part == "scripts":
                report.take(part, scripts(folder, given.step, given.shape or ("",)))
            else:
                report.take(part, kills(folder, given.kills))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(report.table())
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
