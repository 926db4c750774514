"""A cluster of processes: executors share no memory with the driver, and may die.

A process has one Spark, so the test starts a program that owns the cluster and prints the results.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.cpu_hours import generate

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
# Several joins, an EXISTS, an outer join, a large GROUP BY and a scalar subquery.
QUERIES = (3, 4, 13, 18, 22)

PROGRAM = """
import json, os, signal, sys, threading, time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import functions as F
from workloads import tpch
from workloads.tpch import KEYS
from tests.support.machines import plan_for
from unshuffle import Session
from unshuffle.plan.logical import Process, UserClass, Values
from unshuffle.catalog.schema import Column
from unshuffle.cost.machine import Machine
from unshuffle.errors import Source
from unshuffle.properties import RangeFunction
from unshuffle.properties.layouts.partition_functions import RangeKey
from unshuffle.spark.execution import executed_plan_diff
from unshuffle.spark.execution.compare import same_rows
from unshuffle.spark.shims.narrow_repartition import narrow_repartition
from unshuffle.spark.shims.range_number import range_number
from unshuffle.spark.session import start
from unshuffle.spark.shims.exact_scan import exact_scan
from unshuffle.spark.shims.file_partitions import Piece
from unshuffle.spark.udf.user_operators import ddl, process

root, folder, queries = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
spark = start("local-cluster[2,1,1024]")
spark.conf.set("spark.sql.shuffle.partitions", 2)
# To compile code in three processes takes longer than all that is tested here.
spark.conf.set("spark.sql.codegen.wholeStage", "false")
spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
found = {}

# Executors cannot see the folder of the user's code by the time they run it: it travels with the task.
code = folder / "code"
given = (Column(1, "n", pa.int32()), Column(2, "größe", pa.string()))
made = (Column(3, "n", pa.int32()), Column(4, "s", pa.string()))
use = UserClass("mine", "Greet", (), (), (str(code),), Source("x", "x").span(0, 1))
frame = spark.createDataFrame([(i, "ä") for i in range(4)], ddl(given))
greeted = process(frame, Process(Values((), given), use, made))
code.rename(folder / "gone")
found["user code"] = sorted(map(list, greeted.collect()))

# What a task needs of boundaries, files and groupings.
rows = spark.range(1000).selectExpr("concat('k', id % 10) AS k", "id AS v")
function = RangeFunction((RangeKey(pa.string()), RangeKey(pa.int64(), True)), (("k3",), ("k5", 500), ("k7",)))
number = range_number(spark, [F.col("k"), F.col("v")], function)
rows.repartitionById(4, number).sortWithinPartitions("k").write.parquet(str(folder / "stored"))
files = sorted((folder / "stored").glob("*.parquet"))
pieces = [Piece(f.as_uri(), f.stat().st_size, 0, f.stat().st_size, 0) for f in files]
scan = exact_scan(spark, rows.schema, [[each] for each in pieces], "p", order=[("k", False, True)])
narrowed = narrow_repartition(scan.drop("p"), [[0], [1, 2], [3]], "q").groupBy("q", "k").count()
spread = exact_scan(spark, rows.schema, [pieces] * 4, "p", belongs=number)
found["layouts"] = {
    "misplaced": scan.where((F.col("p") != number) | (F.col("p") != F.spark_partition_id())).count(),
    "counts": {row.k: row["count"] for row in narrowed.collect()},
    "spread": sorted(row["count"] for row in spread.groupBy("p").count().collect()),
    "stored": sorted(row["count"] for row in scan.groupBy("p").count().collect()),
}

# For so few rows all plans would be serial. On this machine tasks and exchanges cost nothing.
machine = Machine(
    cores=2, stage=1e-9, task=1e-9, block=1e-12, partition_bytes=1e4, file_piece_bytes=1e4, broadcast_bytes=0.0,
    network_byte=0.0, send_row=1e-9, receive_row=1e-9,
)
session = Session(spark, tables=folder / "tpch", effort="full")
plan_for(session, machine)
for table, key in KEYS.items():
    session.declare_key(table, *key)
    spark.read.parquet(str(folder / "tpch" / f"{table}.parquet")).createOrReplaceTempView(table)
for number in queries:
    text = tpch.queries()[int(number)]
    ours = session.sql(text)
    exchanges = executed_plan_diff.of_frame(ours).exchanges.total()
    found[f"Q{number}"] = [same_rows(spark.sql(text), ours), exchanges > 0, session.fallbacks]

events = {"data": str(folder / "events"), "out": str(folder / "out"), "Today": "2025-06-30"}
compared = session.compare(root / "examples/cpu_hours/cpu_hours.scope", events, runs=1)
found["cpu_hours"] = [compared.same_rows, compared.optimized.exchanges > 0, compared.fallbacks]

# An executor is killed while the stage after an exchange runs.
def executors():
    driver = spark.sparkContext._gateway.proc.pid
    for process in Path("/proc").iterdir():
        try:
            parent = process.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == driver and b"CoarseGrainedExecutorBackend" in process.joinpath("cmdline").read_bytes():
                yield int(process.name)
        except (OSError, ValueError, IndexError):
            pass

ended = []
def run():
    try:
        ran = session.run(folder / "slow.scope", {"folder": str(folder)})
        ended.append([ran.measured.exchanges > 0, ran.fallbacks])
    except Exception as error:
        ended.append(str(error))

running = threading.Thread(target=run)
running.start()
marks = folder / "marks"
while running.is_alive() and not any(marks.iterdir()):
    time.sleep(0.02)
before = sorted(executors())
os.kill(before[0], signal.SIGKILL)
was_half_way = running.is_alive()
folder.joinpath("one_is_gone").touch()
running.join()
plain = spark.sql(
    "select o_orderkey % 10 as digit, count(*) as n, sum(s) as s from"
    " (select o_custkey, max(o_orderkey) as o_orderkey, sum(o_shippriority + 1) as s from orders group by o_custkey)"
    " group by o_orderkey % 10"
)
found["killed"] = [
    len(before), was_half_way, ended, same_rows(plain, spark.read.parquet(str(folder / "killed.parquet")))
]
print(json.dumps(found))
session.close()
spark.stop()
"""

GREET = """
from helper import GREETING
from unshuffle.operators import Processor


class Greet(Processor):
    def process_row(self, row):
        yield {"s": f"{GREETING} {row['größe']}", "n": row["n"]}
"""

SLOW = """
#DECLARE folder string;
orders = EXTRACT o_orderkey:long, o_custkey:long, o_shippriority:int FROM "@folder/tpch/orders.parquet" USING Parquet();
last = SELECT o_custkey, MAX(o_orderkey) AS o_orderkey, SUM(o_shippriority + 1) AS s FROM orders GROUP BY o_custkey;
slowly = PROCESS last PRODUCE o_orderkey:long, s:long USING slow.Slow(@folder);
digits = SELECT o_orderkey % 10 AS digit, COUNT(*) AS n, SUM(s) AS s FROM slowly GROUP BY o_orderkey % 10;
OUTPUT digits TO "@folder/killed.parquet" USING Parquet() OVERWRITE;
"""

SLOW_CODE = """
import os
import time
import uuid

from unshuffle import Processor


class Slow(Processor):
    def __init__(self, folder):
        self.folder = folder

    def process(self, batch):
        # Goes on once an executor was killed, or after 10 seconds.
        open(os.path.join(self.folder, "marks", uuid.uuid4().hex), "w").close()
        until = time.monotonic() + 10
        while time.monotonic() < until and not os.path.exists(os.path.join(self.folder, "one_is_gone")):
            time.sleep(0.02)
        yield batch.select(["o_orderkey", "s"])
"""


@pytest.fixture(scope="module")
def found(tpch_data: Path, quick_jvm: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "marks").mkdir()
    (folder / "tpch").symlink_to(tpch_data)
    (folder / "code").mkdir()
    (folder / "code" / "mine.py").write_text(GREET)
    (folder / "code" / "helper.py").write_text("GREETING = 'grüß'\n")
    (folder / "slow.scope").write_text(SLOW)
    (folder / "slow.py").write_text(SLOW_CODE)
    day = datetime.date(2025, 6, 30)
    generate.generate(folder / "events", processes=2000, days=3, duplicates=0.15, end_date=day, seed=7)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT), str(folder), json.dumps(QUERIES)],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "JDK_JAVA_OPTIONS": quick_jvm,
        },
    )
    assert ran.returncode == 0, ran.stderr
    made: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])  # the JVM may print warnings first
    return made


def test_user_code_reaches_the_workers(found: dict[str, Any]) -> None:
    assert found["user code"] == [[i, "grüß ä"] for i in range(4)]


def test_boundaries_files_and_groups_reach_the_workers(found: dict[str, Any]) -> None:
    layouts = found["layouts"]
    assert layouts["misplaced"] == 0
    assert layouts["counts"] == {f"k{i}": 100 for i in range(10)}
    assert layouts["spread"] == layouts["stored"]
    assert len(layouts["stored"]) == 4


@pytest.mark.parametrize("what", [*(f"Q{number}" for number in QUERIES), "cpu_hours"])
def test_rows_are_those_of_plain_spark(found: dict[str, Any], what: str) -> None:
    same_rows, has_exchanges, fallbacks = found[what]
    assert fallbacks == []
    assert has_exchanges
    assert same_rows


def test_a_dead_executor_does_not_change_the_rows(found: dict[str, Any]) -> None:
    executors, was_half_way, ended, same_rows = found["killed"]
    assert executors == 2
    assert was_half_way
    assert ended == [[True, []]]  # with exchanges, and no fallbacks
    assert same_rows
