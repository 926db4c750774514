"""Exchanges: partitioning schemes, merge operators and topologies (ICDE 2010, section II and Figure 2).

A partitioning scheme is given by the partitioning it produces: `Partitioned`, `UnknownPartitioning`, `Replicated` or
`TargetedBroadcast`. Partition operators preserve the order of rows. The topologies, with their input and output streams:

    InitialPartitioning   1 -> m     splits one stream
    Repartitioning        n -> m     every input feeds every output
    FullMerge             n -> 1     merges all streams
    PartialPartitioning   n -> kn    splits each partition separately; merges nothing
    PartialMerge          n -> m     merges whole partitions in groups; splits nothing
"""

from __future__ import annotations

from unshuffle.frozen import dataclass
from unshuffle.properties.layouts.delivered import Partitioned
from unshuffle.properties.layouts.structure import Replicated, Sorted, TargetedBroadcast, UnknownPartitioning

Scheme = Partitioned | UnknownPartitioning | Replicated | TargetedBroadcast


@dataclass(frozen=True, slots=True)
class RandomMerge:
    """Takes the next row from any stream. Each stream keeps its order; the result has no known order."""


@dataclass(frozen=True, slots=True)
class SortMerge:
    """Takes the next row from the stream where it is least on the keys."""

    keys: tuple[Sorted, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("an ordered merge needs a key")


@dataclass(frozen=True, slots=True)
class ConcatMerge:
    """Concatenates the streams in any order."""


@dataclass(frozen=True, slots=True)
class SortConcatMerge:
    """Concatenates the streams in the order of their first rows on the keys."""

    keys: tuple[Sorted, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("an ordered merge needs a key")


Merge = RandomMerge | SortMerge | ConcatMerge | SortConcatMerge


@dataclass(frozen=True, slots=True)
class InitialPartitioning:
    scheme: Scheme


@dataclass(frozen=True, slots=True)
class Repartitioning:
    scheme: Scheme
    merge: Merge


@dataclass(frozen=True, slots=True)
class FullMerge:
    merge: Merge


@dataclass(frozen=True, slots=True)
class PartialPartitioning:
    """Splits each partition by `scheme`. Broadcasts are not possible here."""

    scheme: Partitioned | UnknownPartitioning


@dataclass(frozen=True, slots=True)
class PartialMerge:
    """Sends partition i whole to output `groups[i]`."""

    groups: tuple[int, ...]
    merge: Merge

    def __post_init__(self) -> None:
        if not self.groups or set(self.groups) != set(range(max(self.groups) + 1)):
            raise ValueError("every output of a partial merge needs an input")


Topology = InitialPartitioning | Repartitioning | FullMerge | PartialPartitioning | PartialMerge
