"""Classes of columns that are equal in every row, and the constants they hold (ICDE 2010, section IV-A).

The columns of a class are equal under the equality of GROUP BY: in every row they are all NULL or all have the same value.
The equality of a join also says that none is NULL; that is kept separately, as `never_null`. A constant value is kept in
the class. Equality under a lossy cast does not make a class: '01' and '1' both equal 1 when compared as numbers, so a
string column joined with a number is not interchangeable with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType, names
from unshuffle.frozen import dataclass


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """The constant value of a column; None is NULL."""

    value: object

    def same_as(self, other: ConstantValue) -> bool:
        return type(self.value) is type(other.value) and self.value == other.value

    def differs_from(self, other: ConstantValue) -> bool:
        """Whether the values differ in every engine. Unknown for floats: NaN equals itself in Spark and not in Python."""
        if isinstance(self.value, float) or isinstance(other.value, float):
            return False
        return (self.value is None) != (other.value is None) or (
            type(self.value) is type(other.value) and self.value != other.value
        )

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)


@dataclass(frozen=True, slots=True)
class EqualColumns:
    """A class of columns that are equal in every row, and their value if it is a known constant."""

    columns: frozenset[Column]
    constant: ConstantValue | None = None

    @property
    def representative(self) -> Column:
        return min(self.columns, key=lambda column: column.id)

    def __str__(self) -> str:
        members = names(self.columns).replace(", ", " = ")
        return members if self.constant is None else f"{members} = {self.constant}"


def interchangeable(one: DataType, other: DataType) -> bool:
    """Whether equal values of the two types group and sort alike, so that one column can replace the other.

    Unknown types are not interchangeable: they may compare under a lossy cast.
    """
    if one is None or other is None:
        return False
    return bool(one == other) or bool(pa.types.is_signed_integer(one) and pa.types.is_signed_integer(other))


def merge_classes(classes: Iterable[EqualColumns]) -> tuple[EqualColumns, ...]:
    """Merges overlapping classes. The result is sorted, so equal facts have one form.

    Two different constants in one class mean that there are no rows; either constant is kept.
    """
    merged: list[EqualColumns] = []
    for new in classes:
        columns, constant = new.columns, new.constant
        disjoint = []
        for old in merged:
            if old.columns & columns:
                columns, constant = columns | old.columns, constant or old.constant
            else:
                disjoint.append(old)
        merged = [*disjoint, EqualColumns(columns, constant)]
    kept = (c for c in merged if len(c.columns) > 1 or c.constant is not None)
    return tuple(sorted(kept, key=lambda c: c.representative.id))


def restrict_classes(classes: Iterable[EqualColumns], columns: frozenset[Column]) -> Iterator[EqualColumns]:
    for each in classes:
        kept = each.columns & columns
        if kept:
            yield EqualColumns(kept, each.constant)


def common_classes(left: Iterable[EqualColumns], right: Iterable[EqualColumns]) -> tuple[EqualColumns, ...]:
    """The classes that hold in both inputs of a union. A constant is kept only if it is the same in both."""
    common = []
    others = tuple(right)
    for one in left:
        for other in others:
            shared = one.columns & other.columns
            if not shared:
                continue
            same = one.constant is not None and other.constant is not None and one.constant.same_as(other.constant)
            common.append(EqualColumns(shared, one.constant if same else None))
    return merge_classes(common)
