"""Kills executors, loses shuffle files and broadcasts, and slows tasks down, in each stage of our plans on a cluster.

    python tools/cluster_faults.py                            every fault in every stage of every shape
    python tools/cluster_faults.py --shape script             one shape
    python tools/cluster_faults.py --fault "executor dies"    one fault
    python tools/cluster_faults.py --quick                    one fault in each stage
    python tools/cluster_faults.py --slice                    a few chosen ones

The cluster has two executor processes. The rows must be those of plain Spark, written streams must pass `check`, and nothing
may be left over. The program ends with 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.support.faults.cluster import Cluster  # noqa: E402
from tests.support.faults.injection import FAULTS, Fault, run_under  # noqa: E402
from tests.support.faults.shapes import SHAPES, Shape, Shapes  # noqa: E402

SETTINGS = {
    "spark.sql.shuffle.partitions": "3",
    # To compile code in three processes takes longer than all that runs here.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.task.maxFailures": "8",
}
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xshare:auto"
ANY_STAGE = 10**6  # which no query has
# Shapes, stages and faults.
SLICE = (
    ("narrow merge and split", 2, "executor dies"),
    ("streams of a script", 6, "shuffle files lost"),
)


class Trials:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._begun = time.monotonic()
        self.done = self.violations = 0

    def all(self, shapes: Shapes, names: Sequence[str], kinds: Sequence[str], quick: bool) -> None:
        for shape in map(shapes.named, names):
            stages = self._stages_of(shape)
            for stage in range(stages):
                for kind in [kinds[self.done % len(kinds)]] if quick else kinds:
                    self._strike(shape, kind, stage, stages)

    def slice(self, shapes: Shapes) -> None:
        named = {name: shapes.named(name) for name, _, _ in SLICE}
        for name, stage, kind in SLICE:
            self._strike(named[name], kind, stage)

    def _stages_of(self, shape: Shape) -> int:
        """The stages of a shape, in a run without faults."""
        watching = Fault(self._cluster, ANY_STAGE)
        self._check(f"{shape.name}, no fault", shape, watching)
        for fallback in shape.fallbacks():
            self._tell(f"{shape.name} falls back to Spark: {fallback}")
            self.violations += 1
        return len(watching.stages)

    def _strike(self, shape: Shape, kind: str, stage: int, stages: int | None = None) -> None:
        self._cluster.wait_for_executors()
        fault = FAULTS[kind](self._cluster, stage)
        of = "" if stages is None else f" of {stages}"
        self._check(f"{shape.name}, stage {stage + 1}{of}, {kind}", shape, fault)
        if fault.struck is None:
            self._tell(f"the fault did not strike: {len(fault.stages)} stages ran")
            self.violations += 1

    def _check(self, name: str, shape: Shape, fault: Fault) -> None:
        began = time.monotonic()
        try:
            problems = shape.problems(run_under(fault, shape.run))
        except Exception as error:
            problems = [f"{type(error).__name__}: {str(error)[:2000]}"]
        self.done += 1
        self.violations += bool(problems)
        self._tell(f"{name}: {'; '.join(problems) or 'ok'} ({time.monotonic() - began:.1f} s)")

    def _tell(self, line: str) -> None:
        print(f"{time.monotonic() - self._begun:5.0f} s: {line}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs our plans on a cluster, under faults.")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="the shapes to run; all by default")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="the faults to try; all by default")
    parser.add_argument("--quick", action="store_true", help="one fault in each stage, each kind in turn")
    parser.add_argument("--slice", action="store_true", help="a few chosen faults")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unshuffle-faults-") as name:
        cluster = Cluster(Path(name) / "cluster", SETTINGS, JVM)
        try:
            trials = Trials(cluster)
            shapes = Shapes(cluster.spark, Path(name))
            if given.slice:
                trials.slice(shapes)
            else:
                trials.all(shapes, given.shape or SHAPES, given.fault or tuple(FAULTS), given.quick)
        finally:
            cluster.stop()
    print(f"{trials.done} runs; violations: {trials.violations}")
    return 1 if trials.violations else 0


if __name__ == "__main__":
    sys.exit(main())
