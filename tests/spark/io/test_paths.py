"""Paths mean the same to unshuffle and to Spark: whatever the working directory is, and with signs that Spark takes for patterns."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from unshuffle import Session

pytestmark = pytest.mark.spark


def write(path: Path, *ids: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(ids)}), path)


def ids(frame: DataFrame) -> Counter[int]:
    return Counter(row["id"] for row in frame.collect())


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of this process, which is not that in which Spark started."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("source", ["t", "days?day=2026-01-01..2026-01-02", "t/*.parquet", "./t/../t/a.parquet"])
def test_a_script_reads_and_writes_in_the_working_directory(spark: SparkSession, elsewhere: Path, source: str) -> None:
    write(elsewhere / "t" / "a.parquet", 1, 2)
    write(elsewhere / "days" / "day=2026-01-01" / "a.parquet", 1, 2)
    (elsewhere / "s.scope").write_text(f"""
        t = EXTRACT id:long FROM "{source}" USING Parquet();
        OUTPUT t TO "out" USING Parquet();
    """)
    Session(spark, effort="full").run("s.scope")
    assert ids(spark.read.parquet(f"{elsewhere}/out")) == Counter([1, 2])


def test_text_and_csv_are_read_in_the_working_directory(spark: SparkSession, elsewhere: Path) -> None:
    (elsewhere / "t.csv").write_text("id\n1\n2\n")
    (elsewhere / "t.txt").write_text("3\n")
    (elsewhere / "s.scope").write_text("""
        t = EXTRACT id:long FROM "t.csv" USING Csv(header = true);
        l = EXTRACT line:string FROM "t.txt" USING Text();
        r = SELECT id FROM t UNION ALL SELECT CAST(line AS long) AS id FROM l;
        OUTPUT r TO "out" USING Parquet();
    """)
    Session(spark, effort="full").run("s.scope")
    assert ids(spark.read.parquet(f"{elsewhere}/out")) == Counter([1, 2, 3])


def test_tables_are_those_of_the_working_directory(spark: SparkSession, elsewhere: Path) -> None:
    write(elsewhere / "warehouse" / "here_only.parquet", 4)
    assert ids(Session(spark, tables="warehouse", effort="full").sql("select id from here_only")) == Counter([4])


def test_a_folder_whose_name_is_a_pattern_is_itself(spark: SparkSession, elsewhere: Path) -> None:
    """Spark would read t1 instead of t[1]."""
    write(elsewhere / "t[1]" / "a.parquet", 1)
    write(elsewhere / "t1" / "a.parquet", 2)
    (elsewhere / "s.scope").write_text(f"""
        here = EXTRACT id:long FROM "t[1]" USING Parquet();
        there = EXTRACT id:long FROM "{elsewhere}/t[1]/a.parquet" USING Parquet();
        t = SELECT id FROM here UNION ALL SELECT id FROM there;
        OUTPUT t TO "out" USING Parquet();
    """)
    Session(spark, effort="full").run("s.scope")
    assert ids(spark.read.parquet(f"{elsewhere}/out")) == Counter([1, 1])
