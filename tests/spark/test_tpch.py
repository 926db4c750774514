"""The 22 TPC-H queries: all are understood and return the rows of plain Spark, as text and as DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.spark.session import temporarily
from workloads import tpch
from workloads.tpch import KEYS

pytestmark = pytest.mark.spark

QUERIES = tpch.queries()
# All plans over so few rows would be serial. On this machine tasks start for free and broadcasts are expensive.
PARALLEL = Machine(
    cores=3,
    stage=1e-9,
    task=1e-9,
    block=1e-12,
    connection=1e-12,
    partition_bytes=2e4,
    file_piece_bytes=5e4,
    broadcast_bytes=0.0,
)


@pytest.fixture(scope="module")
def session(spark: SparkSession, tpch_data: Path) -> Session:
    for table in tpch.TABLES:
        spark.read.parquet(str(tpch_data / f"{table}.parquet")).createOrReplaceTempView(table)
    return Session(spark, tables=tpch_data, effort="full")


Rows = list[tuple[Any, ...]]
# As for users.
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
# It does not matter here how plain Spark computes its rows.
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def plain_rows(session: Session) -> Callable[[int], Rows]:
    """Plain Spark's rows for a query, computed once."""

    @cache
    def rows(number: int) -> Rows:
        with temporarily(session.spark, **QUICK):
            return collected(session.spark.sql(QUERIES[number]))

    return rows


def collected(frame: DataFrame) -> Rows:
    """The rows, sorted by exact values and then by rounded floats."""

    def place(row: tuple[Any, ...]) -> tuple[list[str], list[float]]:
        floats = [round(value, 6) for value in row if isinstance(value, float)]
        return [str(value) for value in row if not isinstance(value, float)], floats

    return sorted((tuple(row) for row in frame.collect()), key=place)


def assert_same(ours: Rows, plain: Rows) -> None:
    assert len(ours) == len(plain)
    for one, other in zip(ours, plain, strict=True):
        assert all(map(is_same, one, other)), (one, other)


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-9)  # a sum of floats depends on the order of the rows
    return bool(one == other)


def shape(frame: DataFrame) -> list[tuple[str, DataType, bool]]:
    return [(f.name, f.dataType, f.nullable) for f in frame.schema.fields]


@pytest.mark.parametrize("number", QUERIES, ids=lambda n: f"Q{n}")
def test_same_rows_as_plain_spark(session: Session, plain_rows: Callable[[int], Rows], number: int) -> None:
    with temporarily(session.spark, **COMPILED):
        plain, ours = session.spark.sql(QUERIES[number]), session.sql(QUERIES[number])
        assert shape(ours) == shape(plain)
        found = collected(ours)
    assert_same(found, plain_rows(number))


@pytest.fixture
def declared(session: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Every primary key is declared, and plans are parallel."""
    for table, key in KEYS.items():
        session.declare_key(table, *key)
    usual = session.pipeline.target
    monkeypatch.setattr(
        session.pipeline, "target", lambda is_managed=True: replace(usual(is_managed), machine=PARALLEL)
    )
    return session


@pytest.mark.parametrize("number", QUERIES, ids=lambda n: f"Q{n}")
def test_parallel_plans_with_keys(declared: Session, plain_rows: Callable[[int], Rows], number: int) -> None:
    frame = declared.spark.sql(QUERIES[number])
    ours = declared.optimize(frame)
    assert declared.fallbacks == ()
    assert shape(ours) == shape(frame)
    assert_same(collected(ours), plain_rows(number))


def test_all_queries_are_fully_understood(tpch_data: Path, report: list[str]) -> None:
    without_spark = Session(tables=tpch_data)
    foreign = [n for n, query in QUERIES.items() if without_spark.pipeline.bind(query).foreign]
    understood = len(QUERIES) - len(foreign)
    report.append(
        f"TPC-H: {understood} of {len(QUERIES)} queries fully understood, {len(foreign)} with a foreign operator"
    )
    assert not foreign
