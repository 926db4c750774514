"""DataFrames through `Session.optimize`: the same rows and schema, and an unchanged user session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tests.support.generated_queries import write_tables
from unshuffle import Session
from unshuffle.errors import UserError
from unshuffle.spark.execution.compare import same_rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    folder = tmp_path_factory.mktemp("optimize")
    write_tables(folder)
    return {table.stem: spark.read.parquet(str(table)) for table in folder.iterdir()}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Session:
    return Session(spark, effort="full")


def check(session: Session, frame: DataFrame) -> DataFrame:
    faster = session.optimize(frame)
    assert session.fallbacks == ()
    assert faster.schema == frame.schema
    assert same_rows(frame, faster)
    return faster


def test_rows_and_schema_do_not_change(session: Session, tables: dict[str, DataFrame]) -> None:
    t, u = tables["t"], tables["u"]
    joined = (
        t.join(u, t.a == u.e).groupBy("b", "w").agg(F.sum("m").alias("total of m"), F.countDistinct("s").alias("s"))
    )
    check(session, joined)
    check(session, t.select("a", F.col("a").alias("b.c"), (F.col("x") * 2).alias("twice")).distinct())


def test_a_frame_can_be_used_like_any_other(
    session: Session, spark: SparkSession, tables: dict[str, DataFrame]
) -> None:
    grouped = tables["t"].groupBy("a", "s").agg(F.count("*").alias("n"))
    faster = check(session, grouped)
    # Joined with itself (which needs new column names) and with a user's frame, as a view, and cached.
    both = faster.join(faster.select("a", F.col("n").alias("m")), "a").join(tables["u"], F.col("a") == F.col("e"))
    plain = grouped.join(grouped.select("a", F.col("n").alias("m")), "a").join(tables["u"], F.col("a") == F.col("e"))
    assert same_rows(plain, both)
    faster.createOrReplaceTempView("faster")
    assert spark.sql("select sum(n) as n from faster").collect()[0].n == tables["t"].count()
    spark.catalog.dropTempView("faster")
    faster.cache()
    assert same_rows(grouped, faster)
    faster.unpersist()


def test_settings_and_views_do_not_change(session: Session, spark: SparkSession, tables: dict[str, DataFrame]) -> None:
    before = dict(spark.sparkContext.getConf().getAll()), spark.sql("set").collect(), spark.sql("show tables").collect()
    session.optimize(tables["t"].groupBy("a").count()).collect()
    after = dict(spark.sparkContext.getConf().getAll()), spark.sql("set").collect(), spark.sql("show tables").collect()
    assert after == before


def test_a_declared_key_removes_a_grouping(session: Session, tables: dict[str, DataFrame]) -> None:
    v = tables["v"]
    grouped = v.groupBy("id").agg(F.max("q").alias("q"))
    assert "Aggregate" in session.explain(grouped)
    session.declare_key(Path(v.inputFiles()[0].removeprefix("file://")).parent, "id")
    assert "Aggregate" not in session.explain(grouped)
    check(session, grouped)


def test_an_argument_that_is_not_a_dataframe_is_an_error(session: Session) -> None:
    with pytest.raises(UserError, match="a DataFrame of PySpark is needed, not list"):
        session.optimize([1, 2])  # type: ignore[arg-type]


def test_what_shows_partitions_is_as_in_plain_spark(
    session: Session, spark: SparkSession, tables: dict[str, DataFrame]
) -> None:
    t = tables["t"]
    by_id = spark.range(20).repartitionById(5, (F.col("id") % 5).cast("int"))
    frames = {
        "SparkPartitionID": by_id.select("id", F.spark_partition_id().alias("p")),
        "MonotonicallyIncreasingID": by_id.withColumn("n", F.monotonically_increasing_id()).groupBy("n").count(),
        "InputFileName": t.select("a", F.input_file_name().alias("f")).join(tables["u"], F.col("a") == F.col("e")),
    }
    for function, frame in frames.items():
        faster = session.optimize(frame)
        assert function in session.fallbacks[0]
        assert same_rows(frame, faster)
        assert function in session.explain(frame)


def test_random_numbers_by_a_seed_are_as_in_plain_spark(session: Session, tables: dict[str, DataFrame]) -> None:
    t = tables["t"].repartition(3)
    frames = [
        t.sample(0.4, seed=3).groupBy("a").count(),
        t.withColumn("r", F.rand(7)).groupBy("a").agg(F.max("r")),
        t.randomSplit([0.5, 0.5], seed=5)[0].join(tables["u"], F.col("a") == F.col("e")),
    ]
    for frame in frames:
        faster = session.optimize(frame)
        assert "by a seed" in session.fallbacks[0]
        assert same_rows(frame, faster)


def test_a_repartition_is_what_is_written(session: Session, tables: dict[str, DataFrame], tmp_path: Path) -> None:
    frame = tables["t"].groupBy("a").count().repartition(7, "a")
    faster = session.optimize(frame)
    for name, each in (("plain", frame), ("ours", faster)):
        each.write.parquet(str(tmp_path / name))
    assert len(list((tmp_path / "ours").glob("*.parquet"))) == len(list((tmp_path / "plain").glob("*.parquet"))) > 1
