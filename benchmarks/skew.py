"""Joins on a key with heavy values: `python benchmarks/skew.py [--query NAME]... [--rows N] [--runs N]`.

    inner       events with 60 % of their rows at one device, joined with the devices
    left        events of which 60 % have no device (NULL), LEFT JOIN the devices
    two         events with 35 % of their rows at each of two devices, joined with the devices
    computed    as inner, but the key is computed, and only rows say which of its values are heavy

Both sides of each join are larger than `broadcast_bytes`. Plain Spark runs under its default settings with 8 shuffle
partitions; its adaptive execution divides partitions of more than 256 MB. Beside it, the same query runs by `run` and by
`frame` (benchmarks/execute.py), and by `run` without the rule that divides heavy values. The sides alternate. A side's time
is the best of its runs, and includes planning.

"Longest task" is the longest task of the stage with most work, as a multiple of its average task. With as many cores as
tasks, the stage takes that many times as long as an even one. All sides are planned for `--cores` cores, whatever the machine
has: on two cores, a value with half of the rows keeps neither of them waiting.

`benchmarks/results/skew.json` gets every number, `skew.png` the figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from pyspark.sql import SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402

from benchmarks.execute import DATA, Side, drawn, measured, ours, query_sides, show, started  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle import Session  # noqa: E402
from unshuffle.target import Target  # noqa: E402

RULE = "split_heavy_values"
EVENTS = """select id, pmod(xxhash64(id), 1000) as amount, {device} as device,
    concat(sha1(string(id)), hex(xxhash64(id, 3))) as note from range({rows})"""
SPREAD = "pmod(xxhash64(id, 5), {devices})"
TABLES = {
    "one_heavy": f"if(pmod(hash(id), 10) < 6, 77, {SPREAD})",
    "half_null": f"if(pmod(hash(id), 10) < 6, null, {SPREAD})",
    "two_heavy": f"case when pmod(hash(id), 20) < 7 then 77 when pmod(hash(id), 20) < 14 then 78 else {SPREAD} end",
}
DEVICES = """select id as device, pmod(hash(id), 20) as kind,
    concat(sha1(string(id)), sha1(string(-id))) as name from range({devices})"""
JOINED = """select kind, count(*) as events, sum(amount) as amount, max(note) as note, max(name) as name
    from {events} e {join} devices d on {key} = d.device group by kind"""
QUERIES = {
    "inner": JOINED.format(events="one_heavy", join="join", key="e.device"),
    "left": JOINED.format(events="half_null", join="left join", key="e.device"),
    "two": JOINED.format(events="two_heavy", join="join", key="e.device"),
    "computed": JOINED.format(events="one_heavy", join="join", key="abs(e.device - 1)"),
}


def write_tables(spark: SparkSession, rows: int, console: Console) -> None:
    """Files that are kept for later runs, and views over them."""
    devices = rows // 2
    texts = {name: EVENTS.format(rows=rows, device=device.format(devices=devices)) for name, device in TABLES.items()}
    texts["devices"] = DEVICES.format(devices=devices)
    for name, text in texts.items():
        folder = DATA / f"skew-{rows}" / name
        if not (folder / "_SUCCESS").exists():
            console.print(f"generating {folder}")
            spark.sql(text).repartition(4).write.mode("overwrite").parquet(str(folder))
        spark.read.parquet(str(folder)).createOrReplaceTempView(name)


def sides(spark: SparkSession, query: str, cores: int) -> dict[str, Side]:
    divided, undivided = Session(spark), Session(spark, without=[RULE])
    for session in (divided, undivided):
        plan_for(session, cores)
    return {
        **query_sides(spark, divided, query, ("run", "frame")),
        "undivided": partial(ours, undivided, partial(undivided.pipeline.bind, query)),
    }


def plan_for(session: Session, cores: int) -> None:
    """From now on, the session plans for so many cores."""
    usual = session.pipeline.target

    def target(is_managed: bool = True) -> Target:
        found = usual(is_managed)
        return replace(found, machine=replace(found.machine, cores=cores))

    session.pipeline.target = target  # type: ignore[method-assign]


def main() -> None:
    options = argparse.ArgumentParser(description="Joins on a key with heavy values.")
    options.add_argument("--query", action="append", choices=QUERIES, help="only this one; may be repeated")
    options.add_argument("--rows", type=int, default=12_000_000, help="of events, half as many devices")
    options.add_argument("--cores", type=int, default=8, help="that the queries are planned for")
    options.add_argument("--runs", type=int, default=3, help="of each side of each query")
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    spark = started()
    write_tables(spark, chosen.rows, console)
    found: list[dict[str, Any]] = [
        {
            **measured(name, sides(spark, QUERIES[name], chosen.cores), spark, chosen.runs, console, warm=True),
            "size": chosen.rows,
        }
        for name in chosen.query or QUERIES
    ]
    show({"heavy values": found}, console)
    for q in found:
        tasks = ", ".join(f"{side} {q[side]['longest_task']:.1f}" for side in ("plain", "run", "frame", "undivided"))
        console.print(f"{q['name']}: longest task, of the average: {tasks}")
    numbers = {"suites": {"heavy values": found}}
    benchmark_report.write("skew", numbers, drawn, parts="suites", spark=spark.version)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
