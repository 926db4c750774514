"""What a user writes in Python: the base classes of user-defined operators.

A script's `USING ngrams.NGram(n = 4)` makes an `NGram(n=4)` in every task that runs it, so an instance may keep what is
costly to make, but must not count on seeing all rows. Every operator can be written in one of two forms, and overrides
the one it wants:

- the Arrow form works on whole columns, and is the fast one;
- the row form works on dictionaries, and is the short one.

    class NGram(Processor):
        def __init__(self, n: int) -> None:
            self.n = n

        def process_row(self, row):
            for i in range(len(row["line"]) - self.n + 1):
                yield {"gram": row["line"][i : i + self.n]}

What an operator returns must have exactly the columns that its PRODUCE clause names, in any order. A value that fits the
declared type without loss is cast to it; anything else is an error, not a NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa

Row = dict[str, Any]


class UserOperator:
    """What all user-defined operators share: two forms, of which a class overrides one."""

    FORMS: ClassVar[tuple[str, ...]] = ()  # the Arrow form's method, then the row form's

    @classmethod
    def form(cls) -> str | None:
        """The method this class overrides, the Arrow form's if it has both; None if it has neither."""
        for base in cls.__mro__:
            if "FORMS" in base.__dict__:
                return next((name for name in cls.FORMS if getattr(cls, name) is not getattr(base, name)), None)
        return None


class Extractor(UserOperator):
    """Reads files that Spark cannot: one call a file, which it sees whole; files are spread over tasks."""

    FORMS = ("extract", "extract_rows")

    def extract(self, file: BinaryIO, path: str) -> Iterable[pa.RecordBatch | pa.Table]:
        """The rows of one file, in as many batches as is convenient."""
        raise NotImplementedError

    def extract_rows(self, file: BinaryIO, path: str) -> Iterable[Row]:
        raise NotImplementedError


class Processor(UserOperator):
    """Turns rows into any number of rows, looking at one row, or one batch of unspecified size, at a time."""

    FORMS = ("process", "process_row")

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch | pa.Table]:
        raise NotImplementedError

    def process_row(self, row: Row) -> Iterable[Row]:
        raise NotImplementedError


class Reducer(UserOperator):
    """Turns each group of rows that agree on the ON columns into any number of rows.

    A call sees its group whole and in PRESORT order. The row form reads a group as a stream, so a group may be larger
    than memory; the Arrow form holds it in one table.
    """

    FORMS = ("reduce", "reduce_rows")

    def reduce(self, group: pa.Table) -> pa.Table:
        raise NotImplementedError

    def reduce_rows(self, key: Row, rows: Iterator[Row]) -> Iterable[Row]:
        raise NotImplementedError


class Combiner(UserOperator):
    """Turns the rows of two inputs that have the same key into any number of rows.

    Called for every key that either input has: the other one's rows may be none. NULL keys meet NULL keys. The rows of
    one key come in no particular order.
    """

    FORMS = ("combine", "combine_rows")

    def combine(self, left: pa.Table, right: pa.Table) -> pa.Table:
        raise NotImplementedError

    def combine_rows(self, key: Row, left_rows: list[Row], right_rows: list[Row]) -> Iterable[Row]:
        """`key` goes by the left input's column names."""
        raise NotImplementedError


class Outputter(UserOperator):
    """Writes rows in a format that Spark cannot: one call for each part file of the output."""

    FORMS = ("write", "format_row")

    def write(self, batches: Iterable[pa.RecordBatch], file: BinaryIO) -> None:
        raise NotImplementedError

    def header(self) -> bytes | str:
        """What every part file begins with, in the row form."""
        return b""

    def format_row(self, row: Row) -> bytes | str:
        """The bytes of one row, its line end included; text is written as UTF-8."""
        raise NotImplementedError


class Aggregator(UserOperator):
    """An aggregate function for SELECT, over as many columns as it is called with.

    Registered under a name for the queries of a session: `session.register_aggregator("median2", Median2,
    returns="double")`, then `SELECT median2(price) FROM ... GROUP BY shop`. Spark brings all rows of a group to one task
    first: there is no partial aggregation of Python code.

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
