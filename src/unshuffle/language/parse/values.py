"""The values of parameters and of constants in a script, and how they become values of a declared type."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from unshuffle.catalog.types import spark_name
from unshuffle.errors import Span, TypeProblem
from unshuffle.frozen import dataclass

Value = None | bool | int | float | decimal.Decimal | str | bytes | datetime.date | datetime.datetime


def convert(value: object, type: pa.DataType, what: str, span: Span | None = None) -> Value:
    """A value as one of a type. The command line gives text; Python gives a value of a Python type."""
    if value is None:
        return None
    conversion = next((each for each in _CONVERSIONS if each.applies_to(type)), None)
    if conversion is None:
        message, hint = f"{what} cannot be of type {spark_name(type)}", "use a number, string, bool, date or timestamp"
        raise TypeProblem(message, span, hint)
    wrong = f"{what} should be of type {spark_name(type)}, but is {value!r}"
    if isinstance(value, conversion.refuses) or not isinstance(value, conversion.accepts):
        raise TypeProblem(wrong, span, conversion.hint)
    try:
        converted: Value = conversion.convert(value)
    except (ValueError, decimal.InvalidOperation):
        raise TypeProblem(wrong, span, conversion.hint) from None
    if isinstance(converted, int) and pa.types.is_integer(type):
        limit = 2 ** (type.bit_width - 1)
        if not -limit <= converted < limit:
            raise TypeProblem(wrong, span, f"from {-limit} to {limit - 1}")
    return converted


@dataclass(frozen=True, slots=True)
class _Conversion:
    """How values become values of a type: the Python types that may, and what is done with them."""

    applies_to: Callable[[pa.DataType], bool]
    accepts: tuple[type, ...]
    convert: Callable[[Any], Value]
    refuses: tuple[type, ...] = ()  # subclasses of what is accepted: a bool is an int to Python, a datetime is a date
    hint: str | None = None


def _boolean(value: bool | str) -> bool:
    if isinstance(value, bool):
        return value
    if value.lower() not in ("true", "false"):
        raise ValueError
    return value.lower() == "true"


def _decimal(value: object) -> decimal.Decimal:
    return decimal.Decimal(str(value))


def _date(value: datetime.date | str) -> datetime.date:
    return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value)


def _timestamp(value: datetime.datetime | str) -> datetime.datetime:
    return value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(value)


_CONVERSIONS = (
    _Conversion(pa.types.is_boolean, (bool, str), _boolean, hint="true or false"),
    _Conversion(pa.types.is_integer, (int, str), int, (bool,)),
    _Conversion(pa.types.is_floating, (int, float, str), float, (bool,)),
    _Conversion(pa.types.is_decimal, (int, str, float, decimal.Decimal), _decimal, (bool,)),
    _Conversion(pa.types.is_date, (datetime.date, str), _date, (datetime.datetime,), "as YYYY-MM-DD"),
    _Conversion(pa.types.is_timestamp, (datetime.datetime, str), _timestamp, hint="as YYYY-MM-DD HH:MM:SS"),
    _Conversion(pa.types.is_string, (str,), str),
)


def type_of(name: str, value: object) -> pa.DataType:
    """The type of a parameter that Python gives without a declaration."""
    for python, arrow in (
        (bool, pa.bool_()),
        (int, pa.int64()),
        (float, pa.float64()),
        (str, pa.string()),
        (datetime.datetime, pa.timestamp("us", tz="UTC")),
        (datetime.date, pa.date32()),
    ):
        if isinstance(value, python):
            return pa.int32() if arrow == pa.int64() and -(2**31) <= value < 2**31 else arrow  # type: ignore[operator]
    if value is None:
        return pa.null()
    if isinstance(value, decimal.Decimal):
        return pa.scalar(value).type
    raise TypeProblem(f"the parameter {name!r} is a {type(value).__name__}", None, "use a number, string, bool or date")
