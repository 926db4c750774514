"""Two writers and twenty readers of one structured stream, for minutes, while it is vacuumed.

    python tools/stream_soak.py --minutes 5             two writers with a Spark each, twenty readers
    python tools/stream_soak.py --minutes 5 --arrow     writers without Spark: more versions, and more conflicts
    python tools/stream_soak.py --spark-readers 4       also four threads of a Spark that read it

Every process is on its own. A writer computes each version from the one before it; of two that started from the same one,
one gets an error and tries again. A version tells by its rows what it must be, so a reader sees whether it has all rows of
exactly one version, and whether an update was lost. The program ends with 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import BaseContext
from pathlib import Path
from threading import Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from tests.support.storing import by, write_file  # noqa: E402
from unshuffle.errors import StreamProblem  # noqa: E402
from unshuffle.sstream import LayoutRequest, Stream, open_stream, resolve_layout, storage_of  # noqa: E402
from unshuffle.sstream.check import check  # noqa: E402
from unshuffle.sstream.footer_statistics import statistics_of  # noqa: E402
from unshuffle.sstream.murmur import partition_numbers  # noqa: E402
from unshuffle.sstream.storage import LocalStorage  # noqa: E402
from unshuffle.sstream.store import manifest_name, versions  # noqa: E402
from unshuffle.sstream.vacuum import vacuum  # noqa: E402
from unshuffle.sstream.version_writer import VersionWriter  # noqa: E402

SECONDS_BETWEEN_LINES = 5
LONGEST_HOLD = 3.0  # seconds between opening a version and reading it
KEPT_SECONDS = 60.0  # a version that is replaced, and a file that is unpublished, is kept as long
COUNTS = ("reads", "checks", "Spark reads", "writes", "conflicts", "vacuums")
AGGREGATES = ("count(*)", "sum(k)", "min(total)", "max(total)")
QUERY = f"select version, {', '.join(AGGREGATES)} from soak group by version"
SCHEMA = pa.schema([("k", pa.int64()), ("version", pa.int64()), ("total", pa.int64()), ("writer", pa.int64())])


# ------------------------------------------------------------------------------------------------------ what is written


def rows_of(version: int) -> int:
    return 200 + version * 37 % 300


def content(version: int, total: int, writer: int) -> pa.Table:
    """The rows of a version. `total` is the sum of all versions' numbers: a lost update would change it for good."""
    n = rows_of(version)
    numbers = (np.arange(n), *(np.full(n, value) for value in (version, total + version, writer)))
    return pa.table(list(map(pa.array, numbers)), schema=SCHEMA)


def problem_of(stream: Stream, rows: pa.Table) -> str | None:
    """What is wrong with the rows that were read of a version, or None."""
    version = stream.version
    found = {name: set(rows[name].to_pylist()) for name in ("version", "total", "writer")}
    expected = {"version": {version}, "total": {version * (version + 1) // 2}}
    for name, values in expected.items():
        if found[name] != values:
            return f"version {version} has {name} {sorted(found[name])[:5]}, not {values}"
    if len(found["writer"]) != 1:
        return f"version {version} has rows of the writers {found['writer']}"
    if sorted(rows["k"].to_pylist()) != list(range(rows_of(version))):
        return f"version {version} has {rows.num_rows} rows, not {rows_of(version)}"
    return None


def read(stream: Stream) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(path).read() for path in stream.paths])


# ----------------------------------------------------------------------------------------------------------- processes


class Soak:
    """What the processes share: the stream, their counts, and what they found wrong."""

    def __init__(self, context: BaseContext, path: str) -> None:
        self.path = path
        self.stop = context.Event()
        self._ready, self._begin = context.Semaphore(0), context.Event()
        self._counts = context.Array("q", len(COUNTS))
        self._problems = context.Queue()
        self.problems: list[str] = []

    def begin(self) -> None:
        """A process is ready, and waits for the others: a JVM takes seconds to start."""
        self._ready.release()
        self._begin.wait()

    def begin_all(self, processes: int) -> None:
        for _ in range(processes):
            self._ready.acquire()
        self._begin.set()

    def count(self, what: str) -> None:
        with self._counts.get_lock():
            self._counts[COUNTS.index(what)] += 1

    def counts(self) -> dict[str, int]:
        return dict(zip(COUNTS, self._counts[:], strict=True))

    def wrong(self, problem: str) -> None:
        self._problems.put(problem)

    def collect(self) -> None:
        while not self._problems.empty():
            problem = self._problems.get()
            self.problems.append(problem)
            if len(self.problems) <= 20:
                print(f"WRONG: {problem}", flush=True)

    @contextmanager
    def watched(self, who: str) -> Iterator[None]:
        """Whatever is raised here is a violation: readers and vacuums never fail, and writers only by a conflict."""
        try:
            yield
        except Exception as error:
            self.wrong(f"{who}: {type(error).__name__}: {error}")


def reader(soak: Soak, number: int) -> None:
    draw, newest = random.Random(number), 0
    soak.begin()
    while not soak.stop.is_set():
        with soak.watched(f"reader {number}"):
            stream = open_stream(soak.path)
            if stream.version < newest:
                soak.wrong(f"reader {number} saw version {stream.version} after {newest}")
            newest = stream.version
            if draw.random() < 0.3:
                time.sleep(draw.random() * LONGEST_HOLD)
            if draw.random() < 0.2:
                statistics_of(stream)
            problem = problem_of(stream, read(stream))
            if problem is not None:
                soak.wrong(f"reader {number}: {problem}")
            soak.count("reads")
            if draw.random() < 0.05:
                for fault in check(stream):
                    soak.wrong(f"reader {number}: version {stream.version}: {fault}")
                soak.count("checks")
        time.sleep(draw.random() * 0.2)


def spark_reader(soak: Soak, threads: int) -> None:
    """Threads of one Spark. They read a version as a DataFrame, or query it by name with its layout."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    session = _session(Path(soak.path).parent)

    def run(number: int) -> None:
        newest = 0
        while not soak.stop.is_set():
            with soak.watched(f"Spark reader {number}"):
                named = number % 2 == 1
                frame = (
                    session.sql(QUERY)
                    if named
                    else session.read_stream(soak.path).groupBy("version").agg(*map(F.expr, AGGREGATES))
                )
                found = [tuple(row) for row in frame.collect()]
                version = found[0][0]
                n, total = rows_of(version), version * (version + 1) // 2
                if found != [(version, n, n * (n - 1) // 2, total, total)] or version < newest:
                    soak.wrong(f"Spark reader {number}: {found} after version {newest}")
                newest = version
                soak.count("Spark reads")

    soak.begin()
    running = [Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def writer(soak: Soak, number: int, write: Callable[[pa.Table, int], Any]) -> None:
    draw = random.Random(1000 + number)
    soak.begin()
    while not soak.stop.is_set():
        with soak.watched(f"writer {number}"):
            before = open_stream(soak.path)
            total = read(before)["total"][0].as_py()
            try:
                write(content(before.version + 1, total, number), before.version)
                soak.count("writes")
            except StreamProblem as problem:
                if "another writer published version" not in str(problem) and "now has version" not in str(problem):
                    raise
                soak.count("conflicts")
        time.sleep(draw.random() * 0.3)


def arrow_writer(soak: Soak, number: int) -> None:
    writer(soak, number, lambda rows, follows: write_with_arrow(soak.path, rows, follows))


def write_with_arrow(path: str, rows: pa.Table, follows: int | None) -> None:
    layout = resolve_layout(
        LayoutRequest(by("k"), partitions=1 + rows.num_rows % 4), [(each.name, each.type) for each in rows.schema], None
    )
    assert layout.function is not None
    with VersionWriter(LocalStorage(path), path, follows is not None, follows) as writing:
        numbers = partition_numbers([rows["k"].combine_chunks()], layout.function.partitions)
        for number in range(layout.function.partitions):
            folder = Path(path) / writing.staging / f"_p={number}"
            while not folder.exists():  # the other writer removes the folder above when it is empty
                with suppress(FileNotFoundError):
                    folder.mkdir(parents=True)
            write_file(folder / "part-0.parquet", rows.filter(pa.array(numbers == number)))
        writing.prepare(layout, layout.function)
        writing.publish()


def spark_writer(soak: Soak, number: int) -> None:
    session = _session()

    def write(rows: pa.Table, follows: int) -> None:
        frame = session.spark.createDataFrame(rows)
        layout: dict[str, Any] = {"clustered_by": "k", "partitions": 1 + follows % 4, "ranged": follows % 3 == 0}
        session.write_stream(frame, soak.path, overwrite=True, follows=follows, **layout)

    writer(soak, number, write)


def vacuuming(soak: Soak, number: int) -> None:
    draw = random.Random(2000 + number)
    soak.begin()
    while not soak.stop.is_set():
        with soak.watched(f"vacuum {number}"):
            vacuum(storage_of(soak.path), soak.path, keep=draw.choice([1, 2, 5]), hours=KEPT_SECONDS / 3600)
            soak.count("vacuums")
        soak.stop.wait(draw.random())


def _session(*tables: Path) -> Any:
    from unshuffle import Session
    from unshuffle.spark.session import start

    spark = start("local[1]")
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    return Session(spark, tables=tables, effort="full")


# ----------------------------------------------------------------------------------------------------------------- main


def soaked(path: str, seconds: float, readers: int, arrow: bool, spark_readers: int = 0, quiet: bool = False) -> Soak:
    """The stream after two writers, some readers and two vacuums have used it for a while."""
    # Forked from a server without threads: the caller may have a JVM.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["unshuffle.sstream.check", "pyarrow.parquet"])
    soak = Soak(context, path)
    write_with_arrow(path, content(1, 0, 0), None)
    tasks: list[tuple[Callable[..., None], int]] = [(arrow_writer if arrow else spark_writer, n) for n in (1, 2)]
    tasks += [(reader, number) for number in range(readers)]
    tasks += [(vacuuming, number) for number in range(2)]
    tasks += [(spark_reader, spark_readers)] if spark_readers else []
    processes = [context.Process(target=run, args=(soak, number)) for run, number in tasks]
    for process in processes:
        process.start()
    soak.begin_all(len(processes))
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        time.sleep(min(SECONDS_BETWEEN_LINES, seconds))
        soak.collect()
        if not quiet:
            print(line(soak, time.monotonic() - begun), flush=True)
    soak.stop.set()
    while any(process.is_alive() for process in processes):
        soak.collect()  # a process ends only once its queue is read
        time.sleep(0.05)
    soak.collect()
    soak.problems += [f"a process ended with {p.exitcode}" for p in processes if p.exitcode]
    soak.problems += at_the_end(soak)
    return soak


def at_the_end(soak: Soak) -> Iterator[str]:
    """Each write that was reported is a version, nothing else is, and a vacuum leaves the files of the newest."""
    stream = open_stream(soak.path)
    if stream.version != 1 + soak.counts()["writes"]:
        yield f"{soak.counts()['writes']} writes were reported, and the newest version is {stream.version}"
    problem = problem_of(stream, read(stream))
    yield from [problem] if problem is not None else []
    yield from map(str, check(stream))
    vacuum(storage_of(soak.path), soak.path, hours=0)
    named = {file.path for file in stream.manifest.files()} | {manifest_name(stream.version)}
    left = {entry.name for entry in storage_of(soak.path).entries()} - named
    if left or versions(storage_of(soak.path)) != [stream.version]:
        yield f"vacuum left {sorted(left)}"


def line(soak: Soak, seconds: float) -> str:
    counts = ", ".join(f"{name} {count:,}" for name, count in soak.counts().items())
    return f"{seconds:5.0f} s: {counts}; violations {len(soak.problems)}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Two writers and many readers of one stream.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--arrow", action="store_true", help="writers without Spark")
    parser.add_argument("--spark-readers", type=int, default=0, help="threads of one Spark that read as well")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unshuffle-soak-") as folder:
        begun = time.monotonic()
        path = os.path.join(folder, "soak.ss")
        soak = soaked(path, 60 * given.minutes, given.readers, given.arrow, given.spark_readers)
        print(line(soak, time.monotonic() - begun))
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
