"""The scripts that the papers print run as they are printed (see examples/papers), and their rows are those of plain Spark."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from unshuffle import Session

pytestmark = pytest.mark.spark

PAPERS = Path(__file__).parents[2] / "examples" / "papers"
SCRIPTS = sorted(path.stem for path in PAPERS.glob("*.scope"))
Rows = list[tuple[Any, ...]]


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PAPERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    made = tmp_path_factory.mktemp("papers") / "data"
    module("generate").generate(made, Session(spark))
    return made


@pytest.fixture
def run(folder: Path, spark: SparkSession) -> Callable[[str], Session]:
    """Runs a script of the papers, after plain Spark has given the same rows."""

    def ran(name: str) -> Session:
        session = Session(spark, effort="full")
        params = {"folder": str(folder), "Today": "2025-06-30"}
        script = PAPERS / f"{name}.scope"
        assert session.compare(script, params, runs=1).same_rows
        session.run(script, params)
        assert not session.fallbacks
        return session

    return ran


def rows(frame: Any) -> Rows:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_is_explained_without_spark(name: str, folder: Path) -> None:
    assert "Output" in Session().explain(PAPERS / f"{name}.scope", {"folder": str(folder), "Today": "2025-06-30"})


def test_cpu_hours(run: Callable[[str], Session], folder: Path, spark: SparkSession) -> None:
    run("cpu_hours")
    found: dict[str | None, float] = {}
    starts, ends = {}, set()
    read = module("cpu_hours").EventExtractor
    for path in folder.glob("Process*Events/*/events.log"):
        with open(path, "rb") as file:
            for event in read("ProcessStarted").extract_rows(file, ""):
                starts[event["ProcessGUID"]] = event["CurrentTimeStamp"]
        with open(path, "rb") as file:
            ends |= {
                (e["CurrentTimeStamp"], e["ProcessGUID"], e["UserGroupName"])
                for e in read("ProcessEnded").extract_rows(file, "")
            }
    for end, guid, group in ends:
        found[group] = found.get(group, 0.0) + (end - starts[guid]).total_seconds() / 3600
    written = spark.read.csv(f"{folder}/my/CPUHoursPerUserGroup.txt", sep="\t", schema="hours double, name string")
    assert {name: pytest.approx(hours) for hours, name in rows(written)} == found
    assert len(found) == 5


def test_shared_key(run: Callable[[str], Session], folder: Path, spark: SparkSession) -> None:
    run("shared_key")
    plain = spark.sql(
        f"""SELECT c, d, count(*) FROM parquet.`{folder}/R.parquet` AS R JOIN parquet.`{folder}/S.parquet` AS S
            ON R.a = S.a AND R.b = S.b WHERE c % 3 <> 0 AND d IS NOT NULL GROUP BY c, d"""
    )
    written = spark.read.csv(f"{folder}/my/shared_key.txt", sep="\t", schema="c bigint, d bigint, n bigint")
    assert rows(written) == rows(plain)
    assert rows(plain)


def test_user_aggregate(run: Callable[[str], Session], folder: Path, spark: SparkSession) -> None:
    session = run("user_aggregate")
    plain = spark.sql(f"SELECT a, median(b) FROM parquet.`{folder}/input.parquet` GROUP BY a")
    assert rows(session.read_stream(folder / "my" / "output.ss")) == rows(plain)
    assert len(rows(plain)) == 41


def test_web_pages(run: Callable[[str], Session], folder: Path, spark: SparkSession) -> None:
    run("web_pages")
    for name, tables in (("web_pages", ["WebPages"]), ("all_pages", ["T1", "T2", "T3", "T4"])):
        union = " UNION ALL ".join(f"SELECT * FROM parquet.`{folder}/{table}.parquet`" for table in tables)
        plain = spark.sql(
            f"""SELECT domain, host, greatest(0, count(DISTINCT col1) - 2), greatest(0, count(DISTINCT col2) - 2)
                FROM ({union}) GROUP BY domain, host"""
        )
        written = spark.read.parquet(f"{folder}/my/{name}.parquet")
        assert written.columns == ["domain", "host", "Agg(col1)", "Agg(col2)"]
        assert rows(written) == rows(plain)


def test_mailboxes(run: Callable[[str], Session], folder: Path, spark: SparkSession) -> None:
    run("mailboxes")
    simplified = "CASE WHEN EventId % 4 = 0 THEN 'High' WHEN EventId IS NOT NULL THEN 'Low' END"
    branches = (
        (f"max_by({simplified}, TS)", "WHERE EventName IN ('Open', 'Move', 'Delete')"),
        ("first('High')", ""),
    )
    plain = spark.sql(
        " UNION ALL ".join(
            f"""SELECT max_by(EventId, TS), max_by(ActivityId, TS), {event}, max_by(MachineName, TS), MailboxGuid, count(*)
                FROM parquet.`{folder}/log.parquet` {where} GROUP BY MailboxGuid"""
            for event, where in branches
        )
    )
    assert rows(spark.read.parquet(f"{folder}/my/mailboxes.parquet")) == rows(plain)


def test_ngrams(run: Callable[[str], Session], folder: Path, spark: SparkSession) -> None:
    session = run("ngrams")
    plain = spark.sql(
        f"""SELECT g, count(*) FROM (SELECT explode(transform(sequence(1, length(text) - 3), i -> substring(text, i, 4))) AS g
            FROM parquet.`{folder}/strings.parquet` WHERE length(text) >= 4) GROUP BY g"""
    )
    assert rows(session.read_stream(folder / "my" / "ngrams.ss")) == rows(plain)


def test_the_query_of_the_reading_notes(folder: Path, tmp_path: Path, spark: SparkSession) -> None:
    """Section 8 of the notes on the 2010 paper, with the word FROM, which is missing there."""
    script = tmp_path / "notes.scope"
    script.write_text(
        f"""
        log = EXTRACT TS, MailboxGuid FROM "{folder}/log.parquet";
        ProcessStart = SELECT TS AS Time, MailboxGuid AS GUID FROM log;
        ProcessEnd = SELECT TS + 5 AS Time, MailboxGuid AS GUID, "u" AS UserName FROM log;

        SELECT SUM(end.Time-start.Time), UserName FROM
          (SELECT DISTINCT Time, GUID FROM ProcessStart) start,
          (SELECT DISTINCT Time, GUID, UserName FROM ProcessEnd) end
        WHERE start.GUID = end.GUID
        GROUP BY UserName
        ORDER BY UserName;

        OUTPUT TO "{tmp_path}/notes.parquet";
        """
    )
    session = Session(spark, effort="full")
    assert session.compare(script, runs=1).same_rows
    session.run(script)
    assert rows(spark.read.parquet(f"{tmp_path}/notes.parquet"))[0][1] == "u"
