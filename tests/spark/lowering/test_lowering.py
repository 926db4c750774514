"""Lowered plans keep the planned exchanges, and a plan that cannot be lowered runs as plain Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.generated_queries import machines, write_tables
from unshuffle import NotOptimizedWarning, Session
from unshuffle.errors import InternalError
from unshuffle.optimizer import Options, optimize
from unshuffle.plan import physical
from unshuffle.spark.execution import executed_plan_diff
from unshuffle.spark.lowering.lowered import Lowered
from unshuffle.spark.lowering.lowering import LOWERINGS, lowering
from unshuffle.spark.session import temporarily
from unshuffle.target import Target

pytestmark = pytest.mark.spark
MACHINES = machines(partition_bytes=200.0)
QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("generated")
    write_tables(folder)
    before = {name: spark.conf.get(name, None) for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    for table in folder.iterdir():
        spark.read.parquet(str(table)).createOrReplaceTempView(table.stem)
    yield Session(spark, tables=folder, effort="full")
    for table in folder.iterdir():
        spark.catalog.dropTempView(table.stem)
    for name, was in before.items():
        spark.conf.unset(name) if was is None else spark.conf.set(name, was)


def test_temporary_views_are_gone(session: Session) -> None:
    before = session.spark.sql("show tables").collect()
    session.sql("select a, count(*) as n from t group by a").collect()
    assert session.spark.sql("show tables").collect() == before


def test_a_plan_that_cannot_be_lowered_runs_as_plain_spark_with_a_warning(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "select count(*) as n from t join u on a = e"
    rows = session.sql(query).collect()
    assert session.fallbacks == ()

    def fails(*_: object) -> Lowered:
        raise InternalError("a join cannot be run")

    for join in (physical.HashJoin, physical.MergeJoin):
        monkeypatch.setitem(LOWERINGS, join, fails)
    with pytest.warns(NotOptimizedWarning, match="cannot be run"):
        assert session.sql(query).collect() == rows
    assert "cannot be run" in session.fallbacks[0]


# What each query tests: one exchange for a group and a join above it; partial and final aggregates; a semi-join over an
# exchange; an order by a column renamed above its range exchange; joins partitioned by some of their keys, by partition
# number; equalities in filters, which Spark makes keys of the join below.
AS_PLANNED = [
    "select a, count(*) as n from t group by a",
    "select n, e from (select a, max(s) as n from t group by a) join u on a = e",
    "select a, b from t where exists (select 1 from u where e = a and f > b)",
    "select n + 0 as m, a from (select a, count(*) as n from t group by a) order by m desc",
    "select a, b, row_number() over (partition by a order by b, d, x, s) as r from t",
    "select distinct s from t union all select w from u",
    "select a, sum(m) as m from t join u on a = e and s = w group by a order by a limit 3",
    "select a, b, n from (select a, b, sum(d) as n from t group by a, b) x join (select a as c, max(n) as m from"
    " (select a, b, sum(d) as n from t group by a, b) group by a) y on a = c and n = m",
    "select a, n from (select a, b + 0 as b, sum(d) as n from t group by a, b) x join (select e, max(f) as g from u"
    " group by e) y on a = e where b = g + 0",
]


@pytest.mark.parametrize("partitions", [2, 50])
@pytest.mark.parametrize("machine", range(len(MACHINES)))
@pytest.mark.parametrize("query", AS_PLANNED)
def test_spark_runs_the_planned_exchanges(session: Session, query: str, machine: int, partitions: int) -> None:
    """Whether Spark's own number of partitions is smaller or larger."""
    optimized = optimize(session.pipeline.bind(query), Options(Target(MACHINES[machine], is_managed=False)))
    ((output, plan),) = optimized.outputs
    with lowering(session.spark, optimized) as lowered:
        frame = lowered.output(plan, [c.name for c in output.plan.columns])
    with temporarily(session.spark, **{"spark.sql.shuffle.partitions": partitions}):
        executed = executed_plan_diff.of_frame(frame).exchanges
    assert executed == executed_plan_diff.as_planned(optimized, lowered.spark_exchanges).exchanges


def test_exchanges_that_spark_adds_are_reported(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """This setting makes Spark exchange rows that are already clustered: it requires partitioning by all grouping
    keys."""
    monkeypatch.setattr(session.pipeline, "target", lambda is_managed: Target(MACHINES[0], is_managed=is_managed))
    query = "select a, count(*) as n from (select a, s, max(b) as b from t group by a, s) group by a"
    rows = sorted(session.sql(query).collect(), key=str)
    assert session.fallbacks == ()
    with temporarily(session.spark, **{"spark.sql.requireAllClusterKeysForDistribution": "true"}):
        frame = session.sql(query)
        assert sorted(frame.collect(), key=str) == rows
        assert session.fallbacks
    assert all(each.startswith("Spark adds an exchange that was not planned: hash of (") for each in session.fallbacks)


def test_spark_reuses_the_exchange_of_a_shared_rowset(session: Session) -> None:
    query = "with g as (select a, s from t where b > 1) select x.a, y.s from g x join g y on x.a = y.a and x.s <> y.s"
    script = session.pipeline.bind(query)
    optimized = optimize(script, Options(Target(MACHINES[0], is_managed=False)))
    assert [spool.kept for spool in optimized.spools] == [False]
    ((output, plan),) = optimized.outputs
    with lowering(session.spark, optimized) as lowered:
        frame = lowered.output(plan, [c.name for c in output.plan.columns])
    rows = Counter(map(tuple, frame.collect()))
    plain = session.pipeline.baseline(script).frames[0]
    assert rows == Counter(map(tuple, plain.collect()))
    assert "ReusedExchange" in frame._jdf.queryExecution().executedPlan().toString()
    assert executed_plan_diff.added(optimized, lowered.spark_exchanges, [frame]) == ()
