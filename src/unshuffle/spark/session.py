"""Starting the embedded Spark session, and checking a session that the user brings.

The embedded session runs on this machine alone, listens on the loopback address, and prints nothing that is not meant for the
user. An existing session is never reconfigured.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from logging import LogRecord
from pathlib import Path
from threading import Thread, get_ident
from typing import IO
from weakref import WeakKeyDictionary

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from unshuffle.errors import UserError
from unshuffle.target import embedded_shuffle_partitions, local_cores

OLDEST, NEWEST = (4, 1), (4, 3)  # the Spark versions that are tested
OLDEST_JAVA = 17
_INSTALL_JAVA = "install Java 17 or newer, for example `apt install openjdk-17-jre-headless`, or set JAVA_HOME"

# They print every error of a query with its Java stack trace.
_ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_LOGGING = """\
rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
# At another level than the root's, the gateway would announce that it changes it.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = fatal
"""
_MASTER = re.compile(r"local(-cluster)?(\[.+\])?|yarn|(spark|k8s|mesos)://.+")
# The JVM prints this before it reads any setting.
_NOISE = b"WARNING: Using incubator modules"


def start(master: str | None = None) -> SparkSession:
    """The running session, or a new one on `master` (this machine, unless told otherwise)."""
    if master is not None and not _MASTER.fullmatch(master):
        hint = "use e.g. local[4], spark://host:7077, yarn or k8s://..."
        raise UserError(f"{master!r} is no Spark master", hint=hint)
    if is_running():
        spark = SparkSession.builder.getOrCreate()
    else:
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit chose the master and started the JVM
        if not submitted:
            _check_java()
            master = master or "local[*]"
            os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        spark = _start(_settings(master), submitted)
    return spark


def is_running() -> bool:
    """Whether this process has a running Spark, which is then not ours to stop."""
    return SparkContext._active_spark_context is not None


def is_connect(of_spark: object) -> bool:
    """Whether a session or a DataFrame belongs to Spark Connect, whose client has no JVM and no plan to read."""
    return type(of_spark).__module__.startswith("pyspark.sql.connect")


def why_plain(spark: SparkSession) -> str | None:
    """Why our plans cannot run in a session, or None if they can. If they cannot, plain Spark runs the queries."""
    if is_connect(spark):
        return (
            "this is a Spark Connect session, and unshuffle needs a classic one to optimize: "
            'make it with SparkSession.builder.master("local[*]") or spark-submit, not with .remote(...)'
        )
    return untested(_version(spark))


_VERSIONS: WeakKeyDictionary[SparkContext, str] = WeakKeyDictionary()


def _version(spark: SparkSession) -> str:
    context = spark.sparkContext
    if context not in _VERSIONS:
        _VERSIONS[context] = spark.version
    return _VERSIONS[context]


def untested(version: str) -> str | None:
    """Why a version of Spark is not supported, or None. Plans rely on internals of Spark, which change between versions."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        return None
    tested = f"Spark {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    return f"Spark {version} is not supported, and nothing is optimized: use {tested}"


def refuse_connect(spark: SparkSession, what: str) -> None:
    """Raises a `UserError` for what Spark Connect cannot do."""
    if is_connect(spark):
        raise UserError(
            f"{what} needs a classic Spark session, and this one is a Spark Connect session",
            hint='make it with SparkSession.builder.master("local[*]") or spark-submit, not with .remote(...)',
        )


@contextmanager
def temporarily(spark: SparkSession, **settings: str | int | bool | None) -> Iterator[None]:
    """Changes settings of the session (None: unset) and restores them exactly, unset ones included."""
    conf = spark._jsparkSession.sessionState().conf()
    before = {key: spark.conf.get(key) if conf.contains(key) else None for key in settings}

    def apply(values: dict[str, str | int | bool | None]) -> None:
        for key, value in values.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)

    try:
        apply(dict(settings))
        yield
    finally:
        apply(dict(before))


def has_plain_strings(spark: SparkSession) -> bool:
    """Whether a backslash in a string of a SQL text is not an escape."""
    return str(spark.conf.get("spark.sql.parser.escapedStringLiterals")).lower() == "true"


@contextmanager
def without_error_log() -> Iterator[None]:
    """PySpark logs every error of a query, even one that we handle. Errors of other threads are logged as ever."""
    loggers, thread = [PySparkLogger.getLogger(name) for name in _ERROR_LOGGERS], get_ident()

    def is_of_another_thread(record: LogRecord) -> bool:
        return record.thread != thread

    for logger in loggers:
        logger.addFilter(is_of_another_thread)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_another_thread)


# --------------------------------------------------------------------------------------------------------- a new session


def _settings(master: str | None) -> dict[str, str]:
    settings = {
        "spark.app.name": "unshuffle",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if master is not None:
        settings["spark.master"] = master
    if master is not None and master.startswith("local"):
        folder = Path(tempfile.mkdtemp(prefix="unshuffle-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        logging = folder / "log4j2.properties"
        logging.write_text(_LOGGING)
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": f"{_memory_to_use() >> 20}m",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
            "spark.sql.shuffle.partitions": str(
                embedded_shuffle_partitions(local_cores(master) or os.cpu_count() or 1)
            ),
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        }
    return settings


def _start(settings: dict[str, str], submitted: bool) -> SparkSession:
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    if not submitted and SparkContext._gateway is None:
        # The JVM's stderr, including prints of Python workers, passes through a filter.
        try:
            gateway = launch_gateway(conf, {"stderr": subprocess.PIPE})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            raise UserError("Spark's Java process did not start", hint=_INSTALL_JAVA) from error
        Thread(target=_pass_on, args=(gateway.proc.stderr,), daemon=True, name="spark-stderr").start()
        SparkContext._ensure_initialized(gateway=gateway)
    for name in _ERROR_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _pass_on(stream: IO[bytes]) -> None:
    for line in stream:
        if not line.startswith(_NOISE):
            os.write(2, line)


def _memory_to_use() -> int:
    """Half of the memory of the machine or container. Beyond 31 GiB the JVM's pointers double in size."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (text := limit.read_text().strip()).isdecimal():
        available = min(available, int(text))
    return min(max(available // 2, 1 << 30), 31 << 30)


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    if shutil.which(java) is None:
        raise UserError(f"Spark needs Java, and there is no {java}", hint=_INSTALL_JAVA)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None:
        raise UserError(f"`{java} -version` does not tell its version", hint=_INSTALL_JAVA)
    if int(version[1]) < OLDEST_JAVA:
        raise UserError(f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is Java {version[1]}", hint=_INSTALL_JAVA)
