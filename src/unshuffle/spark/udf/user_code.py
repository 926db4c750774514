"""Running user code: the class and its arguments, its errors, and the check of its results.

Every error of user code leaves a worker as a `UserCodeFailed`, whose text the driver parses (see `execution/failures.py`):
Spark passes only text on. Results are checked against the PRODUCE clause: a batch that is passed on has exactly the columns
named there, in that order, in exactly the types that Spark expects.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from unshuffle.catalog.types import is_array, is_decimal, spark_name
from unshuffle.frozen import dataclass
from unshuffle.operators import Row, UserType
from unshuffle.user_classes import describe

Batches = Iterator[pa.RecordBatch]
MARK = "unshuffle-user-code "
_BATCH_ROWS = 10_000  # rows of the row form in a batch


class UserCodeFailed(Exception):
    """An error of a user class; its text is for the driver."""


@dataclass(frozen=True)
class Code:
    """A user class with its arguments, or a function, and what an error message needs."""

    named: str
    where: str  # the place of this use in the script
    loaded: Any  # the class, or a function
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]
    folders: tuple[str, ...]
    file: str | None

    @property
    def form(self) -> str | None:
        form: str | None = self.loaded.form()
        return form

    def made(self) -> Any:
        # Imports inside the user's functions may need its folder, if the worker can see that folder.
        sys.path.extend(folder for folder in self.folders if folder not in sys.path)
        with self.guarded():
            return self.loaded(*self.arguments, **dict(self.keywords))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except UserCodeFailed:
            raise
        except Exception as error:
            raise self.failed(f"{self.named} failed: {describe(error, self.file)}") from None

    def failed(self, message: str) -> UserCodeFailed:
        return UserCodeFailed(MARK + json.dumps({"where": self.where, "message": message}))


@dataclass(frozen=True)
class Produced:
    """The PRODUCE clause of a user class, and the check of its results against it."""

    code: Code
    names: tuple[str, ...]
    declared: tuple[pa.DataType, ...]
    wire: pa.Schema  # as Spark expects it, under Spark's names
    types: frozenset[str] = frozenset()  # the columns that have a type of the user's
    others: frozenset[str] = frozenset()  # columns that it may return as well, which the script does not name

    def batches(self, result: Any) -> Batches:
        """The result of the Arrow form: a table or a batch."""
        if not isinstance(result, pa.Table | pa.RecordBatch):
            raise self.code.failed(f"{self.code.named} returned a {type(result).__name__}, not a table or record batch")
        self._check_names(result.schema.names)
        columns = [
            self._cast(name, result.column(name), declared, field.type)
            for name, declared, field in zip(self.names, self.declared, self.wire, strict=True)
        ]
        if isinstance(result, pa.RecordBatch):
            yield pa.RecordBatch.from_arrays(columns, schema=self.wire)
        else:
            yield from pa.Table.from_arrays(columns, schema=self.wire).to_batches()

    def rows(self, rows: Iterable[Row]) -> Batches:
        """The result of the row form: dictionaries."""
        for chunk in _chunks(rows, _BATCH_ROWS):
            for row in chunk:
                if not isinstance(row, dict):
                    raise self.code.failed(f"{self.code.named} returned a {type(row).__name__}, not a dictionary")
                if len(row) != len(self.names) or any(name not in row for name in self.names):
                    self._check_names(list(row))
            columns = [
                self._column(name, self._stored(name, [row[name] for row in chunk]), declared).cast(field.type)
                for name, declared, field in zip(self.names, self.declared, self.wire, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.wire)

    def _stored(self, name: str, values: list[Any]) -> list[Any]:
        if name not in self.types:
            return values
        return [value.to_stored() if isinstance(value, UserType) else value for value in values]

    def _check_names(self, returned: list[str]) -> None:
        missing = [repr(name) for name in self.names if name not in returned]
        extra = [repr(name) for name in returned if name not in self.names and name not in self.others]
        twice = [repr(name) for name in self.names if returned.count(name) > 1]
        for names, fault in ((missing, "returned no column"), (extra, "returned a column"), (twice, "returned twice")):
            if names:
                says = f", but PRODUCE says {', '.join(self.names)}"
                raise self.code.failed(f"{self.code.named} {fault} {', '.join(names)}{says}")

    def _cast(self, name: str, column: Any, declared: pa.DataType, wire: pa.DataType) -> Any:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not fits(column.type, declared):
            shown = spark_name(column.type)
            raise self.code.failed(
                f"{self.code.named} returned a column {name!r} of type {column.type if shown == '?' else shown}, "
                f"but PRODUCE says {spark_name(declared)}"
            )
        try:
            return column.cast(wire, safe=True)
        except pa.ArrowInvalid as error:
            raise self.code.failed(f"{self.code.named} returned a column {name!r} that does not fit: {error}") from None

    def _column(self, name: str, values: list[Any], declared: pa.DataType) -> pa.Array:
        try:
            return _array(values, declared)
        except _UNFIT:
            wrong = next((value for value in values if not converts(value, declared)), values[0])
            raise self.code.failed(
                f"{self.code.named} returned {wrong!r:.80} in column {name!r}, but PRODUCE says {spark_name(declared)}"
            ) from None


def fits(type: pa.DataType, declared: pa.DataType) -> bool:
    """Whether every value of a type is also a value of the declared type, so that a cast loses nothing."""
    if type == declared or pa.types.is_null(type) or spark_name(type) == spark_name(declared):
        return True
    if pa.types.is_integer(type):
        digits = {8: 3, 16: 5, 32: 10, 64: 20 if pa.types.is_unsigned_integer(type) else 19}[type.bit_width]
        if pa.types.is_signed_integer(declared):
            return bool(type.bit_width + pa.types.is_unsigned_integer(type) <= declared.bit_width)
        if pa.types.is_floating(declared):
            return bool(type.bit_width < {16: 11, 32: 24, 64: 53}[declared.bit_width])
        return is_decimal(declared) and declared.precision - declared.scale >= digits
    if pa.types.is_floating(type):
        return bool(pa.types.is_floating(declared) and type.bit_width <= declared.bit_width)
    if is_decimal(type) and is_decimal(declared):
        whole = declared.precision - declared.scale >= type.precision - type.scale
        return bool(whole and declared.scale >= type.scale)
    if pa.types.is_timestamp(type) and pa.types.is_timestamp(declared):
        # Nanoseconds that are not whole microseconds fail in the cast.
        return (type.tz is None) == (declared.tz is None)
    if pa.types.is_date(type) or pa.types.is_time(type):
        return bool(pa.types.is_date(declared) if pa.types.is_date(type) else pa.types.is_time(declared))
    if is_array(type) and is_array(declared):
        return fits(type.value_type, declared.value_type)
    if pa.types.is_map(type) and pa.types.is_map(declared):
        return fits(type.key_type, declared.key_type) and fits(type.item_type, declared.item_type)
    if pa.types.is_struct(type) and pa.types.is_struct(declared):
        return [f.name for f in type] == [f.name for f in declared] and all(
            fits(a.type, b.type) for a, b in zip(type, declared, strict=True)
        )
    return False


_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)


def _array(values: list[Any], type: pa.DataType) -> pa.Array:
    """Arrow's own conversion, but an error for values that it would truncate: 1.5 is no int, and a number is no date."""
    if (truncates := _truncates(type)) is not None and any(value is not None and truncates(value) for value in values):
        raise ValueError
    return pa.array(values, type)


def _truncates(type: pa.DataType) -> Callable[[Any], bool] | None:
    """A test for values that Arrow would silently truncate; None if there are none."""
    if pa.types.is_integer(type):
        return lambda value: not hasattr(value, "__index__")
    if pa.types.is_date(type):
        return lambda value: isinstance(value, int | float | decimal.Decimal | datetime.datetime)
    if pa.types.is_temporal(type):
        return lambda value: isinstance(value, int | float | decimal.Decimal)
    if is_array(type) and (of_element := _truncates(type.value_type)):
        return lambda value: any(v is not None and of_element(v) for v in value)
    if pa.types.is_map(type):
        parts = pa.struct({"key": type.key_type, "value": type.item_type})
        of_pair = _truncates(parts)
        assert of_pair is not None
        return lambda value: any(
            of_pair({"key": k, "value": v}) for k, v in (value.items() if isinstance(value, dict) else value)
        )
    if pa.types.is_struct(type):
        fields = {field.name: _truncates(field.type) for field in type}
        return lambda value: (
            value.keys() != fields.keys()
            or any(value[name] is not None and of_field(value[name]) for name, of_field in fields.items() if of_field)
        )
    return None


def converts(value: Any, type: pa.DataType) -> bool:
    try:
        _array([value], type)
    except _UNFIT:
        return False
    return True


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
