"""Calls from Python into Spark's JVM: classes, Scala collections and arrays through py4j.

A call takes about half a millisecond, so callers keep what they look up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from py4j.java_gateway import JavaClass, is_instance_of
from pyspark.sql import SparkSession


def jvm(spark: SparkSession) -> Any:
    """The root of the JVM's packages and of its primitive types (`.int`). Only classic sessions have one."""
    root = spark._jvm
    assert root is not None
    return root


def java_class(spark: SparkSession, name: str) -> Any:
    """A class by its full name. With `jvm.org.apache...` py4j asks the JVM for a class at every dot, and each time the JVM
    searches all of Spark's archives."""
    return JavaClass(name, jvm(spark)._gateway_client)


def java_session(spark: SparkSession) -> Any:
    """Spark's own session object."""
    return spark._jsparkSession


def java_array(spark: SparkSession, element_class: Any, items: Sequence[Any]) -> Any:
    array = _gateway(spark).new_array(element_class, len(items))
    for i, item in enumerate(items):
        array[i] = item
    return array


def is_instance(spark: SparkSession, java_object: Any, class_name: str) -> bool:
    return bool(is_instance_of(_gateway(spark), java_object, class_name))


def _gateway(spark: SparkSession) -> Any:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return gateway


def sequence(spark: SparkSession, items: Sequence[Any]) -> Any:
    """A Scala Seq."""
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(list(items))


def scala_map(spark: SparkSession, pairs: Iterable[tuple[Any, Any]]) -> Any:
    """A Scala Map. It is also a partial function, so Catalyst's `transform` takes one."""
    java_map = java_class(spark, "java.util.HashMap")()
    for key, value in pairs:
        java_map.put(key, value)
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toScalaMap(java_map)


def items_of(scala_sequence: Any) -> list[Any]:
    """The elements of a Scala Seq."""
    return [scala_sequence.apply(i) for i in range(scala_sequence.size())]


def scala_object(spark: SparkSession, name: str) -> Any:
    """A Scala object by its full name."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def none(spark: SparkSession) -> Any:
    """Scala's None."""
    return scala_object(spark, "scala.None")
