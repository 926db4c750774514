"""What runs in Spark's Python workers: user-defined operators, called on Arrow batches, and checked.

A worker gets its code by value, this module's functions and the user's class alike, so that neither needs to be
installed there. Whatever goes wrong in user code leaves a worker as one `UserCodeFailed`, whose text the driver reads
back (see `failures.py`): Spark carries nothing else but text.

Always: a batch handed on has exactly the columns that PRODUCE names, in its order, of exactly the types Spark expects.
"""

from __future__ import annotations

import datetime
import decimal
import io
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unshuffle.catalog.types import is_array, is_decimal, spark_name
from unshuffle.loading import describe
from unshuffle.operators import Aggregator, Combiner, Extractor, Outputter, Processor, Reducer, Row, UserOperator

Batches = Iterator[pa.RecordBatch]
MARK = "unshuffle-user-code "
NUMBER = "_unshuffle_row"  # a row's place in its group
_ROWS = 10_000  # rows of the row form that make a batch
_CHUNK = 1 << 20  # bytes of an output file that make a row


class UserCodeFailed(Exception):
    """A fault of a user class; its text is for the driver."""


@dataclass(frozen=True)
class Input:
    """The columns an operator sees: their names in Spark, and the plain ones that the user's class knows."""

    spark_names: tuple[str, ...]
    names: tuple[str, ...]

    def plain(self, data: pa.RecordBatch | pa.Table) -> Any:
        return data.select(list(self.spark_names)).rename_columns(list(self.names))


@dataclass(frozen=True)
class Code:
    """A user class with its arguments, and what the driver needs to know of it should it fail."""

    named: str
    where: str  # which use of it in the script
    loaded: type[UserOperator]
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]
    folders: tuple[str, ...]
    file: str | None

    @property
    def form(self) -> str | None:
        return self.loaded.form()

    def made(self) -> Any:
        # Imports inside the user's functions may want its folder, where the worker can see that folder.
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
    """What PRODUCE says, and the check of what a user class returned against it."""

    code: Code
    names: tuple[str, ...]
    declared: tuple[pa.DataType, ...]
    wire: pa.Schema  # as Spark wants it, under Spark's names

    def batches(self, result: Any) -> Batches:
        """A table or batch of the Arrow form."""
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
        """Dictionaries of the row form."""
        for chunk in _chunks(rows, _ROWS):
            for row in chunk:
                if not isinstance(row, dict):
                    raise self.code.failed(f"{self.code.named} returned a {type(row).__name__}, not a dictionary")
                if len(row) != len(self.names) or any(name not in row for name in self.names):
                    self._check_names(list(row))
            columns = [
                self._column(name, [row[name] for row in chunk], declared).cast(field.type)
                for name, declared, field in zip(self.names, self.declared, self.wire, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.wire)

    def _check_names(self, returned: list[str]) -> None:
        missing = [repr(name) for name in self.names if name not in returned]
        extra = [repr(name) for name in returned if name not in self.names]
        twice = [repr(name) for name in self.names if returned.count(name) > 1]
        for found, fault in ((missing, "returned no column"), (extra, "returned a column"), (twice, "returned twice")):
            if found:
                says = f", but PRODUCE says {', '.join(self.names)}"
                raise self.code.failed(f"{self.code.named} {fault} {', '.join(found)}{says}")

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
            wrong = next((value for value in values if not _converts(value, declared)), values[0])
            raise self.code.failed(
                f"{self.code.named} returned {wrong!r:.80} in column {name!r}, but PRODUCE says {spark_name(declared)}"
            ) from None


def fits(type: pa.DataType, declared: pa.DataType) -> bool:
    """Whether every value of one type is also one of the other, so that a cast loses nothing."""
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
        return (type.tz is None) == (
            declared.tz is None
        )  # nanoseconds that are not whole microseconds fail in the cast
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
    """Arrow's own conversion, but for values that it would cut: 1.5 is no int, and a number is no date."""
    if (cut := _cutter(type)) is not None and any(value is not None and cut(value) for value in values):
        raise ValueError
    return pa.array(values, type)


def _cutter(type: pa.DataType) -> Callable[[Any], bool] | None:
    """Tells the values of which Arrow would silently keep a part; None if there are none."""
    if pa.types.is_integer(type):
        return lambda value: not hasattr(value, "__index__")
    if pa.types.is_date(type):
        return lambda value: isinstance(value, int | float | decimal.Decimal | datetime.datetime)
    if pa.types.is_temporal(type):
        return lambda value: isinstance(value, int | float | decimal.Decimal)
    if is_array(type) and (of_element := _cutter(type.value_type)):
        return lambda value: any(v is not None and of_element(v) for v in value)
    if pa.types.is_map(type):
        parts = pa.struct({"key": type.key_type, "value": type.item_type})
        of_pair = _cutter(parts)
        assert of_pair is not None
        return lambda value: any(
            of_pair({"key": k, "value": v}) for k, v in (value.items() if isinstance(value, dict) else value)
        )
    if pa.types.is_struct(type):
        fields = {field.name: _cutter(field.type) for field in type}
        return lambda value: (
            value.keys() != fields.keys()
            or any(value[name] is not None and of_field(value[name]) for name, of_field in fields.items() if of_field)
        )
    return None


def _converts(value: Any, type: pa.DataType) -> bool:
    try:
        _array([value], type)
    except _UNFIT:
        return False
    return True


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _results(results: Any) -> Iterable[Any]:
    """One table or batch may stand for the list of it."""
    return (results,) if isinstance(results, pa.Table | pa.RecordBatch) or results is None else results


# ----------------------------------------------------------------------------------------------------------- operators


def process(code: Code, read: Input, produced: Produced) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        operator: Processor = code.made()
        with code.guarded():
            for batch in batches:
                plain = read.plain(batch)
                if code.form == "process":
                    for result in _results(operator.process(plain)):
                        yield from produced.batches(result)
                else:
                    made = (operator.process_row(row) for row in plain.to_pylist())
                    yield from produced.rows(itertools.chain.from_iterable(made))

    return run


def reduce(
    code: Code,
    read: Input,
    produced: Produced,
    keys: tuple[str, ...],
    numbered: bool,
    constant: tuple[tuple[str, str], ...],
) -> Callable[[Batches], Batches]:
    """`constant` pairs the columns, in Spark's names, that must repeat a key of the group with that key."""
    operators: list[Reducer] = []  # one a task: this function runs once a group

    def run(batches: Batches) -> Batches:
        if not operators:
            operators.append(code.made())
        operator = operators[0]
        with code.guarded():
            plain = (read.plain(batch) for batch in (_in_order(batches) if numbered else batches))
            first = next(plain)
            group = itertools.chain((first,), plain)
            key = first.select(list(keys)).slice(0, 1).to_pylist()[0]
            if code.form == "reduce":
                results = produced.batches(operator.reduce(pa.Table.from_batches(group)))
            else:
                rows = (row for batch in group for row in batch.to_pylist())
                results = produced.rows(operator.reduce_rows(key, rows))
            for result in results:
                for column, of in constant:
                    _check_constant(code, result.column(column), column, of, key[of])
                yield result

    return run


def _in_order(batches: Batches) -> Batches:
    """The rows of a group by their numbers, which run from 1. What comes in order is passed on as it comes."""
    seen = 0
    for batch in batches:
        expected = np.arange(seen + 1, seen + 1 + batch.num_rows)
        if not np.array_equal(batch.column(NUMBER).to_numpy(), expected):
            # All that was passed on are the rows up to `seen`, so the rest has all others.
            yield from pa.Table.from_batches([batch, *batches]).sort_by(NUMBER).to_batches()
            return
        seen += batch.num_rows
        yield batch


def _check_constant(code: Code, column: pa.Array, name: str, key: str, value: Any) -> None:
    if value is None:
        same = column.null_count == len(column)
    else:
        same = column.null_count == 0 and pc.all(pc.equal(column, pa.scalar(value, column.type)), min_count=0).as_py()
    if not same:
        raise code.failed(f"{code.named} changed {key!r}, which is READONLY: its group has {value!r:.80}")


def combine(
    code: Code, left: Input, right: Input, produced: Produced, left_keys: tuple[str, ...], right_keys: tuple[str, ...]
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    operators: list[Combiner] = []

    def run(left_group: pa.Table, right_group: pa.Table) -> pa.Table:
        if not operators:
            operators.append(code.made())
        operator = operators[0]
        with code.guarded():
            ours, theirs = left.plain(left_group), right.plain(right_group)
            if code.form == "combine":
                results = produced.batches(operator.combine(ours, theirs))
            else:
                side, names = (ours, left_keys) if ours.num_rows else (theirs, right_keys)
                values = side.select(list(names)).slice(0, 1).to_pylist()[0]
                key = {name: values[own] for name, own in zip(left_keys, names, strict=True)}
                results = produced.rows(operator.combine_rows(key, ours.to_pylist(), theirs.to_pylist()))
            return pa.Table.from_batches(results, produced.wire)

    return run


def extract(code: Code, produced: Produced) -> Callable[[Batches], Batches]:
    """Rows in are (path, content), a file each; the content is absent where a worker can open the file itself."""

    def run(batches: Batches) -> Batches:
        operator: Extractor = code.made()
        for batch in batches:
            for row in batch.to_pylist():
                path, content = row["path"].removeprefix("file:"), row.get("content")
                file = cast(BinaryIO, open(path, "rb") if content is None else io.BytesIO(content))  # noqa: SIM115
                with file, code.guarded():
                    if code.form == "extract":
                        for result in _results(operator.extract(file, path)):
                            yield from produced.batches(result)
                    else:
                        yield from produced.rows(operator.extract_rows(file, path))

    return run


def output(code: Code, read: Input, note: Callable[[list[int]], None]) -> Callable[[Batches], Batches]:
    """Rows out are pieces of a part file's bytes, each to be followed by a line end.

    `note` is told the part whose bytes do not end with a line end: there, the last one written is one too many.
    """

    def run(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = context.partitionId() if context else 0
        first = next(batches, None)
        if first is None and part > 0:
            return  # no rows, no file; but an output has at least one file
        rows = (read.plain(batch) for batch in itertools.chain((first,) if first is not None else (), batches))
        operator: Outputter = code.made()
        with tempfile.TemporaryFile() as file:
            with code.guarded():
                if code.form == "write":
                    operator.write(rows, cast(BinaryIO, file))
                else:
                    file.write(_bytes(operator.header()))
                    for batch in rows:
                        file.writelines(_bytes(operator.format_row(row)) for row in batch.to_pylist())
            file.seek(0)
            for piece, ended in _pieces(cast(BinaryIO, file)):
                yield pa.record_batch({"value": pa.array([piece], pa.binary())})
                if not ended:
                    note([part])

    return run


def _bytes(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _pieces(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """A file's bytes cut at line ends, which are left out; only the last piece may have had none."""
    held: list[bytes] = []
    while block := file.read(_CHUNK):
        head, line_end, rest = block.rpartition(b"\n")
        if line_end:
            yield b"".join((*held, head)), True
            held.clear()
        held.append(rest)
    if last := b"".join(held):
        yield last, False


def aggregate(code: Code, returns: pa.DataType) -> Callable[..., Any]:
    def run(*columns: pa.Array) -> Any:
        operator: Aggregator = code.made()
        with code.guarded():
            if code.form == "aggregate":
                result = operator.aggregate(*columns)
            else:
                state = operator.initialize()
                for values in zip(*(column.to_pylist() for column in columns), strict=True):
                    state = operator.accumulate(state, *values)
                result = operator.evaluate(state)
            result = result.as_py() if isinstance(result, pa.Scalar) else result
            if not _converts(result, returns):
                raise code.failed(
                    f"{code.named} returned {result!r:.80}, but it is declared to return {spark_name(returns)}"
                )
            return result

    return run
