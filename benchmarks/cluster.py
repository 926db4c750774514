"""Plain Spark against unshuffle on a cluster whose network costs something: `python benchmarks/cluster.py [--rate RATE]...`.

A real Spark standalone cluster of a driver with the master and two workers of one core each, all on this machine, in network
namespaces with shaped links (benchmarks/shaped_cluster.py). Each rate has a cluster of its own. The queries:

    cpu_hours   the CPU-hours script on generated events
    Q3 ...      five queries of TPC-H, with primary keys declared
    q09 ...     three operator trees of super-operators: benchmarks/blitz

Plain Spark runs under its default settings, with 8 shuffle partitions. Our side runs as `unshuffle run` runs a query, for a
machine whose network is as fast as the links. Both sides run once before they are measured, and then alternate. A side's time
is the best of its runs, and ours includes binding, planning and lowering. The rows are computed and dropped; the rows of both
sides are compared once. Files are read from the local disk, so only exchanges, broadcasts and results cross the network.

`benchmarks/results/cluster.json` gets every number, `cluster.png` the figures. Needs root, and `ip` and `tc` of iproute2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from pyspark.sql import SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402

from benchmarks import super_operators  # noqa: E402
from benchmarks.execute import DATA, TODAY, cpu_hours_data, drawn, measured, query_sides, script_sides, show  # noqa: E402
from benchmarks.shaped_cluster import NETWORK, WORKERS, ClusterProblem, ShapedCluster  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle import Session  # noqa: E402
from unshuffle.cost.machine import VARIABLE  # noqa: E402
from workloads import tpch  # noqa: E402

RATES = {"1gbit": 1e9, "200mbit": 200e6}  # bits a second
TPCH = (3, 5, 9, 13, 18)
TREES = ("q05", "q09", "q16")
BITS = 8


def machine_of(rate: str, folder: Path) -> Path:
    """The description of the cluster's machine: each core has a link of its own."""
    described = folder / f"machine-{rate}.json"
    described.write_text(json.dumps({"machine": {"cores": WORKERS, "network_byte": BITS / RATES[rate]}}))
    return described


def connected() -> SparkSession:
    """The driver's Spark, inside of the cluster."""
    spark = (
        SparkSession.builder.master(os.environ["MASTER"])
        .appName("unshuffle-benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.executor.memory", "3g")
        .config("spark.driver.bindAddress", f"{NETWORK}.1")
        .config("spark.driver.host", f"{NETWORK}.1")
        .config("spark.sql.shuffle.partitions", "8")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def measure_here(chosen: argparse.Namespace, rate: str, console: Console) -> list[dict[str, Any]]:
    """All queries, in the cluster that this process is in."""
    spark = connected()
    found = []
    for name in chosen.query or (*TREES, "cpu_hours", *(f"Q{n}" for n in TPCH)):
        sides = _sides(spark, name, chosen)
        found.append({**measured(f"{name} {rate}", sides, spark, chosen.runs, console, warm=True), "rate": rate})
    return found


def _sides(spark: SparkSession, name: str, chosen: argparse.Namespace) -> Any:
    if name == "cpu_hours":
        params = {"data": str(DATA / f"cpu_hours-{chosen.processes}"), "out": str(DATA / "out"), "Today": TODAY}
        return script_sides(Session(spark), ROOT / "examples/cpu_hours/cpu_hours.scope", params, "run")
    if name.startswith("q"):
        params = {"data": str(DATA / f"blitz-{chosen.rows}" / "log.parquet"), "out": str(DATA / "out")}
        return script_sides(Session(spark), super_operators.SCRIPTS / f"{name}.scope", params, "run")
    folder = DATA / f"tpch-{chosen.scale:g}"
    session = Session(spark, tables=folder)
    for table, key in tpch.KEYS.items():
        session.declare_key(table, *key)
        spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    return query_sides(spark, session, tpch.queries()[int(name[1:])], ("run",))


def generate(chosen: argparse.Namespace, console: Console) -> None:
    """All data, before a cluster is there."""
    tpch.generate(DATA / f"tpch-{chosen.scale:g}", chosen.scale)
    super_operators.generate(DATA / f"blitz-{chosen.rows}", chosen.rows)
    cpu_hours_data(chosen.processes, console)


def gathered(chosen: argparse.Namespace, rate: str, folder: Path) -> list[dict[str, Any]]:
    """The results of this program in a cluster with links of this rate."""
    written = folder / f"{rate}.json"
    command = [sys.executable, __file__, *sys.argv[1:], "--inside", rate, "--into", str(written)]
    os.environ[VARIABLE] = str(machine_of(rate, folder))
    with ShapedCluster(rate) as cluster:
        code = cluster.run(command)
    if code:
        raise ClusterProblem(f"the benchmark in the cluster of {rate} ended with exit code {code}")
    return list(json.loads(written.read_text()))


def main() -> int:
    options = argparse.ArgumentParser(description="Plain Spark beside unshuffle on a cluster with shaped links.")
    options.add_argument("--rate", action="append", choices=RATES, help="of the links; may be repeated")
    options.add_argument("--query", action="append", help="cpu_hours, Q and a number, or a tree; may be repeated")
    options.add_argument("--runs", type=int, default=3, help="of each side of each query")
    options.add_argument("--scale", type=float, default=1.0, help="of the TPC-H data")
    options.add_argument("--rows", type=int, default=5_000_000, help="of the log of the trees")
    options.add_argument("--processes", type=int, default=2_000_000, help="of the CPU-hours data")
    options.add_argument("--inside", choices=RATES, help=argparse.SUPPRESS)
    options.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    if chosen.inside:
        chosen.into.write_text(json.dumps(measure_here(chosen, chosen.inside, console)))
        return 0
    generate(chosen, console)
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = {rate: gathered(chosen, rate, Path(folder)) for rate in chosen.rate or RATES}
    except ClusterProblem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: the cluster is taken down", file=sys.stderr)
        return 130
    show(found, console)
    benchmark_report.write("cluster", {"suites": found}, drawn, parts="suites")
    print(f"{time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
