"""The folder of a stream on any file system that Spark knows.

A manifest is written aside and then renamed to a name that must be free. HDFS does that in one step. On an object store
the name is looked up first and the file copied then, so two writers could both find it free; each then looks whether the
manifest that is there is its own.
"""

from __future__ import annotations

import secrets
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from unshuffle.streams.places import Entry, LocalPlace, Place, Step, no_step


def place_in(spark: SparkSession, path: str, step: Step = no_step) -> Place:
    """Where a stream lies, for a writer. A path without a scheme is one of Spark's default file system; on the local disk
    it is relative to where this process is, not to where Spark's is."""
    place = HadoopPlace(spark, path)
    return LocalPlace(path, step) if place.is_local else place


def uri_of(place: Place) -> str:
    """A path of it for Spark. On a local disk, that is so whatever Spark's default file system is."""
    return f"file:{place.path}" if isinstance(place, LocalPlace) else place.path


class HadoopPlace:
    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm = spark._jvm
        assert jvm is not None
        self._hadoop: Any = jvm.org.apache.hadoop
        self._gateway: Any = spark.sparkContext._gateway
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        plain = self._hadoop.fs.Path(path)
        self._fs = plain.getFileSystem(self._conf)
        self._root = self._fs.makeQualified(plain)
        self.path: str = self._root.toString()

    @property
    def is_local(self) -> bool:
        return bool(self._root.toUri().getScheme() == "file")

    def _at(self, name: str) -> Any:
        return self._hadoop.fs.Path(self._root, name) if name else self._root

    def entries(self, under: str = "") -> list[Entry]:
        if not self._fs.exists(self._at(under)):
            return []
        found, entries = self._fs.listFiles(self._at(under), True), []
        start = len(self._root.toUri().getPath().rstrip("/")) + 1
        while found.hasNext():
            status = found.next()
            name = status.getPath().toUri().getPath()[start:]
            entries.append(Entry(name, status.getLen(), status.getModificationTime() / 1000))
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, name: str) -> bytes:
        if not self._fs.exists(self._at(name)):
            raise FileNotFoundError(name)
        stream = self._fs.open(self._at(name))
        try:
            return bytes(stream.readAllBytes())
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
        context = self._hadoop.fs.FileContext.getFileContext(goal.toUri(), self._conf)
        context.rename(source, goal, self._gateway.new_array(options, 0))

    def move(self, source: str, goal: str) -> None:
        self._fs.mkdirs(self._at(goal).getParent())
        if not self._fs.rename(self._at(source), self._at(goal)):
            raise OSError(f"{source} could not be moved to {goal}")

    def remove(self, name: str) -> None:
        self._fs.delete(self._at(name), True)
