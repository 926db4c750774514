"""The first things a newcomer uses: `make`, the set-up, and the scripts under examples/."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from examples.cpu_hours.generate import generate
from tools.set_up import fingerprint, java_major
from unshuffle.language.parse.parameters import Parameters
from unshuffle.language.parse.parser import parse
from unshuffle.language.parse.preprocess import preprocess, read_source
from unshuffle.language.parse.statements import OutputStatement, OutputStreamStatement

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("*/*.scope"))


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16', 25),
        ('openjdk version "11.0.2" 2019-01-15', 11),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_java_version(printed: str, major: int | None) -> None:
    assert java_major(printed) == major


def test_only_installed_things_make_an_installation_stale() -> None:
    pyproject = {"project": {"dependencies": ["a"]}, "tool": {"ruff": {"line-length": 100}}}
    before = fingerprint(pyproject, Path("/here"))
    assert fingerprint({**pyproject, "tool": {}}, Path("/here")) == before
    assert fingerprint({**pyproject, "project": {"dependencies": ["a", "b"]}}, Path("/here")) != before
    assert fingerprint(pyproject, Path("/moved")) != before


def test_a_missing_java_is_explained(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    answer = _set_up_java(environment)
    assert answer.returncode == 1
    assert "Debian" in answer.stderr
    assert "JAVA_HOME" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    answer = _set_up_java({"PATH": os.environ["PATH"], "JAVA_HOME": str(tmp_path)})
    assert answer.returncode == 1
    assert f"JAVA_HOME={tmp_path} is Java 8" in answer.stderr


def _set_up_java(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "set_up.py"), "java"]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_help_lists_every_target_a_user_runs() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    declared = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert declared
    inner = {"venv", "java", "demo-data"}
    assert set(re.findall(r"make ([a-z-]+)", shown)) == set(declared[1].split()) - inner


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_examples_need_no_options_and_are_in_the_language(script: Path) -> None:
    sources = preprocess(read_source(script), Parameters({}))
    assert any(
        isinstance(statement, OutputStatement | OutputStreamStatement)
        for source in sources
        for statement in parse(source)
    )


def test_generated_events_match_the_documentation(tmp_path: Path) -> None:
    last = datetime.date(2025, 6, 30)
    for name in ("once", "again"):
        generate(tmp_path / name, processes=2000, days=5, duplicates=0.15, end_date=last, seed=3)
    started, ended = (
        ds.dataset(tmp_path / "once" / side, partitioning="hive").to_table() for side in ("started", "ended")
    )
    for side, table in (("started", started), ("ended", ended)):
        assert table.equals(ds.dataset(tmp_path / "again" / side, partitioning="hive").to_table())
        days = [
            datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).date() for ms in table["event_time"].to_pylist()
        ]
        assert [str(day) for day in days] == table["Date"].to_pylist()
    starts, ends = started["process_guid"].to_pylist(), ended["process_guid"].to_pylist()
    assert len(set(starts)) == 2000
    assert 2200 < len(starts) < 2400
    assert set(ends) < set(starts)
    assert len(ends) > len(set(ends))
    assert ended["user_group"].null_count
    once = {tuple(row.values()) for row in ended.to_pylist()}
    assert len(once) == len(set(ends)), "duplicates of an event are equal"
