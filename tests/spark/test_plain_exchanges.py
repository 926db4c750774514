"""The exchanges that `explain` says plain Spark would plan are those of the plan that Spark makes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from unshuffle.session import Session

pytestmark = pytest.mark.spark

QUERIES = (
    "select r.c, e, count(*) n from r join s on r.a = s.a join u on s.d = u.d group by r.c, e",
    "select a, b, count(*) from r group by a, b",
    "select a, count(distinct b) n from r group by a",
    "select a, b, count(*) n from r group by a, b order by n",
    "select r.a, r.b, s.d from r join s on r.a = s.a",
    "select r.a, count(*) from r join s on r.a = s.a group by r.a",
    "select r.a, s.d, count(*) from r join s on r.a = s.a group by r.a, s.d",
    "select * from r left join u on r.a = u.d",
    "select a, rank() over (partition by a order by b) k from r",
    "select a from r where exists (select 1 from s where s.a = r.a)",
    "select a, n from (select a, count(*) n from r group by a) union all select a, b from r",
    "select e, sum(b) from r join u on r.a = u.d group by e order by e limit 3",
    "select x.a, x.n, y.m from (select a, count(*) n from r group by a) x join (select a, max(b) m from r group by a) y on x.a = y.a",
    "select count(*) from r",
)


def exchanges(frame: DataFrame) -> int:
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return sum(bool(re.match(r"[ :+\-]*(Broadcast)?Exchange\b", line)) for line in plan.splitlines())


@pytest.mark.parametrize("threshold", [2000, -1])
def test_the_count_is_sparks(spark: SparkSession, tmp_path: Path, threshold: int) -> None:
    """Table u is small enough to be broadcast, and the others are not."""
    for name, columns in {
        "r": ("cast(id % 100 as int) a", "cast(id % 10 as int) b", "cast(id % 5 as int) c"),
        "s": ("cast(id % 100 as int) a", "cast(id % 50 as int) d"),
    }.items():
        spark.range(20_000).selectExpr(*columns).write.parquet(str(tmp_path / f"{name}.parquet"))
    spark.range(50).selectExpr("cast(id as int) d", "concat('n', id) e").coalesce(1).write.parquet(
        str(tmp_path / "u.parquet")
    )
    apart = spark.newSession()
    apart.conf.set("spark.sql.autoBroadcastJoinThreshold", str(threshold))
    apart.conf.set("spark.sql.adaptive.enabled", "false")
    for name in ("r", "s", "u"):
        apart.read.parquet(str(tmp_path / f"{name}.parquet")).createTempView(name)
    session = Session(apart, effort="full")
    for query in QUERIES:
        said = json.loads(session.explain(query, format="json"))["plain_spark"]["exchanges"]
        assert said == exchanges(apart.sql(query)), query
        assert f"Plain Spark would plan {said} exchange" in session.explain(query)
