"""The measured jobs: each does mostly one thing, and each thing is done by jobs of several sizes.

All jobs read tables that Spark caches in memory, hash-partitioned on `k` with one partition per core, some of them sorted
on `k`, so that aggregates and joins on `k` need no exchange. What a job does besides (reading the table, passing rows to
the sink), other jobs do alone, so that the fit can separate them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

WIDTHS = {"s": 16.0, "w": 128.0, "t": 5.0}
RUNS = 64
SIX = ("id", "k", "r", "d", "s", "g")


@dataclass(frozen=True, slots=True)
class Job:
    """A frame to run, created again for each run: otherwise Spark would reuse the shuffle files of an earlier run."""

    name: str
    frame: Callable[[], DataFrame]
    settings: Mapping[str, str] = field(default_factory=dict)
    python: bool = False


class Tables:
    """`facts` has twenty rows per value of k, `keys` one; `many` has one row for each row of facts; `wide` has many
    columns."""

    def __init__(self, spark: SparkSession, rows: int, cores: int, folder: Path) -> None:
        self.spark, self.rows, self.cores, self.folder = spark, rows, cores, folder
        columns = [
            "id",
            f"cast(pmod(hash(id), {rows // 20}) as bigint) k",
            "xxhash64(id) r",
            "cast(id as double) / 2 d",
            "hex(xxhash64(id) | shiftleft(1L, 63)) s",
            "cast(id % 100 as int) g",
            "cast(id % 10000 / 100 as decimal(12, 2)) p",
        ]
        source = spark.range(0, rows, 1, cores).selectExpr(*columns)
        self.facts = _kept(source.repartition(cores, "k"))
        self.sorted = _kept(self.facts.sortWithinPartitions("k", "id"))
        self.keys = _kept(spark.range(0, rows // 20, 1, cores).selectExpr("id k", "id + 1 v").repartition(cores, "k"))
        self.sorted_keys = _kept(self.keys.sortWithinPartitions("k"))
        many = spark.range(0, rows, 1, cores).selectExpr("id k", "id + 1 v", "id % 7 u")
        self.many = _kept(many.repartition(cores, "k").sortWithinPartitions("k"))
        self.in_runs = _kept(
            self.facts.select("k", "id", "r", "s").repartition(RUNS, "id").sortWithinPartitions("r", "id")
        )
        # Keys in no order, for look-ups in hash tables of all sizes; far apart, so that Spark hashes them.
        scattered = spark.range(0, rows, 1, cores).selectExpr("xxhash64(id) k", "id")
        self.scattered = _kept(scattered.repartition(cores, "k"))
        self.wide = _kept(self.facts.where(f"k < {rows // 80}").selectExpr("k", "id", "repeat(s, 8) w"))
        self.files = str(folder / "facts.parquet")
        self.facts.write.parquet(self.files)
        self.wide_files = str(folder / "wide.parquet")
        self.wide.write.parquet(self.wide_files)

    def part(self, table: DataFrame, of: int) -> DataFrame:
        """One in so many rows, with all rows of a key or none."""
        return table.where(f"k < {self.rows // 20 // of}") if of > 1 else table


def _kept(frame: DataFrame) -> DataFrame:
    frame = frame.persist()
    frame.count()
    return frame


def jobs(t: Tables) -> Iterator[Job]:
    yield from _reading(t)
    yield from _row_by_row(t)
    yield from _aggregates(t)
    yield from _sorts(t)
    yield from _joins(t)
    yield from _exchanges(t)
    yield from _others(t)


def _reading(t: Tables) -> Iterator[Job]:
    yield Job("read 1 column", lambda: t.facts.select("k"))
    yield Job("read 3 columns", lambda: t.facts.select("k", "id", "r"))
    yield Job("read 6 columns", lambda: t.facts.select(*SIX))
    yield Job("read wide rows", lambda: t.wide)
    yield Job("scan 1 column", lambda: t.spark.read.parquet(t.files).select("id"))
    yield Job("scan 3 columns", lambda: t.spark.read.parquet(t.files).select("k", "id", "r"))
    yield Job("scan 6 columns", lambda: t.spark.read.parquet(t.files).select(*SIX))
    yield Job("scan wide rows", lambda: t.spark.read.parquet(t.wide_files))


# All conditions are true, so that every row evaluates all of them.
_CONDITIONS = ["id <> r", "s > '0'", "d < 1e300", "g <> 100", "k % 7 <> 8", "s <> 'x' || k"]
_EXPRESSIONS = [
    "id + k e1",
    "d * 2.5 e2",
    "substring(s, 2, 5) t",
    "case when k > 5 then id else r end e4",
    "k % 10 e5",
    "cast(id as double) / 3 e6",
    "coalesce(r, id) - g e7",
    "year(date_add(date'2020-01-01', g)) e8",
]


_DECIMALS = ["p * (1 - p) e1", "p * (1 - p) * (1 + p) e2", "p / 3 * p e3"]


def _row_by_row(t: Tables) -> Iterator[Job]:
    for number in (1, 3, 5):
        yield Job(f"filter by {number}", lambda n=number: t.facts.select(*SIX).where(" and ".join(_CONDITIONS[:n])))
    for number in (2, 4, 8):
        yield Job(f"compute {number}", lambda n=number: t.facts.selectExpr(*_EXPRESSIONS[:n]))
    for number in (1, 3):
        yield Job(f"compute {number} decimals", lambda n=number: t.facts.selectExpr(*_DECIMALS[:n]))


def _aggregates(t: Tables) -> Iterator[Job]:
    calls = [F.sum("id"), F.max("d"), F.min("r"), F.count("g"), F.avg("d"), F.sum("g"), F.max("id"), F.max("g")]
    for number in (1, 4, 8):
        yield Job(f"hash aggregate, groups of 20, {number} calls", _grouped(t.facts, ["k"], calls[:number]))
        yield Job(f"stream aggregate, groups of 20, {number} calls", _grouped(t.sorted, ["k"], calls[:number]))
    yield Job("hash aggregate, 100 groups", _grouped(t.facts, ["g"], calls[:2]))
    decimals = [F.sum("p"), F.avg("p"), F.sum(F.expr("p * (1 - p)"))]
    yield Job("hash aggregate of decimals, 100 groups", _grouped(t.facts, ["g"], decimals))
    yield Job("stream aggregate of decimals", _grouped(t.sorted, ["k"], decimals))
    yield Job("hash aggregate, each row a group", _grouped(t.facts, ["k", "id"], calls[:1]))
    yield Job("hash aggregate, one group", _grouped(t.facts, [], calls[:1]))
    yield Job("stream aggregate, each row a group", _grouped(t.many, ["k"], [F.sum("v")]))


def _grouped(frame: DataFrame, keys: list[str], calls: list[Any]) -> Callable[[], DataFrame]:
    return lambda: frame.groupBy(*keys).agg(*calls)


def _sorts(t: Tables) -> Iterator[Job]:
    for of in (1, 8, 64):
        for keys in (["r"], ["r", "id"], ["s"]):
            frame = t.sorted.select("k", *dict.fromkeys([*keys, "id"]))
            yield Job(
                f"sort 1/{of} by {', '.join(keys)}", lambda f=frame, o=of, k=keys: t.part(f, o).sortWithinPartitions(*k)
            )
    yield Job(
        f"exchange and sort {RUNS} sorted runs",
        lambda: t.in_runs.repartition(t.cores, "k").sortWithinPartitions("r", "id"),
    )


_SUBSET = {"spark.sql.requireAllClusterKeysForCoPartition": "false"}


def _joins(t: Tables) -> Iterator[Job]:
    facts, in_order = (each.select("k", "id", "g") for each in (t.facts, t.sorted))
    yield Job("hash join, build 1/20", lambda: facts.join(t.keys.hint("shuffle_hash"), "k"))
    same = t.many.select("k", F.col("v").alias("x"))
    yield Job("hash join, build 1", lambda: t.many.join(same.hint("shuffle_hash"), "k"))
    looked_up = t.scattered.selectExpr("k", "k as j", "id")
    for of in (1, 4, 16, 128):
        table = t.scattered.where(f"id % {of} = 0")
        yield Job(
            f"hash join, scattered, build 1/{of}",
            lambda b=table: t.scattered.join(b.selectExpr("k", "id v").hint("shuffle_hash"), "k"),
        )
        yield Job(
            f"hash join on two keys, scattered, build 1/{of}",
            lambda b=table: looked_up.join(b.selectExpr("k", "k as j", "id v").hint("shuffle_hash"), ["k", "j"]),
            _SUBSET,
        )
        yield Job(
            f"merge join, scattered, with 1/{of}",
            lambda b=table: t.scattered.join(b.selectExpr("k", "id v").hint("merge"), "k"),
        )
    yield Job(
        "broadcast as many and join, scattered",
        lambda: t.scattered.join(t.scattered.selectExpr("k", "id v").hint("broadcast"), "k"),
    )
    few = t.keys.where("v % 20 = 0")
    yield Job("hash join, few match", lambda: facts.join(few.hint("shuffle_hash"), "k"))
    small = t.part(in_order, 20)
    yield Job(
        "hash join, 20 for each",
        lambda: small.join(small.select("k", F.col("g").alias("h")).hint("shuffle_hash"), "k"),
    )
    pairs = t.many.selectExpr("k", "v - 1 as id", "u")
    yield Job("hash join on two keys", lambda: facts.join(pairs.hint("shuffle_hash"), ["k", "id"], "left"), _SUBSET)
    yield Job("merge join with 1/20", lambda: in_order.join(t.sorted_keys.hint("merge"), "k"))
    yield Job("merge join with 1", lambda: t.many.join(same.hint("merge"), "k"))
    yield Job(
        "merge join, 20 for each",
        lambda: small.join(small.select("k", F.col("g").alias("h")).hint("merge"), "k"),
    )
    yield Job("broadcast 1/20 and join", lambda: facts.join(t.keys.hint("broadcast"), "k"))
    yield Job("broadcast as many and join", lambda: facts.join(t.many.hint("broadcast"), "k"))
    one, other = t.part(t.sorted, 40).select("id"), t.part(t.keys, 20).select("v")
    yield Job("nested loops", lambda: one.join(other.hint("broadcast"), one["id"] + 1 < other["v"] - 2 * t.rows))
    more = t.part(t.keys, 5).select("v")
    yield Job("nested loops over 4 times", lambda: one.join(more.hint("broadcast"), one["id"] < more["v"] - 2 * t.rows))


def _exchanges(t: Tables) -> Iterator[Job]:
    narrow = t.facts.select("id", "k")
    yield Job("exchange 1 column", lambda: t.facts.select("id").repartition(t.cores, "id"))
    yield Job("exchange 2 columns", lambda: narrow.repartition(t.cores, "id"))
    yield Job("exchange 6 columns", lambda: t.facts.select(*SIX).repartition(t.cores, "id"))
    yield Job("exchange wide rows", lambda: t.wide.repartition(t.cores, "id"))
    yield Job("exchange into 4 times as many", lambda: narrow.repartition(4 * t.cores, "id"))
    yield Job("gather 2 columns", lambda: narrow.repartition(1))
    yield Job("gather wide rows", lambda: t.wide.repartition(1))
    yield Job("exchange by ranges", lambda: narrow.repartitionByRange(t.cores, "id"))
    yield Job("exchange by ranges of strings", lambda: t.facts.select("s").repartitionByRange(t.cores, "s"))
    pieces = t.in_runs.select("r")
    yield Job(f"exchange {RUNS} into {RUNS}", lambda: pieces.repartition(RUNS, "r"))
    yield Job(f"exchange {RUNS} into {2 * RUNS}", lambda: pieces.repartition(2 * RUNS, "r"))
    yield Job(f"exchange {RUNS} into {4 * RUNS}", lambda: pieces.repartition(4 * RUNS, "r"))
    yield Job(f"read {RUNS} partitions", lambda: pieces)


def _others(t: Tables) -> Iterator[Job]:
    by = Window.partitionBy("k")
    frame = t.sorted.select("k", "id", "r")
    for number in (1, 4):
        calls = [F.sum("id").over(by), F.max("r").over(by), F.min("id").over(by), F.count("r").over(by)][:number]
        yield Job(f"window, {number} calls", lambda c=calls: frame.select("k", "id", *c))
    ranked = F.row_number().over(by.orderBy("id"))
    yield Job("window, row number", lambda: frame.select("k", "id", ranked.alias("n")))
    few = t.part(t.sorted, 4).select("k", "id", "s")
    yield Job("Python, batches", lambda: few.mapInArrow(_same, few.schema), python=True)
    yield Job("Python, rows", lambda: few.mapInArrow(_row_by_row_again, few.schema), python=True)


def _same(batches: Any) -> Any:
    yield from batches


def _row_by_row_again(batches: Any) -> Any:
    import pyarrow

    for batch in batches:
        yield pyarrow.RecordBatch.from_pylist([dict(row) for row in batch.to_pylist()], schema=batch.schema)


def starting(spark: SparkSession, cores: int) -> Iterator[tuple[Job, dict[str, float]]]:
    """Jobs that only start stages and tasks, with the numbers of stages and tasks that they wait for. "job" is the time
    Spark takes to plan and start any job."""
    for waves in (1, 8, 32):
        tasks = waves * cores
        yield (
            Job(f"start {tasks} tasks", lambda n=tasks: spark.range(0, n, 1, n)),
            {"job": 1.0, "stage": 1.0, "task": float(waves)},
        )
    for stages in (3, 6):
        yield (
            Job(f"start {stages} stages", lambda n=stages: _chain(spark, cores, n)),
            {"job": 1.0, "stage": float(stages), "task": float(stages)},
        )


def _chain(spark: SparkSession, cores: int, stages: int) -> DataFrame:
    frame = spark.range(0, cores, 1, cores).toDF("id")
    for i in range(stages - 1):
        # A condition that cannot be pushed keeps the exchanges apart. Spark would merge two adjacent ones.
        frame = frame.where("rand() >= 0").repartition(cores, (F.col("id") + i))
    return frame
