"""DataFrames as logical plans: reading a DataFrame with `logical_plan` and translating it back gives the same DataFrame."""

from __future__ import annotations

import datetime
import decimal
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import BooleanType, LongType, TimestampType

from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.errors import UserError
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import normalize_script
from unshuffle.optimizer import optimize
from unshuffle.plan import logical
from unshuffle.plan.expressions import Call, Literal, Opaque, walk
from unshuffle.plan.logical import Plan, Scan, TableScan, expressions_of
from unshuffle.spark.lowering.baseline import baseline
from unshuffle.spark.lowering.placeholders import column
from unshuffle.spark.reader.dataframe import logical_plan
from unshuffle.spark.reader.environment import arrow_type
from unshuffle.spark.reader.relations import with_schema_of
from unshuffle.spark.session import temporarily
from workloads import tpch

pytestmark = pytest.mark.spark

Frames = dict[str, DataFrame]
Make = Callable[[Frames], DataFrame]

DAY = datetime.date(2024, 2, 29)
ROWS = [
    (1, 10, "a", 1.5, decimal.Decimal("1.10"), DAY, datetime.datetime(2024, 3, 31, 1, 30)),
    (2, 10, "é", -0.0, decimal.Decimal("-2.00"), DAY, None),
    (3, 20, None, float("nan"), None, None, datetime.datetime(1999, 12, 31, 23, 59, 59, 999999)),
    (4, None, "it's \\ \n", 0.0, decimal.Decimal("99999999.99"), datetime.date(1, 1, 1), None),
    (5, 20, "", None, decimal.Decimal("0.00"), datetime.date(9999, 12, 31), None),
    (5, 20, "", None, decimal.Decimal("0.00"), datetime.date(9999, 12, 31), None),
]
COLUMNS = "id bigint, k int, s string, x double, d decimal(10,2), day date, at timestamp"


# Compiling code takes longer than reading a few rows.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    with temporarily(spark, **QUICK):
        yield


@pytest.fixture(scope="module")
def tpch_views(spark: SparkSession, tpch_data: Path) -> None:
    for table in tpch.TABLES:
        spark.read.parquet(str(tpch_data / f"{table}.parquet")).createOrReplaceTempView(table)


@pytest.fixture(scope="module")
def frames(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frames]:
    folder = tmp_path_factory.mktemp("frames")
    rows = spark.createDataFrame(ROWS, COLUMNS)
    rows.coalesce(1).write.parquet(str(folder / "t.parquet"))
    other = spark.range(4).selectExpr("id", "cast(id * 10 as int) AS k", "concat('s', id) AS name")
    other.coalesce(1).write.partitionBy("k").orc(str(folder / "u.orc"))
    other.coalesce(1).write.csv(str(folder / "v.csv"), header=True)
    other.coalesce(1).write.json(str(folder / "w.json"))
    made = {
        "t": spark.read.parquet(str(folder / "t.parquet")),
        "u": spark.read.orc(str(folder / "u.orc")),
        "v": spark.read.csv(str(folder / "v.csv"), header=True, inferSchema=True),
        "w": spark.read.json(str(folder / "w.json")),
        "memory": rows,
    }
    for name, frame in made.items():
        frame.createOrReplaceTempView(name)
    yield made
    for name in made:
        spark.catalog.dropTempView(name)


# ---------------------------------------------------------------------------------------------------------------- helpers


def comparable(value: Any) -> Any:
    """A value that equals itself and distinguishes -0.0 from 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (math.copysign(1, value), value)
    if isinstance(value, Row | tuple | list):
        return tuple(map(comparable, value))
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def rows_of(frame: DataFrame) -> Counter[Any]:
    return Counter(comparable(row) for row in frame.collect())


def shape(frame: DataFrame) -> list[tuple[str, Any, bool]]:
    return [(f.name, f.dataType, f.nullable) for f in frame.schema.fields]


def converted(frame: DataFrame) -> Plan:
    (output,) = logical_plan(frame).script.outputs
    return output.plan


def assert_types_agree(plan: Plan, frame: DataFrame) -> None:
    for ours, theirs in zip(plan.columns, frame.schema.fields, strict=True):
        assert ours.type is None or ours.type == arrow_type(theirs.dataType), (ours, ours.type, theirs.dataType)
        assert ours.nullable or not theirs.nullable, f"{ours} may be NULL"


def round_trip(frame: DataFrame, in_order: bool = False) -> Plan:
    """The plan of a frame that the baseline translation gives back unchanged."""
    plan = converted(frame)
    assert_types_agree(plan, frame)
    with baseline(frame.sparkSession) as plain:
        ours = plain.result(plan)
    assert shape(ours) == shape(frame)
    if same_plan(ours, frame):
        return plan
    if in_order:
        assert [comparable(row) for row in ours.collect()] == [comparable(row) for row in frame.collect()]
    else:
        assert rows_of(ours) == rows_of(frame)
    return plan


def same_plan(one: DataFrame, other: DataFrame) -> bool:
    """Does Spark's optimizer make the same plan of both? Then running them would compare a query with itself."""
    made = [frame._jdf.queryExecution().optimizedPlan() for frame in (one, other)]
    return bool(made[0].sameResult(made[1]))


def operators(plan: Plan) -> list[Plan]:
    return list(logical.walk(plan))


def foreign(plan: Plan) -> list[logical.Foreign]:
    return [node for node in operators(plan) if isinstance(node, logical.Foreign)]


def opaque(plan: Plan) -> list[Opaque]:
    found = [part for node in operators(plan) for e in expressions_of(node) for part in walk(e)]
    return [part for part in found if isinstance(part, Opaque)]


def understood(frame: DataFrame, in_order: bool = False) -> Plan:
    """No part of the plan is foreign or opaque."""
    plan = round_trip(frame, in_order)
    assert not foreign(plan), foreign(plan)[0].reason
    assert not opaque(plan), opaque(plan)[0].name
    return plan


# ------------------------------------------------------------------------------------------------------------------- SQL

# Every operator and expression that we support: nothing foreign, nothing opaque.
UNDERSTOOD = {
    "project": "select id, k + 1, -k, abs(k), x * 2, d * d, d / 3, d + 1, id % 2, id div 2, upper(s) u from t",
    "renamed in another case": "select ID, K as k from t",
    "literals": "select 1, 2L, 3Y, 4S, 1.5, 1.5D, 2.5F, true, 'é\\'\\\\', date'0001-01-01', null, -0.0D, 1e300, 0.001,"
    " timestamp'2024-03-31 01:30:00', timestamp_ntz'2024-03-31 01:30:00', cast('NaN' as double), 9223372036854775807",
    "folded": "select date'1998-12-01' - interval 90 days, cast('2024-02-29' as date), 1 + 1, cast(1.5 as int), id from t"
    " where day > date'2000-01-01' + interval 1 year",
    "filter": "select * from t where (id > 1 and s is not null) or not (k <=> 10) or k <> 20",
    "comparisons": "select * from t where id in (1, 2, 3) and id not in (7, 8) and x is null or d between 0 and 2",
    "strings": "select s like 'i%', s like '%#%%' escape '#', s rlike '.', substring(s, 1, 2), substr(s, 2), length(s),"
    " lower(s), startswith(s, 'i'), endswith(s, 'x'), contains(s, 's') from t",
    "days": "select year(day), month(day), day(day), quarter(day), date_add(day, 1), date_sub(day, 1),"
    " datediff(day, date'2024-01-01') from t where day between date'2000-01-01' and date'3000-01-01'",
    "case": "select case when k = 10 then 'ten' when k > 10 then s end, case k when 10 then 1 else 0 end, if(k = 1, 2, 3),"
    " coalesce(k, 0), nvl(k, 1), ifnull(s, 'none') from t",
    "casts": "select cast(id as int), cast(k as bigint), cast(k as string), cast(d as double), cast(at as date),"
    " cast(day as timestamp), try_cast(s as int), cast(x as decimal(20, 5)), cast(s as binary) from t where id < 4 and"
    " id <> 3",
    "join": "select * from t join u on t.k = u.k and t.id > u.id",
    "left join": "select * from t left join u on t.k = u.k",
    "right join": "select * from t right join u on t.k = u.k",
    "full join": "select * from t full join u on t.k = u.k",
    "semi join": "select * from t left semi join u on t.k = u.k",
    "anti join": "select * from t left anti join u on t.k = u.k",
    "cross join": "select * from u cross join w",
    "using": "select * from t full join u using (k)",
    "natural": "select * from u natural join w",
    "self join": "select a.id, b.id, a.s from t a join t b on a.k = b.k where a.id < b.id",
    "group by": "select k, count(*), count(s), sum(id), avg(id), min(s), max(x), sum(d), avg(d), sum(x) from t group by k",
    "distinct aggregates": "select k, count(distinct s), sum(distinct id), count(distinct s, x) from t group by k",
    "filtered aggregates": "select count(*) filter (where k = 10), sum(id) filter (where s is null) from t",
    "more aggregates": "select stddev(id), var_pop(x), bool_and(k = 10), count_if(k > 10), approx_count_distinct(id),"
    " percentile_approx(id, 0.5), median(id), corr(id, k) from t",
    "ordered aggregates": "select k, first(k), last(k, true), any_value(k), collect_set(k) from t group by k",
    "group by expressions": "select k + 1, upper(s), count(*) * 2 + max(k + 1) from t group by k + 1, upper(s)",
    "having": "select k from t group by k having sum(id) > 3 and max(s) is not null",
    "group by nothing": "select 1, count(*) from t where id > 100",
    "group by constants": "select 'a', count(*) from t group by 'a', k",
    "rollup": "select k, s, count(*), grouping_id() from t group by rollup(k, s)",
    "cube": "select k, count(*), sum(k) from t group by cube(k, s)",
    "grouping sets": "select k, s, count(*), sum(id) from t group by grouping sets ((k), (k, s), (), ())",
    "union": "select id, k from t union all select id, k from u union select k, id from w",
    "union of types": "select id, s from t union all select d, cast(k as string) from t",
    "intersect": "select k from t intersect select k from u",
    "intersect all": "select k from t intersect all select k from u",
    "except": "select id, k from t except select id, k from u",
    "except all": "select id, k from t except all select id, k from u",
    "distinct": "select distinct k, s from t",
    "exists": "select * from t where exists (select 1 from u where u.k = t.k)",
    "not exists": "select * from t where not exists (select 1 from u where u.k = t.k and u.id > t.id)",
    "in query": "select * from t where k in (select k from u) or id in (select id from w where w.name < t.s)",
    "not in query": "select * from u where (id, k) not in (select id, k from t where k is not null)",
    "scalar subquery": "select *, (select max(id) from u) from t where id > (select avg(id) from w where w.k <= t.k)",
    "windows": "select id, row_number() over (partition by k order by id, s), rank() over (order by k), sum(id) over"
    " (partition by k), sum(id) over (order by id rows between 1 preceding and 2 following), count(*) over (order by k),"
    " lag(id) over (order by id), lead(s, 2, 'none') over (order by id), max(id) over (order by id range between 2"
    " preceding and current row), ntile(2) over (order by id), nth_value(id, 2) over (partition by k order by id) from t",
    "window over groups": "select k, sum(sum(id)) over (order by k), rank() over (order by count(*)) from t group by k",
    "shared": "with c as (select k, count(*) as n from t group by k) select * from c a join c b on a.n = b.n where a.n in"
    " (select n from c)",
    "nothing": "select 1 as one",
    "values": "select * from values (1, 'a'), (2, null) as v(a, b) where a > 1",
    "range": "select id + 1 from range(5)",
    "csv and json": "select v.id, w.name from v join w on v.id = w.id",
}


@pytest.mark.parametrize("text", UNDERSTOOD.values(), ids=UNDERSTOOD)
def test_sql_is_understood(spark: SparkSession, frames: Frames, text: str) -> None:
    understood(spark.sql(text))


def test_order_and_limits(spark: SparkSession, frames: Frames) -> None:
    for text in (
        "select id, s from t order by k desc nulls last, id, s limit 3",
        "select id from t order by x nulls last, id offset 2",
        "select id from t order by id desc limit 2 offset 1",
    ):
        understood(spark.sql(text), in_order=True)


@pytest.mark.parametrize("number", tpch.queries(), ids=lambda n: f"Q{n}")
def test_tpch(spark: SparkSession, tpch_views: None, number: int) -> None:
    frame = spark.sql(tpch.queries()[number])
    plan = converted(frame)
    assert not foreign(plan)
    assert not opaque(plan)
    assert_types_agree(plan, frame)
    with baseline(spark) as plain:
        ours = plain.result(plan)
    assert shape(ours) == shape(frame)
    assert same_plan(ours, frame) or rounded(ours) == rounded(frame)


def rounded(frame: DataFrame) -> list[Any]:
    """Rows in order, with sums of floats rounded, because they depend on the order of the rows."""
    return [tuple(f"{v:.6e}" if isinstance(v, float) else v for v in row) for row in frame.collect()]


# ------------------------------------------------------------------------------------------------------------ DataFrames

plus_one = F.udf(lambda v: None if v is None else v + 1, LongType())
twice = F.udf(lambda v: None if v is None else v * 2, LongType())
is_even = F.udf(lambda a, b: ((a or 0) + (b or 0)) % 2 == 0, BooleanType())

# What only the DataFrame API can express, or expresses differently from SQL: also understood.
API: dict[str, Make] = {
    "duplicate names": lambda f: f["u"].select("id", "id", F.col("k").alias("id")),
    "any name": lambda f: f["u"].select(F.col("id").alias("a.b"), F.col("k").alias("a b`c"), F.col("id").alias("é")),
    "names in joins": lambda f: f["u"].join(f["w"], f["u"].k == f["w"].k),
    "joined with itself": lambda f: f["u"].alias("a").join(f["u"].alias("b"), F.col("a.id") + 1 == F.col("b.id")),
    "grouped and joined back": lambda f: f["t"].join(f["t"].groupBy("k").agg(F.max("id").alias("top")), "k", "left"),
    "drop duplicates": lambda f: f["t"].dropDuplicates(["id"]),
    "all duplicates": lambda f: f["t"].dropDuplicates(),
    "a column of no name": lambda f: f["t"].select(F.col("id") + 1, F.lit("x"), F.lit(None)),
    "with columns": lambda f: f["t"].withColumn("k", F.col("k") + 1).withColumnRenamed("id", "ID").drop("x"),
    "grouped by a name": lambda f: f["t"].groupBy((F.col("k") / 10).alias("n")).count().orderBy("n"),
    "no columns": lambda f: f["t"].select().limit(2),
    "hints": lambda f: f["t"].join(F.broadcast(f["u"]), "k"),
    "in memory": lambda f: f["memory"].where("id > 2").select("id", "s", "x", "d", "at"),
    "union by name": lambda f: f["u"].unionByName(f["w"].select("name", "k", "id")),
    "unpivot": lambda f: (
        f["t"].unpivot(["s"], [F.col("id"), F.col("k").cast("bigint")], "name", "value").where("value > 1")
    ),
    "unpivot of numbers": lambda f: f["t"].unpivot("id", ["k", "x"], "var", "val"),
    "repartition below a grouping": lambda f: f["t"].repartition(3, "k").where("id > 1").groupBy("k").count(),
    "repartition below a join": lambda f: f["u"].repartition(2).join(f["w"].repartition(3).select("k"), "k"),
    "pivot of filters": lambda f: f["t"].groupBy("k").agg(F.sum(F.when(F.col("s") == "", F.col("id")))),
}


@pytest.mark.parametrize("make", API.values(), ids=API)
def test_the_api_is_understood(frames: Frames, make: Make) -> None:
    understood(make(frames))


# Functions without SQL text, in every place of an expression. The operators around them are understood.
OPAQUE: dict[str, Make] = {
    "udf in a projection": lambda f: f["t"].select("id", plus_one("id"), twice(plus_one(F.col("k").cast("bigint"))) + 1),
    "udf in a filter": lambda f: f["t"].where(is_even("id", "k") & (F.col("id") > 1)),
    "udf in an aggregate": lambda f: f["t"].groupBy("k").agg(F.sum(plus_one("id")), F.max(twice("id"))),
    "udf of aggregates": lambda f: f["t"].groupBy("k").agg(plus_one(F.sum("id")).alias("n"), twice(F.max("id"))),
    "udf as a key": lambda f: f["t"].groupBy(plus_one("id"), twice("id")).agg(F.count("*"), F.max(plus_one("id"))),
    "udf in a join": lambda f: f["u"].join(f["w"], plus_one(f["u"].id) == f["w"].id),
    "udf of both sides": lambda f: f["u"].join(f["w"], is_even(f["u"].id, f["w"].id)),
    "udf in a sort": lambda f: f["t"].orderBy(twice("id").desc(), "s"),
    "udf over a window": lambda f: f["t"].select(F.sum(plus_one("id")).over(Window.partitionBy(twice("id")))),
    "udf under case": lambda f: f["t"].select(F.when(F.col("id") > 2, plus_one("id")).otherwise(F.lit(0))),
    "random texts": lambda f: f["t"].select("id", F.uuid()),
    "lambdas": lambda f: f["t"].select(F.transform(F.array("id", "k"), lambda v: v + F.col("id"))),
    "functions": lambda f: f["t"].select(
        F.round("x", 1), F.concat("s", F.lit("!")), F.nullif("k", F.lit(10)), F.struct("id", "s"), F.sha2("s", 256),
        F.date_format("at", "yyyy-MM-dd HH:mm"), F.trunc("day", "month"), F.hour("at"), F.hash("id", "s"),
    ),
    "fields": lambda f: f["t"].select(F.struct("id", F.col("s").alias("S")).alias("p")).where("p.id > 1").select("p.S"),
    "intervals": lambda f: f["t"].select(F.col("at") - F.expr("interval 1 day 2 hours"), F.expr("interval 3 days")),
    "collations": lambda f: f["t"].select(F.collate("s", "UTF8_LCASE").alias("c")).groupBy("c").count(),
    "in a correlated sub-query": lambda f: f["t"].sparkSession.sql(
        "select id, (select round(avg(w.id), 1) from w where w.k = t.k and hash(w.id) <> hash(t.id)) from t"
    ),
    "over a sub-query": lambda f: f["t"].sparkSession.sql("select round((select avg(x) from t where x > 0) + id, 2) from u"),
}  # fmt: skip


@pytest.mark.parametrize("make", OPAQUE.values(), ids=OPAQUE)
def test_functions_without_a_text(frames: Frames, make: Make) -> None:
    frame = make(frames)
    plan = round_trip(frame)
    assert not foreign(plan), foreign(plan)[0].reason
    assert opaque(plan)
    assert_same_when_rewritten(frame)


def assert_same_when_rewritten(frame: DataFrame) -> None:
    """The normalized plan has the same rows, and can be planned physically."""
    script = logical_plan(frame).script
    optimize(script)
    numbers = ColumnNumbers(1 + max((c.id for node in script.operators() for c in node.columns), default=0))
    (output,) = normalize_script(script, Rewriting(numbers)).outputs
    with baseline(frame.sparkSession) as plain:
        ours = plain.result(output.plan)
    assert ours.columns == frame.columns
    assert same_plan(ours, frame) or rows_of(ours) == rows_of(frame)


# Operators that stay Spark's, over inputs that we understand.
FOREIGN: dict[str, tuple[int, Make]] = {
    "repartition": (1, lambda f: f["t"].where("id > 1").repartition(3, "k").select("id")),
    "repartition for a udf": (1, lambda f: f["t"].repartition(3).select(plus_one("id").alias("n")).groupBy("n").count()),
    "repartition and sort": (1, lambda f: f["t"].repartition(2, "k").sortWithinPartitions("id").select("id", "k")),
    "explode": (1, lambda f: f["t"].select("id", F.explode(F.array("id", "k")).alias("e")).where("e > 1")),
    "lateral": (1, lambda f: f["t"].sparkSession.sql("select * from u, lateral (select max(id) m from w where w.k = u.k)")),
    "sample": (1, lambda f: f["t"].where("id > 0").sample(0.5, seed=3).groupBy("k").count()),
    "random numbers": (1, lambda f: f["t"].select("id", F.rand(3), F.rand(3), F.rand(4) + 1).where("id > 1")),
    "arrow": (1, lambda f: f["u"].where("id > 0").mapInArrow(lambda batches: batches, "id bigint, name string, k int")),
    "pandas groups": (1, lambda f: f["u"].groupBy("k").applyInPandas(lambda p: p, f["u"].schema).where("id > 0")),
    "cogroups": (
        1,
        lambda f: f["u"].where("id > 1").groupBy("k").cogroup(f["w"].groupBy("k")).applyInPandas(
            lambda a, b: a, f["u"].schema
        ),
    ),
    "distinct list": (1, lambda f: f["t"].groupBy("k").agg(F.collect_list("id"), F.listagg_distinct("s", ","))),
    "two apart": (2, lambda f: f["u"].sortWithinPartitions("k").join(f["w"].sortWithinPartitions("id"), "k")),
    "the same twice": (2, lambda f: (lambda r: r.union(r))(f["u"].repartition(2).where("id > 1"))),
    "over a shared rowset": (
        1,
        lambda f: f["t"].sparkSession.sql(
            "with c as (select k from u) select *, explode(array(1, 2)) from t where k in (select k from c)"
        ),
    ),
    "recursion": (
        1,
        lambda f: f["t"].sparkSession.sql(
            "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select * from r where n > 1"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("expected", "make"), FOREIGN.values(), ids=FOREIGN)
def test_operators_that_stay_sparks(frames: Frames, expected: int, make: Make) -> None:
    frame = make(frames)
    plan = round_trip(frame)
    assert len(foreign(plan)) == expected
    assert all(node.reason and node.sql for node in foreign(plan))
    optimize(logical_plan(frame).script)


# ------------------------------------------------------------------------------------------------------------- details


def test_a_scan_has_the_facts_of_its_files(frames: Frames) -> None:
    scan = converted(frames["t"])
    assert isinstance(scan, Scan)
    assert scan.files.rows == len(ROWS)
    assert scan.statistics is not None
    assert scan.statistics.columns[0][1].low == 1
    assert isinstance(converted(frames["u"]), Scan)
    assert isinstance(converted(frames["v"]), Scan)


def test_a_frame_keeps_the_files_it_was_made_with(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "grown")
    spark.range(3).write.parquet(path)
    frame = spark.read.parquet(path)
    spark.range(3, 5).write.mode("append").parquet(path)
    understood(frame)


def test_tables_of_the_session(spark: SparkSession, frames: Frames) -> None:
    spark.sql("drop table if exists dataframes_table")
    frames["u"].write.saveAsTable("dataframes_table")
    try:
        spark.sql("create view dataframes_view as select k, count(*) as n from dataframes_table group by k")
        frame = spark.sql("select v.n, d.name from dataframes_view v join dataframes_table d on v.k = d.k")
        plan = understood(frame)
        assert [node.label for node in operators(plan) if isinstance(node, Scan)] == ["dataframes_table"] * 2
    finally:
        spark.sql("drop view if exists dataframes_view")
        spark.sql("drop table dataframes_table")


def test_a_range_has_a_key(spark: SparkSession) -> None:
    plan = understood(spark.range(1, 9, 2))
    assert isinstance(plan, TableScan)
    assert (plan.rows, len(plan.keys)) == (4, 1)


def test_cached_frames_stay_cached(spark: SparkSession, frames: Frames) -> None:
    cached = frames["t"].where("id > 1").cache()
    try:
        plan = understood(cached.groupBy("k").count())
        assert any(isinstance(node, TableScan) and node.name == ("in memory relation",) for node in operators(plan))
    finally:
        cached.unpersist()


def test_views_keep_the_settings_they_were_created_with(spark: SparkSession, frames: Frames) -> None:
    """A permanent view keeps the mode it was analyzed in. In the session's mode, '' as a number would be an error."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        lenient = frames["t"].sparkSession.sql("select id, cast(s as int) as n, k + 1 as m, sum(k) over () as x from t")
        lenient.schema  # noqa: B018 - analyzed now
        round_trip(lenient)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    plan = round_trip(lenient)
    assert {part.name for part in opaque(plan)} == {"cast", "add"}
    assert not foreign(plan)


def test_time_zones(spark: SparkSession, frames: Frames) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        elsewhere = spark.sql(
            "select cast(at as date), cast(at as string), timestamp'2024-03-10 02:30:00', cast('2024-11-03 01:30' as"
            " timestamp) from t where at > timestamp'2000-01-01 00:00:00'"
        )
        understood(elsewhere)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    plan = round_trip(elsewhere)
    assert {part.name for part in opaque(plan)} == {"cast"}


def test_settings_that_change_the_meaning_of_a_text(spark: SparkSession, frames: Frames) -> None:
    settings = {"spark.sql.parser.escapedStringLiterals": "true", "spark.sql.timestampType": "TIMESTAMP_NTZ"}
    frame = frames["t"].where((F.col("s") == "it's \\ \n") | F.col("s").like("\\\\%")).select(
        "id", F.col("at").cast("date").cast(TimestampType()), F.lit("'"), F.lit(datetime.datetime(2024, 1, 1))
    )  # fmt: skip
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        round_trip(frame)
    finally:
        for key in settings:
            spark.conf.unset(key)


def test_a_constant_orders_nothing(frames: Frames) -> None:
    plan = understood(frames["t"].orderBy(F.lit("x"), F.lit(1) + 1, F.col("id").desc(), "s"), in_order=True)
    (sort,) = [node for node in operators(plan) if isinstance(node, logical.Sort)]
    assert len(sort.order) == 2


def test_a_plan_too_deep_to_read_stays_whole(frames: Frames) -> None:
    frame = frames["u"]
    for place in range(120):
        frame = frame.select("*").where(F.col("id") >= -place)
    (node,) = foreign(round_trip(frame))
    assert not node.inputs


def test_metadata_is_restored(frames: Frames) -> None:
    frame = frames["u"].select(F.col("id").alias("a.b", metadata={"note": "x"}), F.col("k").alias("a.b"))
    with baseline(frame.sparkSession) as plain:
        ours = with_schema_of(plain.result(converted(frame)), frame)
    assert ours.schema == frame.schema


def test_ansi_errors_stay_errors(spark: SparkSession, frames: Frames) -> None:
    frame = spark.sql("select 1 / 0 as x, cast('a' as int) as y from t where id > 100")
    with baseline(spark) as plain:
        ours = plain.result(converted(frame))
    for each in (frame, ours):
        with pytest.raises(ArithmeticException):
            each.collect()


def test_two_functions_of_one_name_are_not_one(frames: Frames) -> None:
    one, other = F.udf(lambda v: v, LongType()), F.udf(lambda v: v + 1, LongType())
    numbers = {part.number for part in opaque(converted(frames["t"].select(one("id"), other("id"), one("id"))))}
    assert len(numbers) == 2


def test_constants_reach_the_optimizer(spark: SparkSession, frames: Frames) -> None:
    plan = converted(spark.sql("select id from t where k = 10 and day >= date'2024-01-01' - interval 1 month"))
    (condition,) = [node.predicate for node in operators(plan) if isinstance(node, logical.Filter)]
    assert isinstance(condition, Call)
    found = [part.value for part in walk(condition) if isinstance(part, Literal)]
    assert found == [10, datetime.date(2023, 12, 1)]


def test_one_column_at_a_time(spark: SparkSession, frames: Frames) -> None:
    """Lowering needs a Spark column for each expression of a projection."""
    frame = frames["t"].select("id", plus_one("id").alias("n"), F.when(F.col("id") > 2, twice("id")).alias("r"))
    plan = converted(frame)
    assert isinstance(plan, logical.Project)
    with baseline(spark) as plain:
        below = plain.frame(plan.child)

    def name_of(found: Any) -> str:
        return f"`{found.spark_name}`"

    made: list[Column] = [
        column(spark, expression, name_of, lambda _: "").alias(new.name) for new, expression in plan.outputs
    ]
    assert rows_of(below.select(*made)) == rows_of(frame)


def test_streams_are_rejected(spark: SparkSession) -> None:
    with pytest.raises(UserError, match="streaming"):
        logical_plan(spark.readStream.format("rate").load())
