"""Whether a row lies in the range of the task that reads it, by comparing it with the two ends of that range.

The number of a row's range takes a search among all boundaries (`range_number`). A task that reads stored rows knows its own
number, and only needs to know whether that is theirs: at or after the lower end, and before the upper one. Its ends are
constants that Spark's reader adds to the rows of each file, as it does the number; the comparison is compiled.

A boundary of fewer keys than others is filled up with NULLs. NULL comes before all values here, so that these stand for the
first point that begins like the boundary, which is what it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, LongType, StringType, StructField

from unshuffle.algebra.sql import quote
from unshuffle.properties import RangeFunction, RangeKey, Sampled
from unshuffle.spark.columns import jvm


class OwnRange:
    """The ends of each range of a function, and the comparison of rows with them. `keys` are the names of a row's columns."""

    def __init__(self, function: RangeFunction, keys: Sequence[str], prefix: str) -> None:
        assert not isinstance(function.boundaries, Sampled)
        self._boundaries, self._types = function.boundaries, [_constant(key) for key in function.keys]
        self._keys = keys
        self._low, self._high = ([f"{prefix}_{end}_{i}" for i in range(len(keys))] for end in ("low", "high"))
        self._ends = (f"{prefix}_first", f"{prefix}_last")

    @staticmethod
    def serves(function: object) -> bool:
        """Are there ends, and do SQL's comparisons have the order of the keys? Whole numbers and text, the least first."""
        if not isinstance(function, RangeFunction) or isinstance(function.boundaries, Sampled):
            return False
        return all(_constant(key) is not None and not key.descending and key.nulls_first for key in function.keys)

    @property
    def fields(self) -> list[StructField]:
        ends = [StructField(name, BooleanType(), False) for name in self._ends]
        typed = [
            (name, type_) for names in (self._low, self._high) for name, type_ in zip(names, self._types, strict=True)
        ]
        return [*ends, *(StructField(name, type_, True) for name, type_ in typed if type_ is not None)]

    def fill(self, spark: SparkSession, row: Any, start: int, number: int) -> None:
        """Writes the ends of a range into a row, from a place on."""
        row.setBoolean(start, number == 0)
        row.setBoolean(start + 1, number == len(self._boundaries))
        place = start + 2
        for at in (number - 1, number):
            boundary = self._boundaries[at] if 0 <= at < len(self._boundaries) else ()
            for i, type_ in enumerate(self._types):
                value = boundary[i] if i < len(boundary) else None
                if value is None:
                    row.setNullAt(place)
                elif isinstance(type_, LongType):
                    row.setLong(place, int(value))
                else:
                    text = jvm(spark).org.apache.spark.unsafe.types.UTF8String
                    row.update(place, text.fromBytes(str(value).encode()))
                place += 1

    @property
    def condition(self) -> str:
        first, last = map(quote, self._ends)
        return f"(({first} OR {self._reaches(self._low)}) AND ({last} OR NOT {self._reaches(self._high)}))"

    def _reaches(self, end: Sequence[str]) -> str:
        """Is the row at or after this end?"""
        found = "true"
        for key, bound in reversed(list(zip(map(quote, self._keys), map(quote, end), strict=True))):
            is_after = f"coalesce({key} > {bound}, {bound} IS NULL AND {key} IS NOT NULL)"
            found = f"({is_after} OR ({key} <=> {bound} AND {found}))"
        return found


def _constant(key: RangeKey) -> DataType | None:
    """The type of a constant that such a key can be compared with."""
    if key.type is not None and pa.types.is_integer(key.type):
        return LongType()
    return StringType() if key.type is not None and pa.types.is_string(key.type) else None
