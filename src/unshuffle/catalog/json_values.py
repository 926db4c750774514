"""Values of columns as JSON. A value that JSON has no form for becomes an object that names its type. Decoding raises a
ValueError for anything that `encoded_value` does not return, and for a value that is not of the type of its column."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from unshuffle.catalog.json_files import shown
from unshuffle.catalog.schema import DataType


def encoded_value(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case Decimal():
            return {"decimal": str(value)}
        case bytes():
            return {"bytes": base64.b64encode(value).decode("ascii")}
        case datetime.datetime():
            zoned = value.astimezone(datetime.UTC) if value.tzinfo is not None else value
            return {"timestamp": zoned.isoformat()}
        case datetime.date():
            return {"date": value.isoformat()}
        case _:
            raise TypeError(f"no JSON form for {type(value).__name__}")


# Spark's decimals have at most 38 digits. Python computes with a decimal like 1E+999999999 until the memory is full.
_MAX_DIGITS = 76


def decoded_value(content: Any, type: DataType = None) -> Any:
    """A value; of this type, if it is not None."""
    value = content
    if isinstance(content, dict):
        ((kind, text),) = content.items() if len(content) == 1 else (("", None),)
        if kind not in _DECODERS or not isinstance(text, str):
            raise ValueError(f"{shown(content)} is not a value")
        value = _DECODERS[kind](text)
    elif isinstance(content, list):
        raise ValueError("a list is not a value")
    if type is not None and value is not None and not _is_of(value, type):
        raise ValueError(f"{shown(value)} is not of type {type}")
    return value


def _not_finite(text: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"{shown(text)} is a number that JSON has a form for")
    return float(text)


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{shown(text)} is not a decimal") from None
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) > _MAX_DIGITS or abs(exponent) > _MAX_DIGITS:
        raise ValueError(f"{shown(text)} is not a decimal of at most {_MAX_DIGITS} digits")
    return value


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_DECODERS: dict[str, Callable[[str], Any]] = {
    "float": _not_finite,
    "decimal": _decimal,
    "bytes": _bytes,
    "timestamp": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
}


def _is_of(value: Any, expected: pa.DataType) -> bool:
    """Whether a value is one of a column of this type. A type of which no values are stored has none to compare."""
    t, kind = pa.types, type(value)
    if t.is_integer(expected):
        limit = 2 ** (expected.bit_width - t.is_signed_integer(expected))
        return kind is int and (-limit if t.is_signed_integer(expected) else 0) <= value < limit
    if t.is_timestamp(expected):
        return kind is datetime.datetime and (value.tzinfo is None) == (expected.tz is None)
    for belongs, kinds in _KINDS:
        if belongs(expected):
            return kind in kinds and (kind is not int or abs(value) < 10**_MAX_DIGITS)
    return True


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...] = (
    (pa.types.is_boolean, (bool,)),
    (pa.types.is_floating, (float, int)),
    (pa.types.is_decimal, (Decimal, int)),
    (pa.types.is_string, (str,)),
    (pa.types.is_large_string, (str,)),
    (pa.types.is_binary, (bytes,)),
    (pa.types.is_large_binary, (bytes,)),
    (pa.types.is_date, (datetime.date,)),
)
