"""The storage of a stream on any file system that Spark knows.

A manifest is written under a hidden name and then renamed to a name that must not exist yet. HDFS does that atomically. An
object store checks the name first and then copies the file, so two writers may both pass the check; each then reads the
manifest back to see whether it is its own.
"""

from __future__ import annotations

import secrets
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from unshuffle.catalog.json_files import MAX_BYTES, checked_size
from unshuffle.spark.shims.gateway import java_array
from unshuffle.spark.shims.hadoop import hadoop, hadoop_configuration
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
        self._hadoop = hadoop(spark)
        self._configuration = hadoop_configuration(spark)
        unqualified = self._hadoop.fs.Path(path)
        self._fs = unqualified.getFileSystem(self._configuration)
        self._root = self._fs.makeQualified(unqualified)
        self.path: str = self._root.toString()

    @property
    def is_local(self) -> bool:
        return bool(self._root.toUri().getScheme() == "file")

    def _at(self, name: str) -> Any:
        return self._hadoop.fs.Path(self._root, name) if name else self._root

    def entries(self, under: str = "") -> list[FileEntry]:
        if not self._fs.exists(self._at(under)):
            return []
        found, entries = self._fs.listFiles(self._at(under), True), []
        start = len(self._root.toUri().getPath().rstrip("/")) + 1
        while found.hasNext():
            status = found.next()
            name = status.getPath().toUri().getPath()[start:]
            entries.append(FileEntry(name, status.getLen(), status.getModificationTime() / 1000))
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, name: str) -> bytes:
        if not self._fs.exists(self._at(name)):
            raise FileNotFoundError(name)
        stream = self._fs.open(self._at(name))
        try:
            return checked_size(bytes(stream.readNBytes(MAX_BYTES + 1)))
        finally:
            stream.close()

    def create(self, name: str, data: bytes) -> bool:
        folder, _, last = name.rpartition("/")
        hidden = self._at(f"{folder}/.{last}.{secrets.token_hex(6)}")
        stream = self._fs.create(hidden, True)
        stream.write(bytearray(data))
        stream.close()
        try:
            self._rename(hidden, self._at(name))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() != "FileAlreadyExistsException":
                raise
            return False
        finally:
            self._fs.delete(hidden, False)
        return self.read(name) == data

    def _rename(self, source: Any, goal: Any) -> None:
        options = getattr(self._hadoop.fs, "Options$Rename")
        context = self._hadoop.fs.FileContext.getFileContext(goal.toUri(), self._configuration)
        context.rename(source, goal, java_array(self._spark, options, []))

    def move(self, source: str, goal: str) -> None:
        self._fs.mkdirs(self._at(goal).getParent())
        if not self._fs.rename(self._at(source), self._at(goal)):
            raise OSError(f"{source} could not be moved to {goal}")

    def remove(self, name: str) -> None:
        self._fs.delete(self._at(name), True)
