"""A standalone cluster of executor processes, in which every task waits for permission before it runs.

Master and workers are threads of the driver's JVM; executors are processes of their own, as in `local-cluster`. Here each
worker has an address of its own, because Spark starts a speculative copy of a task only on another host.

An executor plugin runs at the start and the end of each task. It reports them as files in a folder, and holds a task until
the program allows it to go on. So a fault strikes while a stage runs, however short the stage is.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from unshuffle.spark.shims.gateway import scala_object

HOSTS = ("127.0.0.1", "127.0.0.2")
# An appender must be named, or Spark takes its own settings.
_LOGGING = """
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
"""
_PLUGIN = "faults.HoldingPlugin"
_SOURCE = """
package faults;

import java.io.File;
import org.apache.spark.TaskContext;

public class HoldingPlugin implements org.apache.spark.api.plugin.SparkPlugin {
    public org.apache.spark.api.plugin.DriverPlugin driverPlugin() { return null; }
    public org.apache.spark.api.plugin.ExecutorPlugin executorPlugin() { return new Holding(); }

    public static class Holding implements org.apache.spark.api.plugin.ExecutorPlugin {
        private final File folder = new File(System.getProperty("unshuffle.faults"));
        private final ThreadLocal running = new ThreadLocal();

        private void mark(String name) {
            try { new File(folder, "marks/" + name).createNewFile(); }
            catch (java.io.IOException problem) { throw new RuntimeException(problem); }
        }

        public void onTaskStart() {
            TaskContext task = TaskContext.get();
            running.set(Long.valueOf(task.taskAttemptId()));
            long pid = java.lang.management.ManagementFactory.getRuntimeMXBean().getPid();
            mark("start." + task.stageId() + "." + task.stageAttemptNumber() + "." + task.partitionId() + "."
                + task.attemptNumber() + "." + task.taskAttemptId() + "." + pid);
            File go = new File(folder, "go/" + task.taskAttemptId());
            File all = new File(folder, "go/all");
            boolean interrupted = false;
            while (!go.exists() && !all.exists()) {
                try { Thread.sleep(3); } catch (InterruptedException problem) { interrupted = true; }
            }
            if (interrupted) Thread.currentThread().interrupt();
        }

        // The context of a task is gone when it has ended, but its thread is the same.
        public void onTaskSucceeded() { mark("end." + running.get()); }
        public void onTaskFailed(org.apache.spark.TaskFailedReason why) { mark("end." + running.get()); }
    }
}
"""


class Started(NamedTuple):
    """An attempt of a task that has started on an executor."""

    stage: int
    stage_attempt: int
    partition: int
    attempt: int
    task: int
    executor: int  # the process


class Cluster:
    def __init__(self, folder: Path, settings: dict[str, str], jvm_options: str = "") -> None:
        self._folder = folder
        self.local_dirs = folder / "local"
        for name in ("marks", "go", "classes", "local", "work"):
            (folder / name).mkdir(parents=True)
        (folder / "go" / "all").touch()
        logging = folder / "log4j2.properties"
        logging.write_text(_LOGGING, encoding="utf-8")
        options = f"-Dlog4j2.configurationFile={logging.as_uri()} {jvm_options}"
        os.environ["SPARK_LOCAL_IP"] = HOSTS[0]
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        conf = SparkConf(loadDefaults=False)
        given = {
            "spark.app.name": "faults",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(self.local_dirs),
            "spark.driver.host": HOSTS[0],
            "spark.driver.bindAddress": HOSTS[0],
            "spark.driver.memory": "1g",
            "spark.driver.extraClassPath": str(folder / "classes"),
            "spark.driver.extraJavaOptions": options,
            "spark.executor.extraClassPath": str(folder / "classes"),
            "spark.executor.extraJavaOptions": f"-Dunshuffle.faults={folder} {options}",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.plugins": _PLUGIN,
            "spark.deploy.maxExecutorRetries": "-1",  # every executor that dies is replaced
            "spark.shuffle.io.maxRetries": "1",
            "spark.shuffle.io.retryWait": "50ms",
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
            **settings,
        }
        for key, value in given.items():
            conf.set(key, value)
        gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)
        self._driver: int = gateway.proc.pid
        self._compile_plugin(gateway.jvm)
        conf.set("spark.master", self._start_master_and_workers(gateway.jvm, conf))
        self.spark = SparkSession.builder.config(conf=conf).getOrCreate()
        self.wait_for_executors()

    def _compile_plugin(self, jvm: Any) -> None:
        """By the compiler that Spark uses for its own generated code."""
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(_SOURCE)
        for name, code in compiler.getBytecodes().items():
            target = self._folder / "classes" / f"{name.replace('.', '/')}.class"
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(bytes(code))

    def _start_master_and_workers(self, jvm: Any, conf: SparkConf) -> str:
        deploy, java_conf = jvm.org.apache.spark.deploy, conf._jconf  # type: ignore[attr-defined]
        if java_conf is None:
            java_conf = jvm.org.apache.spark.SparkConf(False)
            for key, value in conf.getAll():
                java_conf.set(key, value)
        endpoint = deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, java_conf)
        url = f"spark://{endpoint._1().address().hostPort()}"
        urls = SparkContext._gateway.new_array(jvm.java.lang.String, 1)  # type: ignore[union-attr]
        urls[0] = url
        for number, host in enumerate(HOSTS):
            deploy.worker.Worker.startRpcEnvAndEndpoint(
                host,
                0,
                0,
                1,  # core
                1024,  # megabytes
                urls,
                str(self._folder / "work"),
                jvm.scala.Some(number),
                java_conf,
                jvm.scala.Option.empty(),
            )
        return url

    def stop(self) -> None:
        self.spark.stop()

    # --- executors

    def executors(self) -> list[int]:
        """The processes of the executors, which are children of the driver's JVM."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self._driver and b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
            except (OSError, ValueError, IndexError):
                pass
        return sorted(found)

    def registered(self) -> int:
        """The executors that the driver gives tasks to."""
        return int(self.spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is in it too

    def wait_for_executors(self, seconds: float = 60.0) -> None:
        until = time.monotonic() + seconds
        while len(self.executors()) < len(HOSTS) or self.registered() != len(HOSTS):
            if time.monotonic() > until:
                raise TimeoutError(f"the cluster has {self.registered()} executors, not {len(HOSTS)}")
            time.sleep(0.02)

    def kill(self, executor: int) -> None:
        if executor in self.executors():
            os.kill(executor, signal.SIGKILL)

    def lose_shuffle_files(self) -> int:
        """Deletes every shuffle file of every executor."""
        lost = 0
        for file in self.local_dirs.rglob("shuffle_*"):
            file.unlink(missing_ok=True)
            lost += 1
        return lost

    def lose_broadcasts(self) -> None:
        """Removes the blocks of all broadcasts from the executors. The driver keeps its own."""
        newest = self.spark.sparkContext._jsc.broadcast(0).id()
        torrents = scala_object(self.spark, "org.apache.spark.broadcast.TorrentBroadcast")
        for broadcast in range(newest + 1):
            torrents.unpersist(broadcast, False, True)

    def kill_task(self, task: int) -> None:
        self.spark.sparkContext._jsc.sc().killTaskAttempt(task, True, "to see whether it runs again")

    # --- tasks

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Inside the block, each task waits until `release` is called for it."""
        for mark in (self._folder / "marks").iterdir():
            mark.unlink()
        (self._folder / "go" / "all").unlink()
        try:
            yield
        finally:
            (self._folder / "go" / "all").touch()

    def release(self, task: int) -> None:
        (self._folder / "go" / str(task)).touch()

    def release_all(self) -> None:
        (self._folder / "go" / "all").touch()

    def started(self) -> list[Started]:
        """All attempts that have started, in the order of their numbers."""
        marks = (each.name for each in (self._folder / "marks").iterdir() if each.name.startswith("start."))
        return sorted((Started(*map(int, mark.split(".")[1:])) for mark in marks), key=lambda each: each.task)

    def tasks_of(self, stage: int) -> int:
        info = self.spark.sparkContext.statusTracker().getStageInfo(stage)
        return 0 if info is None else int(info.numTasks)

    def has_ended(self, task: int) -> bool:
        return (self._folder / "marks" / f"end.{task}").exists()
