"""What a stored layout is, wherever it is stored: in the manifest of a stream, or in the folders and buckets of a table."""

from __future__ import annotations

from typing import Protocol

from unshuffle.partitions import KeyColumn
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.sstream.manifest import SortedName, StoredPartition


class StoredLayout(Protocol):
    """Row r is in partition `function(r[clustered_by])`, and the files of a partition, read in order, are sorted by
    `sorted_by`, which may be nothing."""

    def __hash__(self) -> int: ...
    @property
    def clustered_by(self) -> tuple[SortedName, ...]: ...
    @property
    def function(self) -> HashFunction | RangeFunction: ...
    @property
    def sorted_by(self) -> tuple[SortedName, ...]: ...
    @property
    def sort_keys(self) -> tuple[KeyColumn, ...]: ...
    @property
    def partitions(self) -> tuple[StoredPartition, ...]: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
