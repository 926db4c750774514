"""Delivered properties: how the output of a plan is laid out, including the partition function.

`Delivered` is a partitioning and the order within each partition. `Partitioned` is a function applied to columns; the
formulas it implies (clustered, ordered) follow from the two. `nulls_anywhere` is set after an outer join that NULL-extends
the columns: rows with a NULL key may then be in any partition. A join with `=` does not notice that, a GROUP BY does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace

from unshuffle.catalog.schema import Column, DataType
from unshuffle.frozen import dataclass
from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.facts.equality import interchangeable
from unshuffle.properties.layouts.partition_functions import (
    HashFunction,
    PartitionFunction,
    RangeFunction,
    RangeKey,
    RegroupedFunction,
    SampledBoundaries,
    SplitFunction,
)
from unshuffle.properties.layouts.structure import (
    Global,
    Grouped,
    Local,
    Ordered,
    Replicated,
    Serial,
    Sorted,
    TargetedBroadcast,
    UnknownPartitioning,
    show,
)


@dataclass(frozen=True, slots=True)
class Partitioned:
    """Row r is in partition function(r[columns]). With `nulls_anywhere`, rows with a NULL key may be anywhere."""

    function: PartitionFunction
    columns: tuple[Column, ...]
    nulls_anywhere: bool = False
    # The formula that the function and the columns imply. Every match needs it, so it is computed once.
    formula: Serial | Grouped | Ordered = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.columns) != self.function.arity:
            raise ValueError(f"{self.function} takes {self.function.arity} columns, not {len(self.columns)}")
        object.__setattr__(self, "formula", _formula(self.function, self.columns))
        # Hashing Arrow types is slow; the columns and the number of partitions distinguish layouts well enough.
        object.__setattr__(self, "_hash", hash((self.columns, self.function.partitions, self.nulls_anywhere)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        nulls = ", NULL keys anywhere" if self.nulls_anywhere else ""
        return f"({', '.join(map(str, self.columns))}) by {self.function}{nulls}"


@dataclass(frozen=True, slots=True)
class PrefixPartitioned:
    """A range partitioning of which only the first keys are still columns of the output: ranges on (a, b) after b is dropped.

    Each row is in one of the partitions that can have its value of a. Rows that agree on a may be in several partitions, so
    nothing is clustered, but a `TargetedBroadcast` on a still puts every match beside it."""

    function: RangeFunction
    columns: tuple[Column, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.function.boundaries, SampledBoundaries):
            raise ValueError("a prefix of range keys locates rows only if the boundaries are known")
        if not 0 < len(self.columns) < self.function.arity:
            raise ValueError("a prefix partitioning is on some of the first keys of its ranges, not on all")
        object.__setattr__(self, "_hash", hash((self.columns, self.function.partitions)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.columns))}) within {self.function}"


Partitioning = Serial | UnknownPartitioning | Replicated | TargetedBroadcast | PrefixPartitioned | Partitioned


@dataclass(frozen=True, slots=True)
class Delivered:
    partitioning: Partitioning
    local: Local = ()

    def renamed(self, name: Callable[[Column], Column]) -> Delivered:
        partitioning = self.partitioning
        if isinstance(partitioning, Partitioned | TargetedBroadcast | PrefixPartitioned):
            partitioning = replace(partitioning, columns=tuple(map(name, partitioning.columns)))
        local = tuple(
            Grouped(frozenset(map(name, each.columns))) if isinstance(each, Grouped) else each.on(name(each.column))
            for each in self.local
        )
        return Delivered(partitioning, local)

    def __str__(self) -> str:
        return f"{{{self.partitioning}; {show(self.local)}}}"


def hashed(columns: Iterable[Column], partitions: int, types: Iterable[DataType] | None = None) -> Partitioned:
    """Hash partitioning. Values are first cast to `types`, by default the columns' own types."""
    on = tuple(columns)
    return Partitioned(HashFunction(tuple(types) if types is not None else tuple(c.type for c in on), partitions), on)


def ranged(keys: Iterable[Sorted], boundaries: Iterable[tuple[object, ...]] | SampledBoundaries) -> Partitioned:
    """Range partitioning on the columns' own types. Keys that no boundary uses are omitted."""
    on = tuple(keys)
    bounds = boundaries if isinstance(boundaries, SampledBoundaries) else tuple(boundaries)
    if bounds and not isinstance(bounds, SampledBoundaries):
        on = on[: max(map(len, bounds))]
    function = RangeFunction(tuple(RangeKey(k.column.type, k.descending, k.nulls_first) for k in on), bounds)
    return Partitioned(function, tuple(k.column for k in on))


def prefix_partitioning(layout: Partitioning, columns: Sequence[Column]) -> PrefixPartitioned | None:
    """What a range partitioning implies for its first keys alone, named `columns`; None if it implies nothing.

    It implies nothing if NULL keys are anywhere: a row may be elsewhere because one of the other keys is NULL."""
    if (
        not isinstance(layout, Partitioned | PrefixPartitioned)
        or not isinstance(layout.function, RangeFunction)
        or not columns
    ):
        return None
    misplaced_nulls = isinstance(layout, Partitioned) and layout.nulls_anywhere
    if (
        misplaced_nulls
        or isinstance(layout.function.boundaries, SampledBoundaries)
        or len(columns) >= layout.function.arity
    ):
        return None
    return PrefixPartitioned(layout.function, tuple(columns))


def partitions_of(partitioning: Partitioning) -> int | None:
    match partitioning:
        case Serial():
            return 1
        case UnknownPartitioning():
            return partitioning.partitions
        case Replicated():
            return None
        case TargetedBroadcast() | PrefixPartitioned() | Partitioned():
            return partitioning.function.partitions


def formula(partitioning: Partitioning, facts: Dependencies) -> Global:
    """The strongest formula of the paper that a partitioning implies: ⊥, ∅, ⊤, X^g or X^o."""
    if isinstance(partitioning, PrefixPartitioned):
        return UnknownPartitioning(partitioning.function.partitions)
    if not isinstance(partitioning, Partitioned):
        return partitioning
    misplaced_nulls = partitioning.nulls_anywhere and not facts.never_null.issuperset(partitioning.columns)
    if misplaced_nulls and not isinstance(partitioning.formula, Serial):
        return UnknownPartitioning(partitioning.function.partitions)
    return partitioning.formula


def _formula(function: PartitionFunction, columns: tuple[Column, ...]) -> Serial | Grouped | Ordered:
    if function.partitions == 1:
        return Serial()
    keys = _order(function, columns)
    return Ordered(keys) if keys else Grouped(frozenset(columns))


def _order(function: PartitionFunction, columns: tuple[Column, ...]) -> tuple[Sorted, ...]:
    """The keys on which partitions ascend with their numbers; empty if they do not."""
    match function:
        case RangeFunction():
            keys = []
            for key, column in zip(function.keys, columns, strict=True):
                # The function orders values after the cast, and as strings 10 is before 9.
                if key.type is not column.type and not _same_order(key.type, column.type):
                    return ()
                keys.append(Sorted(column, key.descending, key.nulls_first))
            return tuple(keys)
        case RegroupedFunction() if list(function.groups) == sorted(function.groups):
            return _order(function.base, columns)  # only neighbouring ranges are merged
        case SplitFunction():
            # Ranges split by ranges ascend if one list of keys is a prefix of the other.
            at = function.base.arity
            outer, inner = _order(function.base, columns[:at]), _order(function.by, columns[at:])
            alike = all(a == b for a, b in zip(outer, inner, strict=False))
            return max(outer, inner, key=len) if outer and inner and alike else ()
        case _:
            return ()


def _same_order(one: DataType, other: DataType) -> bool:
    return one == other or interchangeable(one, other)
