"""The 99 TPC-DS queries: Spark accepts every text, and the binder finds the same column names and types as Spark's
analyzer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from unshuffle.catalog.types import spark_name
from unshuffle.plan.logical import Script
from workloads import tpcds

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(spark: SparkSession, tpcds_data: Path) -> Iterator[None]:
    for table in tpcds.TABLES:
        spark.read.parquet(str(tpcds_data / f"{table}.parquet")).createOrReplaceTempView(table)
    yield
    for table in tpcds.TABLES:
        spark.catalog.dropTempView(table)


def test_columns_agree_with_spark(spark: SparkSession, tables: None, tpcds_scripts: dict[int, Script]) -> None:
    different = {}
    for number, text in tpcds.queries().items():
        (output,) = tpcds_scripts[number].outputs
        ours = [(column.name, spark_name(column.type)) for column in output.plan.columns]
        sparks = [(field.name, field.dataType.simpleString()) for field in spark.sql(text).schema.fields]
        if ours != sparks:
            different[number] = [pair for pair in zip(ours, sparks, strict=False) if pair[0] != pair[1]]
    assert different == {}
