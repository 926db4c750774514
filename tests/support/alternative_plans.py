"""The plans of a query that have something particular, and their rows beside plain Spark's."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from tests.support.hunt.plans import pipeline_of, session_of, shape
from unshuffle import Session
from unshuffle.optimizer import PlannedQuery

Plans = Callable[[Session, DataFrame], list[PlannedQuery]]


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


def plans_with(
    session: Session, frame: DataFrame, count: int, has: Callable[[PlannedQuery], object]
) -> list[PlannedQuery]:
    """Those of the `count` cheapest plans that have it, one of each shape."""
    pipeline = pipeline_of(session)
    planned = pipeline.plan(pipeline.read(frame), pipeline.target(is_managed=False), count)
    return list({shape(each): each for each in planned if has(each)}.values())


def assert_rows_of_plain_spark(spark: SparkSession, text: str, plans: Plans, most: int) -> int:
    """Runs at most so many of the plans of a query, spread over all of them, and returns how many. A warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected, session = rows(spark.sql(text)), session_of(spark)
        found = plans(session, spark.sql(text))
        chosen = found[:: max(1, len(found) // most)][:most]
        for plan in chosen:
            pipeline_of(session).chosen = plan
            assert rows(session.optimize(spark.sql(text))) == expected, text
    return len(chosen)
