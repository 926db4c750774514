"""What a session keeps alive: memory after garbage collection, views, cached data, listeners, sessions, files, threads."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import SparkSession

SESSION_CLASS = "org.apache.spark.sql.classic.SparkSession"
_CLEANER_SECONDS = 0.5  # Spark deletes files and forgets sessions in a thread of its own, after a collection
_COLLECTIONS = 20  # at most; what a finalizer or Spark's cleaner releases is collected the next time
_EQUAL = 4  # collections in a row that release nothing: Spark's cleaner drops copied tables within about a second


@dataclass(frozen=True)
class Footprint:
    """Counts of one moment, when no operation is running."""

    heap_mb: float  # of the JVM, after a full collection
    classes: int  # that the JVM has loaded
    rss_mb: float  # of the Python process
    objects: int  # that Python's collector tracks
    bindings: int  # objects of the JVM that Python keeps alive
    uncollected: int  # the same, before Python's garbage was collected
    sessions: int  # of Spark, the user's included
    views: int
    cached: int  # entries of Spark's cache
    persisted: int  # RDDs
    query_listeners: int  # of the user's session
    spark_listeners: int  # of the Spark context
    accumulators: int  # that PySpark keeps alive
    files: int  # of Spark and in temporary folders
    python_threads: int
    java_threads: int

    def line(self) -> str:
        return ", ".join(f"{each.name} {getattr(self, each.name):,.6g}" for each in fields(self))


def settings(spark: SparkSession) -> dict[str, str]:
    """Every setting of a session, as it is now."""
    text: str = spark._jsparkSession.sessionState().conf().getAllConfs().mkString("\x01")
    pairs = (each.partition(" -> ") for each in text.split("\x01"))
    return {key: value for key, _, value in pairs}


def footprint(spark: SparkSession, folders: Sequence[Path]) -> Footprint:
    """What is alive after garbage collection on both sides. `folders` are where files are counted."""
    uncollected = bindings(spark)
    gc.collect()
    jvm = spark._jvm
    management = jvm.java.lang.management.ManagementFactory  # type: ignore[union-attr]
    held = _settled_bindings(spark)
    context = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
    context.listenerBus().waitUntilEmpty()
    heap = _settled_heap(spark)
    session = spark._jsparkSession
    return Footprint(
        heap_mb=heap / 1e6,
        classes=management.getClassLoadingMXBean().getLoadedClassCount(),
        rss_mb=_rss() / 1e6,
        objects=len(gc.get_objects()),
        bindings=held,
        uncollected=uncollected,
        sessions=instances(spark, SESSION_CLASS),
        views=len(temporary_views(spark)),
        cached=session.sharedState().cacheManager().numCachedEntries(),
        persisted=context.getPersistentRDDs().size(),
        query_listeners=len(session.listenerManager().listListeners()),
        spark_listeners=context.listenerBus().listeners().size(),
        accumulators=len(_accumulatorRegistry),
        files=sum(len(names) for folder in folders for _, _, names in os.walk(folder)),
        python_threads=threading.active_count(),
        java_threads=management.getThreadMXBean().getThreadCount(),
    )


def temporary_views(spark: SparkSession) -> list[str]:
    """The names of the session's temporary views, without a query."""
    listed = spark._jsparkSession.sessionState().catalog().listLocalTempViews("*")
    return sorted(listed.apply(i).table() for i in range(listed.size()))


def bindings(spark: SparkSession) -> int:
    """The number of objects of the JVM that Python keeps alive."""
    gateway: Any = spark.sparkContext._gateway
    return int(gateway.java_gateway_server.getGateway().getBindings().size())


def _settled_bindings(spark: SparkSession) -> int:
    """The same, once py4j has told the JVM of everything that was released, which it does in a thread of its own."""
    before, now = bindings(spark) + 1, bindings(spark)
    while now < before:
        time.sleep(_CLEANER_SECONDS)
        before, now = now, bindings(spark)
    return now


def _settled_heap(spark: SparkSession) -> int:
    """The used bytes of the JVM, once collecting garbage again releases no more."""
    java: Any = spark._jvm
    memory = java.java.lang.management.ManagementFactory.getMemoryMXBean()
    used = []
    for _ in range(_COLLECTIONS):
        java.java.lang.System.gc()
        used.append(int(memory.getHeapMemoryUsage().getUsed()))
        if len(used) > _EQUAL and used[-1] > 0.99 * used[-1 - _EQUAL]:
            break
        time.sleep(_CLEANER_SECONDS)
    return used[-1]


def instances(spark: SparkSession, class_name: str) -> int:
    """The number of living objects of a class, from the JVM's class histogram."""
    for line in histogram(spark).splitlines():
        parts = line.split()  # rank, instances, bytes, class
        if len(parts) >= 4 and parts[3] == class_name:
            return int(parts[1])
    return 0


def histogram(spark: SparkSession) -> str:
    """The JVM's class histogram, after a full collection. The server is of a hidden class, so its interface's method is
    invoked by reflection."""
    gateway: Any = spark.sparkContext._gateway
    java: Any = spark._jvm
    server = java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    name = java.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    methods = java.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
    invoke = next(method for method in methods if method.getName() == "invoke")

    def array(kind: Any, *items: object) -> Any:
        made = gateway.new_array(kind, len(items))
        for i, item in enumerate(items):
            made[i] = item
        return made

    nothing = array(java.java.lang.Object, array(java.java.lang.String))
    signature = array(java.java.lang.String, "[Ljava.lang.String;")
    text: str = invoke.invoke(server, array(java.java.lang.Object, name, "gcClassHistogram", nothing, signature))
    return text


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
