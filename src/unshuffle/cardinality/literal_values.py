"""The values of constant expressions, and the position of a value between two others.

The results are used for estimates only. So an expression that cannot be evaluated here is simply `UNKNOWN`, and a large
integer may lose digits.
"""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from unshuffle.plan.expressions import Call, Cast, Expression, Literal, Template


class UnknownValue:
    """The value of an expression that is known only when it runs."""

    __slots__ = ()


UNKNOWN = UnknownValue()
# The errors of comparing values of different types: a string with a number, a Decimal with NaN, an integer beyond floats.
INCOMPARABLE = (TypeError, ArithmeticError)
_INTERVAL = re.compile(r"^INTERVAL\s*'?\s*(-?\d+)\s*'?\s*(DAY|WEEK|MONTH|QUARTER|YEAR)S?$", re.IGNORECASE)
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_NUMBERS = (int, float, Decimal)


def value_of(expression: Expression) -> Any:
    """The value of a constant expression; `UNKNOWN` for any other."""
    kind = type(expression)
    if kind is Literal:
        return expression.value  # type: ignore[union-attr]
    if kind is Cast:
        return _cast(value_of(expression.operand), expression.type)  # type: ignore[union-attr]
    if kind is Call:
        return _call(expression.function, expression.arguments)  # type: ignore[union-attr]
    return UNKNOWN


def _cast(value: Any, type: pa.DataType) -> Any:
    if value is UNKNOWN or value is None:
        return value
    try:
        if pa.types.is_date(type):
            return _as_date(value)
        if pa.types.is_timestamp(type):
            return _as_instant(value, type.tz is not None)
        if pa.types.is_integer(type):
            return int(value)
        if pa.types.is_floating(type):
            return float(value)
        if pa.types.is_decimal(type):
            return Decimal(str(value))
        if pa.types.is_string(type):
            return value if isinstance(value, str) else UNKNOWN
    except (ValueError, TypeError, InvalidOperation, OverflowError):
        pass
    return UNKNOWN


def _as_date(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.date()
    return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value.strip()[:10])


def _as_instant(value: Any, zoned: bool) -> Any:
    zone = datetime.UTC if zoned else None
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value.strip())
    if not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day, tzinfo=zone)
    return value if value.tzinfo is not None or zone is None else value.replace(tzinfo=zone)


def _call(function: str, arguments: tuple[Expression, ...]) -> Any:
    if function == "negative" and len(arguments) == 1:
        value = value_of(arguments[0])
        return -value if isinstance(value, _NUMBERS) else UNKNOWN
    if function not in ("+", "-", "*", "/") or len(arguments) != 2:
        return UNKNOWN
    left, right = value_of(arguments[0]), value_of(arguments[1])
    if isinstance(left, datetime.date) and isinstance(arguments[1], Template):
        return _shifted(left, arguments[1], 1 if function == "+" else -1)
    if not isinstance(left, _NUMBERS) or not isinstance(right, _NUMBERS):
        return UNKNOWN
    try:
        one, other = float(left), float(right)
        match function:
            case "+":
                return one + other
            case "-":
                return one - other
            case "*":
                return one * other
            case _:
                return one / other
    except (OverflowError, ZeroDivisionError):
        return UNKNOWN


def _shifted(day: datetime.date, interval: Template, sign: int) -> Any:
    match = _INTERVAL.match(interval.pieces[0].strip()) if len(interval.pieces) == 1 else None
    if match is None:
        return UNKNOWN
    count, unit = sign * int(match[1]), match[2].upper()
    try:
        if unit in ("DAY", "WEEK"):
            return day + datetime.timedelta(days=count * (7 if unit == "WEEK" else 1))
        month = day.month - 1 + count * _MONTHS[unit]
        return day.replace(year=day.year + month // 12, month=month % 12 + 1, day=min(day.day, 28))
    except (OverflowError, ValueError):
        return UNKNOWN


def is_constant(expression: Expression) -> bool:
    return value_of(expression) is not UNKNOWN


# --- values of different types


def converted(value: Any, example: Any) -> Any:
    """The value in a type that can be compared with the example; `UNKNOWN` if there is none."""
    kind = type(example)
    if type(value) is kind:
        return value
    if kind in _NUMERIC_KINDS and type(value) in _NUMERIC_KINDS:
        return value
    try:
        if kind is datetime.date:
            return _as_date(value)
        if kind is datetime.datetime:
            return _as_instant(value, example.tzinfo is not None)
        if kind in _NUMERIC_KINDS and isinstance(value, str):
            return float(value)
    except (ValueError, TypeError, AttributeError):
        pass
    return UNKNOWN


_NUMERIC_KINDS = frozenset((int, float, Decimal, bool))


def is_discrete(value: Any) -> bool:
    """Whether there are no values between two neighbours: integers and dates."""
    kind = type(value)
    return kind is int or kind is datetime.date or kind is bool


def before(value: Any) -> Any:
    """The predecessor of a discrete value."""
    return value - datetime.timedelta(days=1) if type(value) is datetime.date else value - 1


def position(low: Any, high: Any, value: Any) -> float:
    """The position of a value between two others, from 0 to 1."""
    if value <= low:
        return 0.0
    if value >= high:
        return 1.0
    kind = type(low)
    if kind is str or kind is bytes:
        return _text_position(low, high, value)
    span = float(_distance(low, high))
    share = float(_distance(low, value)) / span if span > 0.0 else 1.0
    return min(1.0, max(0.0, share)) if share == share else 0.5


def _distance(low: Any, high: Any) -> float:
    if isinstance(low, datetime.datetime):
        return (high - low).total_seconds()  # type: ignore[no-any-return]
    if isinstance(low, datetime.date):
        return float((high - low).days)
    return float(high) - float(low)


def count_between(low: Any, high: Any) -> float | None:
    """The number of discrete values from one to another, both included; None for values that are not discrete."""
    return _distance(low, high) + 1.0 if is_discrete(low) and is_discrete(high) else None


def _text_position(low: Any, high: Any, value: Any) -> float:
    """Text after the common prefix of both ends, read as a fraction in base 256."""
    start = 0
    shortest = min(len(low), len(high))
    while start < shortest and low[start] == high[start]:
        start += 1
    first, last, middle = (_as_fraction(text, start) for text in (low, high, value))
    return min(1.0, max(0.0, (middle - first) / (last - first))) if last > first else 0.5


def _as_fraction(text: Any, start: int) -> float:
    fraction, scale = 0.0, 1.0
    for character in text[start : start + 6]:
        scale /= 256.0
        fraction += min(255, character if isinstance(character, int) else ord(character)) * scale
    return fraction


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
