"""Partition functions, separate from the columns they are applied to.

Clustering requires that equal keys share a partition, and any function provides that. Co-partitioning requires that two
inputs are partitioned by the same function, so functions must be values that can be compared (SIGMOD 2012, section 3.3.3:
data hashed on b is clustered on a if a determines b, yet h(b) mod n is not h(a) mod n). The functions are:

    HashFunction       h(v1, .., vk) mod n, after casting each value to the given type. Spark hashes int and bigint
                       differently.
    RangeFunction      the number of boundaries at or below the row: ranges are closed on the left (SIGMOD 2012, 3.2)
    RegroupedFunction  partition i of another function goes to groups[i]: a partial merge
    SplitFunction      each partition of one function is split by a second function: a partial partitioning
    NamedFunction      a function identified by its name (a user's, or a stored one)
    UnknownFunction    some unknown function of the columns: it clusters, and never equals another function

Values that are equal under GROUP BY must be equal to the function as well: it treats -0.0 as 0.0, all NaNs as one value, and
a collated string as its collation key. Spark's hash and ours do.

One function must have one representation, or co-partitioning is not recognized. `regroup` returns a plain hash if p hash
partitions are folded into n and n divides p, because only then (h mod p) mod n = h mod n. Folding 6 partitions into 4 sends
h = 6 to partition 0, while h mod 4 is 2. That function equals no plain hash and stays a `RegroupedFunction`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from unshuffle.catalog.schema import DataType
from unshuffle.frozen import dataclass
from unshuffle.properties.facts.equality import interchangeable

Boundary = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class HashFunction:
    types: tuple[DataType, ...]
    partitions: int
    family: str = "spark"

    def __post_init__(self) -> None:
        if not self.types or self.partitions < 1:
            raise ValueError("a hash function needs at least one column and one partition")

    @property
    def arity(self) -> int:
        return len(self.types)

    def __str__(self) -> str:
        return f"hash({', '.join(map(str, self.types))}) mod {self.partitions}"


@dataclass(frozen=True, slots=True)
class RangeKey:
    """The order of one key. Integers of any width sort alike, so they are one type here; a hash distinguishes them."""

    type: DataType
    descending: bool = False
    nulls_first: bool = True

    def __post_init__(self) -> None:
        if interchangeable(self.type, pa.int64()):
            object.__setattr__(self, "type", pa.int64())


@dataclass(frozen=True, slots=True)
class SampledBoundaries:
    """Boundaries chosen at run time from a sample (SIGMOD 2012, Figure 7). `name` identifies them: only exchanges that
    share their boundaries may share a name. `planned_skew` is the skew (largest range over average) of the best boundaries
    known at planning time; None if there were none."""

    name: str
    partitions: int
    planned_skew: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RangeFunction:
    """A boundary may be shorter than the keys: (1,) is the first point with a = 1. Keys beyond the longest boundary have no
    effect and must be omitted, or one function would have two representations."""

    keys: tuple[RangeKey, ...]
    boundaries: tuple[Boundary, ...] | SampledBoundaries
    # There may be thousands of boundaries, and a search looks layouts up by their function all the time.
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("a range function needs a key")
        if isinstance(self.boundaries, SampledBoundaries):
            return
        if any(not 0 < len(b) <= len(self.keys) for b in self.boundaries):
            raise ValueError("a boundary has at least one value and at most one for each key")
        if self.boundaries and max(map(len, self.boundaries)) < len(self.keys):
            raise ValueError("keys that no boundary uses must be omitted")
        if any(self.compare(a, b) >= 0 for a, b in zip(self.boundaries, self.boundaries[1:], strict=False)):
            raise ValueError("boundaries must ascend in the order of the keys")

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.keys, self.boundaries)))
        return self._hash  # type: ignore[return-value]

    @property
    def arity(self) -> int:
        return len(self.keys)

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(key.type for key in self.keys)

    @property
    def partitions(self) -> int:
        return (
            self.boundaries.partitions if isinstance(self.boundaries, SampledBoundaries) else len(self.boundaries) + 1
        )

    def compare(self, one: Boundary, other: Boundary) -> int:
        """Negative, zero or positive as `one` is before, at or after `other`. A prefix comes before its extensions."""
        for key, a, b in zip(self.keys, one, other, strict=False):
            found = compare_values(a, b, key.descending, key.nulls_first)
            if found:
                return found
        return len(one) - len(other)

    def number(self, values: Sequence[Any]) -> int:
        """The partition of a row with these key values. The boundaries must be known."""
        if isinstance(self.boundaries, SampledBoundaries):
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
        """The partitions that can have rows with these values of the first keys. The boundaries must be known.

        It is one partition unless boundaries fall between such rows: (1, 'B') and (1, 'D') divide a = 1 into three."""
        prefix = tuple(values)
        first = self.number(prefix)  # the partition of the first point with these values
        if isinstance(self.boundaries, SampledBoundaries):
            raise ValueError(f"the boundaries {self.boundaries.name} are known only when the plan runs")
        # Truncated boundaries still ascend, and those that fall between such rows are equal to the prefix.
        last = bisect_right(self.boundaries, 0, key=lambda each: self.compare(each[: len(prefix)], prefix))
        return range(first, last + 1)

    def __str__(self) -> str:
        return f"range into {self.partitions} at {_listed(self)}"


# Cached, because proofs name their layouts, and there may be thousands of boundaries.
@lru_cache(maxsize=256)
def _listed(function: RangeFunction) -> str:
    known = function.boundaries
    return known.name if isinstance(known, SampledBoundaries) else ", ".join(map(str, known))


def compare_values(a: Any, b: Any, descending: bool, nulls_first: bool) -> int:
    """-1, 0 or 1 in Spark's order: NULL first or last as given, NaN above all numbers, 0.0 equal to -0.0."""
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
class NamedFunction:
    name: str
    types: tuple[DataType, ...]
    partitions: int

    @property
    def arity(self) -> int:
        return len(self.types)

    def __str__(self) -> str:
        return f"{self.name} into {self.partitions}"


@dataclass(frozen=True, slots=True)
class UnknownFunction:
    arity: int
    partitions: int

    @property
    def types(self) -> tuple[DataType, ...]:
        return (None,) * self.arity

    def __str__(self) -> str:
        return f"an unknown function into {self.partitions}"


@dataclass(frozen=True, slots=True)
class RegroupedFunction:
    base: PartitionFunction
    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.groups) != self.base.partitions or set(self.groups) != set(range(max(self.groups) + 1)):
            raise ValueError("every partition of the base needs a group, and no group may be empty")

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
class SplitFunction:
    """The partition is the number of `base` times `by.partitions`, plus the number of `by`."""

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


PartitionFunction = HashFunction | RangeFunction | RegroupedFunction | SplitFunction | NamedFunction | UnknownFunction


def identifiable(function: PartitionFunction) -> bool:
    """Whether equal values certainly denote the same function. They do not if any part is unknown."""
    match function:
        case UnknownFunction():
            return False
        case RegroupedFunction():
            return identifiable(function.base)
        case SplitFunction():
            return identifiable(function.base) and identifiable(function.by)
        case _:
            return all(each is not None for each in function.types)


def regroup(base: PartitionFunction, groups: Sequence[int]) -> PartitionFunction:
    """`base` with its partitions merged, as a plain hash or range function wherever possible."""
    into = tuple(groups)
    count = max(into) + 1
    if into == tuple(range(base.partitions)):
        return base
    if isinstance(base, RegroupedFunction):
        return regroup(base.base, tuple(into[group] for group in base.groups))
    folded = base.partitions % count == 0 and into == tuple(i % count for i in range(base.partitions))
    if isinstance(base, HashFunction) and folded:
        return HashFunction(base.types, count, base.family)
    if isinstance(base, RangeFunction) and not isinstance(base.boundaries, SampledBoundaries):
        kept = [base.boundaries[i] for i in range(len(into) - 1) if into[i] != into[i + 1]]
        if kept and all(into[i + 1] - into[i] in (0, 1) for i in range(len(into) - 1)) and into[0] == 0:
            return RangeFunction(base.keys[: max(map(len, kept))], tuple(kept))
    return RegroupedFunction(base, into)
