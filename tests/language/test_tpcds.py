"""The 99 TPC-DS queries are bound without a JVM. Every operator and the type of every column is understood."""

from __future__ import annotations

from unshuffle.plan.logical import Script
from workloads import tpcds

QUERIES = tpcds.queries()
# The queries that fall back to Spark, with the reasons. Without Spark such a query cannot be described, so an entry here
# needs an environment with Spark.
FOREIGN: dict[int, list[str]] = {}


def test_there_are_99_queries() -> None:
    assert list(QUERIES) == list(range(1, 100))
    assert not any('"' in text for text in QUERIES.values())


def test_foreign_operators(tpcds_scripts: dict[int, Script], report: list[str]) -> None:
    foreign = {
        number: [node.reason for node in script.foreign] for number, script in tpcds_scripts.items() if script.foreign
    }
    count = sum(map(len, foreign.values()))
    report.append(
        f"TPC-DS: {len(tpcds_scripts) - len(foreign)} of {len(tpcds_scripts)} queries fully understood, {count} foreign"
    )
    assert foreign == FOREIGN


def test_every_type_is_known(tpcds_scripts: dict[int, Script]) -> None:
    unknown = {
        f"Q{number}: {column.name}"
        for number, script in tpcds_scripts.items()
        for node in script.operators()
        for column in node.columns
        if column.type is None
    }
    assert unknown == set()
