"""The TPC-DS workload: its 99 queries and its data.

DuckDB's texts are Spark SQL with one exception: eight of them put the names of output columns in double quotes (`AS "30
days"`), which Spark reads as strings. Double quotes have no other use in the texts, so backquotes replace them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from workloads import tpc

TABLES = (
    "call_center",
    "catalog_page",
    "catalog_returns",
    "catalog_sales",
    "customer",
    "customer_address",
    "customer_demographics",
    "date_dim",
    "household_demographics",
    "income_band",
    "inventory",
    "item",
    "promotion",
    "reason",
    "ship_mode",
    "store",
    "store_returns",
    "store_sales",
    "time_dim",
    "warehouse",
    "web_page",
    "web_returns",
    "web_sales",
    "web_site",
)


@cache
def _texts() -> tuple[tuple[int, str], ...]:
    return tuple((number, text.replace('"', "`")) for number, text in tpc.texts("tpcds"))


def queries() -> dict[int, str]:
    """Query number (1 to 99) to text, with DuckDB's parameters."""
    return dict(_texts())


def generate(folder: str | Path, scale: float) -> None:
    """Writes every table as `folder/NAME.parquet`. Does nothing if all exist, at any scale."""
    tpc.generate("tpcds", TABLES, folder, scale)
