"""Types and values of partition columns, beside Spark: for single values, and for generated sets of them."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from unshuffle.catalog.files import data_files
from unshuffle.catalog.folder_types import NULL_PARTITION, partition_type, partition_value
from unshuffle.catalog.type_names import from_spark_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# As they are in names of folders.
NUMBERS = (
    *("0", "-0", "01", "+1", "1", "-2147483648", "2147483647", "2147483648", "20000000000", "-9223372036854775808"),
    *(
        "9223372036854775808",
        "99999999999999999999",
        "1e5",
        "0e3",
        "1e39",
        "1" * 39,
        "1.0",
        "1.5",
        ".5",
        "5.",
        "1.50e1",
    ),
    *("-1.5e-3", "1.5f", "2d", "NaN", "-Infinity", "0x1p3", " 1", "\u0661", "-", "."),
)
OTHERS = (
    *("2026-01-01", "1581-01-01", "2026-02-30", "2026-1-1", "2026-01-01 10%3A00%3A00", "2026-01-01 10%3A00%3A00.5"),
    *("2026-01-01 10%3A00", "2026-01-01T10%3A00%3A00", "10%3A00", "true", "a", "1_0", "1%2E5", "a%2Fb", NULL_PARTITION),
)
GENERATED = 200 if "UNSHUFFLE_SOAK" in os.environ else 40


def sets() -> Iterator[tuple[str, ...]]:
    for value in (*NUMBERS, *OTHERS):
        yield (value,)
    draw = random.Random(7)
    for _ in range(GENERATED):
        pool = NUMBERS if draw.random() < 0.6 else (*NUMBERS[:10], *OTHERS)
        yield tuple(draw.sample(pool, draw.randint(2, 4)))


def shown(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def test_types_and_values_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    wrong = []
    pq.write_table(pa.table({"id": [1]}), tmp_path / "0.parquet")
    for number, values in enumerate(sets()):
        folder = tmp_path / str(number)
        for value in values:
            (folder / f"p={value}").mkdir(parents=True)
            (folder / f"p={value}" / "0.parquet").hardlink_to(tmp_path / "0.parquet")
        try:
            frame = spark.read.parquet(str(folder))
        except PySparkException:
            continue  # Java's integers have digits that its doubles have not
        expected = from_spark_name(frame.schema["p"].dataType.simpleString())
        texts = [dict(file.partition)["p"] for file in data_files([str(folder)])]
        found = partition_type(texts)
        if found != expected:
            wrong.append(f"{values}: {found}, in Spark {expected}")
        elif not pa.types.is_timestamp(found):  # which PySpark returns in the time zone of this machine
            rows = {shown(row["p"]) for row in frame.select("p").collect()}
            mine = {shown(partition_value(text, found)) for text in texts}
            if rows != mine:
                wrong.append(f"{values}: {mine}, in Spark {rows}")
    assert not wrong, "\n".join(wrong)
