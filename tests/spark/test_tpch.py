"""The 22 TPC-H queries: all are understood, and the straight translation gives what plain Spark gives on the same text."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import tpch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from unshuffle import Session
from unshuffle.spark.compare import same_rows

pytestmark = pytest.mark.spark

QUERIES = tpch.queries()


@pytest.fixture(scope="module")
def session(spark: SparkSession, tpch_data: Path) -> Session:
    for table in tpch.TABLES:
        spark.read.parquet(str(tpch_data / f"{table}.parquet")).createOrReplaceTempView(table)
    return Session(spark, tables=tpch_data)


def shape(frame: DataFrame) -> list[tuple[str, DataType, bool]]:
    return [(f.name, f.dataType, f.nullable) for f in frame.schema.fields]


@pytest.mark.parametrize("number", QUERIES, ids=lambda n: f"Q{n}")
def test_same_rows_as_plain_spark(session: Session, number: int) -> None:
    plain, ours = session.spark.sql(QUERIES[number]), session.sql(QUERIES[number])
    assert shape(ours) == shape(plain)
    assert same_rows(ours, plain)


def test_all_are_fully_understood(tpch_data: Path, report: list[str]) -> None:
    without_spark = Session(tables=tpch_data)
    foreign = [n for n, query in QUERIES.items() if without_spark._bind_what(query, None).foreign]
    understood = len(QUERIES) - len(foreign)
    report.append(
        f"TPC-H: {understood} of {len(QUERIES)} queries fully understood, {len(foreign)} with a foreign operator"
    )
    assert not foreign
