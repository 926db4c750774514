"""The 99 TPC-DS queries are bound without a JVM, every operator and every column's type understood."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import tpcds

from unshuffle.algebra.logical import Script
from unshuffle.catalog.tables import TableFolders
from unshuffle.errors import Source
from unshuffle.language.bind_script import bind
from unshuffle.language.environment import NoSpark
from unshuffle.language.parameters import Parameters

QUERIES = tpcds.queries()
# What is left to Spark as written, by query: the reasons. NoSpark cannot describe such a query, so an entry here needs an
# environment that can.
FOREIGN: dict[int, list[str]] = {}


@pytest.fixture(scope="module")
def scripts(tpcds_data: Path) -> dict[int, Script]:
    tables = TableFolders((str(tpcds_data),))
    return {
        number: bind(Source(f"Q{number}", text), Parameters({}), tables, NoSpark(), lambda *_: None, is_script=False)
        for number, text in QUERIES.items()
    }


def test_all_are_there() -> None:
    assert list(QUERIES) == list(range(1, 100))
    assert not any('"' in text for text in QUERIES.values())


def test_foreign_operators(scripts: dict[int, Script], report: list[str]) -> None:
    foreign = {number: [node.reason for node in script.foreign] for number, script in scripts.items() if script.foreign}
    count = sum(map(len, foreign.values()))
    report.append(f"TPC-DS: {len(scripts) - len(foreign)} of {len(scripts)} queries fully understood, {count} foreign")
    assert foreign == FOREIGN


def test_every_type_is_known(scripts: dict[int, Script]) -> None:
    unknown = {
        f"Q{number}: {column.name}"
        for number, script in scripts.items()
        for node in script.operators()
        for column in node.columns
        if column.type is None
    }
    assert unknown == set()
