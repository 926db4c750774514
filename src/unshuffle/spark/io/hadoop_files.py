"""Files and folders on any file system that Spark knows.

Hadoop reports a failure by an exception or by returning false. Here both are an `OSError`, with the number that a local disk
would give, so that callers treat all file systems alike.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from unshuffle.catalog.files import from_root
from unshuffle.errors import Span, disk_problems
from unshuffle.frozen import dataclass
from unshuffle.spark.shims.gateway import is_instance
from unshuffle.spark.shims.hadoop import hadoop, hadoop_configuration
from unshuffle.spark.udf.user_code import MARK

# How Java and Hadoop name the errors of a file system, in the order in which they are looked for.
_ERRORS = (
    (errno.ENOSPC, re.compile(r"No space left on device|There is not enough space on the disk")),
    (errno.EDQUOT, re.compile(r"(Disk|DSQuota|NSQuota|Quota) ?[Ee]xceeded|quota .*exceeded")),
    (errno.EROFS, re.compile(r"Read-only file system")),
    (errno.EACCES, re.compile(r"Permission denied|AccessControlException|AccessDeniedException|Access denied")),
    (errno.EEXIST, re.compile(r"FileAlreadyExistsException")),
    (errno.EIO, re.compile(r"Input/output error")),
)
# The error is one of user code, of a Python worker or of reading an input.
_ELSEWHERE = re.compile(re.escape(MARK) + r"|Traceback \(most recent call last\)|FAILED_READ_FILE")
_NOT_FOUND = re.compile(r"FileNotFoundException|NoSuchFileException")


def error_number(text: str) -> int | None:
    """The error of a file system that Java's text names; None if it names none that we know."""
    return next((number for number, pattern in _ERRORS if pattern.search(text)), None)


@contextmanager
def as_os_errors(path: Any) -> Iterator[None]:
    """Turns Java's exceptions into an `OSError` at a path."""
    try:
        yield
    except Py4JJavaError as error:
        text = str(error.java_exception.toString())
        number = error_number(text) or (errno.ENOENT if _NOT_FOUND.search(text) else errno.EIO)
        raise OSError(number, os.strerror(number), str(path)) from error
    except Py4JNetworkError as error:
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) from error


@contextmanager
def write_problems(what: str, span: Span | None = None) -> Iterator[None]:
    """Turns errors of the file system into messages for users, also those of a Spark job. A job names the file under which
    it writes, not the one that it is for, so the message does not name it."""
    with disk_problems(what, span):
        try:
            yield
        except (CapturedException, Py4JJavaError) as error:
            text = error._stackTrace or "" if isinstance(error, CapturedException) else str(error)
            number = None if _ELSEWHERE.search(text) else error_number(text)
            if number is None or number == errno.EEXIST:
                raise
            raise OSError(number, os.strerror(number)) from error


@dataclass(frozen=True, slots=True)
class Entry:
    """What a folder has under one name."""

    name: str
    path: Any
    modified: float  # seconds since 1970


class HadoopFiles:
    """Operations on Hadoop paths, with the settings of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.hadoop = hadoop(spark)
        self.configuration = hadoop_configuration(spark)

    def path(self, text: str) -> Any:
        """A path with its scheme. A relative path on the local disk is relative to this process, not to Spark's."""
        path = self.hadoop.fs.Path(text)
        with as_os_errors(text):
            system = self.system(path)
            if system.getUri().getScheme() == "file" and not text.startswith(("file:", "/")):
                path = self.hadoop.fs.Path(from_root(text))
            return system.makeQualified(path)

    def beside(self, path: Any, name: str) -> Any:
        return self.hadoop.fs.Path(path.getParent(), name)

    def inside(self, folder: Any, name: str) -> Any:
        return self.hadoop.fs.Path(folder, name)

    def system(self, path: Any) -> Any:
        return path.getFileSystem(self.configuration)

    def raw_system(self, path: Any) -> Any:
        """The file system of a path, without the checksum files that Hadoop keeps beside local files."""
        system = self.system(path)
        is_checked = is_instance(self._spark, system, "org.apache.hadoop.fs.ChecksumFileSystem")
        return system.getRawFileSystem() if is_checked else system

    def exists(self, path: Any) -> bool:
        with as_os_errors(path):
            return bool(self.system(path).exists(path))

    def entries(self, folder: Any) -> list[Entry]:
        """What a folder has, by name; nothing if it does not exist."""
        with as_os_errors(folder):
            system = self.system(folder)
            statuses = system.listStatus(folder) if system.exists(folder) else []
            found = [Entry(s.getPath().getName(), s.getPath(), s.getModificationTime() / 1000) for s in statuses]
        return sorted(found, key=lambda entry: entry.name)

    def rename(self, source: Any, goal: Any) -> None:
        """Moves a file or a folder to a name that does not exist yet: Hadoop would move it *into* a folder that exists."""
        if self.exists(goal):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(goal))
        with as_os_errors(goal):
            moved = self.system(source).rename(source, goal)
        if not moved:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(goal))

    def delete(self, path: Any) -> None:
        """Removes a file, or a folder with its content, if it exists."""
        with as_os_errors(path):
            removed = self.system(path).delete(path, True)
        if not removed and self.exists(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def read(self, path: Any, most: int) -> bytes:
        """The first bytes of a file, `most` at most."""
        with as_os_errors(path):
            stream = self.system(path).open(path)
            try:
                return bytes(stream.readNBytes(most))
            finally:
                stream.close()

    def write(self, path: Any, data: bytes) -> None:
        with as_os_errors(path):
            stream = self.raw_system(path).create(path, True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()
