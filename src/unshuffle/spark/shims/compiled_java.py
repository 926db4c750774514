"""Small Java classes, compiled in the driver by the Janino that Spark ships with: no jar, no javac, no setting.

Python calls a method of the JVM in about 0.1 ms. A class of ours makes in one call what would take thousands.
"""

from __future__ import annotations

from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from unshuffle.spark.shims.gateway import java_array, jvm

_COMPILED: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
_LOCK = Lock()


def java_object(spark: SparkSession, class_name: str, source: str) -> Any:
    """An object of a class with a public constructor without arguments. It is made once in each JVM."""
    with _LOCK:
        made = _COMPILED.setdefault(spark.sparkContext, {})
        if class_name not in made:
            made[class_name] = _new(spark, class_name, source)
        return made[class_name]


def _new(spark: SparkSession, class_name: str, source: str) -> Any:
    java = jvm(spark)
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(java.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
    compiler.cook(source)
    constructor = (
        compiler.getClassLoader()
        .loadClass(class_name)
        .getDeclaredConstructor(java_array(spark, java.java.lang.Class, []))
    )
    return constructor.newInstance(java_array(spark, java.java.lang.Object, []))
