"""Rowsets that are computed once have the rows of plain Spark, whatever their uses keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from unshuffle import Session

pytestmark = pytest.mark.spark

SHARED = """with shared as (
    select k, g, x, count(*) as n, sum(v) as total from rows group by k, g, x
    union all
    select k, 'other' as g, x, 1 as n, v as total from rows where v > 10
) """
QUERIES = (
    "select a.k, a.n, b.total from shared a join shared b on a.k = b.k where a.g = 'a' and b.g = 'b'",
    "select a.k, a.n, b.total from shared a left join shared b on a.k <=> b.k and b.g = 'b' where a.g = 'a'",
    "select a.k, a.n, b.total from shared a full join shared b on a.k = b.k where a.g = 'a' and b.g is null",
    "select k, n from shared where g = 'a' and x > 0 union all select k, n from shared where g = 'other' and x <= 0",
    "select k, n from shared where x = 'NaN' union all select k, n from shared where x = -0.0",
    "select a.k from shared a where g = 'a' and exists (select 1 from shared b where b.k = a.k and b.g = 'b')",
    "select a.k from shared a where g = 'a' and a.n > (select avg(n) from shared b where b.g = 'b')",
    "select a.k, b.k from shared a join shared b on a.n = b.n where a.k in (1, 2) and b.k between 2 and 4 and a.g <=> null",
    "select k, n from shared where g = 'nothing' union all select k, n from shared where g = 'a' order by k, n",
)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[Session]:
    values = [
        (
            None if i % 11 == 0 else i % 5,
            (None, "a", "b", "ä", "other")[i % 7 % 5],
            (0.0, -0.0, float("nan"), 1.5, None)[i % 5],
            i,
        )
        for i in range(400)
    ]
    spark.createDataFrame(values, "k int, g string, x double, v long").createOrReplaceTempView("rows")
    yield Session(spark, effort="full")
    spark.catalog.dropTempView("rows")


@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_plain_spark(session: Session, query: str) -> None:
    expected = Counter(map(str, session.spark.sql(SHARED + query).collect()))
    assert Counter(map(str, session.sql(SHARED + query).collect())) == expected
    assert not [each for each in session.fallbacks if "adds" not in each and "sorts" not in each]


def test_the_rowset_has_only_what_some_use_keeps(session: Session) -> None:
    text = session.explain(session.spark.sql(SHARED + QUERIES[0]))
    assert "= 'a') OR (" in text, text
