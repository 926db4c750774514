"""A user's session does not change: settings, cached data, views and the current database, also when a query fails
half-way. Data that the user cached is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle import InternalError, NotOptimizedWarning, Session
from unshuffle.spark.execution.compare import same_rows
from unshuffle.spark.lowering import lowering
from unshuffle.spark.session import temporarily

pytestmark = pytest.mark.spark

# The random values are used twice, so the rowset is persisted while the script runs.
SCRIPT = """
#DECLARE t string;
#DECLARE out string;
rows = EXTRACT id:long, k:long FROM "@t" USING Parquet();
base = SELECT k, id AS s, rand(7) AS r FROM rows;
one = SELECT k, s FROM base WHERE r > 0.5;
two = SELECT k, s{more} FROM base WHERE r <= 2.0;
OUTPUT one TO "@out/one.parquet" USING Parquet() OVERWRITE;
OUTPUT two TO "@out/two.parquet" USING Parquet() OVERWRITE;
"""


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    spark.range(40).selectExpr("id", "id % 3 as k").coalesce(2).write.parquet(str(folder / "t.parquet"))
    (folder / "keeps.scope").write_text(SCRIPT.replace("{more}", ""))
    (folder / "fails.scope").write_text(SCRIPT.replace("{more}", ", raise_error('half-way') AS e"))
    (folder / "query.sql").write_text("select k, count(*) as n from cached group by k")
    return folder


@pytest.fixture
def session(spark: SparkSession, files: Path) -> Iterator[Session]:
    """The session of a user with a database, a view, a cached table and a setting."""
    spark.sql("create database if not exists mine")
    spark.sql("use mine")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1000")
    spark.read.parquet(str(files / "t.parquet")).createOrReplaceTempView("cached")
    spark.catalog.cacheTable("cached")
    spark.table("cached").count()
    yield Session(spark, effort="full")
    spark.catalog.clearCache()
    spark.catalog.dropTempView("cached")
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    spark.sql("use default")
    spark.sql("drop database mine cascade")


def state(spark: SparkSession) -> tuple[object, ...]:
    return (
        spark.sql("set").collect(),
        dict(spark.sparkContext.getConf().getAll()),
        spark.sql("show tables").collect(),
        spark.catalog.currentDatabase(),
        spark.catalog.isCached("cached"),
        spark.sparkContext._jsc.getPersistentRDDs().size(),  # type: ignore[attr-defined]
        spark._jsparkSession.sharedState().cacheManager().numCachedEntries(),
        spark.sparkContext.getJobTags(),
    )


Act = Callable[[Session, Path, Path], object]


def scope(name: str, way: str) -> Act:
    return lambda s, files, out: getattr(s, way)(files / name, {"t": str(files / "t.parquet"), "out": str(out)})


ACTS: dict[str, Act] = {
    "sql": lambda s, files, out: s.sql("select k, count(*) as n from cached group by k").collect(),
    "optimize": lambda s, files, out: s.optimize(s.spark.table("cached").groupBy("k").count()).collect(),
    "a frame that fails": lambda s, files, out: (
        s.optimize(s.spark.table("cached").groupBy("k").agg(F.max(F.expr("raise_error('x')")).alias("e"))).collect()
    ),
    "a text that fails": lambda s, files, out: s.sql("select raise_error('x'), max(k) from cached").collect(),
    "a text that is wrong": lambda s, files, out: s.sql("select nothing from cached"),
    "a pivot": lambda s, files, out: s.sql("select * from (select k from cached) pivot (count(*) for k in (0))").collect(),
    "run": scope("keeps.scope", "run"),
    "a run that fails": scope("fails.scope", "run"),
    "compare": scope("keeps.scope", "compare"),
    "a comparison that fails": scope("fails.scope", "compare"),
    "explain": scope("keeps.scope", "explain"),
    "run of a query": lambda s, files, out: s.run(files / "query.sql"),
    "compare a query": lambda s, files, out: s.compare(files / "query.sql", runs=1),
    "declare": lambda s, files, out: s.declare_key(files / "t.parquet", "id"),
}  # fmt: skip


@pytest.mark.parametrize("act", ACTS)
def test_the_session_does_not_change(session: Session, files: Path, tmp_path: Path, act: str) -> None:
    before = state(session.spark)
    failed: list[Exception] = []
    try:
        ACTS[act](session, files, tmp_path)
    except Exception as error:
        failed.append(error)
    assert bool(failed) == any(word in act for word in ("fails", "wrong")), failed
    assert state(session.spark) == before


def test_persisted_rows_are_released_when_a_later_output_cannot_be_lowered(
    session: Session, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, lowered = state(session.spark), []
    whole = lowering.Lowering.output

    def once(self: lowering.Lowering, *arguments: object) -> object:
        lowered.append(self)
        if len(lowered) == 2:
            raise InternalError("half-way")
        return whole(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lowering.Lowering, "output", once)
    with pytest.warns(NotOptimizedWarning, match="half-way"):
        scope("keeps.scope", "run")(session, files, tmp_path)
    assert "half-way" in session.fallbacks[0]
    assert state(session.spark) == before


def test_rows_that_the_user_persisted_are_not_released(session: Session, files: Path) -> None:
    """Spark finds cached data by its plan, and the user may have cached the same plan that a script persists."""
    script = session.pipeline.bind_file(files / "keeps.scope", {"t": str(files / "t.parquet"), "out": "x"})
    before = state(session.spark)
    with session.pipeline.executing(script):
        while_kept = state(session.spark)
        assert while_kept != before
        with session.pipeline.executing(script):
            assert state(session.spark) == while_kept
        assert state(session.spark) == while_kept
    assert state(session.spark) == before


def test_cached_data_is_used(session: Session) -> None:
    spark = session.spark
    text = "select a.k, count(*) as n from cached a join cached b on a.id = b.id group by a.k"
    plain = spark.sql(text)
    for frame in (session.sql(text), session.optimize(plain)):
        # The exchange is Spark's own: an exchange of ours cannot be over cached data.
        assert all(each.startswith("Spark adds an exchange") for each in session.fallbacks)
        assert frame._jdf.queryExecution().executedPlan().toString().count("InMemoryRelation") >= 2
        assert same_rows(plain, frame)


@pytest.mark.parametrize("before", ["true", "false"])
def test_a_frame_over_cached_data_runs_whatever_is_set_afterwards(session: Session, before: str) -> None:
    """Adaptive execution would wait forever for an aggregate of ours over cached data, also if it is turned on later."""
    spark = session.spark
    plain = spark.table("cached").groupBy("k").agg(F.count("*").alias("n"))
    with temporarily(spark, **{"spark.sql.adaptive.enabled": before}):
        frame = session.optimize(plain)
    assert same_rows(plain, frame)


def test_a_plan_that_is_entirely_ours_is_not_planned_again(session: Session, spark: SparkSession) -> None:
    def is_planned_again(query: str, is_managed: bool) -> bool:
        script = session.pipeline.bind(query)
        with session.pipeline.executing(script, is_managed) as execution:
            (frame,) = execution.frames
            planned = frame.select("*")._jdf.queryExecution().executedPlan().nodeName()
        return bool(planned == "AdaptiveSparkPlan")

    query = "select k, count(*) as n from cached group by k"
    assert not is_planned_again(query, is_managed=True)
    assert not is_planned_again(query, is_managed=False)
    derived = session.sql(query).where("n > 0").groupBy("n").count()  # by the user, under the user's settings
    assert derived._jdf.queryExecution().executedPlan().nodeName() == "AdaptiveSparkPlan"
    part = "select * from (select k from cached) pivot (count(*) for k in (0, 1)) order by 1"
    assert is_planned_again(part, is_managed=True)  # Spark plans the PIVOT and the operators above it
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
