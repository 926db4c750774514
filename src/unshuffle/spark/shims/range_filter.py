"""A filter that keeps the rows in the range of the task that reads them, by comparing them with the two ends of that range.

The number of a row's range takes a search among all boundaries (`range_number`). A task that reads stored rows knows its own
number and only needs to know whether a row has it: whether it is at or after the lower end, and before the upper end. The
ends are constants that Spark's reader appends to the rows of each file, as it does the number. The comparison is compiled.

A boundary with fewer keys than the function is padded with NULLs. NULL sorts before all values here, so a padded boundary is
the least of all keys that begin like the boundary, which is what the boundary means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BooleanType, DataType, DateType, LongType, StringType, StructField

from unshuffle.plan.sql import quote
from unshuffle.properties import RangeFunction, RangeKey, SampledBoundaries


class RangeFilter:
    """The ends of each range of a function, and the comparison of rows with them. `keys` are the names of the columns."""

    def __init__(self, function: RangeFunction, keys: Sequence[str], prefix: str) -> None:
        assert not isinstance(function.boundaries, SampledBoundaries)
        self._boundaries, self._types = function.boundaries, [_constant_type(key) for key in function.keys]
        self._keys = keys
        self._low, self._high = ([f"{prefix}_{end}_{i}" for i in range(len(keys))] for end in ("low", "high"))
        self._is_first, self._is_last = f"{prefix}_first", f"{prefix}_last"

    @staticmethod
    def supports(function: object) -> bool:
        """Whether the boundaries are known and SQL compares keys in their order: ascending integers, dates and strings."""
        if not isinstance(function, RangeFunction) or isinstance(function.boundaries, SampledBoundaries):
            return False
        return all(_constant_type(key) is not None and not key.descending and key.nulls_first for key in function.keys)

    @property
    def fields(self) -> list[StructField]:
        """The constants that the reader appends to each row."""
        flags = [StructField(name, BooleanType(), False) for name in (self._is_first, self._is_last)]
        typed = [
            (name, type_) for names in (self._low, self._high) for name, type_ in zip(names, self._types, strict=True)
        ]
        return [*flags, *(StructField(name, type_, True) for name, type_ in typed if type_ is not None)]

    def constants(self, number: int) -> Iterator[tuple[DataType, Any]]:
        """The constants of a range, in the order of `fields`."""
        yield BooleanType(), number == 0
        yield BooleanType(), number == len(self._boundaries)
        for at in (number - 1, number):
            boundary = self._boundaries[at] if 0 <= at < len(self._boundaries) else ()
            for i, type_ in enumerate(self._types):
                value = boundary[i] if i < len(boundary) else None
                assert type_ is not None
                yield type_, int(value) if value is not None and isinstance(type_, LongType) else value

    @property
    def condition(self) -> str:
        is_first, is_last = quote(self._is_first), quote(self._is_last)
        return f"(({is_first} OR {self._reaches(self._low)}) AND ({is_last} OR NOT {self._reaches(self._high)}))"

    def _reaches(self, end: Sequence[str]) -> str:
        """Whether a row is at or after this end."""
        reaches = "true"
        for key, bound in reversed(list(zip(map(quote, self._keys), map(quote, end), strict=True))):
            is_after = f"coalesce({key} > {bound}, {bound} IS NULL AND {key} IS NOT NULL)"
            reaches = f"({is_after} OR ({key} <=> {bound} AND {reaches}))"
        return reaches


def _constant_type(key: RangeKey) -> DataType | None:
    """The type of a constant that a key can be compared with."""
    if key.type is None:
        return None
    if pa.types.is_integer(key.type):
        return LongType()
    if pa.types.is_date(key.type):
        return DateType()
    return StringType() if pa.types.is_string(key.type) else None
