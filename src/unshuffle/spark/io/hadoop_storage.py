"""The storage of a stream on any file system that Spark knows.

A manifest is written under a hidden name and then renamed to a name that must not exist yet. HDFS does that atomically. An
object store checks the name first and then copies the file, so two writers may both pass the check; each then reads the
manifest back to see whether it is its own.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from unshuffle.catalog.json_files import MAX_BYTES, checked_size
from unshuffle.spark.io.hadoop_files import HadoopFiles, as_os_errors
from unshuffle.spark.shims.gateway import java_array
from unshuffle.sstream.storage import FileEntry, LocalStorage, Step, Storage, no_step


def storage_for(spark: SparkSession, path: str, step: Step = no_step) -> Storage:
    """The storage of a stream, for a writer. A path without a scheme is on Spark's default file system. A relative path on
    the local disk is relative to the working directory of this process, not of Spark's."""
    storage = HadoopStorage(spark, path)
    return LocalStorage(path, step) if storage.is_local else storage


def uri_of(storage: Storage) -> str:
    """The path of a stream for Spark. A local path gets its scheme, since Spark's default may be another file system."""
    return f"file:{storage.path}" if isinstance(storage, LocalStorage) else storage.path


class HadoopStorage:
    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._files = HadoopFiles(spark)
        self._root = self._files.path(path)
        self.path: str = self._root.toString()

    @property
    def is_local(self) -> bool:
        return bool(self._root.toUri().getScheme() == "file")

    def _at(self, name: str) -> Any:
        return self._files.inside(self._root, name) if name else self._root

    def entries(self, under: str = "") -> list[FileEntry]:
        folder = self._at(under)
        if not self._files.exists(folder):
            return []
        entries = []
        start = len(self._root.toUri().getPath().rstrip("/")) + 1
        with as_os_errors(folder):
            found = self._files.system(folder).listFiles(folder, True)
            while found.hasNext():
                status = found.next()
                name = status.getPath().toUri().getPath()[start:]
                entries.append(FileEntry(name, status.getLen(), status.getModificationTime() / 1000))
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, name: str) -> bytes:
        return checked_size(self._files.read(self._at(name), MAX_BYTES + 1))

    def create(self, name: str, data: bytes) -> bool:
        folder, _, last = name.rpartition("/")
        hidden = self._at(f"{folder}/.{last}.{secrets.token_hex(6)}")
        try:
            self._files.write(hidden, data)
            self._rename(hidden, self._at(name))
        except FileExistsError:
            return False
        finally:
            with suppress(OSError):  # a leftover hidden file does no harm
                self._files.delete(hidden)
        return self.read(name) == data

    def _rename(self, source: Any, goal: Any) -> None:
        options = getattr(self._files.hadoop.fs, "Options$Rename")
        with as_os_errors(goal):
            context = self._files.hadoop.fs.FileContext.getFileContext(goal.toUri(), self._files.configuration)
            context.rename(source, goal, java_array(self._spark, options, []))

    def move(self, source: str, goal: str) -> None:
        with as_os_errors(self._at(goal)):
            self._files.system(self._at(goal)).mkdirs(self._at(goal).getParent())
        self._files.rename(self._at(source), self._at(goal))

    def remove(self, name: str) -> None:
        self._files.delete(self._at(name))
