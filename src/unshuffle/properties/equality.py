"""Columns that always hold equal values, and the constants they hold (ICDE 2010, section IV-A).

A class of columns is an equivalence under *GROUP BY's* equality: in every row its columns are all NULL or all hold the
same value. A join's equality gives more (nothing is NULL) and a constant gives more still; both are kept, the first as
`never_null` beside the classes, the second inside the class. Equality under a cast that loses something is none at all:
'01' and '1' both equal 1 when compared as numbers, so a string joined with a number is not interchangeable with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType, names


@dataclass(frozen=True, slots=True)
class Constant:
    """The one value of a column; None is NULL."""

    value: object

    def same_as(self, other: Constant) -> bool:
        return type(self.value) is type(other.value) and self.value == other.value

    def differs_from(self, other: Constant) -> bool:
        """Certainly different, whatever the engine's equality: NaN is not equal to itself in Python but is in Spark."""
        if isinstance(self.value, float) or isinstance(other.value, float):
            return False
        return (self.value is None) != (other.value is None) or (
            type(self.value) is type(other.value) and self.value != other.value
        )

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)


@dataclass(frozen=True, slots=True)
class EqualColumns:
    """One class: columns equal in every row, and their common value if it is known."""

    columns: frozenset[Column]
    constant: Constant | None = None

    @property
    def representative(self) -> Column:
        return min(self.columns, key=lambda column: column.id)

    def __str__(self) -> str:
        members = names(self.columns).replace(", ", " = ")
        return members if self.constant is None else f"{members} = {self.constant}"


def interchangeable(one: DataType, other: DataType) -> bool:
    """Do equal values of these types stay equal, and sort alike, whichever of the two columns is looked at?

    Unknown types are not: they may compare under a cast that loses something.
    """
    if one is None or other is None:
        return False
    return bool(one == other) or bool(pa.types.is_signed_integer(one) and pa.types.is_signed_integer(other))


def merge_classes(classes: Iterable[EqualColumns]) -> tuple[EqualColumns, ...]:
    """Overlapping classes become one; the result is sorted, so equal facts have one form.

    Two constants in one class mean that no row exists; either may stand.
    """
    merged: list[EqualColumns] = []
    for new in classes:
        columns, constant = new.columns, new.constant
        apart = []
        for old in merged:
            if old.columns & columns:
                columns, constant = columns | old.columns, constant or old.constant
            else:
                apart.append(old)
        merged = [*apart, EqualColumns(columns, constant)]
    kept = (c for c in merged if len(c.columns) > 1 or c.constant is not None)
    return tuple(sorted(kept, key=lambda c: c.representative.id))


def restrict_classes(classes: Iterable[EqualColumns], columns: frozenset[Column]) -> Iterator[EqualColumns]:
    for each in classes:
        kept = each.columns & columns
        if kept:
            yield EqualColumns(kept, each.constant)


def common_classes(left: Iterable[EqualColumns], right: Iterable[EqualColumns]) -> tuple[EqualColumns, ...]:
    """Equalities that hold on both sides of a union; a constant stays only if it is the same on both."""
    found = []
    sides = tuple(right)
    for one in left:
        for other in sides:
            shared = one.columns & other.columns
            if not shared:
                continue
            same = one.constant is not None and other.constant is not None and one.constant.same_as(other.constant)
            found.append(EqualColumns(shared, one.constant if same else None))
    return merge_classes(found)
