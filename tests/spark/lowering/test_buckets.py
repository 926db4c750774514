"""Bucketed tables beside plain Spark: the same rows, and never more shuffles, whatever the buckets of both sides are."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.hunt.plans import other_costs, session_of

pytestmark = pytest.mark.spark

# Name: folders, buckets, bucket columns.
TABLES = {
    "u_4": ((), 4, ("u",)),
    "u_8": ((), 8, ("u",)),
    "u_6": ((), 6, ("u",)),
    "uv_4": ((), 4, ("u", "v")),
    "vu_4": ((), 4, ("v", "u")),
    "day_u_4": (("day",), 4, ("u",)),
    "day_u_8": (("day",), 8, ("u",)),
    "one_day_u_4": (("same",), 4, ("u",)),
    "heap": ((), 0, ()),
}
ROWS = """select cast(id as int) as id, cast(id % 7 as int) as u, cast(id % 3 as int) as v, 1 as same,
    date_add(date'2026-01-30', cast(id % 5 as int)) as day from range(60)"""
JOINS = (
    "u_4 u_4 u",
    "u_4 u_8 u",
    "u_8 u_6 u",
    "u_4 u_4 u,v",
    "u_4 u_8 u,v",
    "uv_4 uv_4 u,v",
    "uv_4 vu_4 u,v",
    "uv_4 u_4 u,v",
    "u_4 heap u",
    "heap u_8 u,v",
    "day_u_4 day_u_4 u",
    "day_u_4 u_4 u",
    "day_u_4 day_u_8 u",
    "day_u_4 day_u_4 day,u",
    "day_u_4 heap u",
    "one_day_u_4 u_4 u",
)
KINDS = ("join", "left join", "full join", "left semi join", "left anti join")
GROUPINGS = (
    "u_4 u",
    "u_4 u,v",
    "uv_4 u,v",
    "uv_4 u",
    "vu_4 id,u,v",
    "day_u_4 u",
    "day_u_4 day",
    "day_u_8 day,u",
    "one_day_u_4 u,same",
)
# Rows that take long make more than one task pay.
SLOW = dict.fromkeys(
    ("scan_row", "send_row", "receive_row", "hash_group_row", "probe_row", "build_row", "merge_row"), 0.001
)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[None]:
    for name, (folders, count, by) in TABLES.items():
        writer = spark.sql(ROWS).repartition(2).write.mode("overwrite").partitionBy(*folders)
        (writer.bucketBy(count, *by) if by else writer).saveAsTable(name)
    yield
    for name in TABLES:
        spark.sql(f"drop table {name}")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"machine": {"cores": 2, "stage": 1e-4, "task": 1e-5, **SLOW}}))
    monkeypatch.setenv("UNSHUFFLE_MACHINE", str(tmp_path / "m.json"))


@pytest.fixture(autouse=True)
def static(spark: SparkSession) -> Iterator[None]:
    """Plain Spark broadcasts nothing, so that shuffles are compared with shuffles."""
    settings = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


def shuffles(frame: DataFrame) -> int:
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return sum(line.lstrip(" :+-*()0123456789").startswith("Exchange ") for line in plan.splitlines())


def join(case: str, kind: str) -> str:
    left, right, keys = case.split()
    on = " and ".join(f"x.{key} = y.{key}" for key in keys.split(","))
    semi = "semi" in kind or "anti" in kind
    return f"select x.id, x.u{'' if semi else ', y.id, y.v'} from {left} x {kind} {right} y on {on}"


def grouping(case: str) -> str:
    table, keys = case.split()
    return f"select {keys}, count(*) as n, max(id) as m from {table} group by {keys}"


def same_rows(spark: SparkSession, query: str) -> None:
    expected = rows(spark.sql(query))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = session_of(spark).optimize(spark.sql(query))
        assert rows(found) == expected, query
        assert shuffles(found) <= shuffles(spark.sql(query)), query
        for seed in (1, 2):
            with other_costs(seed):
                assert rows(session_of(spark).optimize(spark.sql(query))) == expected, query


@pytest.mark.usefixtures("tables", "machine")
@pytest.mark.parametrize("case", JOINS)
def test_joins(spark: SparkSession, case: str) -> None:
    for kind in KINDS if case in ("day_u_4 day_u_4 u", "u_4 u_8 u") else KINDS[:1]:
        same_rows(spark, join(case, kind))


@pytest.mark.usefixtures("tables", "machine")
@pytest.mark.parametrize("case", GROUPINGS)
def test_groupings(spark: SparkSession, case: str) -> None:
    same_rows(spark, grouping(case))


@pytest.mark.usefixtures("tables", "machine")
def test_a_predicate_on_folders_prunes_buckets(spark: SparkSession) -> None:
    query = (
        "select x.u, count(*) as n from day_u_4 x join day_u_4 y on x.u = y.u where x.day = '2026-02-01' group by x.u"
    )
    same_rows(spark, query)


@pytest.mark.usefixtures("tables", "machine")
@pytest.mark.parametrize(
    ("case", "avoided"),
    [
        ("u_4 u_4 u", "no exchanges"),
        ("u_4 u_8 u", "1 exchange"),
        ("u_4 u_4 u,v", "no exchanges"),
        ("day_u_4 u_4 u", "no exchanges"),
    ],
)
def test_explain_counts_what_spark_would_have_exchanged(spark: SparkSession, case: str, avoided: str) -> None:
    """Equal buckets take no exchange in plain Spark, and others one."""
    text = str(session_of(spark).explain(spark.sql(join(case, "join"))))
    assert f"; {avoided} and" in text, text
