"""A fixed slice of the crash points of scripts, and the fates of runs that die. tools/crash_points.py tries all points."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.crash.script_shapes import SHAPES
from unshuffle import Session
from unshuffle.errors import FileProblem, UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BY_NAME = {shape.name: shape for shape in SHAPES}
# Shapes, and which operations of their commit and of their jobs are tried: every Nth.
SLICE = (
    ("three outputs, two replaced", 7, None),
    ("stream and file, both replaced", 7, None),
    ("csv, replaced", 4, 17),
)


@pytest.mark.parametrize(("name", "of_commit", "of_jobs"), SLICE)
def test_crash_points(spark: SparkSession, tmp_path: Path, name: str, of_commit: int, of_jobs: int | None) -> None:
    from tests.support.crash.hadoop_faults import faulty_file_system
    from tests.support.crash.script_points import ScriptPoints

    with faulty_file_system(spark) as faults:
        points = ScriptPoints(spark, faults, BY_NAME[name], tmp_path / "points")
        tried = list(points.commit_points(of_commit))
        if of_jobs is not None:
            tried += points.job_points(of_jobs)
    assert len(tried) > 10
    assert [str(point) for point in tried if point.problem is not None] == []


def test_a_fault_at_an_operation_is_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the undoing of a commit, faults at its operations leave some outputs in place."""
    from tests.support.crash.hadoop_faults import faulty_file_system
    from tests.support.crash.script_points import ScriptPoints
    from unshuffle.spark.io.commit_record import Commit

    monkeypatch.setattr(Commit, "undo", lambda self: None)
    with faulty_file_system(spark) as faults:
        points = ScriptPoints(spark, faults, BY_NAME["csv, replaced"], tmp_path / "points")
        assert any(point.problem is not None for point in points.commit_points())


# --- errors of the file system


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("ENOSPC", r"a\.csv cannot be written: no space left on device\n  make room there, and run it again"),
        ("EIO", r"a\.csv cannot be written: input/output error\n  check the disk or the file system"),
        ("EACCES", r"a\.csv cannot be written: permission denied\n  check the permissions"),
    ],
)
def test_an_error_of_the_disk_is_one_message(spark: SparkSession, tmp_path: Path, fault: str, said: str) -> None:
    from pyspark.sql import SparkSession as Sessions

    from tests.support.crash.hadoop_faults import faulty_file_system

    script = tmp_path / "s.scope"
    script.write_text(f'r = SELECT 1 AS a; OUTPUT r TO "{tmp_path}/out/a.csv";')
    assert isinstance(spark, Sessions)
    with faulty_file_system(spark) as faults:
        faults.arm(tmp_path / "out", 12, fault)  # in the job
        with pytest.raises(UserError, match=said):
            Session(spark, effort="full").run(script)
    assert not (tmp_path / "out").exists()


# --- runs that died while they put outputs in place


def died(folder: Path, done: bool, process: str = "elsewhere 1 1", age: float = 3600.0) -> None:
    """What a run leaves that has replaced a.csv and not yet b.csv, or, if `done`, both."""
    names = ("a.csv", "b.csv")
    outputs = []
    for name in names:
        (folder / name).mkdir()
        (folder / name / "part-old").write_text("old\n")
        hidden = folder / f".{name}.unshuffle-0123abcd"
        hidden.mkdir()
        (hidden / f"part-{name}").write_text("new\n")
        backup = folder / f"{hidden.name}-old"
        outputs.append(
            {
                "target": f"file:{folder / name}",
                "staging": f"file:{hidden}",
                "backup": f"file:{backup}",
                "part": f"part-{name}",
            }
        )
        if done or name == "a.csv":
            (folder / name).rename(backup)
            hidden.rename(folder / name)
    record = {"run": "0123abcd", "process": process, "outputs": outputs, "streams": []}
    for name in names:
        suffix = "done" if done and name == "a.csv" else "commit"
        path = folder / f".{name}.unshuffle-0123abcd.{suffix}"
        path.write_text(json.dumps(record))
        moment = path.stat().st_mtime - age
        os.utime(path, (moment, moment))


def texts(folder: Path) -> dict[str, str]:
    return {
        path.name: "".join(part.read_text() for part in path.glob("part-*")) if path.is_dir() else path.read_text()
        for path in folder.iterdir()
    }


@pytest.mark.parametrize("done", [False, True])
def test_the_next_run_ends_the_commit_of_a_dead_one(spark: SparkSession, tmp_path: Path, done: bool) -> None:
    from unshuffle.spark.io.commit_record import recover

    died(tmp_path, done)
    recover(spark, [str(tmp_path / "b.csv")])
    expected = "new\n" if done else "old\n"
    assert texts(tmp_path) == {"a.csv": expected, "b.csv": expected}
    recover(spark, [str(tmp_path / "b.csv")])
    assert texts(tmp_path) == {"a.csv": expected, "b.csv": expected}


def test_a_living_run_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.io.commit_record import _begun, recover

    parent = os.getppid()
    for process, age in ((f"{os.uname().nodename} {parent} {_begun(parent)}", 3600.0), ("elsewhere 1 1", 0.0)):
        died(tmp_path, False, process, age)
        before = texts(tmp_path)
        with pytest.raises(FileProblem, match="another run is writing"):
            recover(spark, [str(tmp_path / "b.csv")])
        assert texts(tmp_path) == before
        recover(spark, [str(tmp_path / "c.csv")])
        assert texts(tmp_path) == before
        for path in tmp_path.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_what_a_user_put_in_place_meanwhile_stays(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.io.commit_record import recover

    died(tmp_path, False)
    shutil.rmtree(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("mine")
    recover(spark, [str(tmp_path / "b.csv")])
    assert texts(tmp_path) == {"a.csv": "mine", ".a.csv.unshuffle-0123abcd-old": "old\n", "b.csv": "old\n"}


def test_a_script_that_was_killed_runs_again(spark: SparkSession, tmp_path: Path) -> None:
    """Without OVERWRITE too: what the dead run has put in place is taken back first."""
    died(tmp_path, False)
    shutil.rmtree(tmp_path / ".a.csv.unshuffle-0123abcd-old")
    shutil.rmtree(tmp_path / "b.csv")
    script = tmp_path / "s.scope"
    script.write_text(f'r = SELECT 7 AS n; OUTPUT r TO "{tmp_path}/a.csv"; OUTPUT r TO "{tmp_path}/b.csv";')
    Session(spark, effort="full").run(script)
    script.unlink()
    assert texts(tmp_path) == {"a.csv": "7\n", "b.csv": "7\n"}


def test_a_planted_record_removes_nothing_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.io.commit_record import recover

    victim, shared = tmp_path / "home" / "data", tmp_path / "shared"
    victim.mkdir(parents=True)
    (victim / "part-0").write_text("mine")
    shared.mkdir()
    run = "0123abcd"

    def planted(target: Path, staging: Path, part: str = "part-0") -> str:
        output = {"target": str(target), "staging": str(staging), "backup": f"{staging}-old", "part": part}
        record = {"run": run, "process": "elsewhere 1 1", "outputs": [output], "streams": []}
        return json.dumps(record)

    beside = victim.parent / f".data.unshuffle-{run}"
    hidden = shared / f".b.csv.unshuffle-{run}"
    for text in (
        planted(victim, beside),  # it is not beside that target
        planted(shared / "b.csv", victim),
        planted(shared / "b.csv", hidden, "../../home/data"),
        "[" * 100_000,
    ):
        path = shared / f"{hidden.name}.commit"
        path.write_text(text)
        os.utime(path, (0, 0))
        with pytest.raises(FileProblem, match="the record of an interrupted run"):
            recover(spark, [str(shared / "b.csv")])
        assert (victim / "part-0").read_text() == "mine"
