"""Shared fixtures: one Spark session for tests that need a JVM (pure tests never start it), the TPC data sets, and the
number of examples of a generated test: 100, the same in every run; 20 in a quick run; 20,000 new ones in a soak."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support.effort import QUICK, SOAK, SOAK_EXAMPLES
from workloads import tpcds, tpch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from unshuffle.plan.logical import Script


EVERY_CHECK = list(HealthCheck)

settings.register_profile(
    "normal", max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=EVERY_CHECK
)
settings.register_profile("soak", max_examples=SOAK_EXAMPLES, deadline=None, suppress_health_check=EVERY_CHECK)
# A planted fault must be detected, not minimized.
settings.register_profile("mutants", settings.get_profile("normal"), phases=[Phase.explicit, Phase.generate])
settings.register_profile("quick", settings.get_profile("normal"), max_examples=20)
MUTANTS = os.environ.get("UNSHUFFLE_MUTANTS") == "1"
settings.load_profile("soak" if SOAK else "mutants" if MUTANTS else "quick" if QUICK else "normal")


# Imported objects stay, and reference counting frees most objects of tests. Python's default frequency of cycle collection
# costs a sixth of the time.
gc.set_threshold(100_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that need Spark go first, then files with many tests, so that two processes that share the files finish at
    about the same time."""
    sizes = Counter(item.path for item in items)
    on_spark = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: (item.path not in on_spark, -sizes[item.path]))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def quick_jvm() -> str:
    """JVM options for short tests: only the fast compiler, the serial collector, room for all compiled code and for the
    garbage of many queries, and no bytecode verification of Spark's classes."""
    return (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn256m -XX:ReservedCodeCacheSize=256m"
        " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -XX:-UsePerfData"
    )


@pytest.fixture(scope="session")
def quick_environment(quick_jvm: str) -> dict[str, str]:
    """For a process that starts its own Spark. The JVM prints no message about options in this variable."""
    return {**os.environ, "SPARK_SUBMIT_OPTS": quick_jvm}


# Spark sends Hadoop's settings with every file scan and compresses each of the thousand separately. The files in this
# folder replace Hadoop's defaults with the few settings that are read.
HADOOP = Path(__file__).parent / "hadoop"

# These settings turn off what takes Spark longer than the rows of a test: code generation, the web UI, and compression.
# Tests of how plans run for users (test_tpch, test_cluster) turn code generation on.
LEAN = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.broadcast.compress": "false",
    "spark.buffer.pageSize": "1m",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


@pytest.fixture(scope="session")
def spark(quick_jvm: str) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("unshuffle-tests")
    builder = builder.config("spark.driver.extraJavaOptions", quick_jvm)
    builder = builder.config("spark.driver.extraClassPath", str(HADOOP)).config("spark.driver.memory", "3g")
    for name, value in LEAN.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def released() -> Iterator[None]:
    """Cycles are rarely collected (see above). Cycles that a file leaves would keep Spark's sessions and plans
    alive."""
    yield
    if "pyspark" in sys.modules:
        gc.collect()


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """Code generation is on, as for users. In other tests it takes longer than it saves."""
    from unshuffle.spark.session import temporarily

    with temporarily(spark, **{"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}):
        yield


# Data that no test writes to, kept for the next run. A generator version always makes the same bytes.
GENERATED = Path(__file__).parents[1] / ".cache" / "tests" / f"tpcgen-{version('tpcgen-cli')}"


@pytest.fixture(scope="session")
def tpch_data() -> Path:
    """The tables of TPC-H at scale 0.01."""
    folder = GENERATED / "tpch-scale-0.01"
    tpch.generate(folder, 0.01)
    return folder


@pytest.fixture(scope="session")
def tpcds_data() -> Path:
    """The tables of TPC-DS at scale 0.01."""
    folder = GENERATED / "tpcds-scale-0.01"
    tpcds.generate(folder, 0.01)
    return folder


@pytest.fixture(scope="session")
def tpch_scripts(tpch_data: Path) -> dict[int, Script]:
    """The 22 queries of TPC-H, bound without a JVM."""
    return bound(tpch.queries(), tpch_data)


@pytest.fixture(scope="session")
def tpcds_scripts(tpcds_data: Path) -> dict[int, Script]:
    """The 99 queries of TPC-DS, bound without a JVM."""
    return bound(tpcds.queries(), tpcds_data)


def bound(queries: dict[int, str], tables: Path) -> dict[int, Script]:
    from unshuffle.session import Session

    session = Session(tables=tables)
    return {number: session.pipeline.bind(text) for number, text in queries.items()}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-plans", action="store_true", help="write the current plans into tests/plans")


SUMMARY = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the figures that tests report."""
    for line in config.stash.get(SUMMARY, []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> list[str]:
    """Lines to print after the last test."""
    return pytestconfig.stash.setdefault(SUMMARY, [])
