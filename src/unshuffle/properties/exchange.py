"""The parts of an exchange: how a partition operator sends rows on, how a merge operator takes them in, and the five
ways to connect the two (ICDE 2010, section II and Figure 2).

A partitioning scheme is the partitioning it makes (`Partitioned`, `Scattered`, `Replicated`, `Covering`); partition operators
are first in, first out. A topology says how many streams go in and come out:

    InitialPartitioning   1 -> m     split one stream
    Repartitioning        n -> m     every input feeds every output
    FullMerge             n -> 1     gather
    PartialPartitioning   n -> kn    split each partition on its own; nothing is merged
    PartialMerge          n -> m     gather whole partitions in groups; nothing is split
"""

from __future__ import annotations

from dataclasses import dataclass

from unshuffle.properties.delivered import Partitioned
from unshuffle.properties.structure import Covering, Replicated, Scattered, Sorted

Scheme = Partitioned | Scattered | Replicated | Covering


@dataclass(frozen=True, slots=True)
class RandomMerge:
    """Takes a row from any stream: each stream's order is kept, but nothing can be said of the whole."""


@dataclass(frozen=True, slots=True)
class SortMerge:
    """Takes the stream whose next row is least on the keys."""

    keys: tuple[Sorted, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("a merge in order needs a key")


@dataclass(frozen=True, slots=True)
class ConcatMerge:
    """Takes one stream after another, to its end, in any order of the streams."""


@dataclass(frozen=True, slots=True)
class SortConcatMerge:
    """Takes one stream after another, in the order of their first rows on the keys."""

    keys: tuple[Sorted, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("a merge in order needs a key")


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
    """Each partition split by `scheme`. Copies are left out of the schemes: a partition cannot be broadcast in part."""

    scheme: Partitioned | Scattered


@dataclass(frozen=True, slots=True)
class PartialMerge:
    """Partition i goes whole to output `groups[i]`."""

    groups: tuple[int, ...]
    merge: Merge

    def __post_init__(self) -> None:
        if not self.groups or set(self.groups) != set(range(max(self.groups) + 1)):
            raise ValueError("every output of a partial merge has an input")


Exchange = InitialPartitioning | Repartitioning | FullMerge | PartialPartitioning | PartialMerge
