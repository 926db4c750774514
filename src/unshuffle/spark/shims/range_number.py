"""The number of a row's partition as a native Spark column.

`range_number` is `RangeFunction.number` in the JVM: a binary search over the boundaries, by `java.util.Arrays` and one of
Catalyst's own orderings. Nested IFs would be too large to compile long before 10,000 boundaries.

A row and a boundary are compared as structs, with a *mark* after each position where some boundary ends:

    keys (a, b), boundaries (1,) and (1, 'B')      (1,) is 1 0 - -      (1, 'B') is 1 1 'B' 0      a row is a 1 b 1

A boundary's mark is 0 where it ends, so it sorts before all longer boundaries and all rows that begin like it. So no row
equals a boundary, and the search always returns an insertion point: the number of boundaries at or below the row.

`reach_numbers` is `RangeFunction.reach`: the first and the last partition that can contain rows with given values of the
first keys. Boundaries are cut to those keys, and the search key sorts before or after all that were cut:

    on a, boundaries (1,) and (1, 'B') are 1 0 and 1 2      the first number is where 1 1 would be, the last where 1 3 would

Values are compared in Spark's internal form: dates as days, timestamps as microseconds, and, for one form for all widths,
integers as bigint and floats as double. Catalyst's orderings handle NaN, -0.0 and the bytes of strings.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import sql_name
from unshuffle.errors import InternalError
from unshuffle.frozen import dataclass
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.layouts.partition_functions import RangeKey, SampledBoundaries
from unshuffle.spark.shims.active_session import arrow_frame
from unshuffle.spark.shims.catalyst import (
    OpaqueCode,
    column_of,
    expression_of,
    parse_expression,
    query_execution,
    sort_order,
)
from unshuffle.spark.shims.gateway import java_class, jvm, none, scala_object, sequence
from unshuffle.spark.shims.plan_tree import FoundNode
from unshuffle.spark.shims.recently_made import RecentlyMade

_EPOCH = datetime.date(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def range_number(spark: SparkSession, columns: Sequence[Column], function: RangeFunction) -> Column:
    """The number of the range that a row is in, an int and never NULL. The columns have the types of the keys; integers and
    floats may have any width."""
    if len(columns) != function.arity:
        raise InternalError(f"{len(columns)} columns for a function of {function.arity}")
    return _column(spark, range_code(spark, function), columns)


@dataclass(frozen=True, slots=True)
class NumberCode:
    """Catalyst's expression for the number of a row's partition, modulo their number. `holes` is a Scala Seq of the parts
    that stand for columns of the types of the function. `text` tells functions apart; it is short, because there may be
    thousands of boundaries."""

    expression: Any
    holes: Any
    text: str


def number_code(spark: SparkSession, function: HashFunction | RangeFunction) -> NumberCode:
    return _NUMBER_CODES.get((spark.sparkContext, function), lambda: _number_code(spark, function))


def _number_code(spark: SparkSession, function: HashFunction | RangeFunction) -> NumberCode:
    text = sha256(repr(function).encode()).hexdigest()
    code = opaque_number(spark, function)
    return NumberCode(code.expression.jvm, sequence(spark, [hole.jvm for hole in code.holes]), text)


def opaque_number(spark: SparkSession, function: HashFunction | RangeFunction) -> OpaqueCode:
    """The same as the code of an `Opaque` expression, which can be part of SQL text. Its arguments are the columns, in the
    types of the function."""
    return _OPAQUE_NUMBERS.get((spark.sparkContext, function), lambda: _opaque_number(spark, function))


def _opaque_number(spark: SparkSession, function: HashFunction | RangeFunction) -> OpaqueCode:
    if isinstance(function, RangeFunction):
        return range_code(spark, function)
    if function.family != "spark":
        raise InternalError(f"Spark does not hash by {function.family}")
    holes = [parse_expression(spark, hole) for hole in _holes(len(function.types))]
    return OpaqueCode(FoundNode(_hash(spark, sequence(spark, holes))), tuple(map(FoundNode, holes)))


def reach_numbers(spark: SparkSession, columns: Sequence[Column], function: RangeFunction) -> tuple[Column, Column]:
    """The numbers of the first and the last range that can contain rows with these values of the first keys."""
    if not 0 < len(columns) < function.arity:
        raise InternalError(f"{len(columns)} columns for the first of {function.arity}")
    first, last = (_column(spark, _code(spark, function, len(columns), mark), columns) for mark in (SHORTER, LONGER))
    return first, last


def _column(spark: SparkSession, code: OpaqueCode, columns: Sequence[Column]) -> Column:
    return column_of(spark, code.over(spark, [expression_of(spark, column) for column in columns]))


def range_code(spark: SparkSession, function: RangeFunction) -> OpaqueCode:
    """The number as the code of an `Opaque` expression, which can be part of SQL text. Its arguments are the keys."""
    return _code(spark, function, function.arity, SHORTER)


def _code(spark: SparkSession, function: RangeFunction, keys: int, mark: int) -> OpaqueCode:
    """The number of boundaries before a point of that many keys with this mark after the last key."""
    holes = _holes(keys)
    java = jvm(spark)
    expressions = java.org.apache.spark.sql.catalyst.expressions
    row = [
        parse_expression(spark, part)
        for i, value in enumerate(_row(holes, function, mark))
        for part in (f"'_{i}'", value)
    ]
    boundaries, comparator = _boundary_literals(spark, function, keys)
    search = expressions.objects.StaticInvoke(
        java.java.lang.Class.forName("java.util.Arrays"),
        scala_object(spark, "org.apache.spark.sql.types.IntegerType"),
        "binarySearch",
        sequence(spark, [boundaries, expressions.CreateNamedStruct(sequence(spark, row)), comparator]),
        sequence(spark, []),
        True,  # propagateNull: no argument ever is NULL
        False,  # returnNullable
        True,  # isDeterministic
        none(spark),
    )
    found = FoundNode(expressions.BitwiseNot(search))
    return OpaqueCode(found, tuple(FoundNode(parse_expression(spark, hole)) for hole in holes))


def _holes(keys: int) -> list[str]:
    return [f"unshuffle_key_{i}" for i in range(keys)]


def hash_number(spark: SparkSession, columns: Sequence[Column], function: HashFunction) -> Column:
    """The number of the partition that Spark's hash sends a row to. Values that GROUP BY calls equal have one hash: the SQL
    function `hash` does not know that 'a' equals 'A' under some collations, but the expression that exchanges use does."""
    if function.family != "spark":
        raise InternalError(f"Spark does not hash by {function.family}")
    typed = [_normalized(column, type_) for column, type_ in zip(columns, function.types, strict=True)]
    expressions = sequence(spark, [expression_of(spark, column) for column in typed])
    return F.pmod(column_of(spark, _hash(spark, expressions)), F.lit(function.partitions))


def _hash(spark: SparkSession, expressions: Any) -> Any:
    return java_class(spark, "org.apache.spark.sql.catalyst.expressions.CollationAwareMurmur3Hash")(expressions)


def normalized_text(column: str, type_: DataType) -> str:
    """A column as SQL, cast to the type that is hashed, with equal floating-point numbers made the same."""
    if type_ is None:
        return column
    name = sql_name(type_)
    typed = f"CAST({column} AS {name})"
    if not pa.types.is_floating(type_):
        return typed
    return f"CASE WHEN isnan({typed}) THEN CAST('NaN' AS {name}) ELSE {typed} + CAST(0 AS {name}) END"


def _normalized(column: Column, type_: DataType) -> Column:
    if type_ is None:
        return column
    typed = column.cast(sql_name(type_))
    if not pa.types.is_floating(type_):
        return typed
    one_nan, positive_zero = F.lit(float("nan")).cast(sql_name(type_)), F.lit(0).cast(sql_name(type_))
    return F.when(F.isnan(typed), one_nan).otherwise(typed + positive_zero)


# ----------------------------------------------------------------------------------------------------------- marked structs


def _boundaries(function: RangeFunction) -> Sequence[tuple[Any, ...]]:
    if isinstance(function.boundaries, SampledBoundaries):
        raise InternalError(f"the boundaries {function.boundaries.name} are known only when the plan runs")
    return function.boundaries


def _ends(function: RangeFunction, keys: int) -> set[int]:
    """The numbers of keys after which some boundary ends or is cut, and so has a mark. (Without boundaries, one: a struct
    cannot be empty.)"""
    return {min(keys, len(boundary)) for boundary in _boundaries(function)} or {1}


# The marks after the last key, in their order. The search key has SHORTER or LONGER: it sorts after the boundaries that end
# there, and before or after those that were cut.
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


# What was made before. It belongs to no session, so it keeps none alive.
# Catalyst sees that two searches are equal if their boundaries are one object.
_LITERALS: RecentlyMade[tuple[SparkContext, RangeFunction, int], tuple[Any, Any]] = RecentlyMade(32)
_OPAQUE_NUMBERS: RecentlyMade[tuple[SparkContext, HashFunction | RangeFunction], OpaqueCode] = RecentlyMade(32)
_NUMBER_CODES: RecentlyMade[tuple[SparkContext, HashFunction | RangeFunction], NumberCode] = RecentlyMade(32)


def _boundary_literals(spark: SparkSession, function: RangeFunction, keys: int) -> tuple[Any, Any]:
    """The boundaries, cut to the keys, and their comparator: literals that Catalyst sends to the tasks."""
    return _LITERALS.get((spark.sparkContext, function, keys), lambda: _new_literals(spark, function, keys))


def _new_literals(spark: SparkSession, function: RangeFunction, keys: int) -> tuple[Any, Any]:
    ends, fields = _ends(function, keys), _fields(function, keys)
    rows = [_marked(boundary, function, keys, ends) for boundary in _boundaries(function)]
    arrays = [pa.array([row[i] for row in rows], type_) for i, (type_, _) in enumerate(fields)]
    structs = pa.StructArray.from_arrays(arrays, names=[f"_{i}" for i in range(len(fields))])
    # All boundaries in one row, which Spark reads at once. One call for each of 10,000 boundaries would take a second.
    whole = arrow_frame(spark, pa.table({"boundaries": pa.ListArray.from_arrays([0, len(rows)], structs)}))
    array = query_execution(whole).executedPlan().executeCollect()[0].getArray(0)
    struct = whole._jdf.schema().apply(0).dataType().elementType()
    sql, class_of = jvm(spark).org.apache.spark.sql, jvm(spark).java.lang.Class.forName
    expressions, object_type = sql.catalyst.expressions, sql.types.ObjectType
    orders = [
        sort_order(
            spark, expressions.BoundReference(i, struct.apply(i).dataType(), True), key.descending, key.nulls_first
        )
        for i, (_, key) in enumerate(fields)
    ]
    ordering = expressions.codegen.LazilyGeneratedOrdering(sequence(spark, orders))
    return (
        expressions.Literal(array.toObjectArray(struct), object_type(class_of("[Ljava.lang.Object;"))),
        expressions.Literal(ordering, object_type(class_of("java.util.Comparator"))),
    )


def _form(key: RangeKey) -> tuple[pa.DataType, str | None, Callable[[Any], Any]]:
    """How values of a key are compared: the type, the cast of a column to it if it needs one, and a value in that type."""
    t, type_ = pa.types, key.type
    if type_ is None:
        raise InternalError("a key of an unknown type has no ranges")
    if t.is_integer(type_):
        return pa.int64(), "bigint", int
    if t.is_floating(type_):
        return pa.float64(), "double", float
    if t.is_decimal(type_):
        return type_, None, Decimal
    if t.is_date(type_):
        return pa.int32(), None, lambda value: (value - _EPOCH).days
    if t.is_timestamp(type_):
        zone = None if type_.tz is None else datetime.UTC
        return pa.int64(), None, lambda value: (value - datetime.datetime(1970, 1, 1, tzinfo=zone)) // _MICROSECOND
    if any(
        is_type(type_) for is_type in (t.is_boolean, t.is_string, t.is_large_string, t.is_binary, t.is_large_binary)
    ):
        return type_, None, lambda value: value
    raise InternalError(f"a key of type {type_} has no ranges")
