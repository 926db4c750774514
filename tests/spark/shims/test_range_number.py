"""The range number that Spark computes for a row is that of `RangeFunction.number`, for all types, directions and
boundaries."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.layouts.partition_functions import RangeKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

UTC = datetime.UTC
# Few values of each type, so that rows are equal to boundaries, and values that are hard to order.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [False, True]),
    "tinyint": (pa.int8(), [-128, -1, 0, 1, 127]),
    "smallint": (pa.int16(), [-32768, 0, 5, 32767]),
    "int": (pa.int32(), [-(2**31), -2, 0, 3, 2**31 - 1]),
    "bigint": (pa.int64(), [-(2**63), -1, 0, 7, 2**63 - 1]),
    "float": (pa.float32(), [-math.inf, -0.0, 0.0, 1.5, math.inf, math.nan]),
    "double": (pa.float64(), [-math.inf, -1e300, -0.0, 0.0, 5e-324, 0.1, math.inf, math.nan]),
    "decimal": (pa.decimal128(30, 2), [Decimal("-1E+27"), Decimal("-0.01"), Decimal("0.00"), Decimal("12.50")]),
    "string": (pa.string(), ["", "\0", "a", "a\0", "B", "é", "\uffff", "\U00010000", "\U0010ffff"]),
    "binary": (pa.binary(), [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\0"]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
    ),
    "timestamp_ntz": (pa.timestamp("us"), [datetime.datetime(1, 1, 1), datetime.datetime(2024, 2, 29, 1, 2, 3, 4)]),
}


def ascending(keys: tuple[RangeKey, ...], boundaries: list[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
    """The boundaries in order, without duplicates."""
    order = RangeFunction(keys, ()).compare
    found: list[tuple[Any, ...]] = []
    for each in sorted(boundaries, key=cmp_to_key(order)):
        if not found or order(found[-1], each) < 0:
            found.append(each)
    return tuple(found)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[pa.DataType], RangeFunction, list[tuple[Any, ...]]]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    types = [VALUES[name][0] for name in names]
    keys = tuple(RangeKey(type_, draw(st.booleans()), draw(st.booleans())) for type_ in types)
    row = st.tuples(*(st.sampled_from([None, *VALUES[name][1]]) for name in names))
    whole = draw(st.lists(row, min_size=1, max_size=8))
    short = [each[: draw(st.integers(1, len(names)))] for each in draw(st.lists(row, max_size=5))]
    return types, RangeFunction(keys, ascending(keys, whole + short)), draw(st.lists(row, min_size=1, max_size=20))


def numbers(
    spark: SparkSession, types: list[pa.DataType], function: RangeFunction, rows: list[tuple[Any, ...]]
) -> list[int]:
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.spark.shims.range_number import range_number

    columns = {f"k{i}": pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)}
    frame = spark.createDataFrame(pa.table({"at": pa.array(range(len(rows))), **columns}))
    made = frame.select("at", range_number(spark, [F.col(name) for name in columns], function).alias("n"))
    assert made.schema["n"].dataType.simpleString() == "int"
    assert not made.schema["n"].nullable
    return [row.n for row in sorted(made.collect())]


@given(case=cases())
@settings(max_examples=60)
def test_range_numbers_agree(
    spark: SparkSession, case: tuple[list[pa.DataType], RangeFunction, list[tuple[Any, ...]]]
) -> None:
    types, function, rows = case
    assert numbers(spark, types, function, rows) == [function.number(row) for row in rows]


@given(case=cases(), data=st.data())
@settings(max_examples=30)
def test_ranges_that_can_hold_a_key_prefix(
    spark: SparkSession, case: tuple[list[pa.DataType], RangeFunction, list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.spark.shims.range_number import reach_numbers

    types, function, rows = case
    assume(function.arity > 1)
    count = data.draw(st.integers(1, function.arity - 1))
    columns = {f"k{i}": pa.array([row[i] for row in rows], types[i]) for i in range(count)}
    frame = spark.createDataFrame(pa.table({"at": pa.array(range(len(rows))), **columns}))
    first, last = reach_numbers(spark, [F.col(name) for name in columns], function)
    found = sorted(frame.select("at", first.alias("first"), last.alias("last")).collect())
    assert [range(row.first, row.last + 1) for row in found] == [function.reach(row[:count]) for row in rows]


@pytest.mark.parametrize("name", VALUES)
def test_compiled_code_agrees(spark: SparkSession, name: str) -> None:
    from unshuffle.spark.session import temporarily

    type_, values = VALUES[name]
    rows = [(value, text) for value in [None, *values] for text in (None, "x", "y")]
    # Otherwise Spark evaluates the expression over so few rows while planning.
    with temporarily(
        spark, **{"spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"}
    ):
        for key in (RangeKey(type_), RangeKey(type_, True, False)):
            keys = (key, RangeKey(pa.string(), True, True))
            function = RangeFunction(keys, ascending(keys, [*((v,) for v in values[1:]), *((v, "x") for v in values)]))
            types = [type_, pa.string()]
            assert numbers(spark, types, function, rows) == [function.number(row) for row in rows]


def test_time_zone_of_the_session_does_not_matter(spark: SparkSession) -> None:
    from unshuffle.spark.session import temporarily

    for name in ("timestamp", "timestamp_ntz", "date"):
        type_, values = VALUES[name]
        function = RangeFunction((RangeKey(type_),), tuple((value,) for value in values))
        with temporarily(spark, **{"spark.sql.session.timeZone": "America/St_Johns"}):
            from pyspark.sql import functions as F  # noqa: N812

            from unshuffle.spark.shims.range_number import range_number

            texts = {"timestamp": "TIMESTAMP '1969-12-31 23:59:59.999998 UTC'"}
            text = texts.get(name, f"{name.upper()} '1969-12-31'")
            row = (
                spark.sql(f"SELECT {text} AS k").select(range_number(spark, [F.col("k")], function).alias("n")).first()
            )
        assert row is not None
        assert row.n == (2 if name == "date" else 1)


def test_ten_thousand_boundaries(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.spark.shims.range_number import range_number

    keys = (RangeKey(pa.string()), RangeKey(pa.int64(), descending=True))
    function = RangeFunction(keys, tuple((f"k{i:05d}", -i) for i in range(0, 20_000, 2)))
    rows = spark.range(0, 20_000, 7).select(
        F.format_string("k%05d", "id").alias("k"), (-F.col("id")).cast("int").alias("i")
    )
    found = rows.select("*", range_number(spark, [F.col("k"), F.col("i")], function).alias("n")).collect()
    assert [row.n for row in found] == [function.number((row.k, row.i)) for row in found]


def test_without_boundaries_there_is_one_range(spark: SparkSession) -> None:
    assert numbers(spark, [pa.int64()], RangeFunction((RangeKey(pa.int64()),), ()), [(1,), (None,)]) == [0, 0]


def test_the_same_function_is_the_same_expression(spark: SparkSession) -> None:
    """So that Spark can reuse an exchange by it."""
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.spark.shims.range_number import range_number

    def made(boundary: int) -> Any:
        function = RangeFunction((RangeKey(pa.int64()),), ((boundary,),))
        return spark.range(9).select(range_number(spark, [F.col("id")], function).alias("n"))

    assert made(5).sameSemantics(made(5))
    assert not made(5).sameSemantics(made(6))


def test_it_can_be_used_in_sql_text(spark: SparkSession) -> None:
    from unshuffle.catalog.schema import Column
    from unshuffle.plan.expressions import Opaque, Ref
    from unshuffle.spark.lowering.placeholders import column
    from unshuffle.spark.shims.range_number import range_code

    function = RangeFunction((RangeKey(pa.int64()),), ((3,), (5,)))
    key = Column(1, "id", pa.int64())
    number = Opaque(1, "range", range_code(spark, function), (Ref(key),), pa.int32())
    made = column(spark, number, lambda each: each.name, str)
    assert [row.n for row in spark.range(7).select(made.alias("n")).collect()] == [0, 0, 0, 1, 1, 2, 2]


def test_hash_numbers_agree_with_an_exchange(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.spark.shims.range_number import hash_number

    rows = [(0.0, "a"), (-0.0, "a"), (float("nan"), None), (None, "é"), (1.5, "b")]
    frame = spark.createDataFrame(rows, "x double, s string")
    number = hash_number(spark, [F.col("x"), F.col("s")], HashFunction((pa.float64(), pa.string()), 5))
    found = frame.select(number.alias("n")).collect()
    assert found[0] == found[1]
    by_text = hash_number(spark, [F.col("s")], HashFunction((pa.string(),), 5))
    placed = frame.repartition(5, "s").select(by_text.alias("n"), F.spark_partition_id().alias("at")).collect()
    assert all(row.n == row.at for row in placed)
