"""Folders that plain Spark skips at run time, because the other input of a join has no row for them, are skipped by our plans.

The files of those folders are ruined once a query is planned, so a plan that reads them fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.hunt.plans import session_of

pytestmark = pytest.mark.spark

QUERIES = {
    "grouped by a column of the other input": "select w, sum(v) as s from visits join days on day = d where w = 3 group by w",
    "grouped by the folder column": "select day, count(*) as n from visits join days on day = d where w = 3 group by day",
    "only whether there is a match": "select u, sum(v) as s from visits where day in (select d from days where w = 3) group by u",
    "under another join": (
        "select w, u.n, sum(v) as s from visits join users u on visits.u = u.u join days on day = d where w = 3 group by w, u.n"
    ),
}
# Reading and joining rows is slow, so a partial aggregate below the join would be cheaper if all folders were read.
MACHINE = {"cores": 2, "scan_row": 1e-3, "probe_row": 1e-3, "joined_row": 1e-3, "stage": 1e-4, "task": 1e-5}


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "machine.json").write_text(json.dumps({"machine": MACHINE}))
    monkeypatch.setenv("UNSHUFFLE_MACHINE", str(tmp_path / "machine.json"))
    day = "date_add(date'2026-03-01', cast(id % 8 as int))"
    tables = {
        "visits": f"select id as v, id % 5 as u, {day} as day from range(800)",
        "days": f"select {day} as d, id as w from range(8)",
        "users": "select id as u, id % 2 as n from range(5)",
    }
    for name, text in tables.items():
        writer = spark.sql(text).repartition(1).write
        (writer.partitionBy("day") if name == "visits" else writer).parquet(str(tmp_path / name))
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    return tmp_path


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_pruned_folders_are_not_read(spark: SparkSession, tables: Path, name: str, adaptive: str) -> None:
    expected = rows(spark.sql(QUERIES[name]))
    session = session_of(spark)
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        found = session.optimize(spark.sql(QUERIES[name]))
        for file in tables.glob("visits/day=*/*.parquet"):
            if "2026-03-04" not in str(file):
                file.write_bytes(bytes(file.stat().st_size))
        assert rows(found) == expected
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.usefixtures("tables")
def test_the_plan_names_what_is_pruned(spark: SparkSession) -> None:
    text = str(session_of(spark).explain(spark.sql(QUERIES["grouped by the folder column"])))
    assert "pruned at run time by day = d, to 12.5 % of the rows" in text


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("setting", ["spark.sql.optimizer.dynamicPartitionPruning.enabled", "spark.sql.exchange.reuse"])
def test_what_spark_does_not_prune_is_not_planned_as_pruned(spark: SparkSession, setting: str) -> None:
    spark.conf.set(setting, "false")
    try:
        assert "pruned at run time" not in str(
            session_of(spark).explain(spark.sql(QUERIES["grouped by the folder column"]))
        )
    finally:
        spark.conf.unset(setting)


@pytest.mark.usefixtures("tables")
def test_without_a_selective_filter_spark_prunes_nothing(spark: SparkSession) -> None:
    query = "select w, sum(v) as s from visits join days on day = d where w is not null group by w"
    assert "pruned at run time" not in str(session_of(spark).explain(spark.sql(query)))
