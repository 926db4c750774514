"""Unions of child joins: the rows of plain Spark, for all kinds of joins of tables whose parts differ in size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.alternative_plans import assert_rows_of_plain_spark, plans_with
from tests.support.hunt.plans import session_of
from tests.support.part_rows import SCHEMA, row
from unshuffle import Session
from unshuffle.constants import THRESHOLDS
from unshuffle.explain.explain import physical as explained
from unshuffle.explain.why import reasons
from unshuffle.explore import child_joins
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import physical
from unshuffle.verify import verify

pytestmark = pytest.mark.spark

RUN = 3  # of each query
KINDS = ("join", "left join", "right join", "full join", "left semi join", "left anti join")
# The rows of each part. Parts have keys of their own; the last part of each table has no partner.
SIZES = {"winter": (60, 60, 2, 0, 40, 1, 9, 0), "summer": (2, 1, 60, 50, 0, 40, 0, 9)}
WIDE = 6


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder, random = tmp_path_factory.mktemp("child_joins"), Random(7)
    for name, sizes in SIZES.items():
        number = 0
        for part, size in enumerate(sizes):
            reach = WIDE + 2 if part % 3 == 1 else WIDE  # some parts overlap the next
            keys = [random.choice((*range(part * WIDE, part * WIDE + reach), None)) for _ in range(size)]
            rows = [row(random, number + i, key) for i, key in enumerate(keys)]
            number += size
            place = folder / name / f"day={part}"
            place.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(rows, SCHEMA), place / "part.parquet", row_group_size=25)
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    yield folder
    for name in SIZES:
        spark.catalog.dropTempView(name)


@pytest.fixture(autouse=True)
def small_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offered for a few rows too, which otherwise are not worth the time to search."""
    monkeypatch.setattr(child_joins, "THRESHOLDS", replace(THRESHOLDS, join_split_bytes=0.0))


CONDITIONS = (
    "x.k = y.k",
    "x.k = y.k and x.n < y.n",
    "x.day = y.day",
    "x.d = y.d and x.s = y.s",
    "y.day = x.day and x.k <> y.k",
)
INPUTS = (
    "winter x {kind} summer y on {on}",
    """(select *, k + 1 as more from winter where n % 5 <> 0 or k is null) x {kind}
    (select * from summer where f > 0 or f is null) y on {on}""",
)


def queries(kind: str) -> Iterator[str]:
    is_half = kind.endswith(("semi join", "anti join"))
    shown = (
        "x.id as a, x.k as b, x.s" if is_half else "x.id as a, x.k as b, y.id as c, y.k as d, y.day as e, x.day as f"
    )
    for number, on in enumerate(CONDITIONS):
        text = f"select {shown} from {INPUTS[number % 2].format(kind=kind, on=on)}"
        yield f"select b, count(*) as n, max(a) as m from ({text}) group by b" if number == 3 else text


def child_join_plans(session: Session, frame: DataFrame, count: int = 60) -> list[PlannedQuery]:
    """Those of the cheapest plans that are a union of child joins, each with other methods of joining."""
    return plans_with(session, frame, count, whole_plans)


def whole_plans(planned: PlannedQuery) -> list[object]:
    operators = [node.operator for root in planned.roots for node in root.walk()]
    unions = [each for each in operators if isinstance(each, physical.Concatenate | physical.PartitionwiseUnion)]
    return [each.whole for each in unions if each.whole is not None]


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_plain_spark(spark: SparkSession, kind: str) -> None:
    tried = sum(assert_rows_of_plain_spark(spark, text, child_join_plans, RUN) for text in queries(kind))
    assert tried >= 2 * len(CONDITIONS)


def test_facts_of_the_whole_join_hold_for_the_union(spark: SparkSession, tables: Path) -> None:
    """By a declared key, a row's group is known by its id alone: plans that use this are valid over a union too."""
    session = session_of(spark, ["session.declare_key('winter', 'id')"])
    text = """select id, s, k, count(distinct d) as n from
        (select x.id, x.s, x.k, y.id as d from winter x left join summer y on x.k = y.k) group by id, s, k"""
    plans = child_join_plans(session, spark.sql(text), count=1000)
    assert plans
    for plan in plans:
        verify(plan)


def test_a_join_of_parts_of_like_sizes_is_one_join(spark: SparkSession, tables: Path) -> None:
    session = session_of(spark)
    assert not child_join_plans(session, spark.sql("select x.id, y.id from winter x join winter y on x.k = y.k"))


def test_explain_tells_the_ranges_the_method_and_the_sizes(spark: SparkSession, tables: Path) -> None:
    session, frame = session_of(spark), spark.sql("select x.id, y.id from winter x left join summer y on x.day = y.day")
    for plan in child_join_plans(session, frame):
        text = explained("plan", [plan], reasons(plan), "text", True)
        if "not joined" in text:
            break
    assert "UnionAll" in text
    assert "of child joins" in text
    assert re.search(r"child joins: each has the method that suits its sizes", text)
    assert re.search(r"day(#\d+)? .*: HashJoin \(.*\), .* with ", text)
    children = json.loads(explained("plan", [plan], reasons(plan), "json", True))["parts"]["child_joins"][0]["children"]
    assert any(child["operator"] is None for child in children)
