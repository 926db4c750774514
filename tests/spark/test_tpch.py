"""The 22 TPC-H queries: all are understood, and give what plain Spark gives, as texts and as DataFrames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import tpch
from benchmarks.execute import KEYS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.spark import faithful
from unshuffle.spark.compare import same_rows

pytestmark = pytest.mark.spark

QUERIES = tpch.queries()
# For so few rows all plans would be serial. On this machine it costs nothing to start a task, and much to copy rows to all.
PARALLEL = Machine(
    cores=3, stage=1e-9, task=1e-9, block=1e-12, partition_bytes=2e4, file_piece_bytes=5e4, broadcast_bytes=0.0
)


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


@pytest.fixture
def declared(session: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Every primary key is declared, and plans are parallel."""
    for table, key in KEYS.items():
        session.declare_key(table, *key)
    usual = session._options
    monkeypatch.setattr(session, "_options", lambda keeps=True: replace(usual(keeps), machine=PARALLEL))
    return session


@pytest.mark.parametrize("number", QUERIES, ids=lambda n: f"Q{n}")
def test_a_dataframe_is_planned_like_its_text(declared: Session, number: int) -> None:
    text, frame = QUERIES[number], declared.spark.sql(QUERIES[number])
    by_text = declared.sql(text)
    assert declared.fallbacks == ()
    by_frame = declared.optimize(frame)
    assert declared.fallbacks == ()
    assert shape(by_frame) == shape(frame)
    assert _sent(by_text) == _sent(by_frame)
    assert same_rows(frame, by_frame)


def _sent(frame: DataFrame) -> list[tuple[str, int]]:
    """Every exchange: how, and into how many partitions. The names of columns may differ."""
    return sorted((each.how, each.partitions) for each in faithful.of_frame(frame).exchanges.elements())


def test_all_are_fully_understood(tpch_data: Path, report: list[str]) -> None:
    without_spark = Session(tables=tpch_data)
    foreign = [n for n, query in QUERIES.items() if without_spark._bind_what(query, None).foreign]
    understood = len(QUERIES) - len(foreign)
    report.append(
        f"TPC-H: {understood} of {len(QUERIES)} queries fully understood, {len(foreign)} with a foreign operator"
    )
    assert not foreign
