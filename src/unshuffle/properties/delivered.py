"""What a plan delivers: a fact about its output, with the partition function named.

`Delivered` pairs a partitioning with the order inside each partition. `Partitioned` applies a function to columns;
everything else that the algebra says of it (clustered, ordered) follows from those two. `nulls_apart` is for the
columns that an outer join invents NULLs for: rows with a NULL key may then be anywhere, which no join with `=` can see
and every GROUP BY can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from unshuffle.catalog.schema import Column, DataType
from unshuffle.properties.dependencies import Dependencies
from unshuffle.properties.equality import interchangeable
from unshuffle.properties.functions import (
    HashFunction,
    PartitionFunction,
    RangeFunction,
    RangeKey,
    Regrouped,
    Sampled,
    Split,
)
from unshuffle.properties.structure import (
    Covering,
    Global,
    Grouped,
    Local,
    Ordered,
    Replicated,
    Scattered,
    Serial,
    Sorted,
    show,
)


@dataclass(frozen=True, slots=True)
class Partitioned:
    """Row r is in partition function(r[columns])."""

    function: PartitionFunction
    columns: tuple[Column, ...]
    nulls_apart: bool = False
    # What follows from the two alone, kept because every match asks for it.
    claim: Serial | Grouped | Ordered = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.columns) != self.function.arity:
            raise ValueError(f"{self.function} takes {self.function.arity} columns, not {len(self.columns)}")
        object.__setattr__(self, "claim", _claim(self.function, self.columns))
        # Types are Arrow's, whose hash is that of their text: columns and the number of partitions tell layouts apart.
        object.__setattr__(self, "_hash", hash((self.columns, self.function.partitions, self.nulls_apart)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        apart = ", NULL keys anywhere" if self.nulls_apart else ""
        return f"({', '.join(map(str, self.columns))}) by {self.function}{apart}"


@dataclass(frozen=True, slots=True)
class Within:
    """What is left of ranges on (a, b) where b is not known: each row is there once, in one of the partitions that can hold
    rows with its a. It clusters nothing, for rows with one a may be in several; but what covers the ranges on a
    (`Covering`) finds its matches."""

    function: RangeFunction
    columns: tuple[Column, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.function.boundaries, Sampled):
            raise ValueError("which partitions can hold a row is known where boundaries are")
        if not 0 < len(self.columns) < self.function.arity:
            raise ValueError("rows lie within ranges by some of their first keys, and not by all")
        object.__setattr__(self, "_hash", hash((self.columns, self.function.partitions)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.columns))}) within {self.function}"


Partitioning = Serial | Scattered | Replicated | Covering | Within | Partitioned


@dataclass(frozen=True, slots=True)
class Delivered:
    partitioning: Partitioning
    local: Local = ()

    def renamed(self, name: Callable[[Column], Column]) -> Delivered:
        place = self.partitioning
        if isinstance(place, Partitioned):
            place = Partitioned(place.function, tuple(map(name, place.columns)), place.nulls_apart)
        elif isinstance(place, Covering | Within):
            place = replace(place, columns=tuple(map(name, place.columns)))
        local = tuple(
            Grouped(frozenset(map(name, each.columns))) if isinstance(each, Grouped) else each.on(name(each.column))
            for each in self.local
        )
        return Delivered(place, local)

    def __str__(self) -> str:
        return f"{{{self.partitioning}; {show(self.local)}}}"


def hashed(columns: Iterable[Column], partitions: int, types: Iterable[DataType] | None = None) -> Partitioned:
    """Hash partitioning. `types` are what the values are cast to first; by default, the columns' own."""
    on = tuple(columns)
    return Partitioned(HashFunction(tuple(types) if types is not None else tuple(c.type for c in on), partitions), on)


def ranged(keys: Iterable[Sorted], boundaries: Iterable[tuple[object, ...]] | Sampled) -> Partitioned:
    """Range partitioning on the columns' own types. Keys that no boundary reaches decide nothing and are left out."""
    on = tuple(keys)
    bounds = boundaries if isinstance(boundaries, Sampled) else tuple(boundaries)
    if bounds and not isinstance(bounds, Sampled):
        on = on[: max(map(len, bounds))]
    function = RangeFunction(tuple(RangeKey(k.column.type, k.descending, k.nulls_first) for k in on), bounds)
    return Partitioned(function, tuple(k.column for k in on))


def seen_by(layout: Partitioning, columns: Sequence[Column]) -> Within | None:
    """What a layout by ranges says of the first of its keys alone, under these names; None if it says nothing. With NULL keys
    anywhere it does not: a row may be elsewhere for the sake of a key that is not looked at."""
    if not isinstance(layout, Partitioned | Within) or not isinstance(layout.function, RangeFunction) or not columns:
        return None
    strays = isinstance(layout, Partitioned) and layout.nulls_apart
    if strays or isinstance(layout.function.boundaries, Sampled) or len(columns) >= layout.function.arity:
        return None
    return Within(layout.function, tuple(columns))


def partitions_of(partitioning: Partitioning) -> int | None:
    match partitioning:
        case Serial():
            return 1
        case Scattered():
            return partitioning.partitions
        case Replicated():
            return None
        case Covering() | Within() | Partitioned():
            return partitioning.function.partitions


def formula(partitioning: Partitioning, facts: Dependencies) -> Global:
    """The strongest thing the paper's vocabulary says of a partitioning: ⊥, ∅, ⊤, X^g or X^o."""
    if isinstance(partitioning, Within):
        return Scattered(partitioning.function.partitions)
    if not isinstance(partitioning, Partitioned):
        return partitioning
    strays = partitioning.nulls_apart and not facts.never_null.issuperset(partitioning.columns)
    if strays and not isinstance(partitioning.claim, Serial):
        return Scattered(partitioning.function.partitions)
    return partitioning.claim


def _claim(function: PartitionFunction, columns: tuple[Column, ...]) -> Serial | Grouped | Ordered:
    if function.partitions == 1:
        return Serial()
    keys = _order(function, columns)
    return Ordered(keys) if keys else Grouped(frozenset(columns))


def _order(function: PartitionFunction, columns: tuple[Column, ...]) -> tuple[Sorted, ...]:
    """The keys that partitions ascend on with their numbers; none if they do not."""
    match function:
        case RangeFunction():
            keys = []
            for key, column in zip(function.keys, columns, strict=True):
                # The function orders the values it was given, after the cast: as strings, 10 is before 9.
                if key.type is not column.type and not _same_order(key.type, column.type):
                    return ()
                keys.append(Sorted(column, key.descending, key.nulls_first))
            return tuple(keys)
        case Regrouped() if list(function.groups) == sorted(function.groups):
            return _order(function.base, columns)  # neighbours gathered
        case Split():
            # Ranges divided by ranges: in order if both look at the same keys, as far as both go.
            at = function.base.arity
            outer, inner = _order(function.base, columns[:at]), _order(function.by, columns[at:])
            alike = all(a == b for a, b in zip(outer, inner, strict=False))
            return max(outer, inner, key=len) if outer and inner and alike else ()
        case _:
            return ()


def _same_order(one: DataType, other: DataType) -> bool:
    return one == other or interchangeable(one, other)
