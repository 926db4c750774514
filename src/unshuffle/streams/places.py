"""The folder of a stream, and the few things that are done to it.

A version comes to be when its manifest does. So one operation must happen wholly or not at all, and for one of several
writers only: `create`. On a local disk a hidden file is written and then linked to its name, which the system refuses if
the name is taken. Elsewhere the file system itself is asked, through Spark (`spark/hadoop_place.py`). Nothing else has to be
atomic: files that no manifest names are not there.

`step` is told of each operation before it is done, by its name and the file; what it raises stops the operation. Tests
stop writers at every step with it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.fs

from unshuffle.catalog import files
from unshuffle.errors import FileProblem

Step = Callable[[str, str], None]
_TRIES = 5


def no_step(operation: str, name: str) -> None:
    """Nobody looks."""


@dataclass(frozen=True, slots=True)
class Entry:
    name: str  # below the folder, with slashes
    size: int
    modified: float  # seconds since 1970


class Place(Protocol):
    path: str

    def entries(self, under: str = "") -> list[Entry]:
        """All files at or below a folder; none if it is not there."""

    def read(self, name: str) -> bytes:
        """A FileNotFoundError if there is no such file."""

    def create(self, name: str, data: bytes) -> bool:
        """A file of that name with all of the data; False, and nothing is done, if there is one already."""

    def move(self, source: str, goal: str) -> None: ...

    def remove(self, name: str) -> None:
        """A file, or a folder with all that is in it; nothing if it is gone already."""


class LocalPlace:
    def __init__(self, path: str, step: Step = no_step) -> None:
        self.path = files.absolute(path)
        self.step = step

    def entries(self, under: str = "") -> list[Entry]:
        return sorted(self._entries(under), key=lambda entry: entry.name)

    def _entries(self, under: str) -> Iterator[Entry]:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(os.path.join(self.path, under)) as found:
            for each in found:
                name = f"{under}/{each.name}" if under else each.name
                if each.is_dir():
                    yield from self._entries(name)
                else:
                    with suppress(FileNotFoundError):  # removed since
                        about = each.stat()
                        yield Entry(name, about.st_size, about.st_mtime)

    def read(self, name: str) -> bytes:
        with open(os.path.join(self.path, name), "rb") as file:
            return file.read()

    def create(self, name: str, data: bytes) -> bool:
        goal = os.path.join(self.path, name)
        folder, last = os.path.split(goal)
        hidden = os.path.join(folder, f".{last}.{os.getpid()}.{os.urandom(4).hex()}")
        self.step("folder of", name)
        os.makedirs(folder, exist_ok=True)
        try:
            self.step("write aside", name)
            with open(hidden, "xb") as file:
                file.write(data[: len(data) // 2])
                self.step("write on", name)
                file.write(data[len(data) // 2 :])
                file.flush()
                os.fsync(file.fileno())
            self.step("link", name)
            try:
                os.link(hidden, goal)
            except FileExistsError:
                return False
        finally:
            self.step("remove aside", name)
            with suppress(OSError):  # it is done or not, whether this stays or goes
                os.remove(hidden)
        return True

    def move(self, source: str, goal: str) -> None:
        target = os.path.join(self.path, goal)
        for attempt in range(_TRIES):
            self.step("folder of", goal)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            self.step("move", goal)
            try:
                os.rename(os.path.join(self.path, source), target)
                return
            except FileNotFoundError:  # the folder was empty, and another removed it
                if attempt == _TRIES - 1:
                    raise

    def remove(self, name: str) -> None:
        """Folders that are empty then go too, the stream's own included."""
        self.step("remove", name)
        target = os.path.join(self.path, name)
        if os.path.isdir(target):
            shutil.rmtree(target, ignore_errors=True)
        else:
            with suppress(FileNotFoundError):
                os.remove(target)
        with suppress(OSError):  # up to one that is not empty
            while (target := os.path.dirname(target)).startswith(self.path):
                os.rmdir(target)


class RemotePlace:
    """A folder at a URI that Arrow can read. Only Spark makes new versions there."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/")
        self._system, self._root = pa.fs.FileSystem.from_uri(self.path)

    def entries(self, under: str = "") -> list[Entry]:
        root = f"{self._root}/{under}" if under else self._root
        found = self._system.get_file_info(pa.fs.FileSelector(root, recursive=True, allow_not_found=True))
        about = [info for info in found if info.type == pa.fs.FileType.File]
        start = len(self._root.rstrip("/")) + 1
        entries = (Entry(info.path[start:], info.size, info.mtime_ns / 1e9 if info.mtime_ns else 0.0) for info in about)
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, name: str) -> bytes:
        with self._system.open_input_stream(f"{self._root}/{name}") as file:
            return bytes(file.read())

    def create(self, name: str, data: bytes) -> bool:
        raise FileProblem(f"{self.path!r} can only be written with Spark")

    def move(self, source: str, goal: str) -> None:
        self._system.create_dir(f"{self._root}/{goal.rpartition('/')[0]}")
        self._system.move(f"{self._root}/{source}", f"{self._root}/{goal}")

    def remove(self, name: str) -> None:
        target = f"{self._root}/{name}"
        kind = self._system.get_file_info(target).type
        if kind == pa.fs.FileType.Directory:
            self._system.delete_dir(target)
        elif kind == pa.fs.FileType.File:
            self._system.delete_file(target)


def is_local(path: str) -> bool:
    return path.startswith("file:") or not files.is_uri(path)


def place_of(path: str) -> Place:
    """Where a stream lies, for all that needs no Spark."""
    if is_local(path):
        return LocalPlace(path)
    try:
        return RemotePlace(path)
    except (pa.ArrowException, OSError) as error:
        raise FileProblem(f"{path!r} cannot be read: {str(error).splitlines()[0]}") from None
