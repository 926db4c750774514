"""Faults at the file-system operations of this process below one folder.

The operations of `os`, `open` and Arrow's readers are numbered from 1 while a block runs. At one of them something happens:

    ENOSPC, EIO, EACCES   the operation fails before it has an effect
    after                 it has its effect, and reports EIO
    partly                half of the bytes are written, then ENOSPC
    kill, kill partly     the process gets SIGKILL before the operation, or after half of its bytes
    crash, crash partly   as if killed there: this operation and all later ones have no effect
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any
from unittest.mock import patch

from unshuffle.catalog import files
from unshuffle.sstream import file_description

CHANGING = ("mkdir", "rename", "link", "remove", "unlink", "rmdir", "fsync", "create", "write")
_OF_OS = ("mkdir", "rename", "link", "remove", "unlink", "rmdir", "scandir", "stat")


class Crashed(BaseException):
    """The process is dead. No handler in the code catches it."""


class LocalFaults:
    """Counts operations, and lets the one at number `at` fail. `died` is told of a crash here, and `is_dead` asked of one
    elsewhere: Spark's Java process is part of the same crash."""

    def __init__(
        self,
        folder: str,
        at: int = 0,
        fault: str = "",
        died: Callable[[], None] = lambda: None,
        is_dead: Callable[[], bool] = lambda: False,
    ) -> None:
        self._folder, self._at, self._fault = os.path.realpath(folder), at, fault
        self._died, self._is_dead_elsewhere = died, is_dead
        self._dead = False
        self._one_at_a_time = RLock()
        self.operations: list[str] = []
        self.hit = False

    def is_below(self, path: object) -> bool:
        if not isinstance(path, str | os.PathLike):
            return False
        text = os.path.abspath(os.fspath(path))
        return text == self._folder or text.startswith(f"{self._folder}/")

    def begin(self, operation: str, path: object) -> str:
        """What is to happen at an operation, unless it happens before the operation."""
        with self._one_at_a_time:
            if self._dead or self._is_dead_elsewhere():
                raise Crashed(operation, path)
            self.operations.append(f"{operation} {os.path.relpath(str(path), self._folder)}")
            if len(self.operations) != self._at:
                return ""
            self.hit = True
            if self._fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self._fault == "crash":
                self._die(operation, path)
            if self._fault.startswith("E"):
                raise _failure(getattr(errno, self._fault), path)
            return self._fault

    def end(self, fault: str, path: object) -> None:
        if fault == "after":
            raise _failure(errno.EIO, path)

    def _die(self, operation: str, path: object) -> None:
        self._dead = True
        self._died()
        raise Crashed(operation, path)

    def write(self, write: Callable[[bytes], Any], data: bytes, path: str) -> None:
        fault = self.begin("write", path)
        if fault.endswith("partly"):
            write(data[: len(data) // 2])
            if fault == "kill partly":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "crash partly":
                self._die("write", path)
            raise _failure(errno.ENOSPC, path)
        write(data)
        self.end(fault, path)

    def around(self, operation: str, path: object, run: Callable[[], Any]) -> Any:
        if not self.is_below(path):
            return run()
        fault = self.begin(operation, path)
        result = run()
        if fault == "after" and hasattr(result, "close"):
            result.close()
        self.end(fault, path)
        return result


def _failure(number: int, path: object) -> OSError:
    return OSError(number, os.strerror(number), str(path))


class _FaultyFile:
    """A file opened for writing. A write is on disk, or it is not made: there is no buffer."""

    def __init__(self, faults: LocalFaults, file: Any, path: str) -> None:
        self._faults, self._file, self._path = faults, file, path

    def write(self, data: bytes) -> int:
        self._faults.write(self._file.write, bytes(data), self._path)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def fileno(self) -> int:
        return int(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> _FaultyFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def local_faults(faults: LocalFaults) -> Iterator[LocalFaults]:
    """Replaces the operations of this process while the block runs."""
    real_open, real_fsync = io.open, os.fsync

    def of_os(name: str) -> Callable[..., Any]:
        real = getattr(os, name)
        return lambda path=".", *rest, **options: faults.around(name, path, lambda: real(path, *rest, **options))

    def reading(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda path, *rest, **options: faults.around("read", path, lambda: real(path, *rest, **options))

    def open_(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if not faults.is_below(file):
            return real_open(file, mode, *rest, **options)
        if mode in ("r", "rb"):
            return faults.around("read", file, lambda: real_open(file, mode, *rest, **options))
        opened = faults.around("create", file, lambda: real_open(file, mode, 0))
        return _FaultyFile(faults, opened, str(file))

    def fsync(descriptor: int) -> None:
        faults.around("fsync", os.readlink(f"/proc/self/fd/{descriptor}"), lambda: real_fsync(descriptor))

    with ExitStack() as patches:
        for name in _OF_OS:
            patches.enter_context(patch.object(os, name, of_os(name)))
        patches.enter_context(patch.object(os, "fsync", fsync))
        patches.enter_context(patch.object(io, "open", open_))
        patches.enter_context(patch.object(builtins, "open", open_))
        # Removes a folder by paths, which are counted, and not relative to open folders.
        patches.enter_context(patch.object(shutil, "_use_fd_functions", False))
        patches.enter_context(patch.object(files, "input_file", reading(files.input_file)))
        patches.enter_context(patch.object(file_description, "open_parquet", reading(file_description.open_parquet)))
        yield faults
