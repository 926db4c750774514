"""Compares rewritten plans with plain Spark: a query has the same rows, with duplicates, before and after.

Spark needs a second to plan a query and no time to run it on a handful of rows, so a few jobs run a list of queries, with
each row as JSON text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tests.support.binding import context_for
from unshuffle import Session
from unshuffle.errors import Source
from unshuffle.normalize.rules import DESUGAR, UNNEST
from unshuffle.normalize.traversal import ascend
from unshuffle.plan.expressions import Exists, InSubquery, ScalarSubquery, Subquery
from unshuffle.plan.expressions import walk as parts
from unshuffle.plan.logical import Plan, expressions_of, walk
from unshuffle.spark.lowering.baseline import baseline
from unshuffle.spark.session import temporarily

# NULLs, duplicates, an empty table. Spark knows that `id`, `tid` and the columns of `sure` are never NULL.
TABLES = {
    "o": "values (1, 1, 10, 'a', 1.0D), (2, 1, 20, 'b', -0.0D), (3, 2, 10, 'a', 0.0D), (4, 3, null, null, double('nan')), "
    "(5, null, 10, 'c', null), (6, null, null, 'a', 2.5D), (7, 4, 40, '01', 1.0D), (7, 4, 40, '01', 1.0D) "
    "as t(id, k, g, s, d)",
    "t": "values (1, 1, 5, 'a', 1L), (2, 1, 7, 'b', 2L), (3, 2, null, 'a', 3L), (4, null, 9, '1', null), "
    "(5, 2, 4, null, 1L), (6, 9, 1, '01', 9L), (7, 4, null, '1', 4L) as t(tid, k, v, s, q)",
    "e": "select * from values (1, cast(null as int)) as t(k, v) where k > 1",
    "sure": "values (1, 1), (2, 1), (4, 5) as t(k, v)",
    "nulls": "values (cast(null as int)) as t(k)",
}
JOBS = 12  # queries per job
QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
}


def session(spark: SparkSession) -> Session:
    for name, rows in TABLES.items():
        spark.sql(f"select * from ({rows})" if rows.startswith("select") else rows).createOrReplaceTempView(name)
    return Session(spark, effort="full")


@contextmanager
def quick(spark: SparkSession) -> Iterator[None]:
    """Settings for a handful of rows, where preparing a query takes longer than running it."""
    with temporarily(spark, **QUICK):
        yield


def rewritten(session: Session, query: str) -> tuple[Plan, Counter[str]]:
    """A query's plan after unnesting and desugaring, and the rules that fired."""
    # Our binder takes correlated subqueries that Spark rejects.
    (output,) = session.pipeline.bind_source(Source("test.scope", query), None, is_script=True).outputs
    context = context_for(output.plan)
    plan = ascend(ascend(output.plan, UNNEST, context), DESUGAR, context)
    assert plan.columns == output.plan.columns
    return plan, context.fired


def subqueries(plan: Plan) -> Iterator[Subquery]:
    """The remaining subqueries, without uncorrelated scalar ones, which are never unnested."""
    for node in walk(plan):
        for expression in expressions_of(node):
            for part in parts(expression):
                if isinstance(part, Exists | InSubquery) or (isinstance(part, ScalarSubquery) and part.outer):
                    yield part


def differences(session: Session, plans: Sequence[tuple[str, Plan]]) -> dict[str, str]:
    """The queries whose plan has other rows than Spark's, with both results."""
    found: dict[str, str] = {}
    for start in range(0, len(plans), JOBS):
        found |= _differences(session, plans[start : start + JOBS])
    return found


def _differences(session: Session, plans: Sequence[tuple[str, Plan]]) -> dict[str, str]:
    with baseline(session.spark) as plain:
        frames = []
        for place, (query, plan) in enumerate(plans):
            frames += [_as_text(session.spark.sql(query), place, 0), _as_text(plain.result(plan), place, 1)]
        rows = union_all(frames).collect()
    sides: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for place, side, text in rows:
        sides[place, side][text] += 1
    return {
        query: f"Spark: {_shown(sides[place, 0])}, ours: {_shown(sides[place, 1])}"
        for place, (query, _) in enumerate(plans)
        if sides[place, 0] != sides[place, 1]
    }


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """A balanced tree of unions: Spark analyzes each union as a whole, so the depth must stay small."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return union_all(frames[:half]).unionAll(union_all(frames[half:]))


def _as_text(frame: DataFrame, place: int, side: int) -> DataFrame:
    named = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    # Zero has two signs that are equal, and a group may return either.
    normal = [F.when(F.col(n) == 0, F.lit(0.0)).otherwise(F.col(n)).alias(n) if t == "double" else n for n, t in named.dtypes]  # fmt: skip
    return named.select(F.lit(place), F.lit(side), F.to_json(F.struct(*normal)))


def _shown(rows: Counter[str]) -> Iterable[str]:
    return sorted(rows.elements())
