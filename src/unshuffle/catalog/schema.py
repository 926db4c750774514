"""Columns, keys and dependencies: the vocabulary of every other layer.

A column is an identity, not a name. Two columns named `guid` that come from two inputs have two numbers, and every use
of one of them carries that number; nothing after the binder compares names. A rowset that is read twice has two sets of
columns, so a self-join is unambiguous without aliases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import count
from typing import TypeAlias

import pyarrow as pa

from unshuffle.frozen import dataclass

# Arrow's types represent Spark's: they describe the same values, are immutable and hashable, and need no JVM.
# None is a type that only Spark knows: of a foreign operator's column, or of a function without a signature here.
DataType: TypeAlias = "pa.DataType | None"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of one operator's output. Its number is its identity; the other fields describe it."""

    id: int
    name: str = field(compare=False)
    type: DataType = field(default=None, compare=False)
    nullable: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        return f"{self.name}#{self.id}"

    def __hash__(self) -> int:
        # Property matching hashes millions of columns, so this is as cheap as possible.
        return self.id

    @property
    def spark_name(self) -> str:
        """A name that is unique in a plan, also under Spark's case-insensitive comparison."""
        plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in self.name)
        return f"{plain}_{self.id}"


@dataclass(frozen=True, slots=True)
class Dependency:
    """Rows that agree on `determinant` agree on `dependent`. NULL counts as a value that is equal to itself."""

    determinant: frozenset[Column]
    dependent: frozenset[Column]

    def __str__(self) -> str:
        return f"{names(self.determinant)} -> {names(self.dependent)}"


Key = frozenset[Column]


def names(columns: Iterable[Column]) -> str:
    return ", ".join(str(column) for column in sorted(columns, key=lambda c: c.id))


class ColumnNumbers:
    """Hands out column numbers. There is one instance per script, so the same script always gets the same numbers."""

    def __init__(self, first: int = 1) -> None:
        self._numbers: Iterator[int] = count(first)

    def new(self, name: str, type: DataType = None, nullable: bool = True) -> Column:
        return Column(next(self._numbers), name, type, nullable)

    def like(self, column: Column, name: str | None = None, nullable: bool | None = None) -> Column:
        return self.new(name or column.name, column.type, column.nullable if nullable is None else nullable)
