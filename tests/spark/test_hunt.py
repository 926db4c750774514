"""A few fixed seeds of the hunt, and every case that it once found. `make hunt` tries new ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tests.support.hunt.cases import case_of, stored, tables_of
from tests.support.hunt.draw import Draw
from tests.support.hunt.found import FOUND, Found
from tests.support.hunt.oracles import Tally, findings
from tests.support.hunt.shrink import as_test
from unshuffle import Session

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

SEEDS = ((160,), (1600, 1601))  # those in a row share their tables


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_random_queries_are_answered_as_by_plain_spark(
    spark: SparkSession, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    tables, _ = tables_of(seeds[0])
    with stored(spark, tables, tmp_path):
        for seed in seeds:
            found = [as_test(each) for each in findings(spark, case_of(seed), Tally())]
            assert not found, found[0]


@pytest.mark.parametrize("found", FOUND, ids=lambda each: each.text[:60])
def test_what_was_found_stays_mended(spark: SparkSession, tmp_path: Path, found: Found) -> None:
    case = found.case()
    with stored(spark, case.tables, tmp_path):
        assert not [as_test(each) for each in findings(spark, case, Tally())]


PLANTED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "rows": lambda frame: frame.limit(2),
    "schema": lambda frame: frame.toDF("other"),
    "error": lambda frame: frame.select(F.raise_error(F.lit("planted")).cast("int").alias("a")),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_wrong_answer_is_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made = "create or replace temporary view t0 as select a from values (1), (2), (3) as v(a)"
    case = Found("sql", (made,), "select a from t0").case()
    monkeypatch.setattr(Session, "optimize", lambda self, frame: PLANTED[kind](frame))
    with stored(spark, case.tables, tmp_path):
        assert [each.kind for each in findings(spark, case, Tally())] == [kind]


def test_a_simplified_decision_leaves_the_others_as_they_are() -> None:
    def decisions(simple: frozenset[str]) -> tuple[int, int]:
        draw = Draw(7, simple, "case")
        return draw.at("one").number(1, 1000), draw.at("two").number(1, 1000)

    one, two = decisions(frozenset())
    assert decisions(frozenset({"case/one"})) == (1, two)
    assert decisions(frozenset({"case/two"})) == (one, 1)
