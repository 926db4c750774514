"""The base classes of user-defined operators.

`USING ngrams.NGram(n = 4)` constructs an `NGram(n=4)` in every task that runs it. An instance may keep costly objects between
calls, but sees only the rows of its task. Every operator has two forms, and a class overrides one of them:

- the Arrow form works on whole columns and is fast;
- the row form works on dictionaries and is short.

    class NGram(Processor):
        def __init__(self, n: int) -> None:
            self.n = n

        def process_row(self, row):
            for i in range(len(row["line"]) - self.n + 1):
                yield {"gram": row["line"][i : i + self.n]}

The rows that an operator returns must have exactly the columns of its PRODUCE clause, in any order. A value that fits the
declared type without loss is cast to it. Any other value is an error, not a NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa

Row = dict[str, Any]


class UserOperator:
    """The base of all user-defined operators. A class overrides one of its two forms.

    A `Processor`, `Reducer` or `Combiner` that takes long may say so: `seconds_per_row` is the time for one input row on one
    core. More and smaller partitions are then made for it, and it is run on all cores."""

    seconds_per_row: ClassVar[float] = 0.0
    FORMS: ClassVar[tuple[str, ...]] = ()  # the Arrow form's method, then the row form's

    @classmethod
    def form(cls) -> str | None:
        """The method that this class overrides: the Arrow form's if it has both, None if it has neither."""
        for base in cls.__mro__:
            if "FORMS" in base.__dict__:
                return next((name for name in cls.FORMS if getattr(cls, name) is not getattr(base, name)), None)
        return None


class Extractor(UserOperator):
    """Reads files in a format that Spark cannot read. One call reads one whole file. Files are spread over tasks."""

    FORMS = ("extract", "extract_rows")

    def extract(self, file: BinaryIO, path: str) -> Iterable[pa.RecordBatch | pa.Table]:
        """The rows of one file, in any number of batches."""
        raise NotImplementedError

    def extract_rows(self, file: BinaryIO, path: str) -> Iterable[Row]:
        raise NotImplementedError


class Processor(UserOperator):
    """Turns rows into any number of rows. A call sees one row, or one batch of unspecified size."""

    FORMS = ("process", "process_row")

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch | pa.Table]:
        raise NotImplementedError

    def process_row(self, row: Row) -> Iterable[Row]:
        raise NotImplementedError


class Reducer(UserOperator):
    """Turns each group of rows that agree on the ON columns into any number of rows.

    A call sees a whole group, in PRESORT order. The row form reads the group as a stream, so a group may be larger than
    memory. The Arrow form gets it as one table.
    """

    FORMS = ("reduce", "reduce_rows")

    def reduce(self, group: pa.Table) -> pa.Table:
        raise NotImplementedError

    def reduce_rows(self, key: Row, rows: Iterator[Row]) -> Iterable[Row]:
        raise NotImplementedError


class Combiner(UserOperator):
    """Turns the rows of two inputs that have the same key into any number of rows.

    There is one call for every key that either input has; the other input may have no rows of it. NULL equals NULL. The rows
    of one key have no particular order.
    """

    FORMS = ("combine", "combine_rows")

    def combine(self, left: pa.Table, right: pa.Table) -> pa.Table:
        raise NotImplementedError

    def combine_rows(self, key: Row, left_rows: list[Row], right_rows: list[Row]) -> Iterable[Row]:
        """`key` has the column names of the left input."""
        raise NotImplementedError


class Outputter(UserOperator):
    """Writes rows in a format that Spark cannot write. One call writes one part file of the output."""

    FORMS = ("write", "format_row")

    def write(self, batches: Iterable[pa.RecordBatch], file: BinaryIO) -> None:
        raise NotImplementedError

    def header(self) -> bytes | str:
        """The first bytes of every part file, in the row form."""
        return b""

    def format_row(self, row: Row) -> bytes | str:
        """The bytes of one row, its line end included; text is written as UTF-8."""
        raise NotImplementedError


class Aggregator(UserOperator):
    """An aggregate function for SELECT, over as many columns as it is called with.

    Register it under a name, `session.register_aggregator("median2", Median2, returns="double")`, and call it in the queries
    of the session: `SELECT median2(price) FROM ... GROUP BY shop`. Spark moves all rows of a group to one task first: Python
    code has no partial aggregation.

    The Arrow form is one method. The row form folds: `initialize()` makes a state, `accumulate(state, *values)` returns
    the next one, `evaluate(state)` the result.
    """

    FORMS = ("aggregate", "accumulate")

    def aggregate(self, *columns: pa.Array) -> Any:
        raise NotImplementedError

    def initialize(self) -> Any:
        return None

    def accumulate(self, state: Any, *values: Any) -> Any:
        raise NotImplementedError

    def evaluate(self, state: Any) -> Any:
        return state
