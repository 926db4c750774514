"""Range boundaries chosen at plan time from statistics, or at run time from a sample: the order of plain Spark, and the
planned number of exchanges."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options, optimize
from unshuffle.plan import physical
from unshuffle.spark.execution import executed_plan_diff
from unshuffle.spark.lowering.lowering import lowering
from unshuffle.target import Target
from unshuffle.verify import verify

pytestmark = pytest.mark.spark
ROWS = 600
# Sorts are so expensive that even few rows are sorted in parallel. On the second machine scans are expensive too, so no
# sampling pass is worth it.
EXPENSIVE_SORTS = Machine(cores=4, sort_row=1e-2, compare=1e-2)
SCANS_TOO = Machine(cores=4, sort_row=1e-2, compare=1e-2, scan_row=1.0)

VALUES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "whole": (pa.int32(), lambda r: int(r.expovariate(1 / 50)) - 20),
    "long": (pa.int64(), lambda r: r.randrange(-(10**12), 10**12)),
    "real": (pa.float64(), lambda r: r.choice([float("nan"), -0.0, 0.0, r.gauss(0, 5), r.gauss(0, 5)])),
    "exact": (pa.decimal128(12, 2), lambda r: Decimal(r.randrange(-5000, 5000)).scaleb(-2)),
    "word": (pa.string(), lambda r: "".join(r.choice("abé￿𐀀") for _ in range(r.randrange(4)))),
    "raw": (pa.binary(), lambda r: bytes(r.choice((0, 1, 127, 128, 255)) for _ in range(r.randrange(4)))),
    "day": (pa.date32(), lambda r: datetime.date(2024, 1, 1) + datetime.timedelta(days=int(r.expovariate(1 / 40)))),
    "moment": (
        pa.timestamp("us", tz="UTC"),
        lambda r: datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=r.randrange(10**6)),
    ),
}


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("ranges")
    made = random.Random(7)
    columns = {
        name: pa.array([None if made.random() < 0.1 else one(made) for _ in range(ROWS)], type)
        for name, (type, one) in VALUES.items()
    }
    table = pa.table({**columns, "id": pa.array(range(ROWS), pa.int64())})
    for name in ("known", "unknown"):
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=100)
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    found = Session(spark, tables=folder, effort="full")
    found.analyze(folder / "known.parquet")
    yield found
    for name in ("known", "unknown"):
        spark.catalog.dropTempView(name)


def exchanges(session: Session, query: str, machine: Machine = SCANS_TOO) -> tuple[list[physical.Exchange], list[Any]]:
    """The exchanges of a query's plan, and its rows in Spark's order."""
    optimized = optimize(session.pipeline.bind(query), Options(Target(machine, is_managed=False)))
    verify(optimized)
    ((output, plan),) = optimized.outputs
    with lowering(session.spark, optimized) as lowered:
        frame = lowered.output(plan, [c.name for c in output.plan.columns])
    assert not executed_plan_diff.differences(
        executed_plan_diff.as_planned(optimized, lowered.spark_exchanges), executed_plan_diff.of_frame(frame)
    )
    return [node.operator for node in plan.walk() if isinstance(node.operator, physical.Exchange)], frame.collect()


@pytest.mark.parametrize("way", ["asc", "desc", "asc nulls last", "desc nulls first"])
@pytest.mark.parametrize("name", VALUES)
def test_rows_are_sorted_as_plain_spark_sorts_them(session: Session, name: str, way: str) -> None:
    query = f"select id, {name} from known where id % 7 <> 3 order by {name} {way}, id"
    (move,), rows = exchanges(session, query)
    assert not move.samples
    assert str(rows) == str(session.spark.sql(query).collect())


def test_ranges_are_even(session: Session) -> None:
    (move,), _ = exchanges(session, "select id, whole from known order by whole")
    number = move.how.scheme.function.number  # type: ignore[union-attr]
    sizes = [0] * move.how.scheme.function.partitions  # type: ignore[union-attr]
    for row in session.spark.sql("select whole from known").collect():
        sizes[number((row.whole,))] += 1
    assert len(sizes) == 4
    assert max(sizes) <= 1.5 * ROWS / 4


@pytest.mark.parametrize(
    "query",
    [
        "select id, whole from unknown order by whole, id",
        # A condition on another column may change the distribution, and sampling is cheap here.
        "select id, whole from known where id > 350 order by whole, id",
    ],
)
def test_boundaries_are_chosen_at_run_time_without_usable_statistics(session: Session, query: str) -> None:
    (move,), rows = exchanges(session, query, EXPENSIVE_SORTS)
    assert move.samples
    assert rows == session.spark.sql(query).collect()
