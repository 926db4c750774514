"""Vacuum removes what no remaining version names, and nothing that a reader or a writer may still need."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.storing import by, store, table_of
from unshuffle.errors import UserError
from unshuffle.sstream import LayoutRequest, open_stream, storage_of
from unshuffle.sstream.check import check
from unshuffle.sstream.storage import LocalStorage
from unshuffle.sstream.store import manifest_name, versions
from unshuffle.sstream.vacuum import vacuum

ROWS = pa.table({"a": [1, 2, 3]})
REQUEST = LayoutRequest(by("a"), partitions=2, overwrite=True)
HOUR = 3600


@pytest.fixture
def path(tmp_path: Path) -> str:
    for _ in range(4):
        stream = store(tmp_path / "x.ss", ROWS, REQUEST)
    return stream.path


def test_the_newest_versions_are_kept(path: str) -> None:
    removed = vacuum(storage_of(path), path, keep=2, hours=0)
    assert removed.versions == (1, 2)
    assert len(removed.files) == 2 * len(open_stream(path).paths)
    assert versions(storage_of(path)) == [3, 4]
    assert all(check(open_stream(path, version)) == () for version in (3, 4))
    assert vacuum(storage_of(path), path, keep=2, hours=0).files == ()


def test_recently_replaced_versions_are_kept(path: str) -> None:
    reader = open_stream(path, 1)
    assert vacuum(storage_of(path), path).versions == ()
    assert sorted(table_of(reader)) == [(1,), (2,), (3,)]
    later = time.time() + 25 * HOUR
    assert vacuum(storage_of(path), path, now=later).versions == (1, 2, 3)
    assert check(open_stream(path)) == ()


def test_recent_files_of_unfinished_writers_are_kept(path: str) -> None:
    busy = Path(path) / "_new" / "busy" / "_p=0" / "part.parquet"
    busy.parent.mkdir(parents=True)
    busy.write_bytes(b"not yet")
    moved = Path(path) / "p=0" / "part-busy.parquet"
    moved.write_bytes(b"about to be named")
    mine = Path(path) / "README"
    mine.write_text("not a file of streams")
    assert vacuum(storage_of(path), path, hours=1).files == ()
    removed = vacuum(storage_of(path), path, keep=9, now=time.time() + 25 * HOUR)
    assert set(removed.files) == {"_new/busy/_p=0/part.parquet", "p=0/part-busy.parquet"}
    assert mine.exists()
    assert not busy.parent.parent.parent.exists()


def test_an_interrupted_vacuum_leaves_every_version_complete(path: str) -> None:
    class Stopped(BaseException):
        pass

    for at in range(1, 20):
        steps = 0

        def step(operation: str, name: str, at: int = at) -> None:
            nonlocal steps
            steps += 1
            if steps == at:
                raise Stopped

        try:
            vacuum(LocalStorage(path, step), path, hours=0)
        except Stopped:
            for version in versions(storage_of(path)):
                assert check(open_stream(path, version)) == ()
    assert versions(storage_of(path)) == [4]


def test_two_vacuums_do_not_hinder_each_other(path: str) -> None:
    """The other one removes a version that this one keeps, before this one reads its manifest."""

    class Interrupted(LocalStorage):
        def read(self, name: str) -> bytes:
            if name == manifest_name(3):
                vacuum(LocalStorage(path), path, hours=0)
            return super().read(name)

    assert vacuum(Interrupted(path), path, keep=2, hours=0).versions == (1, 2)
    assert versions(storage_of(path)) == [4]
    assert check(open_stream(path)) == ()
    assert {entry.name for entry in storage_of(path).entries()} == {
        manifest_name(4),
        *(file.path for file in open_stream(path).manifest.files()),
    }


def test_at_least_one_version_is_kept(path: str) -> None:
    with pytest.raises(UserError, match="at least one version"):
        vacuum(storage_of(path), path, keep=0)
    with pytest.raises(UserError, match="at least 0 hours"):
        vacuum(storage_of(path), path, hours=-1)
    with pytest.raises(UserError, match="not a structured stream"):
        vacuum(storage_of(str(Path(path).parent)), "there")
