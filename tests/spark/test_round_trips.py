"""A query is read, planned and lowered in a few calls from Python to the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import SparkSession

from unshuffle import Session
from workloads import tpcds

pytestmark = pytest.mark.spark

MOST = 20
# One star, many dimensions, subqueries, windows, rollups, unions, set operations, shared rowsets, correlated subqueries.
QUERIES = (3, 5, 8, 9, 12, 22, 38, 41, 51, 62, 67, 77, 88, 96)


@pytest.fixture
def tables(spark: SparkSession, tpcds_data: Path) -> Iterator[None]:
    for table in tpcds.TABLES:
        spark.read.parquet(str(tpcds_data / f"{table}.parquet")).createOrReplaceTempView(table)
    yield
    for table in tpcds.TABLES:
        spark.catalog.dropTempView(table)


@pytest.fixture
def calls(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """How many calls a function makes. The first use of a class of ours compiles it, and is not counted."""
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    usual, made = client.send_command, []

    def counted(command: str, *arguments: Any, **named: Any) -> Any:
        if not command.startswith(MEMORY_COMMAND_NAME):  # those of objects that Python has collected
            made.append(command)
        return usual(command, *arguments, **named)

    monkeypatch.setattr(client, "send_command", counted)

    def count(function: Callable[[], Any]) -> int:
        function()
        made.clear()
        function()
        return len(made)

    return count


@pytest.mark.usefixtures("tables")
def test_a_query_takes_few_calls(
    spark: SparkSession, calls: Callable[[Callable[[], Any]], int], report: list[str]
) -> None:
    session, texts = Session(spark, effort="full"), tpcds.queries()
    frames = {number: spark.sql(texts[number]) for number in QUERIES}
    counts = {number: calls(lambda frame=frame: session.optimize(frame)) for number, frame in frames.items()}
    report.append(
        f"calls to the JVM of {len(counts)} TPC-DS queries as DataFrames: {min(counts.values())} to {max(counts.values())}"
    )
    assert {number: count for number, count in counts.items() if count > MOST} == {}


@pytest.mark.usefixtures("tables")
def test_a_look_takes_one_call(spark: SparkSession, calls: Callable[[Callable[[], Any]], int]) -> None:
    frame = spark.sql(tpcds.queries()[3])
    session = Session(spark)
    assert session.optimize(frame) is frame
    assert calls(lambda: session.optimize(frame)) <= 2
