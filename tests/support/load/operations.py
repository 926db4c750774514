"""What threads do with one session: each operation checks its result against rows that plain Spark computed before.

All values are integers, text or exact, so rows are compared exactly, as multisets."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle import Session, UserError

EVENTS, USERS = 3_000, 200
# Tables of the folder that `tables=` names begin with this; plain Spark and DataFrames read the same files as views.
STORED = "stored_"

Rows = list[tuple[Any, ...]]

TEXTS = {
    "join": """select u.region, count(*) as n, sum(e.v) as s from {events} e join {users} u on e.user = u.user
               where e.v > {n} group by u.region""",
    "busiest": """with daily as (select user, day, sum(v) as v from {events} where k <> {n} group by user, day),
               peaks as (select user, max(v) as peak from daily group by user)
               select d.day, count(*) as n from daily d join peaks p on d.user = p.user and d.v = p.peak group by d.day""",
    "percentile": """select user, percentile(v, 0.5) as p, count(distinct day) as d, array_sort(collect_list(k)) as ks
               from {events} where k < 3 + {n} group by user""",
    "window": """select user, id from (select user, id, row_number() over (partition by user order by v desc, id) as r
               from {events}) where r <= {n}""",
    "top": """select day, count(*) as n from {events} where user in (select user from {users} where region = 'r{n}')
               group by day order by n desc, day limit 5""",
    "pivot": "select * from (select k, day from {events}) pivot (count(*) for k in (0, 1, {n}))",
    "set": "select user from {events} where k = {n} except select user from {users} where region = 'r1'",
    "sets": "select region, city, count(*) as n from {users} where user % 7 <> {n} group by grouping sets ((region), (city), ())",
}  # fmt: skip
NUMBERS = (1, 2, 3)

FRAMES: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "two groupings": lambda spark, _: (
        spark.table("events").groupBy("user", "day").agg(F.sum("v").alias("v")).groupBy("user").agg(F.max("v").alias("m"))
    ),
    "join": lambda spark, _: (
        spark.table("events").join(spark.table("users"), "user").groupBy("city").agg(F.countDistinct("day").alias("d"))
    ),
    "lists": lambda spark, _: (
        spark.table("events").groupBy("user").agg(F.sort_array(F.collect_set("day")).alias("days"), F.median("v").alias("m"))
    ),
    "cached": lambda spark, _: spark.table("cached").groupBy("region").count(),
    "stream": lambda spark, folder: stream_frame(spark, folder).groupBy("user").agg(F.median("v").alias("m")),
    "ranges": lambda spark, folder: (
        stream_frame(spark, folder, "ranged.ss").groupBy("user", "day").agg(F.sum("v").alias("s"), F.median("k").alias("m"))
    ),
    "two streams": lambda spark, folder: (
        stream_frame(spark, folder).alias("a")
        .join(stream_frame(spark, folder, "ranged.ss").alias("b"), "id")
        .groupBy("a.user").agg(F.sum("b.v").alias("s"))
    ),
    "sample": lambda spark, _: spark.table("events").repartition(3, "user").where("v % 2 = 0").groupBy("k").count(),
}  # fmt: skip

SCRIPTS = {
    "grouped": """
#DECLARE data string;
#DECLARE out string;
events = EXTRACT id:long, user:long, day:int, k:int, v:long FROM "@data/stored_events.parquet" USING Parquet() KEY (id);
users = EXTRACT user:long, region:string, city:string FROM "@data/stored_users.parquet" USING Parquet() KEY (user);
result = SELECT users.region, events.day, SUM(events.v) AS s, COUNT(*) AS n
         FROM events JOIN users ON events.user == users.user GROUP BY users.region, events.day;
OUTPUT result TO "@out/result.parquet" OVERWRITE;
""",
    "persisted": """
#DECLARE data string;
#DECLARE out string;
events = EXTRACT id:long, user:long, day:int, k:int, v:long FROM "@data/stored_events.parquet" USING Parquet();
drawn = SELECT id, user, rand(7) AS r FROM events;
high = SELECT id, user FROM drawn WHERE r > 0.5;
low = SELECT id, user FROM drawn WHERE r <= 0.5;
OUTPUT high TO "@out/high.parquet" OVERWRITE;
OUTPUT low TO "@out/low.parquet" OVERWRITE;
""",
    "stream": """
#DECLARE data string;
#DECLARE out string;
events = EXTRACT id:long, user:long, day:int, k:int, v:long FROM "@data/stored_events.parquet" USING Parquet();
sums = SELECT user, day, SUM(v) AS s FROM events GROUP BY user, day;
OUTPUT sums TO SSTREAM "@out/sums.ss" HASH CLUSTERED BY user SORTED BY user, day INTO 3 OVERWRITE;
""",
    "own": """
#DECLARE data string;
#DECLARE out string;
users = EXTRACT user:long, region:string, city:string FROM "@data/stored_users.parquet" USING Parquet();
cities = REDUCE users ON region PRESORT user PRODUCE region, first:long, n:int READONLY region USING load_classes.First();
OUTPUT cities TO "@out/cities.txt" USING load_classes.Lines() OVERWRITE;
""",
    "fails": """
#DECLARE data string;
#DECLARE out string;
events = EXTRACT id:long, user:long, day:int, k:int, v:long FROM "@data/stored_events.parquet" USING Parquet();
good = SELECT user, COUNT(*) AS n FROM events GROUP BY user;
bad = SELECT user, MAX(raise_error('planned')) AS n FROM events GROUP BY user;
OUTPUT good TO "@out/good.parquet" OVERWRITE;
OUTPUT bad TO "@out/bad.parquet" OVERWRITE;
""",
}  # fmt: skip
CLASSES = """
from unshuffle import Outputter, Reducer


class First(Reducer):
    def reduce_rows(self, key, rows):
        first = next(rows)
        yield {**key, "first": first["user"], "n": 1 + sum(1 for _ in rows)}


class Lines(Outputter):
    def format_row(self, row):
        return f"{row['region']} {row['first']} {row['n']}\\n"
"""


@dataclass(frozen=True)
class World:
    """One session, its data, and what each operation must return."""

    session: Session
    folder: Path
    numbers: Sequence[int] = NUMBERS
    expected: dict[str, Rows] = field(default_factory=dict)
    explained: dict[str, str] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        return self.session.spark

    @property
    def data(self) -> Path:
        return self.folder / "data"


class WrongResult(AssertionError):
    """An operation did not return what it must."""


def rows_of(frame: DataFrame) -> Rows:
    return in_order(tuple(row) for row in frame.collect())


def in_order(rows: Any) -> Rows:
    return sorted(rows, key=repr)


def check(name: str, found: object, expected: object) -> None:
    if found != expected:
        found, expected = str(found), str(expected)
        at = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), 0)
        start = max(0, at - 100)
        raise WrongResult(
            f"{name}: from character {at} on {found[start : at + 200]!r}, not {expected[start : at + 200]!r}"
        )


# ---------------------------------------------------------------------------------------------------------------- the data


@contextmanager
def world(
    spark: SparkSession, folder: Path, numbers: Sequence[int] = NUMBERS, *, texts_only: bool = False
) -> Iterator[World]:
    """Tables, views, streams and scripts, with what plain Spark says of them. Each text is asked with all of the numbers. The
    views are dropped at the end. With `texts_only`, nothing else than texts can be asked."""
    data = folder / "data"
    hashed = "pmod(hash(id, {}), {})"
    events = spark.range(EVENTS).selectExpr(
        "id", f"cast({hashed.format(1, USERS)} as bigint) as user", f"{hashed.format(2, 30)} as day",
        f"{hashed.format(3, 5)} as k", f"cast({hashed.format(4, 1000)} as bigint) as v",
    )  # fmt: skip
    users = spark.range(USERS).selectExpr(
        "id as user", "concat('r', pmod(id, 4)) as region", "concat('c', pmod(id, 20)) as city"
    )
    events.coalesce(2).write.parquet(str(data / f"{STORED}events.parquet"))
    users.coalesce(1).write.parquet(str(data / f"{STORED}users.parquet"))
    for name in ("events", "users"):
        spark.read.parquet(str(data / f"{STORED}{name}.parquet")).createOrReplaceTempView(name)
    spark.read.parquet(str(data / f"{STORED}users.parquet")).where("user > 10").createOrReplaceTempView("cached")
    spark.catalog.cacheTable("cached")
    (folder / "load_classes.py").write_text(CLASSES)
    for name, text in SCRIPTS.items():
        (folder / f"{name}.scope").write_text(text)
    (folder / "join.sql").write_text(text_of("join", 1, STORED))
    made = World(Session(spark, tables=data, effort="full"), folder, numbers)
    for name in TEXTS:
        for n in numbers:
            made.expected[f"{name} {n}"] = rows_of(spark.sql(text_of(name, n)))
    if not texts_only:
        _write_streams(made)
        _expect(made)
    try:
        yield made
    finally:
        spark.catalog.uncacheTable("cached")
        for name in ("events", "users", "cached"):
            spark.catalog.dropTempView(name)


def text_of(name: str, n: int, prefix: str = "") -> str:
    return TEXTS[name].format(events=f"{prefix}events", users=f"{prefix}users", n=n)


def stream_frame(spark: SparkSession, folder: Path, name: str = "hashed.ss") -> DataFrame:
    return Session(spark, effort="full").read_stream(folder / name)


def _write_streams(made: World) -> None:
    rows, write = made.spark.table("events"), made.session.write_stream
    write(rows, made.folder / "hashed.ss", clustered_by="user", sorted_by="user", partitions=3)
    write(rows, made.folder / "ranged.ss", clustered_by=["user", "day"], ranged=True, partitions=4)


def _expect(made: World) -> None:
    spark, expected = made.spark, made.expected
    for name, frame in FRAMES.items():
        expected[name + " frame"] = rows_of(frame(spark, made.folder))
    expected["grouped"] = rows_of(
        spark.sql("""select region, day, sum(v), count(*) from events join users on events.user = users.user
                     group by region, day""")
    )
    expected["persisted"] = rows_of(spark.sql("select id, user from events"))
    expected["stream"] = rows_of(spark.sql("select user, day, sum(v) from events group by user, day"))
    expected["own"] = rows_of(spark.sql("select region, min(user), count(*) from users group by region"))
    expected["events"] = rows_of(spark.table("events"))
    made.session.analyze(made.data)
    _declare_keys(made.session, made.data)
    for name in TEXTS:
        made.explained[name] = explained(made, name)


# ---------------------------------------------------------------------------------------------------------- the operations


def sql(made: World, out: Path, draw: Random) -> None:
    name, n = draw.choice(list(TEXTS)), draw.choice(made.numbers)
    text = text_of(name, n, draw.choice(["", STORED]))
    check(f"sql {name} {n}", rows_of(made.session.sql(text)), made.expected[f"{name} {n}"])


def optimize(made: World, out: Path, draw: Random) -> None:
    name = draw.choice(list(FRAMES))
    frame = made.session.optimize(FRAMES[name](made.spark, made.folder))
    check(f"optimize {name}", rows_of(frame), made.expected[name + " frame"])


def explain(made: World, out: Path, draw: Random) -> None:
    name = draw.choice(list(TEXTS))
    check(f"explain {name}", explained(made, name), made.explained[name])


def explained(made: World, name: str) -> str:
    text = made.session.explain(text_of(name, 1, STORED), why=True)
    return re.sub(r"planned in .*", "", text)


def run(made: World, out: Path, draw: Random) -> None:
    name = draw.choice(["grouped", "persisted", "stream"])
    result = made.session.run(made.folder / f"{name}.scope", {"data": str(made.data), "out": str(out)})
    check(f"run {name} rows", sum(each.rows for each in result.results), len(made.expected[name]))
    if name == "stream":
        found = rows_of(made.session.read_stream(out / "sums.ss"))
    else:
        tables = [pq.read_table(each.path) for each in result.results]
        found = in_order(tuple(row.values()) for table in tables for row in table.to_pylist())
    check(f"run {name}", found, made.expected[name])


def run_own(made: World, out: Path, draw: Random) -> None:
    made.session.run(made.folder / "own.scope", {"data": str(made.data), "out": str(out)})
    lines = [line.split() for part in (out / "cities.txt").iterdir() for line in part.read_text().splitlines()]
    found = in_order((region, int(first), int(n)) for region, first, n in lines)
    check("run own", found, made.expected["own"])


def run_failing(made: World, out: Path, draw: Random) -> None:
    try:
        made.session.run(made.folder / "fails.scope", {"data": str(made.data), "out": str(out)})
    except UserError as error:
        check("message", "planned" in str(error), True)
    else:
        raise WrongResult("a script that fails did not")
    check("outputs of a script that fails", [*out.glob("*.parquet")], [])


def compare(made: World, out: Path, draw: Random) -> None:
    comparison = made.session.compare(made.folder / "join.sql", runs=1)
    check("compare", (comparison.same_rows, comparison.optimized.rows), (True, len(made.expected["join 1"])))


def stream(made: World, out: Path, draw: Random) -> None:
    frame, observed = made.spark.table("events"), Observation()
    is_observed = draw.random() < 0.3
    if is_observed:
        frame = frame.observe(observed, F.count(F.lit(1)).alias("rows"))
    made.session.write_stream(
        frame, out / "s.ss", clustered_by=draw.choice(["user", "day"]), sorted_by="id", ranged=draw.random() < 0.5,
        partitions=draw.randint(1, 4), keys=[["id"]], overwrite=True,
    )  # fmt: skip
    check("stream", rows_of(made.session.read_stream(out / "s.ss")), made.expected["events"])
    if is_observed:
        check("observed rows", observed.get, {"rows": EVENTS})


def declare(made: World, out: Path, draw: Random) -> None:
    _declare_keys(made.session, made.data)
    try:
        made.session.declare_key(draw.choice(["events", f"{STORED}events"]), "user")
    except UserError:
        return
    raise WrongResult("a key that does not hold was accepted")


def _declare_keys(session: Session, data: Path) -> None:
    session.declare_key(data / f"{STORED}users.parquet", "user")
    session.declare_key("users", "user")


def analyze(made: World, out: Path, draw: Random) -> None:
    (done,) = made.session.analyze(made.data / f"{STORED}users.parquet")
    check("analyze", done.statistics.rows, USERS)


def refused(made: World, out: Path, draw: Random) -> None:
    """A text that is wrong, and a query that fails when it runs."""
    for text in ("select nothing from events", "select max(raise_error('planned')) from events"):
        try:
            made.session.sql(text).collect()
        except Exception as error:
            check("message", "nothing" in str(error) or "planned" in str(error), True)
        else:
            raise WrongResult(f"{text!r} did not fail")


Operation = Callable[[World, Path, Random], None]
OPERATIONS: dict[Operation, int] = {  # with how often each is drawn
    sql: 30, optimize: 20, explain: 10, run: 12, run_own: 2, run_failing: 2, compare: 2, stream: 10, declare: 4,
    analyze: 2, refused: 4,
}  # fmt: skip


def perform(made: World, operation: Operation, out: Path, draw: Random) -> None:
    """One operation, in a folder of its own that is removed afterwards."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        operation(made, out, draw)
    finally:
        shutil.rmtree(out)


def drawn(draw: Random) -> Operation:
    return draw.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
