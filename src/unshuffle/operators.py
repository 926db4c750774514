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

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, ClassVar, TypeVar

import pyarrow as pa

from unshuffle.frozen import dataclass

Row = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Declaration:
    """What `function` says of a function."""

    returns: str
    deterministic: bool
    arrow: bool


def function(returns: str, *, deterministic: bool = False, arrow: bool = False) -> Callable[[F], F]:
    """Declares a function that scripts call as `module.name(x, y)`, with the Spark type of its result.

    It is called with the values of one row, None for NULL; with `arrow`, with a `pa.Array` for each argument, and returns one
    of the same length. The optimizer calls it once where the script does. It may call one that is declared `deterministic`,
    whose result depends on its arguments alone, more often or never."""

    def declare(declared: F) -> F:
        declared.unshuffle = Declaration(returns, deterministic, arrow)  # type: ignore[attr-defined]
        return declared

    return declare


class UserType:
    """The base of user-defined types: `PRODUCE at:geo.Point`. For the row forms of user code, values of such a column are
    instances of the class; for everything else they are structs of the Spark type `stored`."""

    stored: ClassVar[str] = ""

    def to_stored(self) -> Mapping[str, Any]:
        """The fields of the struct: by default, the attributes of the instance."""
        names = getattr(type(self), "__slots__", None)
        return vars(self) if names is None else {name: getattr(self, name) for name in names}

    @classmethod
    def from_stored(cls, fields: Mapping[str, Any]) -> Any:
        return cls(**fields)


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

    def produces(self) -> Mapping[str, str]:
        """The Spark types of the columns that the class makes, by name: what a script need not say."""
        return {}


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
    """Turns the rows of two or more inputs that have the same key into any number of rows.

    There is one call for every key that any input has; another input may have no rows of it. NULL equals NULL. The rows of
    an input are in PRESORT order, or else in no particular one. For more than two inputs, a class overrides a method with as
    many arguments.
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

    A script calls it by its module and name: `SELECT mine.Median2(price) FROM ... GROUP BY shop`. Its result has the Spark
    type `returns`. For other queries of a session, register it under a name with `session.register_aggregator("median2",
    Median2, returns="double")`. Spark moves all rows of a group to one task first: Python code has no partial aggregation.

    The Arrow form is one method. The row form folds: `initialize()` makes a state, `accumulate(state, *values)` returns
    the next one, `evaluate(state)` the result.
    """

    FORMS = ("aggregate", "accumulate")
    returns: ClassVar[str | None] = None
    deterministic: ClassVar[bool] = (
        False  # whether the result depends on the values of the group alone, not on their order
    )

    def aggregate(self, *columns: pa.Array) -> Any:
        raise NotImplementedError

    def initialize(self) -> Any:
        return None

    def accumulate(self, state: Any, *values: Any) -> Any:
        raise NotImplementedError

    def evaluate(self, state: Any) -> Any:
        return state
