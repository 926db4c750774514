"""The embedded session, and sessions in which optimized plans cannot run."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from unshuffle.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from unshuffle.optimizer import PlannedQuery
    from unshuffle.verify.derivation import Derivation

pytestmark = pytest.mark.spark

QUIET = """
import os
from unshuffle.spark.session import start
spark = start("local[1]")
print(spark.range(3).count(), spark.conf.get("spark.sql.shuffle.partitions"), start() is spark)
try:
    spark.sql("select 1 / 0").collect()
except Exception as error:
    print(type(error).__name__)
"""


def test_the_embedded_session_says_nothing_on_stderr(quick_environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", QUIET], capture_output=True, text=True, check=True, env=quick_environment
    )
    assert ran.stdout == "3 2 True\nArithmeticException\n"
    assert ran.stderr == ""


def test_settings_are_restored_exactly(spark: SparkSession) -> None:
    from unshuffle.spark.session import temporarily

    def contains(key: str) -> bool:
        return bool(spark._jsparkSession.sessionState().conf().contains(key))

    unset, preset = "spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions"
    with (
        suppress(ZeroDivisionError),
        temporarily(spark, **{unset: False, preset: 7, "spark.sql.session.timeZone": None}),
    ):
        assert (spark.conf.get(unset), spark.conf.get(preset)) == ("false", "7")
        raise ZeroDivisionError
    assert not contains(unset)
    assert spark.conf.get(preset) == "4"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_versions_that_are_tested() -> None:
    from unshuffle.spark.session import untested

    assert [version for version in ("4.1.0", "4.2.1-rc1", "4.3.0") if untested(version) is not None] == []
    for version in ("4.0.1", "4.4.0", "3.5.1", "5.0.0", "main"):
        assert f"Spark {version} is not supported" in str(untested(version))


def test_an_unknown_version_runs_plain(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only through Spark's public API: no internals are touched."""
    from unshuffle import NotOptimizedWarning, Session
    from unshuffle.spark import session
    from unshuffle.spark.shims import gateway, hadoop  # Hadoop's file systems are no internals of Spark's

    assert hadoop.jvm is gateway.jvm
    spark.range(9).selectExpr("id", "id % 3 as k").write.parquet(str(tmp_path / "t.parquet"))
    monkeypatch.setattr(session, "NEWEST", (4, 0))
    monkeypatch.setattr(gateway, "jvm", None)
    before = spark.sql("show tables").collect()
    with pytest.warns(NotOptimizedWarning, match="is not supported, and nothing is optimized") as warned:
        plain = Session(spark, tables=tmp_path, effort="full")
    assert [warning.filename for warning in warned] == [__file__]
    rows = plain.sql("select k, count(*) as n, '{0}' as s from t where k in (select id from t) group by k order by k")
    assert [tuple(row) for row in rows.collect()] == [(0, 3, "{0}"), (1, 3, "{0}"), (2, 3, "{0}")]
    assert "is not supported" in plain.fallbacks[0]
    frame = spark.range(3).groupBy("id").count()
    assert plain.optimize(frame) is frame
    assert "HashAggregate" in plain.explain("select k, count(*) as n from t group by k")
    (tmp_path / "q.sql").write_text("select k, count(*) as n from t group by k")
    assert plain.run(tmp_path / "q.sql").measured.rows == 3
    assert plain.compare(tmp_path / "q.sql", runs=1).same_rows
    assert spark.sql("show tables").collect() == before


def test_an_internal_fault_loses_no_rows(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails during planning: plain Spark returns the rows, and the user gets a warning."""
    from unshuffle import NotOptimizedWarning, Session, optimizer

    def broken(*_: object) -> None:
        raise KeyError("no such group")

    session = Session(spark, effort="full")
    monkeypatch.setattr(optimizer, "optimize", broken)
    with pytest.warns(NotOptimizedWarning, match="a fault in unshuffle, not in your query") as warned:
        rows = session.sql("select 1 as one").collect()
    assert [tuple(row) for row in rows] == [(1,)]
    assert [warning.filename for warning in warned] == [__file__]
    assert "KeyError: 'no such group'" in session.fallbacks[0]


def test_a_fault_is_explained_by_what_runs_instead(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that verification refuses is not shown: the query runs as Spark has it."""
    from unshuffle import NotOptimizedWarning, Session, verify
    from unshuffle.errors import InternalError

    derive = verify.derive
    tries: list[PlannedQuery] = []

    def refuses_the_first(plan: PlannedQuery) -> Derivation:
        tries.append(plan)
        if len(tries) == 1:
            raise InternalError("an invalid plan")
        return derive(plan)

    monkeypatch.setattr(verify, "derive", refuses_the_first)
    frame = spark.range(9).groupBy("id").count()
    for what in ("select id, count(*) from range(9) group by id", frame):
        tries.clear()
        with pytest.warns(NotOptimizedWarning, match="an invalid plan"):
            shown = Session(spark, effort="full").explain(what)
        assert "an invalid plan" in shown
        assert "HashAggregate" not in shown


CONNECT = """
import sys, warnings
from pyspark.sql import SparkSession
from unshuffle import NotOptimizedWarning, Session, UserError
spark = SparkSession.builder.remote("local[1]").getOrCreate()
spark.range(2).write.parquet(sys.argv[1] + "/u.parquet")
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    session = Session(spark, tables=sys.argv[1], effort="full")
print([(w.category.__name__, str(w.message)[:31]) for w in warned])
spark.range(9).selectExpr("id", "id % 3 as k").createOrReplaceTempView("t")
print([tuple(row) for row in session.sql("select k, count(*) as n from t join u on t.k = u.id group by k order by k").collect()])
print([tuple(row) for row in session.sql("select * from (select k from t) pivot (count(*) for k in (0, 1))").collect()])
print(session.fallbacks[0][:31])
frame = spark.table("t").groupBy("k").count()
print(session.optimize(frame) is frame)
print("HashAggregate" in session.explain("select k, count(*) as n from t group by k"))
for refused in (lambda: session.run("x.sql"), lambda: session.compare("x.sql"), lambda: session.explain(frame)):
    try:
        refused()
    except UserError as error:
        print(error.message)
spark.stop()
"""

CONNECT_SAYS = """\
[('NotOptimizedWarning', 'this is a Spark Connect session')]
[(0, 3), (1, 3)]
[(3, 3)]
this is a Spark Connect session
True
True
running a script needs a classic Spark session, and this one is a Spark Connect session
comparing needs a classic Spark session, and this one is a Spark Connect session
reading a DataFrame needs a classic Spark session, and this one is a Spark Connect session
"""


def test_spark_connect_runs_plain(tmp_path: Path, quick_environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CONNECT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=quick_environment,
    )
    assert ran.stdout == CONNECT_SAYS, ran.stderr


@pytest.mark.parametrize(
    ("java", "message"),
    [
        (None, "Spark needs Java, and there is no"),
        ('openjdk version "11.0.2"', "is Java 11"),
        ('"1.8.0_1"', "not tell"),
    ],
)
def test_a_missing_or_old_java_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: str | None, message: str
) -> None:
    from unshuffle.spark.session import _check_java

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if java is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/java").write_text(f"#!/bin/sh\necho '{java}' >&2\n")
        (tmp_path / "bin/java").chmod(0o755)
    with pytest.raises(UserError, match=message) as caught:
        _check_java()
    assert "openjdk-17-jre-headless" in str(caught.value)
