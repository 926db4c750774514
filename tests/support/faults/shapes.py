"""Queries and scripts of the kinds that our plans have, each with the rows of plain Spark.

A shape runs as often as it is asked to, each time from the beginning, and says what is wrong with its rows or its files.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tests.support.machines import plan_for
from tests.support.storing import by, store
from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.spark.shims.narrow_repartition import narrow_repartition
from unshuffle.sstream import LayoutRequest, open_stream
from unshuffle.sstream.check import check
from unshuffle.sstream.storage import storage_of
from unshuffle.sstream.store import manifest_name

Rows = list[tuple[Any, ...]]

# For so few rows all plans would be serial. On this machine tasks and exchanges cost nothing.
MACHINE = Machine(
    cores=2,
    stage=1e-9,
    task=1e-9,
    block=1e-12,
    partition_bytes=1e4,
    file_piece_bytes=1e4,
    broadcast_bytes=0.0,
    network_byte=0.0,
    send_row=1e-9,
    receive_row=1e-9,
)
QUERIES = {
    "hash exchange": "select day, count(*) as n from (select user, day, sum(bytes) as bytes from visits group by user, day)"
    " as daily join (select user, max(bytes) as peak from (select user, day, sum(bytes) as bytes from visits"
    " group by user, day) group by user) as peaks on daily.user = peaks.user and bytes = peak group by day",
    "sort": "select user, day, bytes, word from visits order by word, bytes desc, user, day",
    "stored join": "select l.user, count(*) as n, sum(l.bytes * r.weight) as s from six l join four r on l.user = r.user"
    " group by l.user",
    "stored ranges": "select word, user, count(*) as n, max(bytes) as most from ranged group by word, user order by word, user",
    "super-operator": "select a.user, a.n, b.m, c.s from (select user, count(*) as n from visits where bytes > 300 group by user)"
    " a join (select user, max(bytes) as m from visits group by user) b on a.user = b.user"
    " left join (select user, sum(bytes) as s from visits where day < 3 group by user) c on a.user = c.user",
    "broadcast join": "select name, sum(bytes) as s, count(*) as n from visits v join users u on v.user = u.user group by name",
}
DAILY = "select user, day, sum(bytes) as bytes from visits group by user, day"
INPUT = """
#DECLARE folder string;
#DECLARE out string;
visits = EXTRACT user:int, day:int, bytes:long, word:string FROM "@folder/visits.parquet" USING Parquet();
daily  = SELECT user, day, SUM(bytes) AS bytes FROM visits GROUP BY user, day;
"""
FILES = """
last   = REDUCE visits ON user PRESORT day, bytes, word PRODUCE user:int, n:int, s:long USING faulty.Last();
heavy  = SELECT user, MAX(bytes) AS peak FROM daily GROUP BY user;
OUTPUT last TO "@out/last.parquet" USING Parquet();
OUTPUT heavy TO "@out/heavy.csv" USING Csv(header = true);
OUTPUT daily TO "@out/daily.txt" USING faulty.Lines();
"""
STREAMS = """
joined = SELECT six.user, COUNT(*) AS n, SUM(six.bytes * four.weight) AS s
         FROM SSTREAM "@folder/six.ss" AS six JOIN SSTREAM "@folder/four.ss" AS four ON six.user == four.user GROUP BY six.user;
OUTPUT joined TO SSTREAM "@out/joined.ss" HASH CLUSTERED BY user INTO 2 KEY (user);
OUTPUT daily TO SSTREAM "@out/daily.ss" RANGE CLUSTERED BY day, user INTO 3;
"""
# The user's code fails in the first attempt of some tasks.
CODE = """
from pyspark import TaskContext
from unshuffle import Outputter, Reducer


def fail_once():
    task = TaskContext.get()
    if task.attemptNumber() == 0 and task.partitionId() == 1:
        raise ValueError("the first attempt fails")


class Last(Reducer):
    def reduce_rows(self, key, rows):
        n = s = 0
        for n, row in enumerate(rows, 1):
            s += n * row["bytes"]
        if key["user"] % 7 == 3:
            fail_once()
        yield {"user": key["user"], "n": n, "s": s}


class Lines(Outputter):
    def format_row(self, row):
        fail_once()
        return f"{row['user']};{row['day']};{row['bytes']}\\n"
"""

OTHERS = {
    "narrow merge and split": "_narrow",
    "one DataFrame twice": "_twice",
    "write of a stream": "_stream",
    "files of a script": "_files",
    "streams of a script": "_streams",
}
SHAPES = (*QUERIES, *OTHERS)


@dataclass(frozen=True)
class Shape:
    name: str
    run: Callable[[], Any]  # computes rows or writes files
    problems: Callable[[Any], list[str]]  # of what `run` returned
    fallbacks: Callable[[], tuple[str, ...]] = tuple


def visits(rows: int) -> pa.Table:
    numbers = range(rows)
    return pa.table(
        {
            "user": pa.array([(n * 7919) % 61 for n in numbers], pa.int32()),
            "day": pa.array([(n * 31) % 9 for n in numbers], pa.int32()),
            "bytes": pa.array([(n * n) % 1009 for n in numbers], pa.int64()),
            "word": pa.array([f"w{(n * 13) % 29:02d}" for n in numbers]),
        }
    )


class Shapes:
    def __init__(self, spark: SparkSession, folder: Path, rows: int = 1500) -> None:
        self._spark, self._folder, self._trial = spark, folder, 0
        self._tables = folder / "tables"
        self._tables.mkdir()
        pq.write_table(visits(rows), self._tables / "visits.parquet", row_group_size=rows // 3)
        users = pa.table({"user": pa.array(range(61), pa.int32()), "name": [f"name {n % 10}" for n in range(61)]})
        pq.write_table(users, self._tables / "users.parquet")
        for name, text in (("files", FILES), ("streams", STREAMS)):
            (folder / f"{name}.scope").write_text(INPUT + text, encoding="utf-8")
        (folder / "faulty.py").write_text(CODE, encoding="utf-8")
        self.session = Session(spark, tables=self._tables, effort="full")
        plan_for(self.session, MACHINE)
        frame = spark.read.parquet(str(self._tables / "visits.parquet"))
        frame.createOrReplaceTempView("visits")
        spark.read.parquet(str(self._tables / "users.parquet")).createOrReplaceTempView("users")
        of_visits = pq.read_table(self._tables / "visits.parquet")
        some = of_visits.filter(pc.less(of_visits["bytes"], 200))
        weighed = pa.table({"user": some["user"], "weight": pc.add(some["day"], pa.scalar(1, pa.int32()))})
        for name, stored, request in (
            ("six", of_visits, LayoutRequest(by("user"), partitions=6)),
            ("four", weighed, LayoutRequest(by("user"), partitions=4)),
            ("ranged", of_visits, LayoutRequest(by("word", "user"), boundaries=(("w05", 30), ("w11",), ("w20", 9)))),
        ):
            stream = store(self._tables / f"{name}.ss", stored, request)
            spark.read.parquet(*stream.paths).createOrReplaceTempView(name)

    def named(self, name: str) -> Shape:
        return self._query(name, QUERIES[name]) if name in QUERIES else getattr(self, OTHERS[name])()

    # --- queries

    def _query(self, name: str, query: str) -> Shape:
        expected = _rows(self._spark.sql(query))
        session = Session(self._spark, tables=self._tables, effort="full")
        plan_for(session, Machine(cores=2) if name == "broadcast join" else MACHINE)
        is_sorted = "order by" in query
        return Shape(
            name,
            lambda: _rows(session.sql(query)),
            partial(different, expected, is_sorted=is_sorted),
            lambda: self._fallbacks(session, query),
        )

    def _fallbacks(self, session: Session, query: str) -> tuple[str, ...]:
        session.sql(query)
        return session.fallbacks

    def _narrow(self) -> Shape:
        """Six partitions of an exchange, merged into three, and those of another split into twelve."""
        frame = self._spark.table("visits")
        expected = _rows(frame.groupBy("user").agg(F.count(F.lit(1)), F.sum("bytes")))

        def run() -> Rows:
            six = frame.repartitionById(6, F.expr("pmod(user, 6)"))
            three = narrow_repartition(six, [[0, 3], [1, 4], [2, 5]], "p")
            twelve = narrow_repartition(six, [[i % 6] for i in range(12)], "p", F.expr("pmod(user, 12)"))
            merged = three.groupBy("p", "user").agg(F.count(F.lit(1)).alias("n"))
            split = twelve.groupBy("p", "user").agg(F.sum("bytes").alias("s"))
            return _rows(merged.drop("p").join(split.drop("p"), "user").select("user", "n", "s"))

        return Shape("narrow merge and split", run, partial(different, expected, is_sorted=False))

    def _twice(self) -> Shape:
        """One DataFrame, collected twice: the second time, what is left of the first is used again."""
        query = QUERIES["stored join"]
        expected = _rows(self._spark.sql(query))

        def run() -> Rows:
            frame = self.session.sql(query)
            first, second = _rows(frame), _rows(frame)
            return second if sorted(first) == sorted(second) else [*first, *second]

        return Shape("one DataFrame twice", run, partial(different, expected, is_sorted=False))

    # --- files

    def _out(self) -> Path:
        self._trial += 1
        made = self._folder / f"out-{self._trial}"
        made.mkdir()
        return made

    def _stream(self) -> Shape:
        grouped = self._spark.sql("select user, day, word, sum(bytes) as s from visits group by user, day, word")
        expected = _rows(grouped)

        def run() -> Path:
            path = self._out() / "written.ss"
            frame = self._spark.sql("select user, day, word, sum(bytes) as s from visits group by user, day, word")
            self.session.write_stream(frame, path, clustered_by=["word", "user"], ranged=True, partitions=4)
            return path

        return Shape("write of a stream", run, lambda path: stream_problems(path, expected))

    def _files(self) -> Shape:
        daily = self._plain(DAILY)
        heavy = self._plain(f"select user, max(bytes) from ({DAILY}) group by user")
        last: dict[int, tuple[int, int]] = {}
        visits = zip(*pq.read_table(self._tables / "visits.parquet").to_pydict().values(), strict=True)
        for user, _, size, _ in sorted(visits, key=lambda row: row[1:]):
            n, s = last.get(user, (0, 0))
            last[user] = n + 1, s + (n + 1) * size
        reduced = [(user, n, s) for user, (n, s) in last.items()]

        def problems(ran: tuple[Path, list[int]]) -> list[str]:
            out, counts = ran
            text = [
                tuple(map(int, line.split(";"))) for part in _parts(out / "daily.txt") for line in part.splitlines()
            ]
            lines = [line for part in _parts(out / "heavy.csv") for line in csv.reader(part.splitlines()[1:])]
            parquet = pq.read_table(out / "last.parquet").to_pydict()
            return [
                *different(reduced, list(zip(*parquet.values(), strict=True)), is_sorted=False),
                *different(heavy, [tuple(map(int, line)) for line in lines], is_sorted=False),
                *different(daily, text, is_sorted=False),
                *unexpected(out, {"last.parquet", "heavy.csv", "daily.txt"}),
                *miscounted(counts, reduced, heavy, daily),
            ]

        return Shape("files of a script", partial(self._ran, "files"), problems)

    def _streams(self) -> Shape:
        joined, daily = self._plain(QUERIES["stored join"]), self._plain(DAILY)

        def problems(ran: tuple[Path, list[int]]) -> list[str]:
            out, counts = ran
            return [
                *stream_problems(out / "joined.ss", joined),
                *stream_problems(out / "daily.ss", daily),
                *unexpected(out, {"joined.ss", "daily.ss"}),
                *miscounted(counts, joined, daily),
            ]

        return Shape("streams of a script", partial(self._ran, "streams"), problems)

    def _ran(self, script: str) -> tuple[Path, list[int]]:
        """The folder of the outputs, and the rows that the script reports of each."""
        out = self._out()
        ran = self.session.run(self._folder / f"{script}.scope", {"folder": str(self._tables), "out": str(out)})
        return out, [result.rows for result in ran.results]

    def _plain(self, query: str) -> Rows:
        return _rows(self._spark.sql(query))


def _rows(frame: DataFrame) -> Rows:
    return [tuple(row) for row in frame.collect()]


def _parts(folder: Path) -> list[str]:
    return [each.read_text(encoding="utf-8") for each in sorted(folder.glob("part-*"))]


def different(expected: Rows, found: Rows, is_sorted: bool) -> list[str]:
    if (found == expected) if is_sorted else Counter(found) == Counter(expected):
        return []
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return [f"{len(found)} rows, not {len(expected)}; missing {list(missing)[:3]}, too many {list(extra)[:3]}"]


def unexpected(out: Path, names: set[str]) -> list[str]:
    found = {each.name for each in out.iterdir()} ^ names
    left = [each for each in out.rglob("*") if each.name in ("_temporary", "_new")]
    return [*(f"{name} is missing or left over" for name in found), *(f"{path} is left over" for path in left)]


def miscounted(counts: list[int], *outputs: Rows) -> list[str]:
    expected = list(map(len, outputs))
    return [] if counts == expected else [f"the script reports {counts} rows, not {expected}"]


def stream_problems(path: Path, expected: Rows) -> list[str]:
    stream = open_stream(str(path))
    rows = [tuple(row.values()) for file in stream.paths for row in pq.ParquetFile(file).read().to_pylist()]
    named = {file.path for file in stream.manifest.files()} | {manifest_name(stream.version)}
    left = {entry.name for entry in storage_of(str(path)).entries()} - named
    found = [*different(expected, rows, is_sorted=False), *map(str, check(stream))]
    if stream.manifest.rows != len(expected):
        found.append(f"the manifest counts {stream.manifest.rows} rows, not {len(expected)}")
    return [*found, *(f"{name} is left over" for name in sorted(left))]
