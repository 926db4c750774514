"""Tables whose row groups have bounds, from folders and footers, joined in place: the rows of plain Spark, by whatever plan.

The partitionings are generated: ranges, lists, hashes and several columns, with gaps, overlaps, NULLs and empty parts."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.hunt.plans import other_costs, pipeline_of, session_of
from tests.support.part_rows import SCHEMA, row
from unshuffle.plan import physical

pytestmark = pytest.mark.spark

TABLES = 7
QUERIES = 24
COSTS = 2


def parts(random: Random, kind: str) -> Iterator[list[int | None]]:
    """The keys of each part."""
    wide = random.choice((4, 8))
    for part in range(random.randrange(3, 8)):
        low = part * wide
        match kind:
            case "ranges":
                keys: list[int | None] = [random.randrange(low, low + wide) for _ in range(12)]
            case "overlapping":
                keys = [random.randrange(max(0, low - wide), low + 2 * wide) for _ in range(12)]
            case "gaps":
                keys = [random.randrange(2 * low, 2 * low + wide) for _ in range(8)]
            case "lists":
                keys = random.choices((part, part + 20, part + 40), k=10)
            case _:
                keys = [7 * part + 5 * each for each in range(10)]
        if random.random() < 0.3:
            keys += [None] * random.randrange(1, 4)
        yield [] if random.random() < 0.15 else [None] * 3 if random.random() < 0.1 else keys


def write(folder: Path, random: Random, kind: str, in_folders: bool) -> None:
    number = 0
    for part, keys in enumerate(parts(random, kind)):
        rows = [row(random, number + i, key) for i, key in enumerate(keys)]
        number += len(rows)
        place = folder / f"part={part % 3}" / f"day={part // 2}" if in_folders else folder
        place.mkdir(parents=True, exist_ok=True)
        random.shuffle(rows)
        table = pa.Table.from_pylist(rows, SCHEMA)
        if not in_folders:
            table = table.append_column("day", pa.array([part // 2] * len(rows), pa.int32()))
        pq.write_table(table, place / f"{part}.parquet", row_group_size=random.choice((5, 1000)))


@pytest.fixture(scope="module")
def names(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    folder, random, found = tmp_path_factory.mktemp("bounded"), Random(20), []
    for number in range(TABLES):
        name = f"bounded_{number}"
        kind = ("ranges", "ranges", "gaps", "overlapping", "ranges", "steps", "lists")[number]
        write(folder / name, random, kind, in_folders=number % 2 == 1)
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
        found.append(name)
    yield found
    for name in found:
        spark.catalog.dropTempView(name)


KINDS = ("join", "left join", "right join", "full join", "left semi join", "left anti join")
CONDITIONS = (
    "x.k = y.k",
    "x.k = y.n",
    "x.d = y.d",
    "x.k <=> y.k",
    "x.t = y.t",
    "x.m = y.m",
    "x.day = y.day",
    "x.k = y.k and x.d = y.d",
    "x.k = y.k and x.n < y.n",
    "x.k < y.n and x.s = y.s",
    "(x.k = y.k or x.d = y.d) and x.s = y.s",
    "x.d between y.d and date_add(y.d, 1) and x.f = y.f",
    "x.s = y.s and x.k >= y.k",
)
FILTERS = (
    "x.k between 5 and 17",
    "x.k is null or x.k > 9",
    "x.d >= '2026-01-30'",
    "x.n in (1, 2, 3)",
    "x.s < 'b'",
    "true",
)


def query(random: Random, names: list[str]) -> str:
    kind = random.choice(KINDS)
    one, other, third = (random.choice(names) for _ in range(3))
    shown = "x.id as a" if kind.startswith(("left semi", "left anti")) else "x.id as a, y.id as b"
    text = f"select {shown}, x.k as k from {one} x {kind} {other} y on {random.choice(CONDITIONS)}"
    text += f" where {random.choice(FILTERS)}"
    match random.randrange(3):
        case 0:
            return f"select k, count(*) as n, max(a) as m from ({text}) group by k"
        case 1:
            return f"select t.a, t.k, z.id from ({text}) t {random.choice(KINDS[:4])} {third} z on t.k = z.k"
    return text


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


def test_rows_are_those_of_plain_spark(spark: SparkSession, names: list[str]) -> None:
    random = Random(4)
    in_place = 0  # plans
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(QUERIES):
            text = query(random, names)
            expected = rows(spark.sql(text))
            for _ in range(COSTS):
                session = session_of(spark)
                with other_costs(random.randrange(1_000_000)):
                    found = session.optimize(spark.sql(text))
                    in_place += any(
                        isinstance(node.operator, physical.FileScan) and node.operator.bounded_by is not None
                        for plan in pipeline_of(session).planned
                        for root in plan.roots
                        for node in root.walk()
                    )
                    assert rows(found) == expected, text
    print(f"plans that read row groups by their bounds: {in_place} of {QUERIES * COSTS}")
    assert in_place >= QUERIES * COSTS // 5
