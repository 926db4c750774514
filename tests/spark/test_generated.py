"""Generated queries: optimized plans, run on Spark, give the rows of plain Spark, whatever machine they were planned for
and without some rules, and their rows lie in partitions as the plans claim."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.generated_queries import Query, write_tables
from tests.support.spark_differential import Sides, in_two_sessions, problems
from unshuffle import Session
from unshuffle.explore import semi_join_pullup

pytestmark = pytest.mark.spark
QUERIES = 6000 if "UNSHUFFLE_SOAK" in os.environ else 300


@pytest.fixture(scope="module")
def sides(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("generated")
    write_tables(folder)
    plain, ours = in_two_sessions(spark)
    for table in folder.iterdir():
        plain.createDataFrame(pq.read_table(table)).createOrReplaceTempView(table.stem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semi_join_pullup, "MANY", 0)  # the tables have few rows
        yield Sides(plain, Session(ours, tables=folder))
    for table in folder.iterdir():
        plain.catalog.dropTempView(table.stem)


# A test each: of several processes, one begins with the file of most tests, and this one takes longest.
@pytest.mark.parametrize("seed", range(QUERIES))
def test_rows_and_layouts(sides: Sides, seed: int) -> None:
    wrong = list(problems(sides, seed, Query(seed).text()))
    assert not wrong, "\n\n".join(wrong)
