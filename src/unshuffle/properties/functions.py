"""The functions that send rows to partitions, apart from the columns they are applied to.

Clustering asks whether equal keys share a partition, and any function will do. Co-partitioning asks whether two inputs
were sent by the *same function*, and for that a function must be a value that can be compared (SIGMOD 2012, section
3.3.3: data hashed on b is clustered on a when a determines b, yet h(b) mod n is not h(a) mod n). So:

    HashFunction   h(v1, .., vk) mod n, each value first cast to the type named here. Spark hashes int and bigint apart.
    RangeFunction  the number of boundaries at or below the row: intervals closed on the left (SIGMOD 2012, section 3.2)
    Regrouped      partition i of another function goes to groups[i]: a partial merge
    Split          each partition of one function divided further by a second: a partial partitioning
    Named          a function that only its name tells (a user's, or a stored one): the same name is the same function
    Unknown        some function of the columns, nobody knows which: it clusters, and is never the same as any other

Whatever SQL's grouping calls equal must be equal to the function as well: it sees -0.0 as 0.0, every NaN as one, and a
collated string as its collation key. Spark's hash and ours do.

Two ways of writing one function must be one value, or a needed proof is missed. `regroup` folds a hash into n of its p
partitions back to a plain hash where n divides p, because (h mod p) mod n = h mod n then and only then: 6 partitions
folded by 4 send h = 6 to partition 0, while h mod 4 is 2. That layout has a key space of its own and stays `Regrouped`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from unshuffle.catalog.schema import DataType
from unshuffle.properties.equality import interchangeable

Boundary = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class HashFunction:
    types: tuple[DataType, ...]
    partitions: int
    family: str = "spark"

    def __post_init__(self) -> None:
        if not self.types or self.partitions < 1:
            raise ValueError("a hash function needs a column and a partition")

    @property
    def arity(self) -> int:
        return len(self.types)

    def __str__(self) -> str:
        return f"hash({', '.join(map(str, self.types))}) mod {self.partitions}"


@dataclass(frozen=True, slots=True)
class RangeKey:
    """The order of a key. Integers of every width compare alike, so they are one type here; to a hash they are not."""

    type: DataType
    descending: bool = False
    nulls_first: bool = True

    def __post_init__(self) -> None:
        if interchangeable(self.type, pa.int64()):
            object.__setattr__(self, "type", pa.int64())


@dataclass(frozen=True, slots=True)
class Sampled:
    """Boundaries chosen while the plan runs (SIGMOD 2012, Figure 7). The name is their identity: give it to one exchange,
    or to several that really share their boundaries. `instead` is how uneven the best boundaries are that were known when
    the plan was made, the largest range over the average; None if none were known."""

    name: str
    partitions: int
    instead: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RangeFunction:
    """A boundary may be shorter than the keys: (1,) is the first point with a = 1. Keys that no boundary reaches would
    decide nothing and make one function look like two, so they must be left out."""

    keys: tuple[RangeKey, ...]
    boundaries: tuple[Boundary, ...] | Sampled

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("a range function needs a key")
        if isinstance(self.boundaries, Sampled):
            return
        if any(not 0 < len(b) <= len(self.keys) for b in self.boundaries):
            raise ValueError("a boundary has between one value and as many as there are keys")
        if self.boundaries and max(map(len, self.boundaries)) < len(self.keys):
            raise ValueError("the last keys are in no boundary: leave them out")
        if any(self.compare(a, b) >= 0 for a, b in zip(self.boundaries, self.boundaries[1:], strict=False)):
            raise ValueError("boundaries must ascend in the order of the keys")

    @property
    def arity(self) -> int:
        return len(self.keys)

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(key.type for key in self.keys)

    @property
    def partitions(self) -> int:
        return self.boundaries.partitions if isinstance(self.boundaries, Sampled) else len(self.boundaries) + 1

    def compare(self, one: Boundary, other: Boundary) -> int:
        """Which point comes first in the order of the keys; of two that agree as far as both go, the shorter."""
        for key, a, b in zip(self.keys, one, other, strict=False):
            found = compare_values(a, b, key.descending, key.nulls_first)
            if found:
                return found
        return len(one) - len(other)

    def number(self, values: Sequence[Any]) -> int:
        """The partition of a row with these key values; the boundaries must be known."""
        if isinstance(self.boundaries, Sampled):
            raise ValueError(f"the boundaries {self.boundaries.name} are known only when the plan runs")
        row = tuple(values)
        low, high = 0, len(self.boundaries)
        while low < high:
            middle = (low + high) // 2
            if self.compare(self.boundaries[middle], row) <= 0:
                low = middle + 1
            else:
                high = middle
        return low

    def reach(self, values: Sequence[Any]) -> range:
        """The partitions that can hold rows whose first keys have these values; the boundaries must be known. They are one,
        unless boundaries fall between such rows: (1, 'B') and (1, 'D') spread the rows with a = 1 over three."""
        prefix = tuple(values)
        first = self.number(prefix)  # that of the first point with these values
        if isinstance(self.boundaries, Sampled):
            raise ValueError(f"the boundaries {self.boundaries.name} are known only when the plan runs")
        # Cut to so many values, boundaries are still in order, and those that fall between such rows are equal to them.
        last = bisect_right(self.boundaries, 0, key=lambda each: self.compare(each[: len(prefix)], prefix))
        return range(first, last + 1)

    def __str__(self) -> str:
        known = self.boundaries.name if isinstance(self.boundaries, Sampled) else ", ".join(map(str, self.boundaries))
        return f"range into {self.partitions} at {known}"


def compare_values(a: Any, b: Any, descending: bool, nulls_first: bool) -> int:
    """-1, 0 or 1 in Spark's order: NULL where the key says, NaN above every number, 0.0 equal to -0.0."""
    if a is None or b is None:
        if a is b:
            return 0
        return -1 if (a is None) == nulls_first else 1
    a_nan, b_nan = a != a, b != b
    if a_nan or b_nan:
        found = int(a_nan) - int(b_nan)
    else:
        found = int(a > b) - int(a < b)
    return -found if descending else found


@dataclass(frozen=True, slots=True)
class Named:
    name: str
    types: tuple[DataType, ...]
    partitions: int

    @property
    def arity(self) -> int:
        return len(self.types)

    def __str__(self) -> str:
        return f"{self.name} into {self.partitions}"


@dataclass(frozen=True, slots=True)
class Unknown:
    arity: int
    partitions: int

    @property
    def types(self) -> tuple[DataType, ...]:
        return (None,) * self.arity

    def __str__(self) -> str:
        return f"an unknown function into {self.partitions}"


@dataclass(frozen=True, slots=True)
class Regrouped:
    base: PartitionFunction
    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.groups) != self.base.partitions or set(self.groups) != set(range(max(self.groups) + 1)):
            raise ValueError("every partition of the base goes to a group, and no group is empty")

    @property
    def arity(self) -> int:
        return self.base.arity

    @property
    def types(self) -> tuple[DataType, ...]:
        return self.base.types

    @property
    def partitions(self) -> int:
        return max(self.groups) + 1

    def __str__(self) -> str:
        return f"{self.base} regrouped into {self.partitions}"


@dataclass(frozen=True, slots=True)
class Split:
    """Partition `base` number times `by.partitions`, plus the number within."""

    base: PartitionFunction
    by: PartitionFunction

    @property
    def arity(self) -> int:
        return self.base.arity + self.by.arity

    @property
    def types(self) -> tuple[DataType, ...]:
        return self.base.types + self.by.types

    @property
    def partitions(self) -> int:
        return self.base.partitions * self.by.partitions

    def __str__(self) -> str:
        return f"{self.base}, each split by {self.by}"


PartitionFunction = HashFunction | RangeFunction | Regrouped | Split | Named | Unknown


def identifiable(function: PartitionFunction) -> bool:
    """Is an equal value certainly the same function? Not where something about it is unknown."""
    match function:
        case Unknown():
            return False
        case Regrouped():
            return identifiable(function.base)
        case Split():
            return identifiable(function.base) and identifiable(function.by)
        case _:
            return all(each is not None for each in function.types)


def regroup(base: PartitionFunction, groups: Sequence[int]) -> PartitionFunction:
    """`base` with its partitions merged: a plain function again wherever it is one."""
    into = tuple(groups)
    count = max(into) + 1
    if into == tuple(range(base.partitions)):
        return base
    if isinstance(base, Regrouped):
        return regroup(base.base, tuple(into[group] for group in base.groups))
    folded = base.partitions % count == 0 and into == tuple(i % count for i in range(base.partitions))
    if isinstance(base, HashFunction) and folded:
        return HashFunction(base.types, count, base.family)
    if isinstance(base, RangeFunction) and not isinstance(base.boundaries, Sampled):
        kept = [base.boundaries[i] for i in range(len(into) - 1) if into[i] != into[i + 1]]
        if kept and all(into[i + 1] - into[i] in (0, 1) for i in range(len(into) - 1)) and into[0] == 0:
            return RangeFunction(base.keys[: max(map(len, kept))], tuple(kept))
    return Regrouped(base, into)


Leaf = HashFunction | Named | Unknown


def number(function: PartitionFunction, values: Sequence[Any], leaf: Callable[[Leaf, tuple[Any, ...]], int]) -> int:
    """The partition of a row: what the composed functions mean, given what the opaque ones compute."""
    match function:
        case RangeFunction():
            return function.number(values)
        case Regrouped():
            return function.groups[number(function.base, values, leaf)]
        case Split():
            at = function.base.arity
            outer = number(function.base, values[:at], leaf)
            return outer * function.by.partitions + number(function.by, values[at:], leaf)
        case _:
            return leaf(function, tuple(values))
