"""The Spark session behind a `Session`: the caller's, or an embedded one that is started at first use.

An embedded session has no tables or functions of its own, so binding asks it nothing, and a query over files is bound,
planned and explained without starting it.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from unshuffle.cost.machine import this_machine
from unshuffle.errors import NotOptimizedWarning, UserError
from unshuffle.target import SessionSettings, Target, embedded_shuffle_partitions, local_cores, resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"


class Connection:
    """`plain_reason` is why nothing can be optimized in this Spark, or None."""

    def __init__(self, spark: SparkSession | None, master: str | None) -> None:
        self.is_embedded = spark is None
        self.plain_reason: str | None = None
        self._master = master
        self._spark: SparkSession | None = None
        self._was_started_here = False
        self._lock = RLock()
        if spark is not None:
            self.use(spark)

    @property
    def current(self) -> SparkSession | None:
        """The Spark session, if there is one yet."""
        return self._spark

    @property
    def can_read_sql(self) -> bool:
        """Whether there is a Spark session that reads SQL texts for us."""
        return self._spark is not None and self.plain_reason is None

    @property
    def spark(self) -> SparkSession:
        """The Spark session; an embedded one is started if there is none yet."""
        with self._lock:
            if self._spark is None:
                from unshuffle.spark.session import is_running, start

                self._was_started_here = not is_running()
                self.use(start(self._master))
            assert self._spark is not None
            return self._spark

    def use(self, spark: SparkSession) -> None:
        """Works in this Spark session from now on. The user is warned, once, if nothing can be optimized in it."""
        from unshuffle.spark.session import why_plain

        with self._lock:
            self._spark, self.plain_reason = spark, why_plain(spark)
        if self.plain_reason is not None:
            warn_user(self.plain_reason)

    def close(self) -> None:
        """Stops the Spark that was started here. One that was running before is left alone."""
        if self._was_started_here and self._spark is not None:
            self._spark.stop()
            self._spark = None

    def target(self, is_managed: bool) -> Target:
        """What queries are planned for. Spark is started for this only where nothing else tells: on a cluster, or where
        configuration files speak for it."""
        machine = this_machine()
        if self._spark is None and not self._is_known_before_start():
            _ = self.spark
        if self._spark is None or self.plain_reason is not None:
            cores = local_cores(self._master or LOCAL) or machine.cores
            settings = SessionSettings(embedded_shuffle_partitions(cores))
        else:
            from unshuffle.spark.execution.session_settings import settings_and_cores

            settings, cores = settings_and_cores(self._spark)
        if self.is_embedded and self._master is None:
            cores = machine.cores  # UNSHUFFLE_MACHINE may describe another machine than this one
        return resolve(machine, cores, settings, is_managed)

    def _is_known_before_start(self) -> bool:
        if local_cores(self._master or LOCAL) is None:
            return False
        if "PYSPARK_GATEWAY_PORT" in os.environ or "PYSPARK_SUBMIT_ARGS" in os.environ:
            return False
        if (
            pyspark := sys.modules.get("pyspark")
        ) is not None and pyspark.SparkContext._active_spark_context is not None:
            return False
        folders = [os.environ.get("SPARK_CONF_DIR"), os.path.join(os.environ.get("SPARK_HOME", ""), "conf")]
        return not any(folder and Path(folder, "spark-defaults.conf").exists() for folder in folders)

    def refuse_connect(self, what: str) -> None:
        """Refuses what Spark Connect cannot do."""
        if self._spark is not None:
            from unshuffle.spark.session import refuse_connect

            refuse_connect(self._spark, what)

    def require_optimizable(self) -> None:
        """Raises the reason why nothing can be optimized here, if there is one."""
        _ = self.spark
        if self.plain_reason is not None:
            raise UserError(self.plain_reason)


def warn_user(message: str) -> None:
    """Warns at the line of the user's that called us."""
    ours = os.path.dirname(os.path.abspath(__file__)) + os.sep
    level, frame = 2, sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith(ours) or _is_contextlib(frame.f_code.co_filename)):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, NotOptimizedWarning, stacklevel=level)


def _is_contextlib(file: str) -> bool:
    return file.endswith(f"{os.sep}contextlib.py")
