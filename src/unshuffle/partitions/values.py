"""Values of a key column: their order in Spark, their successors, and their position as numbers.

    comparable(key)       maps values to pairs that Python compares as Spark compares the values under the key
    following(key, v)     the successor of v: no value is between the two
    number(type, v)       the value as a number, for types where differences are meaningful; from_number is the inverse

Spark's order: NULL first or last, as the key says; NaN above all numbers and equal to itself; -0.0 equal to 0.0; strings by
their UTF-8 bytes, which is the order of code points and thus Python's (unlike Java's); binary by unsigned bytes; false
before true. Descending reverses everything except the position of NULL.

Values are Python objects: int, float, Decimal, str, bytes, bool, date, datetime (with a time zone for timestamp, without
one for timestamp_ntz). A value that does not have the type of the key is an error: 1 and '1' have no order.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import spark_name

# The rank, which is the first element of a pair. The second element is compared only among values.
NULL_FIRST, NAN_FIRST, VALUE, NAN_LAST, NULL_LAST, AFTER = range(6)

Coded = tuple[int, Any]
NULL = (None,)

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_COMPLEMENT = bytes(range(255, -1, -1))
_LAST_CHARACTER = 0x10FFFF


class SortedKey(Protocol):
    """One column of a composite sort key: `intervals.KeyColumn`, or `RangeKey` of the properties."""

    @property
    def type(self) -> DataType: ...
    @property
    def descending(self) -> bool: ...
    @property
    def nulls_first(self) -> bool: ...


# ------------------------------------------------------------------------------------------------------------- in order


def comparable(key: SortedKey) -> Callable[[Any], Coded]:
    return _comparable(key.type, key.descending, key.nulls_first)


@lru_cache(maxsize=1024)
def _comparable(type: DataType, descending: bool, nulls_first: bool) -> Callable[[Any], Coded]:
    null = (NULL_FIRST if nulls_first else NULL_LAST, 0)
    nan = (NAN_FIRST if descending else NAN_LAST, 0)
    plain, turned = _plain(type), _turned if descending else None

    def code(value: Any) -> Coded:
        if value is None:
            return null
        found = plain(value)
        if found != found:
            return nan
        return VALUE, found if turned is None else turned(found)

    return code


def kind(of: DataType) -> str | None:
    """Types of the same kind order their common values alike, as int and bigint do; a date and a timestamp do not. None for
    an unknown type."""
    t = pa.types
    if of is None:
        return None
    for name, belongs in (("integer", t.is_integer), ("floating", t.is_floating), ("decimal", t.is_decimal)):
        if belongs(of):
            return name
    return spark_name(of)


def _turned(value: Any) -> Any:
    """A value that compares in reverse. A string must then come after its extensions, so each ends in a character that is
    greater than any byte."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value.translate(_COMPLEMENT).decode("latin-1") + "\u0100"
    return value.copy_negate() if isinstance(value, Decimal) else -value  # unary minus would round a long decimal


def _plain(of: DataType) -> Callable[[Any], Any]:
    """Maps values of a type to values that Python orders as Spark orders the originals."""
    if of is None:
        return _plain_of_any
    t = pa.types
    if t.is_integer(of):
        return _only(of, int)
    if t.is_floating(of):
        return _only(of, float, int)
    if t.is_decimal(of):
        return _only(of, Decimal, int)
    if t.is_string(of) or t.is_large_string(of):
        return _only(of, str)
    if t.is_binary(of) or t.is_large_binary(of) or t.is_boolean(of):
        return _only(of, bool if t.is_boolean(of) else bytes)
    if t.is_date(of):
        days = _only(of, datetime.date)
        return lambda value: days(value).toordinal()
    if t.is_timestamp(of):
        return lambda value: _microseconds(of, value)
    raise TypeError(f"columns of type {of} cannot be range keys")


def _only(of: pa.DataType, *kinds: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) not in kinds:
            raise TypeError(f"{value!r} is not of type {of}")
        return value

    return check


def _microseconds(of: pa.DataType, value: Any) -> int:
    if not isinstance(value, datetime.datetime) or (value.tzinfo is None) != (of.tz is None):
        raise TypeError(f"{value!r} is not of type {of}")
    return (value - (_EPOCH if of.tz is None else _EPOCH_UTC)) // _MICROSECOND


def _plain_of_any(value: Any) -> Any:
    """For an unknown type, the value itself decides."""
    if isinstance(value, datetime.datetime):
        return _microseconds(pa.timestamp("us", None if value.tzinfo is None else "UTC"), value)
    return value.toordinal() if isinstance(value, datetime.date) else value


# ------------------------------------------------------------------------------------------------------------- one further


def following(key: SortedKey, value: Any) -> tuple[Any, ...] | None:
    """The successor of a value in the order of the key, in a tuple; an empty tuple if the value is the last. None if there is
    no successor: in descending order, there is another string between 'b' and any string after it."""
    t = pa.types
    if key.type is None:
        return None
    last: tuple[Any, ...] = () if key.nulls_first else NULL
    if value is None:
        return _first(key) if key.nulls_first else ()
    if t.is_floating(key.type):
        return _next_float(key, float(value), last)
    if t.is_string(key.type) or t.is_large_string(key.type):
        return None if key.descending else (value + "\0",)
    if t.is_binary(key.type) or t.is_large_binary(key.type):
        return None if key.descending else (value + b"\0",)
    at = number(key.type, value)
    if at is None:
        return None
    after = from_number(key.type, at + (-1 if key.descending else 1))
    return last if after is None else (after,)


def after_beginning(text: str) -> str | None:
    """The least string greater than all strings with this prefix; None if there is none."""
    while text:
        at = ord(text[-1])
        if at < _LAST_CHARACTER:
            return text[:-1] + chr(0xE000 if at + 1 == 0xD800 else at + 1)  # no character is a surrogate
        text = text[:-1]
    return None


def _next_float(key: SortedKey, value: float, last: tuple[Any, ...]) -> tuple[Any, ...]:
    if math.isnan(value):
        return (math.inf,) if key.descending else last
    end = -math.inf if key.descending else math.inf
    if value == end:
        return last if key.descending else (math.nan,)
    if key.type == pa.float32():
        return (float(np.nextafter(np.float32(value), np.float32(end))),)
    return (math.nextafter(value, end),)


def _first(key: SortedKey) -> tuple[Any, ...] | None:
    """The first value of the order that is not NULL."""
    t, of = pa.types, key.type
    if t.is_floating(of):
        return (math.nan,) if key.descending else (-math.inf,)
    if t.is_string(of) or t.is_large_string(of):
        return None if key.descending else ("",)
    if t.is_binary(of) or t.is_large_binary(of):
        return None if key.descending else (b"",)
    limits = _limits(of)
    return None if limits is None else (from_number(of, limits[1 if key.descending else 0]),)


# ------------------------------------------------------------------------------------------------------------- between


def number(of: DataType, value: Any) -> int | float | None:
    """The position of a value: an int if the values of the type are countable, a float if not, None if differences are not
    meaningful."""
    read = None if value is None else _numbering(of)
    return None if read is None else read(value)


@lru_cache(maxsize=256)
def _numbering(of: DataType) -> Callable[[Any], int | float | None] | None:
    t = pa.types
    if of is None:
        return None
    if t.is_floating(of):
        return lambda value: float(value) if math.isfinite(value) else None
    if t.is_decimal(of):
        return lambda value: int(Fraction(value) * 10**of.scale)
    if t.is_integer(of) or t.is_boolean(of):
        return int
    return _plain(of) if t.is_date(of) or t.is_timestamp(of) else None


def from_number(of: pa.DataType, at: int | float) -> Any:
    """The value at a position; None if it is out of the range of the type."""
    t = pa.types
    if t.is_floating(of):
        return float(at)
    limits = _limits(of)
    whole = math.floor(at)
    if limits is None or not limits[0] <= whole <= limits[1]:
        return None
    if t.is_boolean(of):
        return bool(whole)
    if t.is_decimal(of):
        return Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -of.scale))
    if t.is_date(of):
        return datetime.date.fromordinal(whole)
    if t.is_timestamp(of):
        return (_EPOCH if of.tz is None else _EPOCH_UTC) + whole * _MICROSECOND
    return whole


@lru_cache(maxsize=256)
def _limits(of: pa.DataType) -> tuple[int, int] | None:
    """The least and greatest position of a countable type. Dates before the year 1 exist in Spark but not in Python; they
    are below all boundaries."""
    t = pa.types
    if t.is_boolean(of):
        return 0, 1
    if t.is_integer(of):
        return -(2 ** (of.bit_width - 1)), 2 ** (of.bit_width - 1) - 1
    if t.is_decimal(of):
        return -(10**of.precision) + 1, 10**of.precision - 1
    if t.is_date(of):
        return datetime.date.min.toordinal(), datetime.date.max.toordinal()
    if t.is_timestamp(of):
        ends = datetime.datetime.min, datetime.datetime.max
        return (ends[0] - _EPOCH) // _MICROSECOND, (ends[1] - _EPOCH) // _MICROSECOND
    return None


def share_of_text(low: str | bytes, high: str | bytes | None, at: str | bytes) -> float:
    """The relative position of a string between two others, by the bytes after their common prefix. It is precise enough to
    estimate row counts; no boundary is computed from it."""
    a, c = _bytes(low), _bytes(at)
    b = _bytes(high) if high is not None else b"\xff" * 8
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    start, end, here = (int.from_bytes(x[shared : shared + 8].ljust(8, b"\0"), "big") for x in (a, b, c))
    return (here - start) / (end - start) if end > start else 0.5


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
