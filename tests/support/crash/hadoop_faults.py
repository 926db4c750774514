"""Faults at the file-system operations of Spark, by a Hadoop file system of our own in the place of the local disk's.

Its Java source is compiled by Janino, which ships with Spark, and defined beside Hadoop's own classes, so that a running
session finds it by name. Only the sessions that are told so use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from unshuffle.spark.session import temporarily
from unshuffle.spark.shims.gateway import java_array, java_class, jvm

SOURCE = Path(__file__).with_name("FaultyFiles.java")
PACKAGE = "unshuffle.faults"
# A class after those that it needs.
_CLASSES = ("Faults", "FaultyOutput", "FaultyInput", "FaultyRaw", "FaultyLocal", "FaultyContext")
_SETTINGS: dict[str, str | int | bool | None] = {
    "fs.file.impl": f"{PACKAGE}.FaultyLocal",
    "fs.file.impl.disable.cache": "true",
    "fs.AbstractFileSystem.file.impl": f"{PACKAGE}.FaultyContext",
}
CHANGING = ("create", "write", "close", "rename", "delete", "mkdirs")


@contextmanager
def faulty_file_system(spark: SparkSession) -> Iterator[HadoopFaults]:
    """The session uses the faulty file system in this block. Nothing fails unless a fault is armed."""
    _define(spark)
    faults = HadoopFaults(spark)
    with temporarily(spark, **_SETTINGS):
        try:
            yield faults
        finally:
            faults.disarm()


class HadoopFaults:
    """The faults are those of `local_faults`, and for rename, delete and mkdirs also `refused`: they return false."""

    def __init__(self, spark: SparkSession) -> None:
        self._java = java_class(spark, f"{PACKAGE}.Faults")

    def arm(self, folder: Path, at: int = 0, fault: str = "") -> None:
        self._java.arm(str(folder), at, fault)

    def disarm(self) -> None:
        self._java.disarm()

    def die(self) -> None:
        self._java.die()

    def kill_too(self, process: int) -> None:
        """The Python process that dies with the JVM."""
        self._java.driver(process)

    @property
    def is_dead(self) -> bool:
        return bool(self._java.isDead())

    @property
    def operations(self) -> list[str]:
        return str(self._java.operations()).splitlines()


def _define(spark: SparkSession) -> None:
    java = jvm(spark)
    loader = java.java.lang.Class.forName("org.apache.hadoop.fs.FileSystem").getClassLoader()
    if loader.getResource("unshuffle/faults/Faults.class") is None and not _is_defined(spark, loader):
        compiler = java.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(SOURCE.read_text(encoding="utf-8"))
        codes = compiler.getBytecodes()
        for name in _CLASSES:
            _define_class(spark, loader, f"{PACKAGE}.{name}", codes.get(f"{PACKAGE}.{name}"))


def _is_defined(spark: SparkSession, loader: Any) -> bool:
    try:
        loader.loadClass(f"{PACKAGE}.Faults")
    except Exception:
        return False
    return True


def _define_class(spark: SparkSession, loader: Any, name: str, code: bytes) -> None:
    """`ClassLoader.defineClass`, which Spark's own JVM options open to us."""
    java = jvm(spark)
    class_, integer = java.java.lang.Class, java.java.lang.Integer.TYPE
    types = [class_.forName("java.lang.String"), class_.forName("[B"), integer, integer]
    define = class_.forName("java.lang.ClassLoader").getDeclaredMethod("defineClass", java_array(spark, class_, types))
    define.setAccessible(True)
    define.invoke(loader, java_array(spark, java.java.lang.Object, [name, code, 0, len(code)]))
