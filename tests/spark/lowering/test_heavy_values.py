"""Joins on a key with heavy values: the rows of plain Spark when these are divided, for all kinds of joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.alternative_plans import assert_rows_of_plain_spark, plans_with, rows
from tests.support.hunt.plans import pipeline_of, session_of
from tests.support.part_rows import SCHEMA, row
from unshuffle import Session
from unshuffle.cardinality import sampled
from unshuffle.constants import LOOKS, THRESHOLDS
from unshuffle.explain.explain import physical as explained
from unshuffle.explain.why import reasons
from unshuffle.explore import heavy_values
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import physical
from unshuffle.plan.expressions import Ref
from unshuffle.plan.logical import Join
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.plan.predicates import conjuncts
from unshuffle.properties import Partitioned

pytestmark = pytest.mark.spark

RUN = 3  # of each query
DIVIDING = ("join", "left join", "right join", "left semi join", "left anti join")
ROWS = {"events": 400, "devices": 60}


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder, random = tmp_path_factory.mktemp("heavy_values"), Random(11)
    for name, count in ROWS.items():
        heavy = (4, 5, None) if name == "events" else (4, None)
        keys = [
            random.choice(heavy) if i % 3 < 2 and name == "events" else random.randrange(-3, 24) for i in range(count)
        ]
        keys = [random.choice((key, key, key, None)) for key in keys]
        rows = [row(random, i, key) for i, key in enumerate(keys)]
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / f"{name}.parquet", row_group_size=25)
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    yield folder
    for name in ROWS:
        spark.catalog.dropTempView(name)


@pytest.fixture(autouse=True)
def few_rows_are_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of a few rows are heavy, and are looked at."""
    monkeypatch.setattr(heavy_values, "THRESHOLDS", replace(THRESHOLDS, heavy_value_bytes=500.0, heavy_parts_max=5))
    monkeypatch.setattr(sampled, "LOOKS", replace(LOOKS, worth_rows=1))


CONDITIONS = (
    "x.k = y.k",
    "x.k = y.k and x.n < y.n",
    "x.d = y.d and x.k = y.k",
    "x.s = y.s",
    "abs(x.k - 1) = y.k",
)


def queries(kind: str) -> Iterator[str]:
    is_half = kind.endswith(("semi join", "anti join"))
    shown = "x.id as a, x.k as b, x.s, x.f" if is_half else "x.id as a, x.k as b, x.f, y.id as c, y.k as d, y.s as e"
    left, right = ("devices", "events") if kind == "right join" else ("events", "devices")
    for number, on in enumerate(CONDITIONS):
        text = f"select {shown} from {left} x {kind} {right} y on {on}"
        yield f"select b, count(*) as n, max(a) as m from ({text}) group by b" if number == 2 else text


def dividing_plans(session: Session, frame: DataFrame, count: int = 200) -> list[PlannedQuery]:
    """Those of the cheapest plans that divide heavy values."""
    return plans_with(session, frame, count, divided_joins)


def divided_joins(planned: PlannedQuery) -> list[Join]:
    nodes = [node for root in planned.roots for node in root.walk()]
    joins = [
        node.operator.join
        for node in nodes
        if isinstance(node.operator, physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin)
    ]
    return [join for join in joins if any(_compares_parts(each) for each in conjuncts(join.condition))]


def _compares_parts(condition: object) -> bool:
    arguments = getattr(condition, "arguments", ())
    return bool(arguments) and all(isinstance(each, Ref) and each.column.name == "part" for each in arguments)


@pytest.mark.parametrize("kind", DIVIDING)
def test_rows_are_those_of_plain_spark(spark: SparkSession, kind: str) -> None:
    tried = sum(assert_rows_of_plain_spark(spark, text, dividing_plans, RUN) for text in queries(kind))
    assert tried > len(CONDITIONS)


@pytest.mark.parametrize(
    "text",
    [
        "select x.id, y.id from events x full join devices y on x.k = y.k",
        "select x.id, y.id from events x right join devices y on x.k = y.k",  # copies of devices would stay unmatched
        "select x.id from devices x left semi join events y on x.k = y.k",  # parts of events would yield x once each
        "select x.id, y.id from events x left join devices y on x.k <=> y.k",
        "select x.id, y.id from events x join devices y on x.f = y.f",  # -0.0 and 0.0 are one value
        "select x.id, y.id from events x join devices y on x.k < y.k",
        "select x.id, y.id from devices x join devices y on x.id = y.id",  # no heavy value
        "select id from events where k not in (select k from devices)",
    ],
)
def test_what_would_be_wrong_is_not_divided(spark: SparkSession, text: str) -> None:
    assert not dividing_plans(session_of(spark), spark.sql(text))


@pytest.mark.parametrize(
    "text",
    [
        "select x.id, x.f, y.id as other from events x join devices y on x.k = y.k",
        "select x.id, x.f, y.id as other from (select * from events where k is null or k > 9) x left join devices y on x.k = y.k",
    ],
)
def test_spark_adds_no_exchange(spark: SparkSession, text: str) -> None:
    """The part is a key of Spark's join too, also where there is nothing to copy."""
    session = session_of(spark)
    plan = next(each for each in dividing_plans(session, spark.sql(text)) if shuffles_both_sides(each))
    pipeline_of(session).chosen = plan
    assert rows(session.optimize(spark.sql(text))) == rows(spark.sql(text))
    assert session.fallbacks == ()


def shuffles_both_sides(planned: PlannedQuery) -> bool:
    joins = (node for root in planned.roots for node in root.walk() if isinstance(node.operator, physical.HashJoin))
    return any(all(map(_is_hashed_by_part, join.inputs)) for join in joins)


def _is_hashed_by_part(node: PhysicalPlan) -> bool:
    layout = node.delivered.partitioning
    return isinstance(layout, Partitioned) and any(column.name == "part" for column in layout.columns)


def test_explain_tells_what_is_divided_and_copied(spark: SparkSession) -> None:
    session, frame = (
        session_of(spark),
        spark.sql("select x.id, y.id as other from events x join devices y on x.k = y.k"),
    )
    plan = dividing_plans(session, frame)[0]
    text = explained("plan", [plan], reasons(plan), "text", False)
    assert "copies 5" in text
    assert "if k" in text
    assert "pmod(xxhash64(" in text
