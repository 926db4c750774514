"""Every shape of a write of a stream, without Spark, and the vacuum of one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from tests.support.storing import by, store, table_of
from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.frozen import dataclass
from unshuffle.sstream import LayoutRequest, Stream, open_stream, storage_of
from unshuffle.sstream.vacuum import vacuum

OLD = pa.table({"a": list(range(12)), "b": [f"old {i}" for i in range(12)], "c": [i % 3 for i in range(12)]})
NEW = pa.table({"a": list(range(20)), "b": [f"new {i}" for i in range(20)], "c": [i % 4 for i in range(20)]})
EMPTY = NEW.slice(0, 0)


@dataclass(frozen=True, slots=True)
class StreamShape:
    name: str
    old: pa.Table | None  # the rows of the version before, if there is one
    new: pa.Table
    request: Callable[[Path], LayoutRequest]
    files: int = 1  # of a partition

    def prepare(self, folder: Path) -> None:
        store(folder / "reference.ss", OLD, LayoutRequest(by("a"), boundaries=((5,), (9,))))
        if self.old is not None:
            store(folder / "x.ss", self.old, LayoutRequest(by("a"), partitions=2))

    def run(self, folder: Path) -> None:
        store(folder / "x.ss", self.new, self.request(folder), files=self.files)


def next_request(folder: Path) -> LayoutRequest:
    return LayoutRequest(by("a"), partitions=3, overwrite=True)


def _first(folder: Path) -> LayoutRequest:
    return LayoutRequest(by("a"), partitions=2)


def _range(folder: Path) -> LayoutRequest:
    return LayoutRequest(by("a"), boundaries=((4,), (11,)), overwrite=True)


def _sorted(folder: Path) -> LayoutRequest:
    return LayoutRequest(by("c", "a"), by("c", "-b", "a"), partitions=2, overwrite=True)


def _reference(folder: Path) -> LayoutRequest:
    return LayoutRequest(by("a"), reference=str(folder / "reference.ss"), overwrite=True)


def _declared(folder: Path) -> LayoutRequest:
    key, dependency = DeclaredKey(("a",)), DeclaredDependency(("b",), ("c",))
    return LayoutRequest(by("a"), partitions=2, keys=(key,), dependencies=(dependency,), overwrite=True)


SHAPES = (
    StreamShape("first version", None, NEW, _first),
    StreamShape("first version, empty", None, EMPTY, _first),
    StreamShape("next version, hash", OLD, NEW, next_request),
    StreamShape("next version, empty", OLD, EMPTY, next_request),
    StreamShape("next version, range", OLD, NEW, _range),
    StreamShape("next version, sorted", OLD, NEW, _sorted),
    StreamShape("next version, reference", OLD, NEW, _reference),
    StreamShape("next version, key and dependency", OLD, NEW, _declared),
    StreamShape("next version, 3 files a partition", OLD, NEW, next_request, files=3),
)


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*table.to_pydict().values(), strict=True))


def has_rows(stream: Stream, table: pa.Table) -> bool:
    return sorted(table_of(stream)) == rows_of(table)


class VacuumShape:
    """Three versions, of which two go, and the files of a writer that died."""

    name = "vacuum"

    def prepare(self, folder: Path) -> None:
        for rows in (OLD, NEW, OLD):
            store(folder / "x.ss", rows, next_request(folder))
        for name in ("_new/dead/_p=0/part.parquet", "p=1/part-dead.parquet", "_stream/.0000009.json.dead"):
            path = folder / "x.ss" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"left")

    def run(self, folder: Path) -> None:
        path = str(folder / "x.ss")
        vacuum(storage_of(path), path, hours=0, now=time.time() + 1)

    def is_done(self, folder: Path) -> bool:
        stream = open_stream(str(folder / "x.ss"))
        return len(storage_of(stream.path).entries()) == len(stream.paths) + 1
