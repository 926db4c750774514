"""Tables are read by the files that Spark has listed, and what is known of a file is known until it changes."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession

from unshuffle import Session
from unshuffle.plan.logical import Scan

pytestmark = pytest.mark.spark


def write(folder: Path, day: int, ids: range, name: str = "a.parquet") -> None:
    (folder / f"day={day}").mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(pa.table({"id": pa.array(ids, pa.int64())}), folder / f"day={day}" / name)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for day in range(4):
        write(tmp_path / "t", day, range(day * 10, day * 10 + 10))
    return tmp_path / "t"


def scan_of(session: Session, frame: DataFrame) -> Scan:
    plan = session.pipeline.read(frame).outputs[0].plan
    while not isinstance(plan, Scan):
        plan = plan.child  # type: ignore[attr-defined]
    return plan


def joined(session: Session, frame: DataFrame) -> Counter[str]:
    other = frame.withColumnRenamed("id", "other")
    found = session.optimize(frame.join(other, "day").where("id >= 10 and other % 2 = 0"))
    return Counter(map(str, found.collect()))


def expected(frame: DataFrame) -> Counter[str]:
    other = frame.withColumnRenamed("id", "other")
    return Counter(map(str, frame.join(other, "day").where("id >= 10 and other % 2 = 0").collect()))


def test_a_file_that_was_added_later_is_not_read(spark: SparkSession, table: Path) -> None:
    session, frame = Session(spark, effort="full"), spark.read.parquet(str(table))
    before = expected(frame)
    write(table, 9, range(5))
    scan = scan_of(session, frame)
    assert scan.parts is not None
    assert scan.files.rows == 40
    assert joined(session, frame) == before
    assert scan_of(session, spark.read.parquet(str(table))).files.rows == 45


def test_a_file_that_was_replaced_is_looked_at_again(spark: SparkSession, table: Path) -> None:
    session = Session(spark, effort="full")
    frame = spark.read.parquet(str(table))
    assert scan_of(session, frame).files.rows == 40
    write(table, 2, range(1000, 1003))
    frame = spark.read.parquet(str(table))
    scan = scan_of(session, frame)
    assert scan.files.rows == 33
    assert joined(session, frame) == expected(frame)


def test_a_summary_of_all_footers_is_not_data(spark: SparkSession, table: Path) -> None:
    shutil.copy(table / "day=1" / "a.parquet", table / "_metadata")
    session, frame = Session(spark, effort="full"), spark.read.parquet(str(table))
    assert scan_of(session, frame).files.rows == 40
    assert joined(session, frame) == expected(frame)


def test_a_table_below_a_link_has_its_folders(spark: SparkSession, table: Path) -> None:
    link = table.parent / "link"
    link.symlink_to(table)
    session, frame = Session(spark, effort="full"), spark.read.parquet(str(link))
    scan = scan_of(session, frame)
    assert scan.parts is not None
    assert scan.bounds is not None
    assert joined(session, frame) == expected(frame)


def test_a_table_whose_files_only_spark_lists_has_their_size(spark: SparkSession, tmp_path: Path) -> None:
    """The catalog says that a table in folders has 8 EiB, and plans for so much data have thousands of partitions."""
    spark.sql("create table far_parts (id bigint, p int) using parquet partitioned by (p)")
    try:
        session, frame = Session(spark, effort="full"), spark.sql("select p, id from far_parts")
        assert scan_of(session, frame).files.bytes == 0
        spark.sql("insert into far_parts select id, id % 2 from range(100)")
        spark.sql(f"alter table far_parts add partition (p = 7) location '{tmp_path / 'far'}'")
        spark.sql("insert into far_parts values (100, 7)")
        frame = spark.table("far_parts")
        scan = scan_of(session, frame)
        assert scan.parts is None
        assert 0 < scan.files.bytes < 10_000
        assert len(session.optimize(frame.groupBy("p").count()).collect()) == 3
    finally:
        spark.sql("drop table far_parts")


@pytest.mark.parametrize("is_catalog", [True, False], ids=["catalog", "path"])
def test_folders_with_escaped_names_are_read_in_place(spark: SparkSession, tmp_path: Path, is_catalog: bool) -> None:
    spark.sql(
        f"create table escaped (id bigint, p string) using parquet partitioned by (p) location '{tmp_path / 'e'}'"
    )
    try:
        spark.sql("insert into escaped values (1, 'é/x=1%'), (2, '50%'), (3, 'a '), (4, null), (5, 'a'), (6, '%2F')")
        session = Session(spark, effort="full")
        frame = spark.table("escaped") if is_catalog else spark.read.parquet(str(tmp_path / "e"))
        scan = scan_of(session, frame)
        assert scan.files.rows == 6
        assert scan.parts is not None
        found = session.optimize(frame.groupBy("p").count())
        assert Counter(map(str, found.collect())) == Counter(map(str, frame.groupBy("p").count().collect()))
    finally:
        spark.sql("drop table escaped")
