"""Literals, and expressions of literals.

Spark folds constants here, as its own optimizer would: `date'1998-12-01' - interval 90 days` becomes a date that a histogram
can be asked about.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from unshuffle.catalog.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, is_decimal, is_integer
from unshuffle.plan.expressions import Literal, Value
from unshuffle.spark.reader.catalyst_tree import CatalystNode
from unshuffle.spark.session import without_error_log
from unshuffle.spark.shims.catalyst import constant_folded

if TYPE_CHECKING:
    from unshuffle.spark.reader.expressions.expression_reader import ScopedReader


def literal(reader: ScopedReader, node: CatalystNode) -> Literal | None:
    type, text = node.type, node.fields.get("value")
    if type is None or not reader.can_name(type):
        return None
    if text is None:
        return Literal(None, type)
    value = _value(text, type, lambda: node.facts["value"] if "value" in node.facts else node.jvm.value())
    if isinstance(value, str) and reader.reader.settings.has_plain_strings and re.search(r"['\\\r\n\0]", value):
        return None  # our SQL text would escape characters that this session does not unescape
    return None if value is None else Literal(value, type)


def folded(reader: ScopedReader, node: CatalystNode) -> Literal | None:
    """The value of a constant expression. None if the expression is nullable and the value is not NULL: a column of
    that value would lose its nullability."""
    if node.kind == "Cast" and (widened := _widened(reader, node)) is not None:
        return widened
    if not all(each.is_sparks_own and each.kind != "ScalaUDF" for each in node.walk()):
        return None
    # Nothing if there is no value before the query runs (CURRENT_DATE), or if evaluating it is an error: that is raised when
    # the query runs, if it evaluates the expression at all.
    constant = node.facts["folded"] if "folded" in node.facts else _folded_by_spark(reader.reader.spark, node.jvm)
    type = node.result_type if constant is not None else None
    if constant is None or type is None or not reader.can_name(type):
        return None
    text = constant["text"]
    if node.is_nullable != (text is None):
        return None
    if text is None:
        return Literal(None, type)
    python_value = None if pa.types.is_binary(type) else _value(text, type, lambda: constant["value"])
    return None if python_value is None else Literal(python_value, type)


def _folded_by_spark(spark: SparkSession, expression: Any) -> Mapping[str, Any] | None:
    """The value of a constant below one that Spark does not fold."""
    try:
        with without_error_log():
            result = constant_folded(spark, expression)
    except (Py4JError, PySparkException):
        return None
    if result.getClass().getSimpleName() != "Literal":
        return None
    value = result.value()
    text = value.toString() if hasattr(value, "toString") else str(value)
    return {"text": None if value is None else text, "value": value}


def _widened(reader: ScopedReader, node: CatalystNode) -> Literal | None:
    """A number cast to a wider type, without a call to the JVM."""
    (operand,) = node.children
    number = literal(reader, operand) if operand.kind == "Literal" else None
    type = node.type
    if number is None or number.value is None or number.type is None or type is None:
        return None
    old = number.type
    if is_integer(old) and is_integer(type) and old.bit_width <= type.bit_width:
        return Literal(number.value, type)
    if is_decimal(old) and is_decimal(type) and type.scale >= old.scale:
        has_room = type.precision - type.scale >= old.precision - old.scale
        return Literal(number.value, type) if has_room else None
    return None


def _value(text: Any, type: pa.DataType, number: Callable[[], Any]) -> Value:
    """A literal's value from its text. Dates and timestamps come from their `number`, because their text follows another
    calendar. None if Python has no such value."""
    try:
        if pa.types.is_boolean(type):
            return bool(str(text).lower() == "true")
        if pa.types.is_integer(type):
            return int(text)
        if pa.types.is_floating(type):
            return float(text)
        if pa.types.is_decimal(type):
            return decimal.Decimal(text)
        if pa.types.is_string(type):
            return str(text)
        if type == DATE:
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=number())
        if type in (TIMESTAMP, TIMESTAMP_NTZ):
            zone = datetime.UTC if type == TIMESTAMP else None
            return datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=number())
    except (OverflowError, ValueError, decimal.InvalidOperation):
        return None
    return None
