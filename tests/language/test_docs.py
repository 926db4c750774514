"""Binds and runs the examples of docs/language.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from unshuffle import Session, UserError

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
BLOCKS = re.findall(r"^```(\w+)( [\w.]+)?\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PRELUDE = next(text for language, label, text in BLOCKS if label == " prelude")
SCRIPTS = [PRELUDE + text for language, label, text in BLOCKS if language == "scope" and not label]
QUERIES = [text for language, _, text in BLOCKS if language == "sql"]
TODAY = {"Today": "2025-06-30"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files and modules that the examples use."""
    (tmp_path / "clicks.csv").write_text(
        "user_id,ts,page\n1,2025-06-30 10:00:00,a/b\n1,2025-06-30 09:00:00,a\n2,2025-06-30 11:00:00,c/d/e\n"
    )
    users = {
        "user_id": pa.array([1, 2, 3], pa.int64()),
        "name": ["ann", "bob", "cay"],
        "region": ["north", None, "south"],
    }
    pq.write_table(pa.table(users), tmp_path / "users.parquet")
    for day in ("2025-06-29", "2025-06-30"):
        (tmp_path / "events" / f"Date={day}").mkdir(parents=True)
        pq.write_table(
            pa.table({"user_id": pa.array([1, 2], pa.int64())}), tmp_path / "events" / f"Date={day}" / "0.parquet"
        )
    for _, label, text in BLOCKS:
        if label.strip().endswith(".py"):
            (tmp_path / label.strip()).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "operators_of_mine", raising=False)
    return tmp_path


def test_the_page_has_examples() -> None:
    assert len(SCRIPTS) >= 6
    assert QUERIES


@pytest.mark.parametrize("text", SCRIPTS)
def test_every_script_is_bound_and_planned(text: str, folder: Path) -> None:
    script = folder / "script.scope"
    script.write_text(text)
    assert Session().explain(script, TODAY)


@pytest.mark.parametrize("text", QUERIES)
def test_every_query_is_bound_and_planned(text: str, folder: Path) -> None:
    script = folder / "queries.sql"
    script.write_text(text)
    assert Session(tables=folder).explain(script)


def test_the_error_is_as_shown(folder: Path) -> None:
    shown = PAGE[PAGE.index("error: usage.scope") :].split("```")[0]
    (folder / "usage.scope").write_text(
        'users = EXTRACT user_id, name, region FROM "users.parquet" USING Parquet();\nr = SELECT user_id, regoin FROM users;\n'
    )
    with pytest.raises(UserError) as error:
        Session().explain("usage.scope")
    assert f"error: {error.value}\n" == shown


@pytest.mark.spark
@pytest.mark.parametrize("text", SCRIPTS)
def test_every_script_runs(text: str, folder: Path, spark: SparkSession) -> None:
    script = folder / "script.scope"
    # The JVM of the tests runs in another folder, and resolves relative paths there.
    script.write_text(re.sub(r'(FROM|TO|TO SSTREAM) "', rf'\1 "{folder}/', text))
    assert Session(spark, effort="full").run(script, TODAY).results
