"""A Spark standalone cluster on this machine whose network costs something.

A driver with the master, and two workers of one core each, are in network namespaces of their own. A bridge in a fourth one
joins them, and every link is shaped in both directions. All is taken down when the block ends, however it ends: the processes
are in the namespaces, and what is found there is ended with them.

    with ShapedCluster("200mbit") as cluster:
        cluster.run([sys.executable, "program.py"])     # with the variable MASTER

Needs root, and `ip` and `tc` of iproute2.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO

import pyspark

NETWORK = "10.77.0"
PORT = 7077
WORKERS = 2
WORKER_MEMORY = "3g"
STARTING_SECONDS = 60.0
ENDING_SECONDS = 10.0
HOME = Path(pyspark.__file__).parent


class ClusterProblem(Exception):
    """Why there can be no such cluster here, in a sentence."""


class ShapedCluster:
    """Its rate is one of `tc`: 200mbit, 1gbit."""

    def __init__(self, rate: str) -> None:
        self.rate = rate
        self.master = f"spark://{NETWORK}.1:{PORT}"
        self._prefix = f"unshuffle-{os.getpid()}"
        self._namespaces: list[str] = []
        self._started: list[subprocess.Popen[bytes]] = []
        self._logs = Path(tempfile.mkdtemp(prefix="unshuffle-cluster-"))
        self._before: dict[signal.Signals, object] = {}

    # --- up

    def __enter__(self) -> ShapedCluster:
        _check()
        # An interrupted program leaves its blocks by an exception, so that everything is taken down.
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, _leave)
        try:
            self._connect()
            self._start()
        except BaseException:
            self._take_down()
            raise
        return self

    def _connect(self) -> None:
        switch = self._add("switch")
        _ip("-n", switch, "link", "add", "name", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        for host in range(1, WORKERS + 2):
            name, port = self._add(str(host)), f"p{host}"
            _ip("link", "add", "name", "e0", "netns", name, "type", "veth", "peer", "name", port, "netns", switch)
            _ip("-n", switch, "link", "set", port, "master", "br0", "up")
            _ip("-n", name, "addr", "add", f"{NETWORK}.{host}/24", "dev", "e0")
            for device in ("e0", "lo"):
                _ip("-n", name, "link", "set", device, "up")
            for at, device in ((name, "e0"), (switch, port)):
                shape = f"root tbf rate {self.rate} burst 512kb latency 100ms".split()
                _run(["ip", "netns", "exec", at, "tc", "qdisc", "add", "dev", device, *shape])

    def _add(self, name: str) -> str:
        namespace = f"{self._prefix}-{name}"
        _ip("netns", "add", namespace)
        self._namespaces.append(namespace)
        return namespace

    def _start(self) -> None:
        spark_class, deploy = str(HOME / "bin" / "spark-class"), "org.apache.spark.deploy"
        where = ["--host", f"{NETWORK}.1", "--port", str(PORT), "--webui-port", "0"]
        self._spawn(1, [spark_class, f"{deploy}.master.Master", *where])
        for host in range(2, WORKERS + 2):
            size = ["--host", f"{NETWORK}.{host}", "--cores", "1", "--memory", WORKER_MEMORY, "--webui-port", "0"]
            work = ["--work-dir", str(self._logs / f"work-{host}")]
            self._spawn(host, [spark_class, f"{deploy}.worker.Worker", *size, *work, self.master])
        until = time.monotonic() + STARTING_SECONDS
        while self._log(1).read_text().count("Registering worker") < WORKERS:
            if time.monotonic() > until or any(each.poll() is not None for each in self._started):
                last = self._log(1).read_text()[-2000:]
                raise ClusterProblem(f"the workers did not register at the master within a minute:\n{last}")
            time.sleep(0.2)

    def _spawn(self, host: int, command: Sequence[str]) -> None:
        with self._log(host).open("wb") as log:
            self._started.append(self._popen(host, command, log))

    def _log(self, host: int) -> Path:
        return self._logs / f"log-{host}"

    def _popen(self, host: int, command: Sequence[str], log: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "MASTER": self.master,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": f"{NETWORK}.{host}",
            "PYSPARK_PYTHON": sys.executable,
        }
        inside = ["ip", "netns", "exec", f"{self._prefix}-{host}", *command]
        return subprocess.Popen(inside, stdout=log, stderr=log, env=environment)

    # --- running

    def run(self, command: Sequence[str]) -> int:
        """Runs a program where the driver is. Returns its exit code."""
        return self._popen(1, command).wait()

    # --- down

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._take_down()

    def _take_down(self) -> None:
        for number in (signal.SIGINT, *self._before):
            signal.signal(number, signal.SIG_IGN)  # a second interrupt must not leave half of it
        try:
            self._end(signal.SIGTERM)
            until = time.monotonic() + ENDING_SECONDS
            while self._processes() and time.monotonic() < until:
                time.sleep(0.1)
            self._end(signal.SIGKILL)
            for each in self._started:
                each.wait()
            for namespace in self._namespaces:
                _run(["ip", "netns", "del", namespace])
            shutil.rmtree(self._logs, ignore_errors=True)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, handler in self._before.items():
                signal.signal(number, handler)  # type: ignore[arg-type]

    def _end(self, how: signal.Signals) -> None:
        for process in self._processes():
            with suppress(ProcessLookupError):
                os.kill(process, how)

    def _processes(self) -> list[int]:
        """All processes in the namespaces, those that Spark has started there too."""
        found = []
        for namespace in self._namespaces:
            listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
            found += map(int, listed.stdout.split())
        return found


def _check() -> None:
    if os.geteuid() != 0:
        raise ClusterProblem("network namespaces need root")
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        raise ClusterProblem(f"there is no {' and no '.join(missing)} here: install iproute2")


def _ip(*arguments: str) -> None:
    _run(["ip", *arguments])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterProblem(f"{' '.join(command)}: {done.stderr.strip()}")


def _leave(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
