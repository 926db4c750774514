"""Small files for scripts to read, and a way to bind a text without a JVM."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle.catalog.tables import TableFolders
from unshuffle.declarations import Declarations
from unshuffle.errors import Source
from unshuffle.language.bind.context import unchecked
from unshuffle.language.bind.script import bind
from unshuffle.language.parse.parameters import Parameters
from unshuffle.plan.logical import Script
from workloads.no_spark import NoSpark

Bind = Callable[..., Script]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """orders(o_id, customer, amount, placed, note), customers(c_id, name, region), wide(...nested...)."""
    folder = tmp_path_factory.mktemp("data")
    pq.write_table(
        pa.table(
            {
                "o_id": pa.array([1, 2, 3, 4], pa.int64()),
                "customer": pa.array([10, 10, 20, None], pa.int32()),
                "amount": pa.array([1, 2, 3, None], pa.decimal128(10, 2)),
                "placed": pa.array([datetime.date(2024, 1, 1)] * 4),
                "note": pa.array(["a", None, "ü", "d"]),
            }
        ),
        folder / "orders.parquet",
    )
    pq.write_table(
        pa.table({"c_id": pa.array([10, 20], pa.int32()), "name": ["ann", "bob"], "region": ["north", None]}),
        folder / "customers.parquet",
    )
    pq.write_table(
        pa.table(
            {
                "id": [1, 2],
                "flag": [True, False],
                "tags": [["x", "y"], []],
                "place": [{"city": "Oslo", "zip": 1}, None],
                "price": [1.5, float("nan")],
            }
        ),
        folder / "wide.parquet",
    )
    return folder


@pytest.fixture
def bound(data: Path) -> Bind:
    """Binds a script (or, with is_script off, queries) over the tables in `data`."""

    def run(text: str, *, is_script: bool = False, name: str = "test.scope", **params: object) -> Script:
        parameters = Parameters(params, today=datetime.date(2024, 3, 1))
        tables = TableFolders((str(data),))
        return Declarations().check(bind(Source(name, text), parameters, tables, NoSpark(), unchecked, is_script))

    return run
