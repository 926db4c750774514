"""Plans that choose partitions by values, by cost and by what user code takes: the rows of plain Spark, read and run as planned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.machines import plan_for
from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.plan import physical
from unshuffle.properties import Partitioned, Repartitioning
from unshuffle.sstream import open_stream
from unshuffle.sstream.check import check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from unshuffle.optimizer import PlannedQuery

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

ROWS = 40_000


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Streams with NULL, -0.0 and Unicode among their keys, and small tables with keys of both, duplicates and NULL."""
    from unshuffle.spark.io.sstream_writer import ParquetSizes, write
    from unshuffle.sstream.layout_request import LayoutRequest, sorted_names

    folder = tmp_path_factory.mktemp("tables")
    frame = spark.range(ROWS).selectExpr(
        "nullif(id * 7919 % 40000, 77) AS a",
        "concat(if(id % 2 = 0, 'é', 't'), lpad(id, 5, '0')) AS t",
        "if(id % 100 = 0, -0.0D, cast(id % 100 AS double)) AS f",
        "id % 50 AS b",
    )
    small_groups = ParquetSizes(row_group_bytes=16_384, page_rows=500)
    cuts = tuple((i * ROWS // 4,) for i in range(1, 4))
    for name, request in (
        ("ranged", LayoutRequest(sorted_names("a"), boundaries=cuts)),
        ("hashed", LayoutRequest(sorted_names("a"), partitions=8)),
        ("texts", LayoutRequest(sorted_names("t"), partitions=8)),
        ("floats", LayoutRequest(sorted_names("f"), partitions=8)),
    ):
        write(frame, str(folder / f"{name}.ss"), request, sizes=small_groups)
    small = spark.range(12).selectExpr(
        "if(id = 3, NULL, cast(id * 3000 + 7 AS int)) AS k",
        "if(id = 3, NULL, concat(if(id % 2 = 0, 'é', 't'), lpad(id * 3000, 5, '0'))) AS kt",
        "id % 4 AS g",
    )
    small.unionAll(small.limit(2)).coalesce(1).write.parquet(str(folder / "small.parquet"))
    return folder


def plain(spark: SparkSession, tables: Path, query: str) -> list[str]:
    for name in ("ranged", "hashed", "texts", "floats"):
        spark.read.parquet(*open_stream(str(tables / f"{name}.ss")).paths).createOrReplaceTempView(f"plain_{name}")
        query = query.replace(f" {name} ", f" plain_{name} ")
    spark.read.parquet(str(tables / "small.parquet")).createOrReplaceTempView("plain_small")
    return rows(spark.sql(query.replace(" small ", " plain_small ")))


@pytest.mark.parametrize(
    "query",
    [
        "select * from ranged join small on a = k ",
        "select * from ranged join small on a = k where g = 2",
        "select * from ranged join small on a = k and b > 20 where g in (1, 2) and kt > 't'",
        "select * from small left join ranged on a = k where g = 1",
        "select * from ranged right join small on a = k where g = 3",
        "select * from ranged left join small on a = k and g = 1 where b = 7",
        "select * from ranged where a in (select k from small where g = 2)",
        "select * from small where k not in (select a from ranged where a is not null) or k is null",
        "select * from small anti join ranged on a = k ",
        "select sum(b), count(kt) from hashed join small on a = k where g = 2",
        "select kt, count(*) from texts join small on t = kt where g <> 1 group by kt",
        "select * from texts join small on t = kt where g = 0",
        # Values of hashes.
        "select * from hashed where a in (5, 6, 39999) or (a = 7 and b > 1)",
        "select * from hashed where a is null",
        "select a, count(*) from hashed where a <=> null or a = 12 group by a",
        "select * from texts where t in ('é00002', 't00003', 'none')",
        "select f, count(*), sum(b) from floats where f = 0 group by f",
        "select f, count(*) from floats where f in (-0.0D, 5.0D) group by f",
    ],
)
def test_rows_are_those_of_plain_spark(spark: SparkSession, tables: Path, query: str) -> None:
    session = Session(spark, tables=tables, effort="full")
    for cores in (2, 8):
        plan_for(session, Machine(cores=cores, stage=1e-3, task=1e-6))
        assert rows(session.sql(query)) == plain(spark, tables, query)
        assert session.fallbacks == ()


def scanned(frame: DataFrame, table_columns: int) -> int:
    """The rows that the scans of so many columns returned."""
    frame.collect()
    pending: list[Any] = [frame._jdf.queryExecution().executedPlan()]
    found = 0
    while pending:
        plan = pending.pop()
        if plan.metrics().contains("numOutputRows") and plan.nodeName().startswith("Scan"):
            found += int(plan.metrics().apply("numOutputRows").value()) if plan.output().size() == table_columns else 0
        pending += [plan.children().apply(i) for i in range(plan.children().size())]
    return found


def test_a_small_table_reads_only_the_pages_of_its_keys(spark: SparkSession, tables: Path) -> None:
    session = Session(spark, tables=tables, effort="full")
    frame = session.sql("select a, b, f, g from ranged join small on a = k ")
    assert 0 < scanned(frame, 3) <= ROWS // 4


def planned(session: Session, script: Path) -> PlannedQuery:
    (found,) = session.pipeline.plan(session.pipeline.bind_file(script, None))
    return found


def exchanges(found: PlannedQuery) -> list[physical.Exchange]:
    return [n.operator for root in found.roots for n in root.walk() if isinstance(n.operator, physical.Exchange)]


def test_related_layouts_that_are_sent(spark: SparkSession, tables: Path, tmp_path: Path) -> None:
    """Into 2 partitions in place, 2 tasks would also compute the percentiles."""
    session = Session(spark, tables=tables, effort="full")
    plan_for(session, Machine(cores=8, stage=1e-6, task=1e-9, connection=1e-9, object_row=1e-3))
    script = tmp_path / "s.scope"
    script.write_text(f"""
        r = SELECT a, percentile(b, 0.5) AS middle FROM SSTREAM "{tables}/hashed.ss" GROUP BY a;
        OUTPUT r TO SSTREAM "{tmp_path}/made.ss" CLUSTERED BY a INTO 2;
    """)
    (sent,) = exchanges(planned(session, script))
    assert sent.readers is None
    assert isinstance(sent.how, Repartitioning)
    assert isinstance(sent.how.scheme, Partitioned)
    session.run(script)
    assert session.fallbacks == ()
    made = open_stream(str(tmp_path / "made.ss"))
    assert check(made) == ()
    wanted = plain(spark, tables, "select a, percentile(b, 0.5) as middle from hashed group by a")
    assert rows(spark.read.parquet(*made.paths)) == wanted


SLOW = """
from unshuffle import Processor, Reducer

class Rows(Processor):
    seconds_per_row = 0.5
    def process_row(self, row):
        yield {"a": row["a"], "n": row["b"] + 1}

class Groups(Reducer):
    seconds_per_row = 0.5
    def reduce_rows(self, key, rows):
        yield {**key, "n": sum(1 for _ in rows)}
"""


def test_user_code_that_declares_its_cost_runs_in_more_tasks(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    spark.range(300).selectExpr("id % 40 AS a", "id AS b").coalesce(1).write.parquet(str(tmp_path / "t.parquet"))
    session = Session(spark, effort="full")
    plan_for(session, Machine(cores=4))
    script = tmp_path / "s.scope"
    script.write_text(f"""
        t = EXTRACT a:long, b:long FROM "{tmp_path}/t.parquet" USING Parquet();
        p = PROCESS t PRODUCE a:long, n:long USING slow.Rows();
        r = REDUCE t ON a PRODUCE a:long, n:long READONLY a USING slow.Groups();
        OUTPUT p TO "{tmp_path}/p.parquet";
        OUTPUT r TO "{tmp_path}/r.parquet";
    """)
    found = planned(session, script)
    counts = [n.size.partitions for r in found.roots for n in r.walk() if isinstance(n.operator, physical.Exchange)]
    # 150 seconds: 15 tasks of 10 seconds, from 4 cores in doublings.
    assert counts == [16, 16]
    session.run(script)
    assert session.fallbacks == ()
    base = spark.read.parquet(str(tmp_path / "t.parquet"))
    assert rows(spark.read.parquet(str(tmp_path / "p.parquet"))) == rows(base.selectExpr("a", "b + 1 AS n"))
    assert rows(spark.read.parquet(str(tmp_path / "r.parquet"))) == rows(
        base.groupBy("a").count().withColumnRenamed("count", "n")
    )
