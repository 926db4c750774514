"""Structural properties of rows: grouped, sorted, partitioned (ICDE 2010, section IV-B).

A property is a formula that rows satisfy or do not. Plans deliver formulas, operators require formulas, and the inference
rules rewrite one formula into another.

A local property describes the sequence of rows within each partition. It is a list of actions; each action applies within
the runs that the actions before it produce:

    [{a, b}g, c↑]   rows that agree on a and b are adjacent; within each such run, c ascends

A global property describes which rows share a partition:

    Serial                     ⊥    there is exactly one partition
    UnknownPartitioning        ∅    every row is in one partition; nothing is known about which
    Replicated                 ⊤    every partition has every row
    TargetedBroadcast(f, [a])  ⊤a   a row is in every partition of f that can have its value of a; f has ranges of (a, ..)
    Grouped({a, b})                 rows that agree on a and b share a partition
    Ordered([a↑, b↓])               as Grouped, and for i < j every row of partition i precedes every row of partition j

The paper's ordered partitioning (Definition IV.6) requires only that two partitions can be compared, in either direction, so
that a↑ and a↓ mean the same. Here the partition numbers ascend, because the output of a parallel sort is read in the order
of the numbers. `Sorted` also says where NULLs go, which the paper does not consider: NULL is a value that equals itself
and comes before or after all other values, independent of the direction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from unshuffle.catalog.schema import Column, names
from unshuffle.frozen import dataclass
from unshuffle.properties.layouts.partition_functions import RangeFunction, SampledBoundaries


@dataclass(frozen=True, slots=True)
class Sorted:
    """A sort key: the action C^o of Definition IV.4. An ordered partitioning has a list of them."""

    column: Column
    descending: bool
    nulls_first: bool

    def reversed(self) -> Sorted:
        """The key of the reverse order, NULLs included."""
        return Sorted(self.column, not self.descending, not self.nulls_first)

    def on(self, column: Column) -> Sorted:
        return Sorted(column, self.descending, self.nulls_first)

    def __str__(self) -> str:
        usual = self.nulls_first != self.descending
        nulls = "" if usual else (" nulls first" if self.nulls_first else " nulls last")
        return f"{self.column}{'↓' if self.descending else '↑'}{nulls}"


def asc(column: Column, nulls_first: bool = True) -> Sorted:
    """Ascending, with Spark's default for NULLs."""
    return Sorted(column, False, nulls_first)


def desc(column: Column, nulls_first: bool = False) -> Sorted:
    """Descending, with Spark's default for NULLs."""
    return Sorted(column, True, nulls_first)


@dataclass(frozen=True, slots=True)
class Grouped:
    """X^g. As an action: rows that agree on X are adjacent. As a partitioning: they share a partition."""

    columns: frozenset[Column]

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError(
                "a grouping needs a column; instead of an empty one use no action, Serial or UnknownPartitioning"
            )

    def __str__(self) -> str:
        return f"{{{names(self.columns)}}}g"


def grouped(*columns: Column) -> Grouped:
    return Grouped(frozenset(columns))


Action = Grouped | Sorted
Local = tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """X^o: disjoint ranges of the keys, ascending with the partition number."""

    keys: tuple[Sorted, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("an ordered partitioning needs a key")

    def reversed(self) -> Ordered:
        return Ordered(tuple(key.reversed() for key in self.keys))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.keys))}]o"


def ordered(*keys: Sorted) -> Ordered:
    return Ordered(keys)


@dataclass(frozen=True, slots=True)
class Serial:
    """⊥: one partition. This differs from several partitions of which only one has rows."""

    def __str__(self) -> str:
        return "⊥"


@dataclass(frozen=True, slots=True)
class UnknownPartitioning:
    """∅: partitioned, but not by any column. `partitions` is None if the number is unknown."""

    partitions: int | None = None

    def __str__(self) -> str:
        return "∅"


@dataclass(frozen=True, slots=True)
class Replicated:
    """⊤: every partition has a full copy. It implies no other property: an aggregate over it would count rows repeatedly."""

    def __str__(self) -> str:
        return "⊤"


@dataclass(frozen=True, slots=True)
class TargetedBroadcast:
    """A broadcast to the partitions that can have matches (SIGMOD 2012, section 3.3.2).

    `function` range-partitions another input, and `columns` correspond to its first keys. A row has one copy in every
    partition that can have rows with its values on these keys, and none elsewhere. Every row of the other input therefore
    finds its matches in its own partition. Like ⊤ it implies no other property, because some rows have several copies.

    With all keys of the function each row would be in one partition: that is `delivered.Partitioned`."""

    function: RangeFunction
    columns: tuple[Column, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.function.boundaries, SampledBoundaries):
            raise ValueError("a targeted broadcast needs ranges with known boundaries")
        if not 0 < len(self.columns) < self.function.arity:
            raise ValueError("a targeted broadcast is on some of the first keys of its ranges, not on all")
        object.__setattr__(self, "_hash", hash((self.columns, self.function.partitions)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"⊤ of {self.function} for their ({', '.join(map(str, self.columns))})"


Global = Serial | UnknownPartitioning | Replicated | TargetedBroadcast | Grouped | Ordered


def columns_of(actions: Iterable[Action]) -> frozenset[Column]:
    """All columns of the actions: the paper's Columns[...]."""
    columns: set[Column] = set()
    for action in actions:
        if isinstance(action, Grouped):
            columns |= action.columns
        else:
            columns.add(action.column)
    return frozenset(columns)


def show(formula: Global | Local) -> str:
    if isinstance(formula, tuple):
        return f"[{', '.join(map(str, formula))}]"
    return str(formula)
