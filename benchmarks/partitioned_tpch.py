"""TPC-H on partitioned orders and lineitem: `python benchmarks/partitioned_tpch.py [--scheme NAME]... [--query N]...`.

    months      orders by month of o_orderdate, lineitem by month of l_shipdate: a folder each
    quarters    orders by quarter of o_orderdate, lineitem by month of l_shipdate: a folder each
    keys        both in files by ranges of the order key: 24 of orders, 40 of lineitem
    both        folders by year of these dates, and in each folder files by ranges of the order key: 4 and 6

The queries are those of TPC-H that join the two tables. None mentions a folder column: that a folder has a month of
o_orderdate is known by the footers of its files. The other tables are one file each. Primary keys are declared.

Plain Spark runs under its default settings, with 8 shuffle partitions, on the same folders. Both sides run once before they
are measured, and then alternate. A side's time is the best of its runs, and ours includes reading the query, optimizing and
lowering. The rows are computed and dropped; the rows of both sides are compared once.

`benchmarks/results/partitioned_tpch.json` gets every number, `partitioned_tpch.png` the figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812 - as everybody writes it
from rich.console import Console  # noqa: E402

from benchmarks.execute import DATA, drawn, measured, show, started  # noqa: E402
from benchmarks.partitioned_tables import sides  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle import Session  # noqa: E402
from unshuffle.frozen import dataclass  # noqa: E402
from workloads import tpch  # noqa: E402

QUERIES = (3, 4, 5, 7, 10, 12, 18)
DATES = {"orders": "o_orderdate", "lineitem": "l_shipdate"}
ORDER_KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
UNITS = {"month": "yyyyMM", "quarter": "yyyyQ", "year": "yyyy"}


@dataclass(frozen=True, slots=True)
class Parts:
    """How a table is stored: in folders by a unit of its date, in files by ranges of the order key, or in both."""

    unit: str | None = None
    ranges: int | None = None

    def write(self, table: str, rows: DataFrame, folder: Path) -> None:
        if self.ranges is not None:
            rows = rows.repartitionByRange(self.ranges, ORDER_KEYS[table])
        if self.unit is None:
            rows.sortWithinPartitions(ORDER_KEYS[table]).write.mode("overwrite").parquet(str(folder))
            return
        rows = rows.withColumn(self.unit, F.date_format(DATES[table], UNITS[self.unit]).cast("int"))
        if self.ranges is None:
            rows = rows.repartition(self.unit)
        rows = rows.sortWithinPartitions(self.unit, ORDER_KEYS[table])
        rows.write.mode("overwrite").partitionBy(self.unit).parquet(str(folder))


SCHEMES = {
    "months": {"orders": Parts("month"), "lineitem": Parts("month")},
    "quarters": {"orders": Parts("quarter"), "lineitem": Parts("month")},
    "keys": {"orders": Parts(ranges=24), "lineitem": Parts(ranges=40)},
    "both": {"orders": Parts("year", 4), "lineitem": Parts("year", 6)},
}


def use_tables(spark: SparkSession, scheme: str, scale: float, console: Console) -> None:
    """Every table as a view: orders and lineitem as the scheme stores them, which is kept for later runs."""
    plain = DATA / f"tpch-{scale:g}"
    tpch.generate(plain, scale)
    for table in tpch.TABLES:
        folder = plain / f"{table}.parquet"
        if table in SCHEMES[scheme]:
            stored = DATA / f"tpch-{scale:g}-{scheme}" / table
            if not (stored / "_SUCCESS").exists():
                console.print(f"writing {stored}")
                SCHEMES[scheme][table].write(table, spark.read.parquet(str(folder)), stored)
            folder = stored
        spark.read.parquet(str(folder)).createOrReplaceTempView(table)


def measured_scheme(spark: SparkSession, scheme: str, chosen: argparse.Namespace, console: Console) -> list[Any]:
    use_tables(spark, scheme, chosen.scale, console)
    session, queries = Session(spark), tpch.queries()
    for table, key in tpch.KEYS.items():
        session.declare_key(table, *key)
    return [
        {
            **measured(f"Q{n} {scheme}", sides(spark, session, queries[n]), spark, chosen.runs, console, warm=True),
            "size": chosen.scale,
        }
        for n in chosen.query or QUERIES
    ]


def main() -> None:
    options = argparse.ArgumentParser(description="TPC-H on partitioned tables: plain Spark beside unshuffle.")
    options.add_argument("--scheme", action="append", choices=SCHEMES, help="only this one; may be repeated")
    options.add_argument("--query", action="append", type=int, help="only this one; may be repeated")
    options.add_argument("--scale", type=float, default=1.0, help="of the TPC-H data")
    options.add_argument("--runs", type=int, default=3, help="of each side of each query")
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    spark = started()
    found = {scheme: measured_scheme(spark, scheme, chosen, console) for scheme in chosen.scheme or SCHEMES}
    show(found, console)
    benchmark_report.write("partitioned_tpch", {"suites": found}, drawn, parts="suites", spark=spark.version)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
