"""The types and values of partition columns, which are in the names of folders: `day=2026-01-03/`.

Spark tries for each value, in this order: int, bigint, a decimal without fraction, double, timestamp, date, string. Then it
takes the type that all values of a column fit, and string where there is none:

    1, 20000000000          bigint
    1, 1.5                  double
    20000000000, 1.5        string, because a double does not hold every bigint
    1, 2026-01-01           string

Numbers are those of Java, where `1e5`, `1.5f`, `NaN` and ` 1` are numbers too.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
TIMESTAMP = pa.timestamp("us", tz="UTC")

_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?(\d*)|\.(\d+))([eE][+-]?\d+)?")
_HEX = r"0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
_DOUBLE = re.compile(rf"([+-]?)(NaN|Infinity|(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|{_HEX})[fFdD]?)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d)?", re.ASCII)
_MOST_DIGITS = 38
_BLANK = "".join(map(chr, range(33)))  # what Java trims


def partition_type(values: Sequence[str]) -> pa.DataType:
    """The type that Spark infers for the values in folder names, which are escaped as they are there."""
    types = [_type(value) for value in dict.fromkeys(values) if value != NULL_PARTITION]
    return reduce(_wider, types) if types else pa.null()


def partition_value(text: str, type: pa.DataType) -> Any:
    """The value that a folder's name gives a partition column. A timestamp is taken for one of UTC."""
    if text == NULL_PARTITION:
        return None
    t = pa.types
    if t.is_integer(type):
        return int(text)
    if t.is_floating(type):
        return _double(text)
    if t.is_decimal(type):
        return decimal.Decimal(text).quantize(decimal.Decimal(1), context=decimal.Context(prec=_MOST_DIGITS))
    if t.is_date(type):
        return datetime.date.fromisoformat(text)
    text = unescaped(text)
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC) if t.is_timestamp(type) else text


def unescaped(text: str) -> str:
    """Spark escapes each special character by itself, so this is not the escaping of bytes that URLs have."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def _type(text: str) -> pa.DataType:
    if _is_java(text) and _INTEGER.fullmatch(text):
        value = int(text)
        if -(2**31) <= value < 2**31:
            return pa.int32()
        if -(2**63) <= value < 2**63:
            return pa.int64()
    digits = _digits(text)
    if digits is not None:
        return pa.decimal128(digits, 0)
    if _DOUBLE.fullmatch(text.strip(_BLANK)):
        return pa.float64()
    if _TIME.fullmatch(unescaped(text)) and _is_valid(datetime.datetime, unescaped(text)):
        return TIMESTAMP
    return pa.date32() if _DATE.fullmatch(text) and _is_valid(datetime.date, text) else pa.string()


def _digits(text: str) -> int | None:
    """The precision of a decimal number whose scale is not above zero; None for other texts, and for more digits than a
    decimal can have."""
    match = _DECIMAL.fullmatch(text) if _is_java(text) else None
    if match is None:
        return None
    number = decimal.Decimal(text)
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or (exponent > 0 and len(digits) + exponent > _MOST_DIGITS):
        return None
    precision = len(digits) + exponent if exponent > 0 else len(digits)
    return precision if exponent >= 0 and precision <= _MOST_DIGITS else None


def _is_java(text: str) -> bool:
    """Java looks at digits one UTF-16 unit at a time."""
    return all(ord(character) < 1 << 16 for character in text)


def _double(text: str) -> float:
    text = text.strip(_BLANK)
    if "x" in text.lower():
        return float.fromhex(text.rstrip("fFdD") if re.search(r"[pP][+-]?\d+[fFdD]$", text) else text)
    return float(text if text.endswith(("NaN", "Infinity")) else text.rstrip("fFdD"))


def _is_valid(type: Any, text: str) -> bool:
    try:
        type.fromisoformat(text)
    except ValueError:
        return False
    return True


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that has the values of both."""
    t = pa.types
    if one == other:
        return one
    if t.is_string(one) or t.is_string(other):
        return pa.string()
    both = (one, other)
    if all(t.is_integer(each) for each in both):
        return pa.int64()
    if all(t.is_integer(each) or t.is_decimal(each) for each in both):
        return pa.decimal128(max(map(_precision, both)), 0)
    if pa.float64() in both and pa.int32() in both:
        return pa.float64()
    return TIMESTAMP if all(t.is_date(each) or t.is_timestamp(each) for each in both) else pa.string()


def _precision(type: pa.DataType) -> int:
    """The digits of a decimal that holds every number of a type, as Spark has it."""
    if pa.types.is_decimal(type):
        return int(type.precision)
    return 10 if type == pa.int32() else 20
