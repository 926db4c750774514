"""Writers that die and files that are damaged. A reader gets the previous version or one clear error, never wrong rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.effort import normal_or_quick
from tests.support.storing import by, store, table_of
from unshuffle.errors import StreamProblem, UserError
from unshuffle.sstream import LayoutRequest, Stream, open_stream, storage_of
from unshuffle.sstream.check import check
from unshuffle.sstream.footer_statistics import statistics_of
from unshuffle.sstream.store import manifest_name
from unshuffle.sstream.vacuum import vacuum

OLD = pa.table({"a": list(range(40)), "b": [f"old {i}" for i in range(40)]})
NEW = pa.table({"a": list(range(60)), "b": [f"new {i}" for i in range(60)]})
REQUEST = LayoutRequest(by("a"), partitions=12, overwrite=True)


class Killed(BaseException):
    """No handler in the code catches it."""


class Killing:
    """Stops a writer at a step. Its clean-up fails too, as if the process had died."""

    def __init__(self, at: int) -> None:
        self.at, self.steps = at, 0

    def __call__(self, operation: str, name: str) -> None:
        self.steps += 1
        if self.steps >= self.at:
            raise Killed(operation, name)


def is_version(stream: Stream, rows: pa.Table) -> bool:
    return sorted(table_of(stream)) == sorted(zip(*rows.to_pydict().values(), strict=True))


def test_a_writer_is_killed_at_every_step(tmp_path: Path) -> None:
    path = tmp_path / "x.ss"
    base = store(path, OLD, REQUEST)
    old, new = OLD, NEW
    points, step = 0, normal_or_quick(1, quick=5)
    while True:
        try:
            store(path, new, REQUEST, Killing(points + 1), files=2)
            break
        except Killed:
            points += step
        stream = open_stream(str(path))
        assert check(stream) == (), points
        # Once its manifest is linked, the new version exists, though the writer did not return.
        assert is_version(stream, old if stream.version == base.version else new), points
        # The dead writer's files do not hinder the next writer, and vacuum removes them.
        base = store(path, new, REQUEST)
        assert is_version(open_stream(str(path)), new)
        vacuum(storage_of(str(path)), str(path), hours=0)
        remaining = {entry.name for entry in storage_of(str(path)).entries()}
        assert remaining == {file.path for file in base.manifest.files()} | {manifest_name(base.version)}
        old, new = new, old
    assert points > 50


def test_a_writer_is_interrupted_at_every_step_and_cleans_up(tmp_path: Path) -> None:
    path = tmp_path / "x.ss"
    old = store(path, OLD, REQUEST)
    for at in range(1, 100):
        steps = 0

        def step(operation: str, name: str, at: int = at) -> None:
            nonlocal steps
            steps += 1
            if steps == at:
                raise KeyboardInterrupt

        try:
            store(path, NEW, REQUEST, step)
        except KeyboardInterrupt:
            stream = open_stream(str(path))
            assert check(stream) == (), at
            files = {file.path for file in stream.manifest.files()} | {file.path for file in old.manifest.files()}
            existing = {e.name for e in storage_of(str(path)).entries() if not e.name.startswith("_stream/")}
            assert existing == files, at
            if stream.version == 2:  # the interruption came after it was published
                assert is_version(stream, NEW)
                return
            assert is_version(stream, OLD)
    raise AssertionError("no interruption came after the version was published")


def test_an_unfinished_first_version_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "x.ss"
    for at in (1, 5, 20):
        with pytest.raises(Killed):
            store(path, NEW, REQUEST, Killing(at))
        with pytest.raises(UserError, match="not a structured stream"):
            open_stream(str(path))
    assert is_version(store(path, NEW, LayoutRequest(by("a"), partitions=2)), NEW)


# Imports once, then writes in one forked process for each stream, and kills it at a step.
WRITERS = """
import os, signal, sys
from tests.support.storing import store
from tests.sstream.test_faults import NEW, REQUEST
for argument in sys.argv[1:]:
    path, _, at = argument.rpartition(":")
    steps = 0
    def step(operation, name):
        global steps
        steps += 1
        if steps == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
    writer = os.fork()
    if writer == 0:
        store(path, NEW, REQUEST, step)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]))
"""


def test_real_processes_are_killed(tmp_path: Path) -> None:
    paths = {at: tmp_path / f"{at}.ss" for at in (1, 13, 27, 28)}
    for path in paths.values():
        store(path, OLD, REQUEST)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [f"{path}:{at}" for at, path in paths.items()]
    done = subprocess.run(
        [sys.executable, "-c", WRITERS, *arguments], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == [str(-signal.SIGKILL.value)] * len(paths)
    for path in paths.values():
        stream = open_stream(str(path))
        assert check(stream) == ()
        assert is_version(stream, OLD if stream.version == 1 else NEW)


# --- damaged files


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
    """The file keeps its size, by a comment in the footer."""
    size, rows = path.stat().st_size, pq.read_table(path)
    for padding in range(size):
        pq.write_table(rows.slice(1).replace_schema_metadata({"pad": "x" * padding}), path, store_schema=True)
        if path.stat().st_size >= size:
            break


FAULTS: list[Callable[[Path], None]] = [missing, empty, half, longer, garbage, a_folder, fewer_rows]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_data_file_is_an_error_that_names_it(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    path = tmp_path / "x.ss"
    stream = store(path, OLD, REQUEST)
    victim = next(stream.manifest.files())
    fault(Path(stream.path_of(victim)))
    with pytest.raises(StreamProblem) as caught:
        statistics_of(open_stream(str(path)))
    assert stream.path_of(victim) in str(caught.value)
    assert victim.path in [fault.file for fault in check(open_stream(str(path)))]


@pytest.mark.parametrize("fault", [empty, half, garbage, a_folder])
def test_a_damaged_manifest_is_an_error_that_names_it(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    path = tmp_path / "x.ss"
    store(path, OLD, REQUEST)
    store(path, NEW, REQUEST)
    fault(path / manifest_name(2))
    if fault is a_folder:
        assert is_version(open_stream(str(path)), OLD)  # a folder is not a manifest
        return
    with pytest.raises(StreamProblem, match=r"_stream/0000002\.json is damaged"):
        open_stream(str(path))
    assert is_version(open_stream(str(path), 1), OLD)
    with pytest.raises(StreamProblem, match=r"0000002\.json is damaged"):
        vacuum(storage_of(str(path)), str(path), hours=0)


def test_every_byte_of_a_data_file_counts(tmp_path: Path) -> None:
    """Pages have checksums, and the manifest has one of the footer. No reader needs the other bytes."""
    stream = store(tmp_path / "x.ss", OLD.slice(0, 8), LayoutRequest(by("a"), boundaries=()))
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
