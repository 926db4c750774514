"""Holds the TPC-H and TPC-DS queries against plain Spark: as SQL and as DataFrames.

    python tools/agreement.py                        both suites
    python tools/agreement.py --suite tpcds --query 5 14

For each query it compares column names, types and nullability, the rows, and their order. Rows that tie in the ORDER BY of a
query may come in any order, and a LIMIT may keep any of them: there only the values of the ORDER BY are compared. The program
ends with 1 if something differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from math import isclose
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import sqlglot  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from sqlglot import exp  # noqa: E402

from tools.hunt import start  # noqa: E402
from unshuffle import NotOptimizedWarning, Session  # noqa: E402
from workloads import tpcds, tpch  # noqa: E402

SUITES = {"tpch": tpch, "tpcds": tpcds}
Row = tuple[Any, ...]


def shape(frame: DataFrame) -> list[tuple[str, Any, bool]]:
    return [(field.name, field.dataType, field.nullable) for field in frame.schema.fields]


def rounded(row: Row) -> Row:
    """Sums of floats depend on the order of rows."""
    return tuple(float(f"{value:.9e}") if isinstance(value, float) else value for value in row)


def order_places(text: str, columns: list[str]) -> list[int]:
    """The output columns that the query is ordered by, up to the first key that is not one."""
    order = sqlglot.parse_one(text.rstrip("; \n"), dialect="spark").args.get("order")
    places: list[int] = []
    names = [name.lower() for name in columns]
    for key in order.expressions if order is not None else ():
        node = key.this
        if isinstance(node, exp.Literal) and not node.is_string:
            places.append(int(node.name) - 1)
        elif isinstance(node, exp.Column) and node.name.lower() in names:
            places.append(names.index(node.name.lower()))
        else:
            break
    return places


def difference(text: str, ours: DataFrame, plain: DataFrame) -> str | None:
    """What is not as in plain Spark."""
    if shape(ours) != shape(plain):
        return f"schema: {[pair for pair in zip(shape(ours), shape(plain), strict=False) if pair[0] != pair[1]]}"
    found, expected = ([rounded(tuple(row)) for row in frame.collect()] for frame in (ours, plain))
    if found == expected:
        return None
    places = order_places(text, plain.columns)
    keys = [[tuple(row[i] for i in places) for row in rows] for rows in (found, expected)]
    if len(found) != len(expected) or not all(map(same, *keys)):
        return f"order or number of rows: {len(found)} and {len(expected)}"
    if Counter(map(repr, found)) == Counter(map(repr, expected)):
        return None
    last = keys[1][-1] if places else None
    untied = [Counter(repr(row) for row, key in zip(rows, each, strict=True) if places and key != last)
              for rows, each in zip((found, expected), keys, strict=True)]  # fmt: skip
    if places and untied[0] == untied[1]:
        return None  # rows that tie at the LIMIT
    return f"rows: {[pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]][:2]}"


def same(one: Row, other: Row) -> bool:
    return all(
        isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(one, other, strict=True)
    )


def check(spark: SparkSession, name: str, wanted: list[int], scale: float, folder: Path) -> list[str]:
    suite = SUITES[name]
    suite.generate(folder / name, scale)
    for table in suite.TABLES:
        spark.read.parquet(str(folder / name / f"{table}.parquet")).createOrReplaceTempView(table)
    session = Session(spark, effort="full")
    problems: list[str] = []
    understood = asked = 0
    for number, text in suite.queries().items():
        if wanted and number not in wanted:
            continue
        plain = spark.sql(text)
        for way in ("sql", "frame"):
            asked += 1
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always", NotOptimizedWarning)
                ours = session.sql(text) if way == "sql" else session.optimize(spark.sql(text))
            problem = difference(text, ours, plain)
            faults = [str(each.message) for each in warned if issubclass(each.category, NotOptimizedWarning)]
            understood += not faults and not session.fallbacks
            problems += [f"{name} {number} as {way}: {each}" for each in (problem, *faults) if each is not None]
        print(f"{name} {number}: {len(problems)} problems so far", flush=True)
    print(f"{name}: {asked} answers, {understood} without any fallback, {len(problems)} problems", flush=True)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", choices=SUITES, action="append")
    parser.add_argument("--query", type=int, nargs="*", default=[])
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--data", type=Path, default=ROOT / ".cache" / "agreement")
    given = parser.parse_args()
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        spark = start(Path(name))
        spark.conf.set("spark.sql.shuffle.partitions", "4")
        for suite in given.suite or SUITES:
            problems += check(spark, suite, given.query, given.scale, given.data)
    print("\n".join(problems) or "all answers are plain Spark's")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
