"""Spark's types as Arrow types, their families and names.

The names are the ones that `DESCRIBE` prints. None is a type that is not known.

Arrow is coarser than Spark in two places. An interval's fields are lost (`interval day` is `interval day to second`), so the
type of `date + interval`, which depends on them, stays unknown. Collations, and the lengths of char and varchar, are lost in
the same way.
"""

from __future__ import annotations

import re

import pyarrow as pa

from unshuffle.catalog.schema import DataType

VOID = pa.null()
BOOLEAN = pa.bool_()
TINYINT = pa.int8()
SMALLINT = pa.int16()
INT = pa.int32()
BIGINT = pa.int64()
FLOAT = pa.float32()
DOUBLE = pa.float64()
STRING = pa.string()
BINARY = pa.binary()
DATE = pa.date32()
TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
TIME = pa.time64("us")
DAY_TIME = pa.duration("us")
YEAR_MONTH = pa.month_day_nano_interval()

SPARK_NAMES = {
    VOID: "void",
    BOOLEAN: "boolean",
    TINYINT: "tinyint",
    SMALLINT: "smallint",
    INT: "int",
    BIGINT: "bigint",
    FLOAT: "float",
    DOUBLE: "double",
    STRING: "string",
    BINARY: "binary",
    DATE: "date",
    TIMESTAMP: "timestamp",
    TIMESTAMP_NTZ: "timestamp_ntz",
    TIME: "time(6)",
    DAY_TIME: "interval day to second",
    YEAR_MONTH: "interval year to month",
}
# Arrow has several representations of a type that is one type to Spark.
_SAME_TO_SPARK: dict[pa.DataType, pa.DataType] = {
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
}

INTEGER_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}
NUMERIC_PRECEDENCE = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE)
MAX_PRECISION = 38


def spark_name(type: DataType) -> str:
    """The name Spark gives the type, as in `array<struct<a:int>>`; "?" for an unknown one."""
    return _name(type, "timestamp")


def sql_name(type: DataType) -> str:
    """The type in SQL text for Spark, where `timestamp` means what `spark.sql.timestampType` says."""
    return _name(type, "timestamp_ltz")


def _name(type: DataType, timestamp: str) -> str:
    if type is None:
        return "?"
    if pa.types.is_timestamp(type):
        return timestamp if type.tz else "timestamp_ntz"
    if name := SPARK_NAMES.get(_SAME_TO_SPARK.get(type, type)):
        return name
    if pa.types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if is_array(type):
        return f"array<{_name(type.value_type, timestamp)}>"
    if pa.types.is_map(type):
        return f"map<{_name(type.key_type, timestamp)},{_name(type.item_type, timestamp)}>"
    if pa.types.is_struct(type):
        return f"struct<{','.join(f'{_quoted(field.name)}:{_name(field.type, timestamp)}' for field in type)}>"
    if pa.types.is_duration(type):
        return "interval day to second"
    return "?"


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def is_integer(type: DataType) -> bool:
    return type in INTEGER_DIGITS


def is_decimal(type: DataType) -> bool:
    return type is not None and pa.types.is_decimal(type)


def is_numeric(type: DataType) -> bool:
    return type in NUMERIC_PRECEDENCE or is_decimal(type)


def is_array(type: DataType) -> bool:
    return type is not None and (pa.types.is_list(type) or pa.types.is_large_list(type))


def is_instant(type: DataType) -> bool:
    """A date or a timestamp of either sort."""
    return type in (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def is_date(type: DataType) -> bool:
    return type is not None and pa.types.is_date(type)


def is_interval(type: DataType) -> bool:
    return type in (DAY_TIME, YEAR_MONTH)
