"""The pipeline of a query: explain shows what runs, threads do not interfere, and no internal fault reaches the user."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle import NotOptimizedWarning, Session
from unshuffle.errors import InternalError
from unshuffle.explain.render.physical import physical_tree
from unshuffle.explain.render.text import table
from unshuffle.optimizer import PlannedQuery
from unshuffle.pipeline import Pipeline
from unshuffle.plan.logical import Script
from unshuffle.spark.io import sstream_writer
from unshuffle.target import ADAPTIVE

pytestmark = pytest.mark.spark

QUERY = "select k, count(*) as n, sum(v) as s from t group by k"


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walk")
    frame = spark.range(6000).selectExpr("id % 37 as k", "id as v", "if(id % 5 = 0, null, id % 11) as w")
    frame.write.parquet(str(folder / "t.parquet"))
    (folder / "both.scope").write_text(
        f"""
        t = EXTRACT k:long, v:long, w:long FROM "{folder}/t.parquet" USING Parquet();
        a = SELECT k, count(*) AS n FROM t GROUP BY k;
        b = SELECT w, max(v) AS m FROM t GROUP BY w;
        c = SELECT a.k AS k, a.n AS n, b.m AS m FROM a JOIN b ON a.k == b.w;
        OUTPUT c TO "@out" USING Csv() OVERWRITE;
        """.replace("t = EXTRACT", '#DECLARE out string = "out";\n        t = EXTRACT', 1)
    )
    return folder


@pytest.fixture
def session(spark: SparkSession, folder: Path) -> Session:
    return Session(spark, tables=folder, effort="full")


def drawn(planned: PlannedQuery) -> str:
    return table(physical_tree(planned, renumbered=True))


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[PlannedQuery]:
    """The plans that are lowered from now on."""
    found: list[PlannedQuery] = []
    usual = Pipeline._lowered

    def recorded(pipeline: Pipeline, planned: PlannedQuery, script: Script) -> Any:
        found.append(planned)
        return usual(pipeline, planned, script)

    monkeypatch.setattr(Pipeline, "_lowered", recorded)
    return found


def explained(session: Session, what: Any, monkeypatch: pytest.MonkeyPatch, **of: Any) -> PlannedQuery:
    """The plan that `explain` draws."""
    found: list[PlannedQuery] = []
    usual = Pipeline.plan

    def recorded(*arguments: Any, **named: Any) -> tuple[PlannedQuery, ...]:
        found.extend(usual(*arguments, **named))
        return tuple(found)

    with monkeypatch.context() as patch:
        patch.setattr(Pipeline, "plan", recorded)
        session.explain(what, **of)
    return found[0]


def test_a_dataframe_runs_as_explained(
    session: Session, spark: SparkSession, folder: Path, lowered: list[PlannedQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.read.parquet(str(folder / "t.parquet")).groupBy("k").count().join(spark.range(9), col_eq("k", "id"))
    session.optimize(frame)
    plan = explained(session, frame, monkeypatch)
    assert drawn(plan) == drawn(lowered[-1])
    assert plan.settings == lowered[-1].settings
    assert plan.settings["spark.sql.adaptive.enabled"] is False


def col_eq(left: str, right: str) -> Any:
    return F.col(left) == F.col(right)


def test_a_query_runs_as_explained(
    session: Session, lowered: list[PlannedQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql(QUERY)
    assert drawn(explained(session, QUERY, monkeypatch)) == drawn(lowered[-1])


def test_a_script_runs_as_explained_under_the_printed_settings(
    session: Session, folder: Path, tmp_path: Path, lowered: list[PlannedQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    params = {"out": str(tmp_path / "out")}
    session.run(folder / "both.scope", params)
    plan = explained(session, folder / "both.scope", monkeypatch, params=params)
    assert drawn(plan) == drawn(lowered[-1])
    assert plan.settings == lowered[-1].settings
    assert plan.settings[ADAPTIVE] is False
    explained_json = json.loads(session.explain(folder / "both.scope", params, format="json"))
    assert explained_json["settings"] == plan.settings
    assert f"{ADAPTIVE}=false" in session.explain(folder / "both.scope", params)


COLD = """
import json, sys
from unshuffle import Session
from unshuffle.explain.render.physical import physical_tree
from unshuffle.explain.render.text import table
from unshuffle.pipeline import Pipeline

lowered, usual = [], Pipeline._lowered
def recorded(pipeline, planned, script):
    lowered.append(planned)
    return usual(pipeline, planned, script)
Pipeline._lowered = recorded

script, out, master = sys.argv[1:]
session = Session(master=master)
before = session.pipeline.plan(session.pipeline.bind_file(script, {"out": out}))[0]
assert "pyspark" not in sys.modules
session.run(script, {"out": out})
draw = lambda planned: table(physical_tree(planned, renumbered=True))
print(json.dumps([draw(before) == draw(lowered[0]), before.settings == lowered[0].settings, before.target.machine.cores]))
"""


def test_explain_before_spark_starts_agrees_with_the_run(
    folder: Path, tmp_path: Path, quick_environment: dict[str, str]
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", COLD, str(folder / "both.scope"), str(tmp_path / "out"), "local[3]"],
        capture_output=True,
        text=True,
        check=False,
        env=quick_environment,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [True, True, 3]


def test_threads_do_not_see_each_other(session: Session, spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Each thread gets its own rows and fallbacks, and the user's settings do not change while plans run."""
    before = spark.conf.get(ADAPTIVE)
    pivot = "select * from (select k % 2 as k from t) pivot (count(*) for k in (0, 1))"

    def work(number: int) -> None:
        for turn in range(3):
            match (number + turn) % 3:
                case 0:
                    out = tmp_path / f"out-{number}-{turn}"
                    run = session.run(folder / "both.scope", {"out": str(out)})
                    assert (run.results[0].rows, run.fallbacks, session.fallbacks) == (11, (), ())
                case 1:
                    (row,) = session.sql(pivot).collect()
                    assert sum(row) == 6000
                    assert any("PIVOT" in reason.upper() for reason in session.fallbacks)
                case _:
                    frame = session.optimize(spark.read.parquet(str(folder / "t.parquet")).groupBy("k").count())
                    assert frame.count() == 37
                    assert session.fallbacks == ()
            assert spark.conf.get(ADAPTIVE) == before

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(6)))
    assert spark.conf.get(ADAPTIVE) == before


def test_the_users_session_stays_the_one_that_pyspark_uses(
    session: Session, spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    before = RDD.toDF, SparkSession.getActiveSession()
    session.run(folder / "both.scope", {"out": str(tmp_path / "out")})
    assert (RDD.toDF, SparkSession.getActiveSession()) == before


def test_a_stream_is_written_under_settings_of_its_own(
    session: Session, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other threads do not see the settings. A frame that the user observes stays in the user's session."""
    changed: list[SparkSession] = []
    usual = sstream_writer.temporarily
    monkeypatch.setattr(
        sstream_writer, "temporarily", lambda of, **settings: changed.append(of) or usual(of, **settings)
    )
    session.write_stream(spark.range(30), tmp_path / "plain.ss", clustered_by="id", partitions=2)
    assert changed
    assert spark not in changed
    observation = Observation()
    frame = spark.range(30).observe(observation, F.count(F.lit(1)).alias("rows"))
    session.write_stream(frame, tmp_path / "observed.ss", clustered_by="id", partitions=2)
    assert observation.get["rows"] == 30
    for name in ("plain", "observed"):
        assert session.read_stream(tmp_path / f"{name}.ss").count() == 30


STAGES = {
    "looking": ("unshuffle.spark.reader.dataframe.size_of", ("small frame", "small sql", "explain small")),
    "reading": ("unshuffle.spark.reader.dataframe.logical_plan", ("frame", "sql", "file", "explain")),
    "planning": ("unshuffle.optimizer._begin", ("frame", "sql", "file", "run", "compare")),
    "verifying": ("unshuffle.verify.verify", ("frame", "sql", "file", "run", "compare")),
    "lowering": ("unshuffle.spark.execution.run.lowering", ("frame", "sql", "file", "run", "compare")),
}


@pytest.fixture
def looking(spark: SparkSession, folder: Path) -> Session:
    """A session that looks at what a DataFrame reads before it plans."""
    return Session(spark, tables=folder)


@pytest.fixture
def ways(
    session: Session, looking: Session, spark: SparkSession, folder: Path, tmp_path: Path
) -> Iterator[dict[str, Callable[[], Any]]]:
    spark.read.parquet(str(folder / "t.parquet")).createOrReplaceTempView("t")

    query = tmp_path / "query.sql"
    query.write_text(f"select count(*) as n, max(k) as k from ({QUERY})")

    def rows(frame: DataFrame) -> list[Any]:
        return sorted(frame.collect(), key=str)

    def grouped() -> DataFrame:
        return spark.table("t").groupBy("k").count()

    yield {
        "frame": lambda: rows(session.optimize(grouped())),
        "sql": lambda: rows(session.sql(QUERY)),
        "small frame": lambda: rows(looking.optimize(grouped())),
        "small sql": lambda: rows(looking.sql(QUERY)),
        "explain": lambda: "count" in session.explain(grouped()),
        "explain small": lambda: "count" in looking.explain(grouped()),
        "compare": lambda: session.compare(query).same_rows,
        "file": lambda: sorted(session.run(query).results[0].first, key=str),
        "run": lambda: sorted(session.run(folder / "both.scope", {"out": str(tmp_path / "planted")}).results[0].first),
    }
    spark.catalog.dropTempView("t")


@pytest.mark.parametrize(("stage", "way"), [(stage, way) for stage, (_, ways) in STAGES.items() for way in ways])
@pytest.mark.parametrize(
    "fault", [TypeError("planted"), InternalError("planted")], ids=lambda fault: type(fault).__name__
)
def test_an_internal_fault_falls_back_to_plain_spark(
    session: Session,
    looking: Session,
    ways: dict[str, Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    way: str,
    fault: Exception,
) -> None:
    expected = ways[way]()

    def broken(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(STAGES[stage][0], broken)
    with pytest.warns(NotOptimizedWarning, match="planted") as warned:
        assert ways[way]() == expected
    assert {warning.filename for warning in warned} == {__file__}
    if not way.startswith("explain"):
        used = looking if way.startswith("small") else session
        assert "planted" in used.fallbacks[0]  # Spark's own exchanges may follow
