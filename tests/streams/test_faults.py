"""Whatever happens to a writer or to a file: the version before is read, or one clear error is raised. Never wrong rows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle.errors import StreamProblem, UserError
from unshuffle.streams import Stream, Wanted, check, open_stream, place_of, vacuum
from unshuffle.streams.statistics import statistics_of
from unshuffle.streams.store import manifest_name

from .storing import by, store, table_of

OLD = pa.table({"a": list(range(40)), "b": [f"old {i}" for i in range(40)]})
NEW = pa.table({"a": list(range(60)), "b": [f"new {i}" for i in range(60)]})
WANTED = Wanted(by("a"), partitions=12, overwrite=True)


class Killed(BaseException):
    """No handler of ours catches it."""


class Killing:
    """Stops a writer at a step, for good: what it does on the way out does nothing either."""

    def __init__(self, at: int) -> None:
        self.at, self.steps = at, 0

    def __call__(self, operation: str, name: str) -> None:
        self.steps += 1
        if self.steps >= self.at:
            raise Killed(operation, name)


def is_version(stream: Stream, rows: pa.Table) -> bool:
    return sorted(table_of(stream)) == sorted(zip(*rows.to_pydict().values(), strict=True))


def test_a_writer_is_killed_at_every_step(tmp_path: Path) -> None:
    kept = tmp_path / "kept.ss"
    store(kept, OLD, WANTED)
    points = 0
    while True:
        path = tmp_path / f"killed-{points}.ss"
        shutil.copytree(kept, path)
        try:
            store(path, NEW, WANTED, Killing(points + 1), files=2)
            break
        except Killed:
            points += 1
        stream = open_stream(str(path))
        assert check(stream) == (), points
        # Past the link of its manifest the new version is there, though nobody was told.
        assert is_version(stream, OLD if stream.version == 1 else NEW), points
        # What the dead writer left is not in the way of the next one, and vacuum takes it away.
        again = store(path, NEW, WANTED)
        assert is_version(open_stream(str(path)), NEW)
        vacuum(place_of(str(path)), str(path), hours=0)
        left = {entry.name for entry in place_of(str(path)).entries()}
        assert left == {file.path for file in again.manifest.files()} | {manifest_name(again.version)}
        shutil.rmtree(path)
    assert points > 50


def test_a_writer_is_interrupted_at_every_step_and_cleans_up(tmp_path: Path) -> None:
    path = tmp_path / "x.ss"
    old = store(path, OLD, WANTED)
    for at in range(1, 100):
        steps = 0

        def step(operation: str, name: str, at: int = at) -> None:
            nonlocal steps
            steps += 1
            if steps == at:
                raise KeyboardInterrupt

        try:
            store(path, NEW, WANTED, step)
        except KeyboardInterrupt:
            stream = open_stream(str(path))
            assert check(stream) == (), at
            files = {file.path for file in stream.manifest.files()} | {file.path for file in old.manifest.files()}
            there = {entry.name for entry in place_of(str(path)).entries() if not entry.name.startswith("_stream/")}
            assert there == files, at
            if stream.version == 2:  # it was there already when the interruption came
                assert is_version(stream, NEW)
                return
            assert is_version(stream, OLD)
    raise AssertionError("no interruption came after the version was there")


def test_a_first_version_that_was_not_finished_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.ss"
    for at in (1, 5, 20):
        with pytest.raises(Killed):
            store(path, NEW, WANTED, Killing(at))
        with pytest.raises(UserError, match="not a structured stream"):
            open_stream(str(path))
    assert is_version(store(path, NEW, Wanted(by("a"), partitions=2)), NEW)


WRITER = """
import os, signal, sys
import pyarrow as pa
from tests.streams.storing import store
from tests.streams.test_faults import NEW, WANTED
steps = 0
def step(operation, name):
    global steps
    steps += 1
    if steps == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
store(sys.argv[1], NEW, WANTED, step)
"""


@pytest.mark.parametrize("at", [1, 13, 27, 28])
def test_a_real_process_is_killed(tmp_path: Path, at: int) -> None:
    path = tmp_path / "x.ss"
    store(path, OLD, WANTED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", WRITER, str(path), str(at)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    stream = open_stream(str(path))
    assert check(stream) == ()
    assert is_version(stream, OLD if stream.version == 1 else NEW)


# --- files that are not as they were


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def garbage(path: Path) -> None:
    path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fewer_rows(path: Path) -> None:
    """Of the very same size, by a comment in the footer."""
    size, rows = path.stat().st_size, pq.read_table(path)
    for padding in range(size):
        pq.write_table(rows.slice(1).replace_schema_metadata({"pad": "x" * padding}), path, store_schema=True)
        if path.stat().st_size >= size:
            break


FAULTS: list[Callable[[Path], None]] = [missing, empty, half, longer, garbage, a_folder, fewer_rows]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_data_file_is_an_error_that_names_it(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    path = tmp_path / "x.ss"
    stream = store(path, OLD, WANTED)
    victim = next(stream.manifest.files())
    fault(Path(stream.path_of(victim)))
    with pytest.raises(StreamProblem) as caught:
        statistics_of(open_stream(str(path)))
    assert stream.path_of(victim) in str(caught.value)
    assert victim.path in [fault.file for fault in check(open_stream(str(path)))]


@pytest.mark.parametrize("fault", [empty, half, garbage, a_folder])
def test_a_damaged_manifest_is_an_error_that_names_it(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    path = tmp_path / "x.ss"
    store(path, OLD, WANTED)
    store(path, NEW, WANTED)
    fault(path / manifest_name(2))
    if fault is a_folder:
        assert is_version(open_stream(str(path)), OLD)  # a folder is no manifest
        return
    with pytest.raises(StreamProblem, match=r"_stream/0000002\.json is damaged"):
        open_stream(str(path))
    assert is_version(open_stream(str(path), 1), OLD)
    with pytest.raises(StreamProblem, match=r"0000002\.json is damaged"):
        vacuum(place_of(str(path)), str(path), hours=0)


def test_every_byte_of_a_data_file_counts(tmp_path: Path) -> None:
    """Pages have checksums, the footer has one in the manifest; what is in neither no reader needs."""
    stream = store(tmp_path / "x.ss", OLD.slice(0, 8), Wanted(by("a"), boundaries=()))
    path = Path(stream.paths[0])
    whole = path.read_bytes()
    unnoticed = []
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            rows = pq.ParquetFile(path, page_checksum_verification=True).read().to_pylist()
        except (OSError, pa.ArrowException):
            continue
        if not check(stream) and [tuple(row.values()) for row in rows] != list(
            zip(*OLD.slice(0, 8).to_pydict().values(), strict=True)
        ):
            unnoticed.append(at)
    assert unnoticed == []
