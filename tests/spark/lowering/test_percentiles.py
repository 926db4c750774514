"""Percentiles from sorted lists, compared with Spark's own."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_differential import MACHINES, Sides, in_two_sessions, problems
from unshuffle import Session
from unshuffle.optimizer import Options, optimize
from unshuffle.plan import physical
from unshuffle.target import Target
from unshuffle.verify import verify

pytestmark = pytest.mark.spark

KEYS = [None, "", "a", "ab", "é", "日本", "😀", "zz"]
NUMBERS = [None, 0, 1, -1, 7, 7, 7, 2**62 + 1, -(2**62), 3, 10]
FLOATS = [None, 0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, 0.1, 0.3, 1e-300, 1e300, 0.1]
SCHEMA = "a string, b string, n bigint, t tinyint, x double, f float"
QUERY = """
    select a, b, count(*) as rows, median(n) as middle, percentile(n, array(0, 0.1, 0.25, 0.9, 1)) as some,
        percentile(n, 0.3) filter (where t > 0) as chosen, percentile(t, array(0.5)) as small, percentile(x, 0.37) as x,
        percentile(f, array(0.99, 0.01)) as f, percentile(distinct n, 0.5) as each_once,
        array_sort(collect_list(n)) as listed, array_sort(collect_set(t)) as once
    from {} group by a, b
"""
# The same without lists, to check layouts and orders.
PLACED = """
    select a, b, count(*) as rows, median(n) as middle, percentile(n, array(0.1, 0.9))[1] as high,
        percentile(t, 0.3) filter (where n > 0) as chosen, size(array_sort(collect_list(n))) as listed
    from {} group by a, b
"""


def rows(seed: int, count: int) -> list[tuple[Any, ...]]:
    draw = random.Random(seed)
    few = draw.sample(KEYS, 4)

    def row() -> tuple[Any, ...]:
        a, b = draw.choice(few), draw.choice(KEYS)
        if a == few[0]:  # groups of only NULLs
            return a, b, None, None, None, None
        return a, b, draw.choice(NUMBERS), draw.choice([None, 1, 2, -3]), draw.choice(FLOATS), draw.choice(FLOATS)

    return [row() for _ in range(count)]


@pytest.fixture
def sides(spark: SparkSession, tmp_path: Path) -> Iterator[Sides]:
    """Streams with different boundaries and many, some, few (one partition) and no rows."""
    plain, ours = in_two_sessions(spark)
    cuts = [[("ab",), ("é", "a")], [("a", "zz"), ("zz",)], [], [("b",)]]
    for number, (count, boundaries) in enumerate(zip((300, 80, 60, 0), cuts, strict=True)):
        frame = plain.createDataFrame(rows(number, count), SCHEMA)
        frame.createOrReplaceTempView(f"s{number}")
        Session(ours, effort="full").write_stream(
            ours.createDataFrame(frame.collect(), SCHEMA),
            tmp_path / f"s{number}.ss",
            clustered_by=["a", "b"],
            ranged=True,
            boundaries=boundaries,
        )
    yield Sides(plain, Session(ours, tables=tmp_path, effort="full"))
    for number in range(4):
        plain.catalog.dropTempView(f"s{number}")


ALL = "(" + " union all ".join(f"select * from s{number}" for number in range(4)) + ")"


@pytest.mark.parametrize("table", ["s0", "s2", "s3", ALL])
def test_percentiles_agree_with_spark(sides: Sides, table: str) -> None:
    query = QUERY.format(table)
    plan = optimize(sides.ours.pipeline.bind(query), Options(Target(MACHINES[0], is_managed=False)))
    verify(plan)
    operators = [node.operator for node in plan.outputs[0][1].walk()]
    listed = [each.listed for each in operators if isinstance(each, physical.SortAggregate)]
    assert any(listed) or table in ("s2", "s3")  # small tables in one partition are hashed
    assert not any(isinstance(each, physical.Exchange) for each in operators)
    wrong = list(problems(sides, 3, PLACED.format(table)))
    assert not wrong, "\n\n".join(wrong)
    expected, found = (
        Counter(map(exactly, frame.collect())) for frame in (sides.plain.sql(query), sides.ours.sql(query))
    )
    assert found == expected
    assert sides.ours.fallbacks == ()
    assert sides.ours.sql(query).schema == sides.plain.sql(query).schema


def exactly(value: Any) -> Any:
    """All zeros are equal, and all NaNs. Spark versions differ in the last bit of an interpolated value."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else f"{value + 0.0:.13g}"
    return tuple(map(exactly, value)) if isinstance(value, list | tuple) else value
