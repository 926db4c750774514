"""Generated queries: optimized plans return the rows of plain Spark, for every machine and with some rules disabled, and
their rows are in the layouts that the plans claim."""

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
QUERIES = 6000 if "UNSHUFFLE_SOAK" in os.environ else 150


@pytest.fixture(scope="module")
def sides(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("generated")
    write_tables(folder)
    plain, ours = in_two_sessions(spark)
    for table in folder.iterdir():
        plain.createDataFrame(pq.read_table(table)).createOrReplaceTempView(table.stem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semi_join_pullup, "MANY", 0)  # the tables have few rows
        yield Sides(plain, Session(ours, tables=folder, effort="full"))
    for table in folder.iterdir():
        plain.catalog.dropTempView(table.stem)


# One test per query: with several processes, the file with the most tests starts first, and this file takes longest.
@pytest.mark.parametrize("seed", range(QUERIES))
def test_rows_and_layouts(sides: Sides, seed: int) -> None:
    wrong = list(problems(sides, seed, Query(seed).text()))
    assert not wrong, "\n\n".join(wrong)
