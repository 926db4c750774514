"""The TPC-H workload: its 22 queries and its data. Spark 4 runs all 22 texts unchanged."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from workloads import tpc

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")

# The specification's primary keys, for plans that may use them.
KEYS = {
    "customer": ("c_custkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
    "nation": ("n_nationkey",),
    "orders": ("o_orderkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "region": ("r_regionkey",),
    "supplier": ("s_suppkey",),
}


@cache
def _texts() -> tuple[tuple[int, str], ...]:
    return tpc.texts("tpch")


def queries() -> dict[int, str]:
    """Query number (1 to 22) to text, with the validation parameters of the specification."""
    return dict(_texts())


def generate(folder: str | Path, scale: float) -> None:
    """Writes every table as `folder/NAME.parquet`. Does nothing if all exist, at any scale."""
    tpc.generate("tpch", TABLES, folder, scale)
