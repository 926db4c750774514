"""Draws the pictures of docs/partitioned-tables.md: how the parts of two tables meet, as `explain --format html` draws it.

`python tools/part_pictures.py` writes small tables into a temporary folder, plans a query over each two of them without
running it, and draws the plan's join: docs/images/parts-*.svg.
"""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unshuffle import Session
from unshuffle.explain.render.part_drawing import PartDrawing
from unshuffle.explain.render.part_style import picture
from unshuffle.explain.render.physical import PlanDrawing
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.why import reasons

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
FIRST = datetime.date(2026, 1, 1)
DAYS = np.datetime64(FIRST)
RANDOM = np.random.default_rng(1)
ORDERS, MONTHS, LAG = 400_000, 41, 5  # an order is shipped in its month or one of the next four


def numbers(rows: int, most: int = 4000) -> np.ndarray:
    return RANDOM.integers(0, most, rows, dtype=np.int32)


def write(folder: Path, **columns: np.ndarray) -> None:
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "0.parquet")


def day_folder(day: int) -> str:
    return f"day={FIRST + datetime.timedelta(days=day)}"


def months_of_orders(tables: Path) -> None:
    keys = np.arange(ORDERS)
    shipped = np.repeat(keys, 4)
    ship_months = shipped * MONTHS // ORDERS + numbers(len(shipped), LAG)
    for month in range(MONTHS):
        mine = keys[keys * MONTHS // ORDERS == month]
        customers, prices = numbers(len(mine)), numbers(len(mine))
        write(tables / "orders.parquet" / f"o_month={month}", o_key=mine, o_customer=customers, o_price=prices)
    for month in range(MONTHS + LAG - 1):
        mine = shipped[ship_months == month]
        write(tables / "shipments.parquet" / f"s_month={month}", s_key=mine, s_quantity=numbers(len(mine)))


def days_and_months(tables: Path) -> None:
    for month, (first, last, rows) in enumerate(((0, 31, 40_000), (31, 59, 120_000), (59, 90, 40_000)), 1):
        days = DAYS + np.sort(RANDOM.integers(first, last, rows))
        write(tables / "sales.parquet" / f"month={month}", day=days, user=numbers(rows), amount=numbers(rows))
    for day in range(90):
        if day % 5 != 4:  # these days have no folder
            rows = 6_000 if 31 <= day < 59 else 2_000
            write(tables / "visits.parquet" / day_folder(day), user=numbers(rows), pages=numbers(rows))


def regions_and_days(tables: Path) -> None:
    for day in range(30):
        for region in ("africa", "asia", "europe"):
            if region != "asia" or day >= 10:
                place = tables / "sales.parquet" / f"region={region}" / day_folder(day)
                write(place, user=numbers(2_000), amount=numbers(2_000))
        write(tables / "visits.parquet" / day_folder(day), user=numbers(4_000), pages=numbers(4_000))


JOINED = "from sales s left join visits v on s.day = v.day and s.user = v.user group by s.day"
# What writes the tables, the cores to plan for, and the query.
PICTURES: Mapping[str, tuple[Callable[[Path], None], int, str]] = {
    "months": (
        months_of_orders,
        2,
        "select o_customer, sum(s_quantity * o_price) as price from orders join shipments on o_key = s_key "
        "where o_month between 20 and 22 group by o_customer",
    ),
    "days": (days_and_months, 4, f"select s.day, sum(v.pages) as pages {JOINED}"),
    "regions": (regions_and_days, 4, f"select s.day, sum(v.pages) as pages {JOINED}"),
}


def drawn(tables: Path, cores: int, query: str) -> str:
    with Session(tables=tables, master=f"local[{cores}]") as session:
        script = session.pipeline.bind(query)
        (planned, *_) = session.pipeline.plan(script, session.pipeline.target(is_managed=False))
    text = ReasonText(PlanDrawing(planned), reasons(planned))
    (matched,) = text.reasons.matched
    return picture(PartDrawing(text.parts).matched(matched))


def main() -> None:
    for name, (write_tables, cores, query) in PICTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            write_tables(Path(folder))
            (IMAGES / f"parts-{name}.svg").write_text(drawn(Path(folder), cores, query), encoding="utf-8")


if __name__ == "__main__":
    main()
