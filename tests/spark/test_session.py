"""The embedded session, and what is refused of other sessions."""

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


def test_the_embedded_session_says_nothing_on_stderr() -> None:
    ran = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=True)
    assert ran.stdout == "3 2 True\nArithmeticException\n"
    assert ran.stderr == ""


def test_settings_come_back_exactly(spark: SparkSession) -> None:
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


def test_refuses_connect_and_unknown_versions(spark: SparkSession) -> None:
    from unshuffle.spark.session import check

    check(spark)
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UserError, match="this one is a Spark Connect session"):
        check(connect)
    for version in ("4.0.1", "4.4.0", "3.5.1", "main"):
        with pytest.raises(UserError, match=f"Spark {version} is not supported"):
            check(type("SparkSession", (), {"version": version})())


@pytest.mark.parametrize(
    ("java", "message"),
    [
        (None, "Spark needs Java, and there is no"),
        ('openjdk version "11.0.2"', "is Java 11"),
        ('"1.8.0_1"', "not tell"),
    ],
)
def test_refuses_a_missing_or_old_java(
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
