"""What can be said of the layout of rows: grouped, sorted, partitioned (ICDE 2010, section IV-B).

These are formulas, claims that hold of some rows or do not. A delivery asserts one and a requirement asks for one, so
both are written in this vocabulary, and the inference rules rewrite one formula into another.

A *local* property speaks of the sequence of rows in each partition. It is a list of actions, each acting inside the
runs that the earlier ones made:

    [{a, b}g, c↑]   rows that agree on a and b are adjacent; inside each such run, c ascends

A *global* property speaks of which rows share a partition:

    Serial            ⊥   there is exactly one partition
    Scattered         ∅   every row is in one partition, nothing says which
    Replicated        ⊤   every partition holds every row
    Covering(f, [a])  ⊤a  a row is in every partition of f that can hold rows with its a, f being ranges of a and more
    Grouped({a, b})       rows that agree on a and b share a partition
    Ordered([a↑, b↓])     as Grouped, and for i < j every row of partition i is before every row of partition j

The paper's ordered partitioning (Definition IV.6) asks only that any two partitions be comparable, one way or the
other; under that reading a↑ and a↓ say the same. We number the partitions and mean the number, because the output of a
parallel sort is read in that order. `Sorted` carries where NULLs go, which the paper leaves out: NULL is one more
value, equal to itself, before or after all others, whatever the direction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from unshuffle.catalog.schema import Column, names
from unshuffle.properties.functions import RangeFunction, Sampled


@dataclass(frozen=True, slots=True)
class Sorted:
    """The action C^o of Definition IV.4; in a list, the key of an ordered partitioning."""

    column: Column
    descending: bool
    nulls_first: bool

    def reversed(self) -> Sorted:
        """The key that orders the same rows the other way round, NULLs included."""
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
    """X^g: as an action, rows that agree on X are adjacent; as a partitioning, they share a partition."""

    columns: frozenset[Column]

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("grouping needs a column: the empty grouping is no action, or Serial, or Scattered")

    def __str__(self) -> str:
        return f"{{{names(self.columns)}}}g"


def grouped(*columns: Column) -> Grouped:
    return Grouped(frozenset(columns))


Action = Grouped | Sorted
Local = tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """X^o as a partitioning: disjoint ranges of the keys, ascending with the partition number."""

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
    """⊥: one partition. Not the same as all rows being in one of several partitions."""

    def __str__(self) -> str:
        return "⊥"


@dataclass(frozen=True, slots=True)
class Scattered:
    """∅: partitioned, by no column. The number of partitions is kept where it is known."""

    partitions: int | None = None

    def __str__(self) -> str:
        return "∅"


@dataclass(frozen=True, slots=True)
class Replicated:
    """⊤: a full copy everywhere. It implies nothing else: an aggregate over it would count every row many times."""

    def __str__(self) -> str:
        return "⊤"


@dataclass(frozen=True, slots=True)
class Covering:
    """⊤ as far as it is needed (SIGMOD 2012, section 3.3.2): a row is once in every partition of the function that can hold
    rows which agree with it on the function's first keys, and nowhere else. All of another input's rows that lie by the
    function find it beside them, if they agree with it. Like ⊤ it implies nothing else: some rows are there several times.

    On all keys of the function every row would be in one partition, which is `delivered.Partitioned`."""

    function: RangeFunction
    columns: tuple[Column, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.function.boundaries, Sampled):
            raise ValueError("ranges are covered where their boundaries are known")
        if not 0 < len(self.columns) < self.function.arity:
            raise ValueError("ranges are covered by some of their first keys, and not by all")
        object.__setattr__(self, "_hash", hash((self.columns, self.function.partitions)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"⊤ of {self.function} for their ({', '.join(map(str, self.columns))})"


Global = Serial | Scattered | Replicated | Covering | Grouped | Ordered


def columns_of(actions: Iterable[Action]) -> frozenset[Column]:
    """The paper's Columns[...]: every column that the actions name."""
    found: set[Column] = set()
    for action in actions:
        if isinstance(action, Grouped):
            found |= action.columns
        else:
            found.add(action.column)
    return frozenset(found)


def show(formula: Global | Local) -> str:
    if isinstance(formula, tuple):
        return f"[{', '.join(map(str, formula))}]"
    return str(formula)
