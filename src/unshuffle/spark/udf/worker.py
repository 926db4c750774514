"""User-defined operators in Spark's Python workers, called with Arrow batches.

Each function here returns the function that a task runs. A worker gets it by value, with this module's code and the user's
class, so neither needs to be installed there.
"""

from __future__ import annotations

import io
import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unshuffle.catalog.types import spark_name
from unshuffle.frozen import dataclass
from unshuffle.operators import Aggregator, Combiner, Extractor, Outputter, Processor, Reducer, Row, UserType
from unshuffle.spark.udf.user_code import Batches, Code, Produced, converts, fits

ROW_NUMBER = "_unshuffle_row"  # the number of a row in its group
_CHUNK = 1 << 20  # bytes of an output file in a row


Types = Mapping[str, type[UserType]]  # of the columns that have a type of the user's


def rows_of(data: pa.RecordBatch | pa.Table, types: Types) -> list[Row]:
    rows: list[Row] = data.to_pylist()
    for name in types.keys() & set(data.schema.names):
        for row in rows:
            row[name] = None if row[name] is None else types[name].from_stored(row[name])
    return rows


@dataclass(frozen=True)
class InputColumns:
    """The columns of an operator's input: their names in Spark, and the names that the user's class uses."""

    spark_names: tuple[str, ...]
    names: tuple[str, ...]
    types: Types = field(default_factory=dict)

    def rows(self, plain: pa.RecordBatch | pa.Table) -> list[Row]:
        """Plain data as dictionaries, with instances of the user's types."""
        return rows_of(plain, self.types)

    def plain(self, data: pa.RecordBatch | pa.Table) -> Any:
        return data.select(list(self.spark_names)).rename_columns(list(self.names))


def _results(results: Any) -> Iterable[Any]:
    """A user class may return one table or batch instead of a list."""
    return (results,) if isinstance(results, pa.Table | pa.RecordBatch) or results is None else results


# ----------------------------------------------------------------------------------------------------------- operators


def process(code: Code, read: InputColumns, produced: Produced) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        operator: Processor = code.made()
        with code.guarded():
            for batch in batches:
                plain = read.plain(batch)
                if code.form == "process":
                    for result in _results(operator.process(plain)):
                        yield from produced.batches(result)
                else:
                    made = (operator.process_row(row) for row in read.rows(plain))
                    yield from produced.rows(itertools.chain.from_iterable(made))

    return run


def reduce(
    code: Code,
    read: InputColumns,
    produced: Produced,
    keys: tuple[str, ...],
    is_numbered: bool,
    constant: tuple[tuple[str, str], ...],
) -> Callable[[Batches], Batches]:
    """`constant` lists the columns that must equal a key of the group: the column's name in Spark, and the key."""
    operators: list[Reducer] = []  # one per task; `run` is called once per group

    def run(batches: Batches) -> Batches:
        if not operators:
            operators.append(code.made())
        operator = operators[0]
        with code.guarded():
            plain = (read.plain(batch) for batch in (_in_order(batches) if is_numbered else batches))
            first = next(plain)
            group = itertools.chain((first,), plain)
            key = read.rows(first.select(list(keys)).slice(0, 1))[0]
            if code.form == "reduce":
                results = produced.batches(operator.reduce(pa.Table.from_batches(group)))
            else:
                rows = (row for batch in group for row in read.rows(batch))
                results = produced.rows(operator.reduce_rows(key, rows))
            for result in results:
                for column, of in constant:
                    _check_constant(code, result.column(column), column, of, key[of])
                yield result

    return run


def _in_order(batches: Batches) -> Batches:
    """The rows of a group in the order of their numbers, which start at 1. Rows that come in order are passed on at once."""
    seen = 0
    for batch in batches:
        expected = np.arange(seen + 1, seen + 1 + batch.num_rows)
        if not np.array_equal(batch.column(ROW_NUMBER).to_numpy(), expected):
            # Exactly the rows up to `seen` were passed on, so the rest contains all others.
            yield from pa.Table.from_batches([batch, *batches]).sort_by(ROW_NUMBER).to_batches()
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
    code: Code,
    left: InputColumns,
    right: InputColumns,
    produced: Produced,
    left_keys: tuple[str, ...],
    right_keys: tuple[str, ...],
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
                values = (left if side is ours else right).rows(side.select(list(names)).slice(0, 1))[0]
                key = {name: values[own] for name, own in zip(left_keys, names, strict=True)}
                results = produced.rows(operator.combine_rows(key, left.rows(ours), right.rows(theirs)))
            return pa.Table.from_batches(results, produced.wire)

    return run


def combine_parts(
    code: Code,
    keys: Sequence[str],
    columns: Sequence[str],
    parts: Sequence[Sequence[str]],
    key_names: Sequence[str],
    types: Sequence[Types],
    produced: Produced,
) -> Callable[[Batches], Batches]:
    """A COMBINE whose inputs come as one, in order. The last of `keys` is the number of the input of each row; `columns` are
    those of all inputs, `parts` the names of each input's, and `types` the user's types among them."""
    operators: list[Combiner] = []

    def run(batches: Batches) -> Batches:
        if not operators:
            operators.append(code.made())
        operator = operators[0]
        with code.guarded():
            group = pa.Table.from_batches(_in_order(batches))
            number, inputs, start = group.column(keys[-1]), [], 0
            for place, names in enumerate(parts):
                own = list(columns[start : start + len(names)])
                start += len(names)
                inputs.append(group.filter(pc.equal(number, place)).select(own).rename_columns(list(names)))
            if code.form == "combine":
                yield from produced.batches(operator.combine(*inputs))
            else:
                key = group.select(list(keys[:-1])).slice(0, 1).rename_columns(list(key_names))
                of_inputs = (rows_of(each, types[place]) for place, each in enumerate(inputs))
                yield from produced.rows(operator.combine_rows(rows_of(key, types[0])[0], *of_inputs))

    return run


def extract(code: Code, produced: Produced) -> Callable[[Batches], Batches]:
    """InputColumns rows are files: (path, content). The content is absent if a worker can open the file itself."""

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


def output(code: Code, read: InputColumns, note: Callable[[list[int]], None]) -> Callable[[Batches], Batches]:
    """Output rows are pieces of a part file's bytes. Spark writes a newline after each.

    `note` is called with the number of a part whose bytes do not end with a newline: there, the last one is superfluous.
    """

    def run(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = context.partitionId() if context else 0
        first = next(batches, None)
        if first is None and part > 0:
            return  # without rows only the first part has a file
        rows = (read.plain(batch) for batch in itertools.chain((first,) if first is not None else (), batches))
        operator: Outputter = code.made()
        with tempfile.TemporaryFile() as file:
            with code.guarded():
                if code.form == "write":
                    operator.write(rows, cast(BinaryIO, file))
                else:
                    file.write(_bytes(operator.header()))
                    for batch in rows:
                        file.writelines(_bytes(operator.format_row(row)) for row in read.rows(batch))
            file.seek(0)
            for piece, ended in _pieces(cast(BinaryIO, file)):
                yield pa.record_batch({"value": pa.array([piece], pa.binary())})
                if not ended:
                    note([part])

    return run


def _bytes(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _pieces(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """A file's bytes split at newlines, and whether a piece was followed by one. Only the last may be without."""
    held: list[bytes] = []
    while block := file.read(_CHUNK):
        head, line_end, rest = block.rpartition(b"\n")
        if line_end:
            yield b"".join((*held, head)), True
            held.clear()
        held.append(rest)
    if last := b"".join(held):
        yield last, False


# ----------------------------------------------------------------------------------------------------------- functions


def values_of(columns: Sequence[pa.Array], types: Types) -> list[list[Any]]:
    """The values of each column, with instances of the user's types. `types` are by the places of the columns."""
    lists: list[list[Any]] = [column.to_pylist() for column in columns]
    for place, type in types.items():
        lists[int(place)] = [None if value is None else type.from_stored(value) for value in lists[int(place)]]
    return lists


def call_rows(
    code: Code, arrow: bool, types: Types, returns: pa.DataType, wire: pa.DataType
) -> Callable[..., pa.Array]:
    """A function of the user's over the values of each row or, with `arrow`, over arrays of them."""

    def run(*columns: pa.Array) -> pa.Array:
        with code.guarded():
            if not arrow:
                values = [code.loaded(*row) for row in zip(*values_of(columns, types), strict=True)]
                return _array_of(code, values, returns, wire)
            result = code.loaded(*columns)
            result = result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
            if not isinstance(result, pa.Array):
                raise code.failed(f"{code.named} returned a {type(result).__name__}, not an Arrow array")
            if len(result) != len(columns[0]):
                raise code.failed(f"{code.named} returned {len(result)} values for {len(columns[0])} rows")
            if not fits(result.type, returns):
                raise code.failed(_not_declared(code, f"an array of type {result.type}", returns))
            return result.cast(wire)

    return run


def _array_of(code: Code, values: list[Any], returns: pa.DataType, wire: pa.DataType) -> pa.Array:
    for value in values:
        if not converts(value, returns):
            raise code.failed(_not_declared(code, f"{value!r:.80}", returns))
    return pa.array(values, returns).cast(wire)


def _not_declared(code: Code, what: str, returns: pa.DataType) -> str:
    return f"{code.named} returned {what}, but it is declared to return {spark_name(returns)}"


def aggregate(code: Code, types: Types, returns: pa.DataType) -> Callable[..., Any]:
    def run(*columns: pa.Array) -> Any:
        operator: Aggregator = code.made()
        with code.guarded():
            if code.form == "aggregate":
                result = operator.aggregate(*columns)
            else:
                state = operator.initialize()
                for values in zip(*values_of(columns, types), strict=True):
                    state = operator.accumulate(state, *values)
                result = operator.evaluate(state)
            result = result.as_py() if isinstance(result, pa.Scalar) else result
            if not converts(result, returns):
                raise code.failed(_not_declared(code, f"{result!r:.80}", returns))
            return result

    return run


def aggregate_lists(
    code: Code, types: Types, returns: pa.DataType, wire: pa.DataType
) -> Callable[[pa.Array], pa.Array]:
    """An aggregate over lists. The rows of a list are structs with a field for each argument."""
    of_group = aggregate(code, types, returns)

    def run(lists: pa.Array) -> pa.Array:
        results = []
        for each in lists:
            rows = each.values
            results.append(of_group(*(rows.field(i) for i in range(rows.type.num_fields))))
        return pa.array(results, returns).cast(wire)

    return run
