"""How much a session may grow under load. The test and the program both use these."""

from __future__ import annotations

from tests.support.load.footprint import Footprint

# Nothing of these may grow at all.
NO_GROWTH = ("views", "cached", "persisted", "query_listeners", "accumulators")
# A thread's last query is kept for `Session.fallbacks`: its session and what Python knows of its plan.
SESSIONS_PER_THREAD = 1
BINDINGS_PER_THREAD = 2_000  # Python releases them late
# Threads of Spark's own pools keep the session that was active when they were started, until they end.
POOL_SESSIONS = 40
SPARK_LISTENERS_PER_SESSION = 1
FILES = 200  # of shuffles and broadcasts that the sessions above still hold
PYTHON_THREADS = 2
JAVA_THREADS = 100  # Spark's pools
CLASSES = 4_000  # generated code that Spark caches
# Spark keeps 1,000 jobs, stages and executions for its UI. Memory is compared after that many.
HEAP_MB_PER_1000 = 12.0
RSS_MB_PER_1000 = 12.0
OBJECTS_PER_1000 = 5_000
# A query at the end of a long life against one of the early, warm ones.
SLOWER = 1.15


def counts_exceeded(before: Footprint, after: Footprint, threads: int) -> list[str]:
    """What has grown beyond its bound. `before` is taken when everything has run once."""
    sessions = threads * SESSIONS_PER_THREAD + POOL_SESSIONS
    limits = {
        **dict.fromkeys(NO_GROWTH, 0),
        "sessions": sessions,
        "spark_listeners": sessions * SPARK_LISTENERS_PER_SESSION,
        "bindings": threads * BINDINGS_PER_THREAD,
        "files": FILES,
        "python_threads": PYTHON_THREADS,
        "java_threads": JAVA_THREADS,
        "classes": CLASSES,
    }
    return [
        f"{name} grew by {growth:,}, more than {limit:,}"
        for name, limit in limits.items()
        if (growth := getattr(after, name) - getattr(before, name)) > limit
    ]


def memory_exceeded(before: Footprint, after: Footprint, operations: int) -> list[str]:
    """Memory that grows with the number of operations."""
    limits = {"heap_mb": HEAP_MB_PER_1000, "rss_mb": RSS_MB_PER_1000, "objects": OBJECTS_PER_1000}
    found = []
    for name, limit in limits.items():
        growth = per_1000(name, before, after, operations)
        if growth > limit:
            found.append(f"{name} grows by {growth:,.1f} in 1,000 operations, more than {limit:,}")
    return found


def per_1000(name: str, before: Footprint, after: Footprint, operations: int) -> float:
    growth: float = getattr(after, name) - getattr(before, name)
    return growth * 1000 / max(1, operations)
