"""The answer of a query, its rows and schema or its error, and whether two answers are the same."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import DataType, StringType

from unshuffle.errors import NotOptimizedWarning

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows and schema of a query, or its error. `faults` are warnings that a fault of ours left it to plain Spark."""

    rows: tuple[Any, ...] = ()
    schema: Any = None
    error: str | None = None
    faults: tuple[str, ...] = ()


def answer(of: Callable[[], DataFrame]) -> Answer:
    return answered(lambda: of_frame(of()))


def answered(of: Callable[[], Answer]) -> Answer:
    """The answer that a function returns, or the error that it raises, and the warnings that it gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = of()
        except Exception as error:  # whatever ours raises and plain Spark does not is a finding
            made = Answer(error=short(error))
    faults = (str(each.message) for each in caught if issubclass(each.category, NotOptimizedWarning))
    return replaced(made, faults=tuple(faults))


def of_frame(frame: DataFrame) -> Answer:
    return Answer(_rows(frame), frame.schema)


def _rows(frame: DataFrame) -> tuple[Any, ...]:
    """Rows as Python values. Intervals of months have none, and those of variants are not compared: they are texts."""
    fields = frame.schema.fields
    if any(_is_text(each.dataType) for each in fields):
        frame = frame.toDF(*(f"c{i}" for i in range(len(fields))))
        columns = ((F.col(f"c{i}"), each.dataType) for i, each in enumerate(fields))
        frame = frame.select(*(column.cast("string") if _is_text(type) else column for column, type in columns))
    folded = [isinstance(f.dataType, StringType) and f.dataType.collation != "UTF8_BINARY" for f in fields]
    return tuple(
        tuple(v.lower() if is_folded and v is not None else v for v, is_folded in zip(row, folded, strict=True))
        for row in frame.collect()
    )


def _is_text(type: DataType) -> bool:
    return any(name in type.simpleString() for name in ("interval year", "interval month", "variant"))


def short(error: Exception) -> str:
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return f"{condition or type(error).__name__}: {str(error).strip()[:200]}"


def same(left: Answer, right: Answer, is_ordered: bool) -> bool:
    if len(left.rows) != len(right.rows):
        return False
    one, two = (rows if is_ordered else sorted(rows, key=_key) for rows in (left.rows, right.rows))
    return all(_is_close(a, b) for a, b in zip(one, two, strict=True))


def _key(value: Any) -> str:
    """Equal for values that are equal, and for floats that differ in the last bits only."""
    if isinstance(value, float):
        return "0" if value == 0 else f"{value:.6g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_key, value))}]"
    return repr(value)


def _is_close(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (left != left and right != right) or left == right or math.isclose(left, right, rel_tol=TOLERANCE)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_close, left, right))
    return left == right


def shown(of: Answer) -> str:
    return of.error or f"{len(of.rows)} rows: {str(sorted(of.rows, key=_key)[:5])[:300]}"


def shown_difference(expected: Answer, found: Answer) -> tuple[str, str]:
    """The rows that only one side has; all rows if they differ in their order."""
    one, two = ({_key(row) for row in each.rows} for each in (expected, found))
    left = replaced(expected, rows=tuple(row for row in expected.rows if _key(row) not in two) or expected.rows)
    right = replaced(found, rows=tuple(row for row in found.rows if _key(row) not in one) or found.rows)
    return shown(left), shown(right)
