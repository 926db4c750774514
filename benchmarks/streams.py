"""Stored layouts against plain Spark on the same files: `python benchmarks/streams.py [--figure NAME]... [--rows N]`.

The experiments of SIGMOD 2012, section 5, on web pages with skewed domains, stored in ranges of (domain, host, dir):

    partial   Figure 9: grouped by (domain, host), with aggregates that have no partial aggregation
    union     Figure 10: the union of four streams with different boundaries, grouped in the same way
    joins     two such streams joined on (domain, host), and 100 and 40 buckets joined on (domain, host, dir); with fewer
              than about five million rows, plain Spark broadcasts an input and shuffles nothing either
    split     100 buckets read as the 200 of another stream, joined, grouped, and the result merged into 50
              (planned with a hundredth of the usual task start cost: for so few rows, 50 from the start are cheaper)

Plain Spark reads the same files, under its default settings except for 8 shuffle partitions. Both sides alternate. A side's
time is the best of its runs, and ours includes binding, optimizing and lowering. The rows are computed and dropped; the
rows of both sides are compared once.

`benchmarks/results/streams.json` gets every number, `streams.png` the figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812 - as everybody writes it
from rich.console import Console  # noqa: E402

from benchmarks.execute import DATA, drawn, measured, ours, show, started  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle import Session  # noqa: E402
from unshuffle.errors import Source  # noqa: E402
from unshuffle.partitions import Ranges  # noqa: E402
from unshuffle.pipeline import Pipeline  # noqa: E402
from unshuffle.search.layouts import alignment, range_layouts  # noqa: E402
from unshuffle.sstream import open_stream  # noqa: E402

Found = list[dict[str, Any]]

# Exact percentiles, and a hand-written average without the lowest and the highest tenth: none has a partial aggregate.
AGGREGATES = """
    count(*) as pages,
    percentile(size, 0.5) as middle,
    percentile(size, array(0.1, 0.9)) as most,
    percentile(quality, 0.99) as best,
    aggregate(slice(array_sort(collect_list(clicks)), cast(count(clicks) * 0.1 as int) + 1,
                    cast(count(clicks) * 0.8 as int) + 1), 0L, (sum, x) -> sum + x) as usual_clicks
"""
GROUPED = "select domain, host, {aggregates} from {table} group by domain, host"

SPLIT = """
    select p.domain, count(*) as pages, percentile(p.size / h.pages, array(0.1, 0.5, 0.9)) as sizes,
        percentile(p.quality, 0.5) as middle
    from {table} group by p.domain
"""


def pages(spark: SparkSession, rows: int, seed: int, first: int = 0, domains: int = 20_000) -> DataFrame:
    """Pages with skewed domains: the first domain has about a twentieth of the pages."""
    domain = F.lit(first) + (F.pow(F.rand(seed), 4) * domains).cast("int")
    named = spark.range(rows).select(
        F.format_string("d%06d.com", domain).alias("domain"),
        (F.pow(F.rand(seed + 1), 2) * 40).cast("int").alias("host_number"),
        F.format_string("/%03d/%04d", (F.rand(seed + 2) * 40).cast("int"), (F.rand(seed + 3) * 900).cast("int")).alias(
            "dir"
        ),
        (F.exp(F.randn(seed + 4)) * 20_000).cast("bigint").alias("size"),
        F.round(F.rand(seed + 5), 4).alias("quality"),
        (F.rand(seed + 6) * 1000).cast("bigint").alias("clicks"),
    )
    return named.select(
        "domain",
        F.format_string("h%02d.%s", "host_number", "domain").alias("host"),
        "dir",
        "size",
        "quality",
        "clicks",
    )


class Benchmark:
    def __init__(self, spark: SparkSession, rows: int, runs: int, console: Console) -> None:
        self.spark, self.rows, self.runs, self.console = spark, rows, runs, console
        self.folder = DATA / f"streams-{rows}"
        self.session = Session(spark)

    def stream(self, name: str, frame: DataFrame, **layout: Any) -> None:
        """Writes a stream if it does not exist, and registers it with both sides."""
        path = self.folder / f"{name}.ss"
        if not path.exists():
            self.console.print(f"writing {path}")
            self.session.write_stream(frame, path, **layout)
        self.spark.read.parquet(*open_stream(str(path)).paths).createOrReplaceTempView(name)

    def prepared(self) -> Session:
        return Session(self.spark, tables=self.folder)

    def run(self, name: str, query: str, into: tuple[str, int] | None = None) -> dict[str, Any]:
        """Runs both sides of a query. `into` is the clustering of the result, and its number of partitions."""
        session = self.prepared()

        @contextmanager
        def plain() -> Iterator[list[DataFrame]]:
            frame = self.spark.sql(query)
            yield [frame if into is None else frame.repartition(into[1], into[0])]

        def bound() -> Any:
            if into is None:
                return session.pipeline.bind(query)
            target = f'"{self.folder}/none.ss" HASH CLUSTERED BY {into[0]} INTO {into[1]}'
            script = Source(name, f"found = {query}; OUTPUT found TO SSTREAM {target};")
            return session.pipeline.bind_source(script, None, is_script=True)

        sides: Any = {"plain": plain, "ours": partial(ours, session, bound)}
        found = measured(name, sides, self.spark, self.runs, self.console)
        with session.pipeline.executing(bound()) as execution:
            return {**found, "size": self.rows, "fallbacks": list(execution.fallbacks)}

    # --- the figures

    def partial(self) -> Found:
        self.stream(
            "pages", pages(self.spark, self.rows, 1), clustered_by=("domain", "host", "dir"), partitions=64, ranged=True
        )
        return [self.run("grouped", GROUPED.format(aggregates=AGGREGATES, table="pages"))]

    def union(self) -> Found:
        rows = self.rows // 4
        for i in range(4):
            # The streams have mostly different domains, so the boundaries of one fit the others badly.
            frame = pages(self.spark, rows, 10 * i + 11, first=6000 * i)
            self.stream(f"pages{i}", frame, clustered_by=("domain", "host", "dir"), partitions=16, ranged=True)
        together = "(" + " union all ".join(f"select * from pages{i}" for i in range(4)) + ")"
        query = GROUPED.format(aggregates=AGGREGATES, table=together)
        found = [self.run("common ranges", query)]
        with patch.object(alignment, "common_ranges", _first_ranges):
            found.append(self.run("ranges of one", query))
        for each in found:
            each["largest_to_average"] = round(self._skew(each["name"] == "ranges of one"), 2)
            self.console.print(f"{each['name']}: largest / average partition {each['largest_to_average']}")
        return found

    def _skew(self, of_first: bool) -> float:
        """The largest partition over the average one, from the histograms of the four streams."""
        histograms = [open_stream(str(self.folder / f"pages{i}.ss")).manifest.histogram for i in range(4)]
        together = histograms[0].union(*histograms[1:])
        layout = range_layouts.Spread((), histograms[0] if of_first else together)._divided(2, 16)
        assert layout is not None
        sizes = [together.rows_in(each) for each in Ranges(layout.keys, layout.boundaries)]  # type: ignore[arg-type]
        return max(sizes) / (sum(sizes) / len(sizes))

    def joins(self) -> Found:
        rows = self.rows // 4
        for i in range(2):
            frame = pages(self.spark, rows, 10 * i + 71, first=3000 * i)
            frame = frame.groupBy("domain", "host", "dir").agg(F.sum("size").alias("size"))
            self.stream(f"dirs{i}", frame, clustered_by=("domain", "host", "dir"), partitions=16 + 5 * i, ranged=True)
        for count in (100, 40):
            frame = pages(self.spark, rows, count).groupBy("domain", "host", "dir").agg(F.sum("size").alias("size"))
            self.stream(f"buckets_of_dirs{count}", frame, clustered_by="domain", partitions=count)
        ranged = """select a.domain, a.host, a.dir, a.size, b.dir as other_dir, b.size as other
            from dirs0 a join dirs1 b on a.domain = b.domain and a.host = b.host"""
        # On (domain, host) alone the join would return 2,400 million rows, because the same hosts have most rows of
        # both inputs.
        hashed = """select a.domain, a.host, a.dir, a.size, b.size as other
            from buckets_of_dirs100 a join buckets_of_dirs40 b
            on a.domain = b.domain and a.host = b.host and a.dir = b.dir"""
        return [self.run("ranges joined", ranged), self.run("buckets joined", hashed)]

    def split(self) -> Found:
        rows = self.rows // 4
        frame = pages(self.spark, rows, 91)
        self.stream("pages200", frame, clustered_by="domain", sorted_by=("domain", "host"), partitions=200)
        frame = frame.groupBy("domain", "host").agg(F.count("*").alias("pages"))
        self.stream("hosts100", frame, clustered_by="domain", sorted_by=("domain", "host"), partitions=100)
        table = "pages200 p join hosts100 h on p.domain = h.domain and p.host = h.host"
        # As if each task had a hundred times as much work, which justifies starting as many.
        with patch.object(Pipeline, "target", _quickly_started(Pipeline.target)):
            return [self.run("100 as 200, into 50", SPLIT.format(table=table), into=("domain", 50))]


def _quickly_started(target: Callable[..., Any]) -> Callable[..., Any]:
    def quick(pipeline: Pipeline, is_managed: bool = True) -> Any:
        found = target(pipeline, is_managed)
        return replace(found, machine=replace(found.machine, task=found.machine.task / 100))

    return quick


def _first_ranges(each: Any, joint: Any, count: int) -> Iterator[Any]:
    """Uses the ranges of the first input instead of common ranges for all inputs."""
    spread = each.inputs[0].spreads[0]
    layout = spread.divided(2, 16)
    for place in range(len(each.inputs)):
        if place == 0:
            names = {key.columns[0]: key for key in joint.keys}
            keys = [names[column] for column in layout.columns]
            yield tuple(
                type(layout)(layout.function, tuple(key.columns[side] for key in keys))
                for side in range(len(each.inputs))
            )


FIGURES = ("partial", "union", "joins", "split")


def main() -> None:
    options = argparse.ArgumentParser(description="Stored layouts beside plain Spark on the same files.")
    options.add_argument("--figure", action="append", choices=FIGURES, help="only this one; may be repeated")
    options.add_argument("--rows", type=int, default=10_000_000, help="of the pages of a figure")
    options.add_argument("--runs", type=int, default=3, help="of each side")
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    spark = started()
    benchmark = Benchmark(spark, chosen.rows, chosen.runs, console)
    found = {figure: getattr(benchmark, figure)() for figure in chosen.figure or FIGURES}
    show(found, console)
    benchmark_report.write(
        "streams", {"rows": chosen.rows, "figures": found}, drawn, parts="figures", spark=spark.version
    )
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
