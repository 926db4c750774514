"""Computes the CPU hours of each user group a second time, with different SQL in plain Spark, and compares the results.

    python examples/cpu_hours/check.py --data DATA --result OUT/cpu_hours.csv --today 2025-06-30

The script removes duplicates with DISTINCT and joins. This program groups each side by process, pairs starts with ends in
one union, and never joins. It relies on the generator: a process has one start and at most one end.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

Hours = dict[str | None, float]

QUERY = """
WITH events AS (
    SELECT process_guid, event_time AS started_at, NULL AS ended_at, NULL AS user_group
    FROM parquet.`{data}/started` WHERE Date BETWEEN DATE'{first}' AND DATE'{last}'
    UNION ALL
    SELECT process_guid, NULL, event_time, user_group
    FROM parquet.`{data}/ended` WHERE Date BETWEEN DATE'{first}' AND DATE'{last}'
), processes AS (
    SELECT max(started_at) AS started_at, max(ended_at) AS ended_at, max(user_group) AS user_group
    FROM events GROUP BY process_guid
)
SELECT user_group, round(sum(ended_at - started_at) / 3600000, 3) AS hours
FROM processes WHERE started_at IS NOT NULL AND ended_at IS NOT NULL
GROUP BY user_group
"""


def expected(spark: SparkSession, data: str | Path, today: datetime.date, days: int = 30) -> Hours:
    """Hours by user group, over the files that the script reads."""
    query = QUERY.format(data=data, first=today - datetime.timedelta(days=days), last=today)
    return {row.user_group: row.hours for row in spark.sql(query).collect()}


def written(result: str | Path) -> Hours:
    """The output of the script: a CSV file, or a folder of part files. An empty field is NULL."""
    result = Path(result)
    files = sorted(result.glob("part-*")) if result.is_dir() else [result]
    hours: Hours = {}
    for file in files:
        with open(file, encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                hours[row["user_group"] or None] = float(row["hours"])
    return hours


def differences(expected: Hours, written: Hours) -> list[str]:
    """One line for each user group whose hours differ."""
    groups = sorted(expected.keys() | written.keys(), key=lambda group: group or "")
    return [
        f"{group or 'NULL'}: expected {expected.get(group)}, written {written.get(group)}"
        for group in groups
        if expected.get(group) != written.get(group)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--result", required=True)
    parser.add_argument("--today", required=True, type=datetime.date.fromisoformat)
    parser.add_argument("--days", type=int, default=30)
    options = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        there = expected(spark, options.data, options.today, options.days)
    finally:
        spark.stop()
    different = differences(there, written(options.result))
    print("\n".join(different) if different else f"the same hours for all {len(there)} user groups")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
