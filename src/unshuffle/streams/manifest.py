"""What is recorded of one version of a structured stream (SIGMOD 2012, section 2.5).

A stream is a folder of Parquet files in partitions, and each version of it a manifest that names its files and says how the
rows are laid out: row r is in partition `function(r[clustered_by])`, and the files of a partition, one after the other,
are in the order `sorted_by`. Whatever a manifest says is true of the files it names; `check` looks whether it is.

    version, writer         the number of the version, and a name that no other write has
    clustered_by, function  the columns that the partition is a function of. A range function leaves out keys that no
                            boundary reaches, so it may take fewer columns than there are here; see `function_names`
    sorted_by               the order inside a partition, across its files
    keys, dependencies      what was declared of the rows, and found to hold when they were written
    partitions              their files, with the row groups of each and the first and last key of these
    histogram               how many rows lie where on the clustering key
    reference               the stream whose function this one repeats, so that partition i belongs with partition i
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from unshuffle.catalog.declared import Declaration, DeclaredDependency, DeclaredKey
from unshuffle.partitions import Boundary, Histogram, Key, Ranges
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.equality import interchangeable
from unshuffle.properties.functions import Sampled

Schema = tuple[tuple[str, pa.DataType], ...]


@dataclass(frozen=True, slots=True)
class SortedName:
    """A column of an order, with Spark's default for NULLs."""

    name: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        usual = self.nulls_first != self.descending
        nulls = "" if usual else f" nulls {'first' if self.nulls_first else 'last'}"
        return f"{self.name}{' desc' if self.descending else ''}{nulls}"


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of a file that can be read without the others: where their bytes lie, and the values of `sorted_by` in the
    first and the last of them. The length is that of the column chunks, as readers of splits reckon it."""

    offset: int
    length: int
    rows: int
    first: Boundary
    last: Boundary


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str  # below the folder of the stream
    bytes: int
    footer: int  # CRC-32 of the Parquet footer; the pages have checksums of their own
    groups: tuple[RowGroup, ...]

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.groups)


@dataclass(frozen=True, slots=True)
class StoredPartition:
    files: tuple[StoredFile, ...] = ()

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Reference:
    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Manifest:
    version: int
    writer: str
    schema: Schema
    clustered_by: tuple[SortedName, ...]
    function: HashFunction | RangeFunction
    sorted_by: tuple[SortedName, ...]
    partitions: tuple[StoredPartition, ...]
    histogram: Histogram
    keys: tuple[DeclaredKey, ...] = ()
    dependencies: tuple[DeclaredDependency, ...] = ()
    reference: Reference | None = None

    def __post_init__(self) -> None:
        types = dict(self.schema)
        named = [each.name for each in (*self.clustered_by, *self.sorted_by)]
        named += [name for each in self.declarations for name in each.columns]
        missing = [name for name in named if name not in types]
        if missing:
            raise ValueError(f"there is no column {missing[0]!r}")
        if not self.clustered_by or not self.sorted_by:
            raise ValueError("a stream is clustered by some columns, and sorted by some")
        if len(self.partitions) != self.function.partitions:
            raise ValueError(f"{len(self.partitions)} partitions of {self.function}")
        self._check_function(types)
        if any(len(end) != len(self.sorted_by) for group in self.groups() for end in (group.first, group.last)):
            raise ValueError("a row group begins and ends with a value for each column it is sorted by")

    def _check_function(self, types: dict[str, pa.DataType]) -> None:
        given = [types[name] for name in self.function_names]
        if isinstance(self.function, HashFunction):
            if len(self.function.types) != len(self.clustered_by) or list(self.function.types) != given:
                raise ValueError(f"{self.function} is not of the columns {', '.join(self.function_names)}")
            return
        if isinstance(self.function.boundaries, Sampled):
            raise ValueError("the boundaries of stored ranges are known")
        for key, name, type in zip(self.function.keys, self.clustered_by, given, strict=False):
            if not interchangeable(key.type, type) or (key.descending, key.nulls_first) != (
                name.descending,
                name.nulls_first,
            ):
                raise ValueError(f"the ranges are not in the order of {name}")
        if self.function.arity > len(self.clustered_by):
            raise ValueError("the ranges have more keys than the stream is clustered by")

    @property
    def function_names(self) -> tuple[str, ...]:
        """The columns that the partition function takes."""
        return tuple(each.name for each in self.clustered_by[: self.function.arity])

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        return (*self.keys, *self.dependencies)

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)

    @property
    def sort_keys(self) -> tuple[Key, ...]:
        """The order inside a partition, with the types of its columns."""
        return typed(self.schema, self.sorted_by)

    @property
    def clustering_keys(self) -> tuple[Key, ...]:
        return typed(self.schema, self.clustered_by)

    def groups(self) -> Iterator[RowGroup]:
        return (group for file in self.files() for group in file.groups)

    def files(self) -> Iterator[StoredFile]:
        return (file for partition in self.partitions for file in partition.files)


def typed(schema: Schema, names: tuple[SortedName, ...]) -> tuple[Key, ...]:
    types = dict(schema)
    return tuple(Key(types[each.name], each.descending, each.nulls_first) for each in names)


def ranges_of(function: RangeFunction) -> Ranges:
    """The ranges of a function whose boundaries are known, for arithmetic."""
    if isinstance(function.boundaries, Sampled):
        raise ValueError("the boundaries of stored ranges are known")
    return Ranges(function.keys, function.boundaries)
