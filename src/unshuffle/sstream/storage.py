"""The folder of a stream, and the operations on it.

A version exists once its manifest does, so `create` must be atomic, and must succeed for only one of several writers. On a
local disk a hidden file is written and then hard-linked to its name, which fails if the name exists. Elsewhere the file
system's own operation is used, through Spark (`spark/io`). Nothing else has to be atomic: readers ignore files that no
manifest names.

`step` is called before each operation, with the operation and the file. An exception from it stops the operation. Tests use
it to stop writers at every step.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol

import pyarrow as pa
import pyarrow.fs

from unshuffle.catalog import files
from unshuffle.catalog.json_files import MAX_BYTES, checked_size, read_bytes
from unshuffle.errors import FileProblem
from unshuffle.frozen import dataclass

Step = Callable[[str, str], None]
_ATTEMPTS = 5


def no_step(operation: str, name: str) -> None:
    """The default step: does nothing."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    name: str  # the path below the folder, with slashes
    size: int
    modified: float  # seconds since 1970


class Storage(Protocol):
    path: str

    def entries(self, under: str = "") -> list[FileEntry]:
        """All files at or below a folder; none if it does not exist. Symbolic links are no files of a stream: what they
        point to may be anywhere, and is neither read nor removed."""

    def read(self, name: str) -> bytes:
        """Raises a FileNotFoundError if there is no such file, and a ValueError if it is too large for a manifest."""

    def create(self, name: str, data: bytes) -> bool:
        """Creates a file with all of the data. Returns False, and does nothing, if the file exists."""

    def move(self, source: str, target: str) -> None: ...

    def remove(self, name: str) -> None:
        """Removes a file, or a folder with its content, if it exists."""


class LocalStorage:
    def __init__(self, path: str, step: Step = no_step) -> None:
        self.path = files.absolute(path)
        self.step = step

    def entries(self, under: str = "") -> list[FileEntry]:
        return sorted(self._entries(under), key=lambda entry: entry.name)

    def _entries(self, under: str) -> Iterator[FileEntry]:
        folder = os.path.join(self.path, under) if under else self.path
        if os.path.realpath(folder) != folder:
            return
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for each in entries:
                name = f"{under}/{each.name}" if under else each.name
                if each.is_dir(follow_symlinks=False):
                    yield from self._entries(name)
                elif each.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):  # removed in the meantime
                        status = each.stat()
                        yield FileEntry(name, status.st_size, status.st_mtime)

    def read(self, name: str) -> bytes:
        return read_bytes(os.path.join(self.path, name))

    def create(self, name: str, data: bytes) -> bool:
        target = os.path.join(self.path, name)
        folder, last = os.path.split(target)
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
                os.link(hidden, target)
            except FileExistsError:
                return False
        finally:
            self.step("remove aside", name)
            with suppress(OSError):  # a leftover hidden file does no harm
                os.remove(hidden)
        return True

    def move(self, source: str, target: str) -> None:
        destination = os.path.join(self.path, target)
        for attempt in range(_ATTEMPTS):
            self.step("folder of", target)
            os.makedirs(os.path.dirname(destination), exist_ok=True)
            self.step("move", target)
            try:
                os.rename(os.path.join(self.path, source), destination)
                return
            except FileNotFoundError:  # another process removed the empty folder
                if attempt == _ATTEMPTS - 1:
                    raise

    def remove(self, name: str) -> None:
        """Also removes parent folders that are then empty, up to the stream's own."""
        self.step("remove", name)
        target = os.path.join(self.path, name)
        if os.path.isdir(target):
            shutil.rmtree(target, ignore_errors=True)
        else:
            with suppress(FileNotFoundError):
                os.remove(target)
        with suppress(OSError):  # a folder is not empty
            while (target := os.path.dirname(target)).startswith(self.path):
                os.rmdir(target)


class RemoteStorage:
    """A folder at a URI that Arrow can read. Only Spark writes new versions there."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/")
        self._system, self._root = pa.fs.FileSystem.from_uri(self.path)

    def entries(self, under: str = "") -> list[FileEntry]:
        root = f"{self._root}/{under}" if under else self._root
        infos = self._system.get_file_info(pa.fs.FileSelector(root, recursive=True, allow_not_found=True))
        files = [info for info in infos if info.type == pa.fs.FileType.File]
        start = len(self._root.rstrip("/")) + 1
        entries = (
            FileEntry(info.path[start:], info.size, info.mtime_ns / 1e9 if info.mtime_ns else 0.0) for info in files
        )
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, name: str) -> bytes:
        with self._system.open_input_stream(f"{self._root}/{name}") as file:
            return checked_size(bytes(file.read(MAX_BYTES + 1)))

    def create(self, name: str, data: bytes) -> bool:
        raise FileProblem(f"{self.path!r} can only be written with Spark")

    def move(self, source: str, target: str) -> None:
        self._system.create_dir(f"{self._root}/{target.rpartition('/')[0]}")
        self._system.move(f"{self._root}/{source}", f"{self._root}/{target}")

    def remove(self, name: str) -> None:
        target = f"{self._root}/{name}"
        kind = self._system.get_file_info(target).type
        if kind == pa.fs.FileType.Directory:
            self._system.delete_dir(target)
        elif kind == pa.fs.FileType.File:
            self._system.delete_file(target)


def is_local(path: str) -> bool:
    return path.startswith("file:") or not files.is_uri(path)


def storage_of(path: str) -> Storage:
    """The storage of a stream, for operations that need no Spark."""
    if is_local(path):
        return LocalStorage(path)
    try:
        return RemoteStorage(path)
    except (pa.ArrowException, OSError) as error:
        raise FileProblem(f"{path!r} cannot be read: {str(error).splitlines()[0]}") from None
