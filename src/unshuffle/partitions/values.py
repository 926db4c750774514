"""Values of a key column on a line: in Spark's order, one step further, or a share of the way between two.

    comparable(key)       a function from values to pairs that Python compares as Spark compares the values under the key
    following(key, v)     the boundary right after v: nothing lies between the two
    number(type, v)       the value as a number, where differences mean something; from_number is its inverse

Spark's order: NULL where the key says; NaN above every number, equal to itself; -0.0 equal to 0.0; strings by their UTF-8
bytes, which is the order of code points and so Python's own (Java's strings compare otherwise, Spark's do not); binary
by unsigned bytes; false before true. Descending turns all of it round except NULL, whose place is the key's own.

Values are Python's: int, float, Decimal, str, bytes, bool, date, datetime (with a zone for timestamp, without one for
timestamp_ntz). A value of another kind than the key's type is refused: 1 and '1' have no order.
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

# The first half of a pair. A value's second half is compared only with another value's.
NULL_FIRST, NAN_FIRST, VALUE, NAN_LAST, NULL_LAST, AFTER = range(6)

Coded = tuple[int, Any]
NULL = (None,)

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_COMPLEMENT = bytes(range(255, -1, -1))
_LAST_CHARACTER = 0x10FFFF


class SortedKey(Protocol):
    """One column of an ordered key; `Key` is one, and so is `RangeKey` of the properties."""

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
    """Types of one kind order their common values alike: int and bigint do, a date and a timestamp do not. Of an unknown
    type nothing can be said."""
    t = pa.types
    if of is None:
        return None
    for name, belongs in (("integer", t.is_integer), ("floating", t.is_floating), ("decimal", t.is_decimal)):
        if belongs(of):
            return name
    return spark_name(of)


def _turned(value: Any) -> Any:
    """A value that compares the other way round. Of two byte strings that agree, the longer then comes first, so each
    ends in something greater than any byte."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value.translate(_COMPLEMENT).decode("latin-1") + "\u0100"
    return value.copy_negate() if isinstance(value, Decimal) else -value  # unary minus would round a long decimal


def _plain(of: DataType) -> Callable[[Any], Any]:
    """Values of a type as something that Python orders as Spark does."""
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
    raise TypeError(f"a range has no keys of type {of}")


def _only(of: pa.DataType, *kinds: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) not in kinds:
            raise TypeError(f"{value!r} is no {of}")
        return value

    return check


def _microseconds(of: pa.DataType, value: Any) -> int:
    if not isinstance(value, datetime.datetime) or (value.tzinfo is None) != (of.tz is None):
        raise TypeError(f"{value!r} is no {of}")
    return (value - (_EPOCH if of.tz is None else _EPOCH_UTC)) // _MICROSECOND


def _plain_of_any(value: Any) -> Any:
    """Of an unknown type, the value tells."""
    if isinstance(value, datetime.datetime):
        return _microseconds(pa.timestamp("us", None if value.tzinfo is None else "UTC"), value)
    return value.toordinal() if isinstance(value, datetime.date) else value


# ------------------------------------------------------------------------------------------------------------- one further


def following(key: SortedKey, value: Any) -> tuple[Any, ...] | None:
    """The value right after this one in the key's order, in a tuple; an empty one if nothing follows; None if there is no
    such value: between 'b' and any string that descends from it lies another."""
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
    """The least string above all that begin with this text; None if there is none."""
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
    """The first value that is not NULL."""
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
    """Where a value lies among the others: an int where the type's values can be counted, a float where they cannot,
    None where differences mean nothing."""
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
    """The value there; None if the type has none so far out."""
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
    """The least and the greatest number of a type whose values can be counted. Dates before the year 1, which Spark has
    and Python has not, are below all boundaries."""
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
    """How far between two strings a third lies, told by the bytes after the beginning that the ends share. Good enough to
    guess rows with; no boundary is made from it."""
    a, c = _bytes(low), _bytes(at)
    b = _bytes(high) if high is not None else b"\xff" * 8
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    start, end, here = (int.from_bytes(x[shared : shared + 8].ljust(8, b"\0"), "big") for x in (a, b, c))
    return (here - start) / (end - start) if end > start else 0.5


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
