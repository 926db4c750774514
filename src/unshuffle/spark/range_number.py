"""The number of the partition a row belongs in, as a native column of Spark's.

`range_number` is `RangeFunction.number` on the JVM: a binary search over the boundaries, by `java.util.Arrays` and one of
Catalyst's own orderings. A nest of IFs would be too large to compile long before 10,000 boundaries.

A row and a boundary are compared as structs, with a *mark* after each place where some boundary ends:

    keys (a, b), boundaries (1,) and (1, 'B')      (1,) is 1 0 - -      (1, 'B') is 1 1 'B' 0      a row is a 1 b 1

A boundary's mark is 0 where it ends, so it comes before all longer ones and all rows that begin like it. No row is equal to
a boundary then: the search always answers with the place to insert, which is the number of boundaries at or below the row.

`reach_numbers` is `RangeFunction.reach`: the first and the last partition that can hold rows with some values of the first
keys. Boundaries are cut to those keys, and what is searched for comes before or after all that were longer:

    on a, boundaries (1,) and (1, 'B') are 1 0 and 1 2      the first number is where 1 1 would be, the last where 1 3 would

Values are compared in the form that Spark keeps them in: dates as days, timestamps as microseconds, and to have one form for
all widths, whole numbers as bigint and fractions as double. Catalyst's orderings know NaN, -0.0 and the bytes of strings.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.classic.column import Column as ClassicColumn

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import spark_name
from unshuffle.errors import InternalError
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.functions import RangeKey, Sampled
from unshuffle.spark.bridge import sequence, singleton, sort_order
from unshuffle.spark.columns import OpaqueCode, jvm, parsed, scala_map

_DAY_0 = datetime.date(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def range_number(spark: SparkSession, columns: Sequence[Column], function: RangeFunction) -> Column:
    """The number of the range that a row falls in, an int and never NULL. The columns are of the keys' types; whole numbers
    and fractions may be of any width."""
    if len(columns) != function.arity:
        raise InternalError(f"{len(columns)} columns for a function of {function.arity}")
    return _applied(spark, range_code(spark, function), columns)


def reach_numbers(spark: SparkSession, columns: Sequence[Column], function: RangeFunction) -> tuple[Column, Column]:
    """The numbers of the first and the last range that can have rows with these values of the first keys."""
    if not 0 < len(columns) < function.arity:
        raise InternalError(f"{len(columns)} columns for the first of {function.arity}")
    first, last = (_applied(spark, _code(spark, function, len(columns), mark), columns) for mark in (SHORTER, LONGER))
    return first, last


def _applied(spark: SparkSession, code: OpaqueCode, columns: Sequence[Column]) -> Column:
    convert = jvm(spark).org.apache.spark.sql.classic.ExpressionUtils
    given = [convert.expression(column._jc) for column in columns]
    number = code.expression.transform(scala_map(spark, list(zip(code.holes, given, strict=True))))
    return ClassicColumn(convert.column(number))


def range_code(spark: SparkSession, function: RangeFunction) -> OpaqueCode:
    """The same for an `Opaque` expression, which can stand in a SQL text: its arguments are the keys."""
    return _code(spark, function, function.arity, SHORTER)


def _code(spark: SparkSession, function: RangeFunction, keys: int, mark: int) -> OpaqueCode:
    """How many boundaries come before a point with so many keys, that has this mark after the last of them."""
    holes = [f"unshuffle_key_{i}" for i in range(keys)]
    java = jvm(spark)
    expressions = java.org.apache.spark.sql.catalyst.expressions
    row = [parsed(spark, part) for i, value in enumerate(_row(holes, function, mark)) for part in (f"'_{i}'", value)]
    boundaries, comparator = _searched(spark, function, keys)
    search = expressions.objects.StaticInvoke(
        java.java.lang.Class.forName("java.util.Arrays"),
        singleton(java.org.apache.spark.sql.types, "IntegerType"),
        "binarySearch",
        sequence(spark, [boundaries, expressions.CreateNamedStruct(sequence(spark, row)), comparator]),
        sequence(spark, []),
        True,  # NULL where an argument is: none ever is
        False,  # never NULL
        True,  # deterministic
        singleton(java.scala, "None"),
    )
    return OpaqueCode(expressions.BitwiseNot(search), tuple(parsed(spark, hole) for hole in holes))


def hash_number(columns: Sequence[Column], function: HashFunction) -> Column:
    """The number of the partition that Spark's hash sends a row to. What GROUP BY calls equal is hashed alike."""
    if function.family != "spark":
        raise InternalError(f"Spark does not hash by {function.family}")
    typed = [_hashed(column, type_) for column, type_ in zip(columns, function.types, strict=True)]
    return F.pmod(F.hash(*typed), F.lit(function.partitions))


def _hashed(column: Column, type_: DataType) -> Column:
    if type_ is None:
        return column
    typed = column.cast(spark_name(type_))
    if not pa.types.is_floating(type_):
        return typed
    one_nan, positive_zero = F.lit(float("nan")).cast(spark_name(type_)), F.lit(0).cast(spark_name(type_))
    return F.when(F.isnan(typed), one_nan).otherwise(typed + positive_zero)


# ----------------------------------------------------------------------------------------------------------- marked structs


def _boundaries(function: RangeFunction) -> Sequence[tuple[Any, ...]]:
    if isinstance(function.boundaries, Sampled):
        raise InternalError(f"the boundaries {function.boundaries.name} are known only when the plan runs")
    return function.boundaries


def _ends(function: RangeFunction, keys: int) -> set[int]:
    """After how many of the keys some boundary ends or is cut, and so a mark stands. (Without boundaries, after one: no
    struct is empty.)"""
    return {min(keys, len(boundary)) for boundary in _boundaries(function)} or {1}


# After the last key, what is searched for comes after the boundaries that end there; before those that were cut, or after.
ENDS, SHORTER, CUT, LONGER = range(4)


def _row(texts: Sequence[str], function: RangeFunction, mark: int) -> list[str]:
    ends, parts = _ends(function, len(texts)), []
    for i, (text, key) in enumerate(zip(texts, function.keys, strict=False)):
        _, name, _ = _form(key)
        parts.append(f"CAST({text} AS {name})" if name else text)
        if i + 1 in ends:
            parts.append(str(mark if i + 1 == len(texts) else 1))
    return parts


def _fields(function: RangeFunction, keys: int) -> list[tuple[pa.DataType, RangeKey]]:
    ends, mark, fields = _ends(function, keys), RangeKey(pa.int32()), []
    for i, key in enumerate(function.keys[:keys]):
        fields.append((_form(key)[0], key))
        if i + 1 in ends:
            fields.append((pa.int32(), mark))
    return fields


def _marked(boundary: tuple[Any, ...], function: RangeFunction, keys: int, ends: set[int]) -> list[Any]:
    parts: list[Any] = []
    for i, key in enumerate(function.keys[:keys]):
        value = boundary[i] if i < len(boundary) else None
        parts.append(None if value is None else _form(key)[2](value))
        if i + 1 in ends:
            is_longer = i + 1 < len(boundary)
            parts.append((CUT if i + 1 == keys else 1) if is_longer else ENDS)
    return parts


@lru_cache(maxsize=32)  # Catalyst knows two searches to be the same if their boundaries are one object
def _searched(spark: SparkSession, function: RangeFunction, keys: int) -> tuple[Any, Any]:
    """The boundaries, as far as the keys go, and their comparator, as literals. Catalyst writes them into the tasks that need
    them."""
    ends, fields = _ends(function, keys), _fields(function, keys)
    rows = [_marked(boundary, function, keys, ends) for boundary in _boundaries(function)]
    arrays = [pa.array([row[i] for row in rows], type_) for i, (type_, _) in enumerate(fields)]
    structs = pa.StructArray.from_arrays(arrays, names=[f"_{i}" for i in range(len(fields))])
    # All boundaries in one row, which Spark reads at once: an object a call would take a second for 10,000.
    whole = spark.createDataFrame(pa.table({"boundaries": pa.ListArray.from_arrays([0, len(rows)], structs)}))
    found = whole._jdf.queryExecution().executedPlan().executeCollect()[0].getArray(0)
    struct = whole._jdf.schema().apply(0).dataType().elementType()
    java = jvm(spark)
    expressions, object_type = (
        java.org.apache.spark.sql.catalyst.expressions,
        java.org.apache.spark.sql.types.ObjectType,
    )
    orders = [
        sort_order(
            spark, expressions.BoundReference(i, struct.apply(i).dataType(), True), key.descending, key.nulls_first
        )
        for i, (_, key) in enumerate(fields)
    ]
    ordering = expressions.codegen.LazilyGeneratedOrdering(sequence(spark, orders))
    of = java.java.lang.Class.forName
    return (
        expressions.Literal(found.toObjectArray(struct), object_type(of("[Ljava.lang.Object;"))),
        expressions.Literal(ordering, object_type(of("java.util.Comparator"))),
    )


def _form(key: RangeKey) -> tuple[pa.DataType, str | None, Callable[[Any], Any]]:
    """How values of a key are compared: the type, the cast of a column to it where one is needed, and a value in it."""
    t, of = pa.types, key.type
    if of is None:
        raise InternalError("a key of an unknown type has no ranges")
    if t.is_integer(of):
        return pa.int64(), "bigint", int
    if t.is_floating(of):
        return pa.float64(), "double", float
    if t.is_decimal(of):
        return of, None, Decimal
    if t.is_date(of):
        return pa.int32(), None, lambda value: (value - _DAY_0).days
    if t.is_timestamp(of):
        zone = None if of.tz is None else datetime.UTC
        return pa.int64(), None, lambda value: (value - datetime.datetime(1970, 1, 1, tzinfo=zone)) // _MICROSECOND
    if t.is_boolean(of) or t.is_string(of) or t.is_large_string(of) or t.is_binary(of) or t.is_large_binary(of):
        return of, None, lambda value: value
    raise InternalError(f"a range has no keys of type {of}")
