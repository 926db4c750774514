"""Paths and data files: which files a path names, and what their folders' names say.

pyarrow lists folders, on a local disk or at any URI that its file systems know, so no JVM is needed. As in Spark, a name
that begins with `_` or `.` is not data.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from typing import TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from unshuffle.catalog.folder_types import unescaped
from unshuffle.frozen import dataclass

_URI = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class DataFile:
    path: str
    size: int
    partition: tuple[tuple[str, str], ...]  # from folders named column=value below the listed path
    modified: int | None = None  # nanoseconds since 1970


Item = TypeVar("Item")


class HashedTuple(tuple[Item, ...]):
    """A tuple that computes its hash once. A table may have thousands of files, and what is known of them is looked up by all
    of them together."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash

    @classmethod
    def of(cls, items: Iterable[Item]) -> HashedTuple[Item]:
        return items if isinstance(items, cls) else cls(items)


def is_uri(path: str) -> bool:
    return bool(_URI.match(path))


def absolute(path: str) -> str:
    """The canonical spelling of a path, by which paths are compared."""
    path = _local(path)
    return path.rstrip("/") if is_uri(path) else os.path.realpath(path)


def from_root(path: str) -> str:
    """A relative local path from the root, as Spark has to get it: the working directory of the JVM is that in which it
    started."""
    is_relative = not path.startswith(("/", "file:")) and not is_uri(path)
    return os.path.abspath(path) if is_relative else path


def for_spark(paths: Iterable[str]) -> list[str]:
    """Files and folders that were found, as Spark has to get them: from the root, and without glob patterns."""
    return [re.sub(r"([\\*?\[\]{}])", r"\\\1", from_root(path)) for path in paths]


def _local(path: str) -> str:
    """A path or URI of a local file as the operating system writes it. Characters are escaped in a URI, `file://`, but not in
    Hadoop's own spelling, `file:/`. Links stay as they are: Spark lists files by the names they were asked for."""
    return unquote(re.sub(r"^file://[^/]*", "", path)) if path.startswith("file://") else path.removeprefix("file:")


def without_scheme(path: str) -> str:
    """A local path as the operating system writes it; another path as it is. Nothing is unescaped."""
    return re.sub(r"^file:(//)?(?=/)", "", path)


def overlaps(a: str, b: str) -> bool:
    """Whether two paths are the same, or one is inside the other."""
    a, b = absolute(a), absolute(b)
    return a == b or a.startswith(b + "/") or b.startswith(a + "/")


def exists(path: str) -> bool:
    return bool(_info(path)) or bool(expand(path))


def is_file(path: str) -> bool:
    info = _info(path)
    return info is not None and info.type == pa.fs.FileType.File


def expand(path: str) -> list[str]:
    """The files or folders that a path with wildcards matches, sorted. A path without wildcards matches itself, if it
    exists."""
    if not any(c in path for c in "*?[{"):
        return [path] if _info(path) else []
    if os.path.exists(path):
        return [path]
    if not is_uri(path):
        return sorted(match for pattern in _braces(path) for match in glob.glob(pattern))
    system, inner = pa.fs.FileSystem.from_uri(path)
    root = re.split(r"[*?\[{]", inner, maxsplit=1)[0].rsplit("/", 1)[0]
    prefix = path[: len(path) - len(inner)]
    selector = pa.fs.FileSelector(root, recursive=True, allow_not_found=True)
    depth = inner.count("/")
    listed = [info.path for info in system.get_file_info(selector) if info.path.count("/") == depth]
    return sorted(prefix + each for each in listed if any(fnmatch(each, pattern) for pattern in _braces(inner)))


def _braces(path: str) -> list[str]:
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [p for part in match[1].split(",") for p in _braces(path[: match.start()] + part + path[match.end() :])]


def _info(path: str) -> pa.fs.FileInfo | None:
    try:
        system, inner = file_system(path)
        info = system.get_file_info(inner)
    except (pa.ArrowInvalid, OSError):
        return None
    return None if info.type == pa.fs.FileType.NotFound else info


def file_system(path: str) -> tuple[pa.fs.FileSystem, str]:
    """The file system of a path, and the path within it."""
    if is_uri(path):
        system, inner = pa.fs.FileSystem.from_uri(path)
        return system, inner
    return pa.fs.LocalFileSystem(), os.path.abspath(_local(path))


def data_files(paths: Iterable[str], base: str | None = None) -> list[DataFile]:
    """Every data file at or below some paths. Folders named column=value below `base` give partition values."""
    listed: list[DataFile] = []
    for path in paths:
        system, inner = file_system(path)
        info = system.get_file_info(inner)
        root = file_system(base)[1] if base is not None else inner
        prefix = path[: len(path) - len(inner)] if path.endswith(inner) else ""
        if info.type == pa.fs.FileType.File:
            infos = [info]
        else:
            infos = system.get_file_info(pa.fs.FileSelector(inner, recursive=True, allow_not_found=True))
        for each in sorted(infos, key=lambda info: info.path):
            if each.type == pa.fs.FileType.File and not is_hidden(each.path[len(inner) :]):
                partition = _partition_values(each.path[len(root) :])
                listed.append(DataFile(prefix + each.path, each.size, partition, each.mtime_ns))
    return listed


def scanned_files(paths: Sequence[str], base: str | None = None) -> list[DataFile]:
    """The data files that Spark reads: without folders named column=value, only those that are in the paths themselves."""
    found = data_files(paths, base)
    if any(file.partition for file in found):
        return found
    roots = {absolute(path).rstrip("/") for path in paths}
    return [each for each in found if {(place := absolute(each.path)), place.rpartition("/")[0]} & roots]


def local_files(paths: Iterable[str], base: str) -> HashedTuple[DataFile]:
    """Local files as they are now. Raises an `OSError` if one is gone."""
    root, found = without_scheme(base).rstrip("/"), []
    for path in paths:
        local = without_scheme(path)
        status = os.stat(local)
        found.append(DataFile(path, status.st_size, _partition_values(local[len(root) :]), status.st_mtime_ns))
    return HashedTuple(found)


def is_hidden(relative: str) -> bool:
    """Whether a path below the folder of a table is not data."""
    return any(
        part.startswith(".") or part.endswith("._COPYING_") or (part.startswith("_") and "=" not in part)
        for part in relative.split("/")
        if part
    )


def _partition_values(relative: str) -> tuple[tuple[str, str], ...]:
    """What the folders of a file say, below the folder of the table. Values are escaped as they are there."""
    folders = relative.lstrip("/").split("/")[:-1]
    return tuple(_partition_value(folder) for folder in folders if "=" in folder)


def _partition_value(folder: str) -> tuple[str, str]:
    name, _, value = folder.partition("=")
    return unescaped(name), value


def input_file(path: str) -> pa.NativeFile:
    """The bytes of a file."""
    system, inner = file_system(path)
    return system.open_input_file(inner)
