"""A query for which planning does not pay is left to plain Spark, and `explain` says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle import Session
from unshuffle.errors import UserError
from unshuffle.spark.shims.executed_plan import executed_plan
from unshuffle.spark.shims.plan_size import plan_size

pytestmark = pytest.mark.spark

QUERY = "select id % 10 as k, count(*) as n from range(1000) group by 1"


@pytest.fixture
def small(spark: SparkSession) -> DataFrame:
    return spark.sql(QUERY)


def test_a_small_frame_is_returned_as_it_is(spark: SparkSession, small: DataFrame) -> None:
    session = Session(spark)
    assert session.optimize(small) is small
    assert session.fallbacks == ()
    assert Session(spark, effort="full").optimize(small) is not small


def test_a_small_text_runs_as_in_plain_spark(spark: SparkSession) -> None:
    assert executed_plan(Session(spark).sql(QUERY))[0] == executed_plan(spark.sql(QUERY))[0]


@pytest.mark.parametrize("what", ["frame", "text"])
def test_explain_says_so(spark: SparkSession, small: DataFrame, what: str) -> None:
    session, full = Session(spark), Session(spark, effort="full")
    explained = small if what == "frame" else QUERY
    assert "Left as it is: plain Spark takes an estimated" in session.explain(explained)
    assert "Left as it is" not in full.explain(explained)
    found = json.loads(session.explain(explained, format="json"))["left_as_is"]
    assert found["planning"] > found["saving"]
    assert found["straight"] > found["saving"]
    assert json.loads(full.explain(explained, format="json"))["left_as_is"] is None


def test_a_file_is_always_planned(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "query.sql"
    file.write_text(QUERY)
    assert "Left as it is" not in Session(spark).explain(file)


def test_rows_that_may_grow_are_always_planned(spark: SparkSession, small: DataFrame) -> None:
    several = small.select("n", F.explode(F.array(F.lit(1), F.lit(2))).alias("x")).groupBy("x").sum("n")
    slow = small.where(F.udf(lambda n: n > 1, "boolean")("n")).distinct()
    pairs = small.alias("a").join(small.alias("b"), F.col("a.n") < F.col("b.n")).groupBy("a.k").count()
    for frame in (several, slow, pairs):
        assert plan_size(frame).may_grow
        assert Session(spark).optimize(frame) is not frame


def test_only_the_columns_that_are_read_count(spark: SparkSession, tmp_path: Path) -> None:
    columns = [F.rand(i).alias(f"c{i}") for i in range(10)]
    spark.range(1000).select(*columns).write.parquet(str(tmp_path / "t"))
    table = spark.read.parquet(str(tmp_path / "t"))
    whole, one = plan_size(table), plan_size(table.groupBy("c1").count())
    assert one.bytes == pytest.approx(whole.bytes / 10)
    assert (whole.redistributing, one.redistributing) == (0, 1)
    twice = table.join(table.groupBy("c1").agg(F.max("c2").alias("c2")), ["c1", "c2"]).select("c1").distinct()
    assert plan_size(twice).redistributing == 3


def test_an_unknown_effort_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UserError, match="'much' is no effort"):
        Session(spark, effort="much")  # type: ignore[arg-type]
