"""Tables in folders and buckets against plain Spark on the same files: `python benchmarks/partitioned_tables.py [--rows N]`.

    daily       two tables in daily folders, joined on (day, user) and grouped
    three       three such tables
    week        the same two tables, one week of ninety days
    buckets     tables of 8 and 12 buckets, joined on the bucket column and grouped by it
    quarter     orders by month with four times as many shipments by ship month, up to four months later; one quarter
    months      the same, all months
    opposite    monthly folders of online and store sales, joined on (month, user): online has nine of ten rows in one half
                of the year, stores have them in the other
    skewed      monthly folders LEFT JOIN daily folders on (day, user): one month of three has 60 % of
                the rows, and every fifth day has none on the right

Plain Spark runs under its default settings, with 8 shuffle partitions and without broadcasts: with them, so few rows would
not be shuffled by either side. Both sides alternate. A side's time is the best of its runs, and ours includes reading the
query, optimizing and lowering. The rows are computed and dropped; the rows of both sides are compared once.

`benchmarks/results/partitioned_tables.json` gets every number, `partitioned_tables.png` the figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package

from pyspark.sql import SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402

from benchmarks.execute import DATA, Action, Side, drawn, measured, show, started  # noqa: E402
from tools import benchmark_report  # noqa: E402
from unshuffle import Session  # noqa: E402

DAYS = 90
ROWS = """select id, cast(pmod(hash(id, {salt}), {users}) as int) as user, cast(pmod(hash(id), 1000) as int) as amount,
    date_add(date'2026-01-01', cast(pmod(hash(id, 7), {days}) as int)) as day from range({rows})"""
QUERIES = {
    "daily": """select v.day, v.user, count(*) as visits, sum(b.amount) as amount
        from visits v join bought b on v.day = b.day and v.user = b.user group by v.day, v.user""",
    "three": """select v.day, count(*) as visits, sum(b.amount + r.amount) as amount
        from visits v join bought b on v.day = b.day and v.user = b.user
        join returned r on b.day = r.day and b.user = r.user group by v.day""",
    "week": """select v.day, v.user, count(*) as visits, sum(b.amount) as amount
        from visits v join bought b on v.day = b.day and v.user = b.user
        where v.day between '2026-02-01' and '2026-02-07' group by v.day, v.user""",
    "buckets": """select v.user, count(*) as visits, sum(b.amount) as amount
        from visits_8 v join bought_12 b on v.user = b.user and v.day = b.day group by v.user""",
    "quarter": """select o_customer, sum(s_quantity * o_price) as price, count(*) as shipments
        from orders join shipments on o_key = s_key where o_month between 20 and 22 group by o_customer""",
    "months": """select o_customer, sum(s_quantity * o_price) as price, count(*) as shipments
        from orders join shipments on o_key = s_key group by o_customer""",
    "opposite": """select o.kind, count(*) as pairs, sum(o.amount * s.amount) as amount
        from online o join stores s on o.month = s.month and o.user = s.user group by o.kind""",
    "skewed": """select s.day, count(*) as sold, sum(b.amount) as amount, count(b.user) as matched
        from sales s left join some_days b on s.day = b.day and s.user = b.user group by s.day""",
}
MONTHS = 41
LAG = 5  # an order is shipped in its month or one of the next four
ORDERS = """select id as o_key, cast(id * {months} div {rows} as int) as o_month,
    cast(pmod(hash(id, 3), 100000) as int) as o_customer, cast(pmod(hash(id, 4), 1000) as int) as o_price,
    repeat(hex(hash(id)), 3) as o_comment from range({rows})"""
SHIPMENTS = """select s_key, cast(s_key * {months} div {rows} as int) + cast(pmod(hash(id, 5), {lag}) as int) as s_month,
    cast(pmod(hash(id, 6), 100) as int) as s_quantity, cast(pmod(hash(id, 7), 1000) as int) as s_mode
    from (select id, pmod(xxhash64(id), {rows}) as s_key from range({rows} * 4))"""
SALES = """select id, cast(pmod(hash(id, 1), {users}) as int) as user, cast(pmod(hash(id, 2), 1000) as int) as amount,
    if(id % 10 < 6, 2, if(id % 10 < 8, 1, 3)) as month,
    date_add(make_date(2026, if(id % 10 < 6, 2, if(id % 10 < 8, 1, 3)), 1), cast(pmod(hash(id, 3), 28) as int)) as day
    from range({rows})"""
# A month of one half of the year has a sixth of nine tenths of the rows, one of the other half of the remaining tenth.
HALVES = """select id, cast(pmod(hash(id, {salt}), {users}) as int) as user, cast(pmod(hash(id), 1000) as int) as amount,
    concat('kind ', pmod(hash(id, 4), 50)) as kind,
    cast(pmod(hash(id, 5), 6) as int) + if((id % 10 < 9) = {first}, 1, 7) as month from range({rows})"""
BUCKETED = {"visits": 8, "bought": 12}


def write_tables(spark: SparkSession, rows: int, console: Console) -> None:
    """Tables in folders, kept for later runs, and in buckets."""
    users = max(1, rows // 50)
    texts = {
        name: (ROWS.format(salt=salt, users=users, rows=rows, days=DAYS), "day")
        for salt, name in enumerate(("visits", "bought", "returned"))
    }
    texts["orders"] = ORDERS.format(rows=rows, months=MONTHS), "o_month"
    texts["shipments"] = SHIPMENTS.format(rows=rows, months=MONTHS, lag=LAG), "s_month"
    texts["sales"] = SALES.format(rows=rows, users=users), "month"
    texts["some_days"] = f"select * from ({SALES.format(rows=rows, users=users)}) where day(day) % 5 <> 0", "day"
    for salt, (name, first) in enumerate((("online", "true"), ("stores", "false"))):
        texts[name] = HALVES.format(salt=salt, users=max(1, rows // 10), rows=rows, first=first), "month"
    for name, (text, column) in texts.items():
        folder = DATA / f"partitioned-{rows}" / name
        if not (folder / "_SUCCESS").exists():
            console.print(f"generating {folder}")
            spark.sql(text).repartition(column).write.mode("overwrite").partitionBy(column).parquet(str(folder))
        spark.read.parquet(str(folder)).createOrReplaceTempView(name)
    for name, buckets in BUCKETED.items():
        path = DATA / f"partitioned-{rows}" / f"{name}_{buckets}"
        spark.sql(f"drop table if exists {name}_{buckets}")
        writer = spark.table(name).repartition(buckets, "user").write.mode("overwrite").option("path", str(path))
        writer.bucketBy(buckets, "user").saveAsTable(f"{name}_{buckets}")


def sides(spark: SparkSession, session: Session, query: str) -> dict[str, Side]:
    def plain(action: Action) -> Any:
        return action([spark.sql(query)], nullcontext)

    def ours(action: Action) -> Any:
        return action([session.sql(query)], nullcontext)

    return {"plain": plain, "ours": ours}


def main() -> None:
    options = argparse.ArgumentParser(description="Tables in folders and buckets: plain Spark beside unshuffle.")
    options.add_argument("--query", action="append", choices=QUERIES, help="only this one; may be repeated")
    options.add_argument("--rows", type=int, default=5_000_000, help="of each table")
    options.add_argument("--runs", type=int, default=5, help="of each side of each query")
    chosen = options.parse_args()
    console, began = Console(), time.perf_counter()
    spark = started()
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    write_tables(spark, chosen.rows, console)
    session = Session(spark)
    found = [
        {
            **measured(name, sides(spark, session, QUERIES[name]), spark, chosen.runs, console, warm=True),
            "size": chosen.rows,
        }
        for name in chosen.query or QUERIES
    ]
    show({"partitioned tables": found}, console)
    benchmark_report.write(
        "partitioned_tables", {"suites": {"partitioned tables": found}}, drawn, parts="suites", spark=spark.version
    )
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
