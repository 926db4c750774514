"""A fixed slice of the crash points of streams, SIGKILL included. tools/crash_points.py tries all points."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.crash.local_faults import LocalFaults, local_faults
from tests.support.crash.points import local_points
from tests.support.crash.stream_shapes import SHAPES, StreamShape, VacuumShape
from tests.support.effort import normal_or_quick
from tests.support.storing import store
from unshuffle.errors import UserError
from unshuffle.sstream import open_stream, storage_of
from unshuffle.sstream.vacuum import vacuum
from unshuffle.sstream.version_writer import VersionWriter

NEXT_VERSION = SHAPES[2]


@pytest.mark.parametrize(
    ("shape", "first"),
    [(SHAPES[0], 2), (NEXT_VERSION, 1), (VacuumShape(), 3)],
    ids=lambda each: getattr(each, "name", ""),
)
def test_crash_points(tmp_path: Path, shape: StreamShape | VacuumShape, first: int) -> None:
    points = list(local_points(shape, tmp_path, step=normal_or_quick(4, quick=12), first=first))
    assert {"ENOSPC", "EIO", "EACCES", "kill"} <= {point.fault for point in points}
    assert [str(point) for point in points if point.problem is not None] == []


def test_what_does_not_hold_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that removes the files of a version that it has published loses them."""

    def discard(self: VersionWriter, after_error: bool = True) -> None:
        for name in self._moved:
            self._storage.remove(name)

    monkeypatch.setattr(VersionWriter, "discard", discard)
    assert any(point.problem is not None for point in local_points(NEXT_VERSION, tmp_path, step=11))


def operation_of(shape: StreamShape | VacuumShape, folder: Path, kind: str) -> int:
    """The number of the last operation of a kind."""
    shape.prepare(folder)
    with local_faults(LocalFaults(str(folder))) as faults:
        shape.run(folder)
    return max(i for i, each in enumerate(faults.operations, 1) if each.startswith(kind))


def test_the_manifest_decides_whether_a_version_is_published(tmp_path: Path) -> None:
    """The file system reports an error for a link that it has made."""
    link = operation_of(NEXT_VERSION, tmp_path / "counted", "link")
    NEXT_VERSION.prepare(tmp_path / "tried")
    with local_faults(LocalFaults(str(tmp_path / "tried"), link, "after")) as faults:
        NEXT_VERSION.run(tmp_path / "tried")
    assert faults.hit
    assert open_stream(str(tmp_path / "tried" / "x.ss")).version == 2


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("ENOSPC", r"x\.ss' cannot be written: no space left on device \(.*\)\n  make room there, and run it again$"),
        ("EIO", r"x\.ss' cannot be written: input/output error \(.*\)\n  check the disk or the file system, and run"),
        ("EACCES", r"x\.ss' cannot be written: permission denied \(.*\)\n  check the permissions of the folder"),
    ],
)
def test_an_error_of_the_disk_is_one_message(tmp_path: Path, fault: str, said: str) -> None:
    link = operation_of(NEXT_VERSION, tmp_path / "counted", "link")
    NEXT_VERSION.prepare(tmp_path / "tried")
    with local_faults(LocalFaults(str(tmp_path / "tried"), link, fault)), pytest.raises(UserError, match=said):
        NEXT_VERSION.run(tmp_path / "tried")


def test_a_vacuum_that_fails_says_so(tmp_path: Path) -> None:
    shape = VacuumShape()
    remove = operation_of(shape, tmp_path / "counted", "remove")
    shape.prepare(tmp_path / "tried")
    path = str(tmp_path / "tried" / "x.ss")
    with (
        local_faults(LocalFaults(str(tmp_path / "tried"), remove, "EACCES")),
        pytest.raises(UserError, match=r"x\.ss' cannot be vacuumed: permission denied"),
    ):
        shape.run(tmp_path / "tried")
    vacuum(storage_of(path), path, hours=0)
    assert shape.is_done(tmp_path / "tried")
    assert store(path, NEXT_VERSION.new, NEXT_VERSION.request(tmp_path)).version == 4
