"""The manifest of one version of a structured stream (SIGMOD 2012, section 2.5).

A stream is a folder of partitioned Parquet files. Each version has a manifest, which names its files and records their
layout: row r is in partition `function(r[clustered_by])`, and the files of a partition, read in order, are sorted by
`sorted_by`. `check` verifies a manifest against the files.

    version, writer         the number of the version, and a unique id of the write that made it
    clustered_by, function  the partitioning columns and the partition function. A range function omits trailing keys that
                            no boundary has, so it may take fewer columns; see `function_names`
    sorted_by               the order inside a partition, across its files
    keys, dependencies      declarations that were checked when the rows were written
    partitions              their files, with the row groups of each file and their first and last keys
    histogram               the distribution of the clustering key
    reference               the stream with the same partition function, so that partition i matches partition i
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from unshuffle.catalog.constraints.constraint import Constraint, DeclaredDependency, DeclaredKey
from unshuffle.frozen import dataclass
from unshuffle.partitions import Boundary, KeyColumn, KeyHistogram, Ranges
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.facts.equality import interchangeable
from unshuffle.properties.layouts.partition_functions import SampledBoundaries

Schema = tuple[tuple[str, pa.DataType], ...]


@dataclass(frozen=True, slots=True)
class SortedName:
    """A sort column. The default for NULLs is Spark's."""

    name: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        is_default = self.nulls_first != self.descending
        nulls = "" if is_default else f" nulls {'first' if self.nulls_first else 'last'}"
        return f"{self.name}{' desc' if self.descending else ''}{nulls}"


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A Parquet row group: its position in the file, and the values of `sorted_by` in its first and last row. `length` is the
    compressed size of the column chunks, which readers use to assign row groups to file splits."""

    offset: int
    length: int
    rows: int
    first: Boundary
    last: Boundary


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str  # below the folder of the stream
    bytes: int
    footer: int  # CRC-32 of the Parquet footer; pages have their own checksums
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
class StreamReference:
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
    histogram: KeyHistogram
    keys: tuple[DeclaredKey, ...] = ()
    dependencies: tuple[DeclaredDependency, ...] = ()
    reference: StreamReference | None = None

    def __post_init__(self) -> None:
        types = dict(self.schema)
        names = [each.name for each in (*self.clustered_by, *self.sorted_by)]
        names += [name for each in self.declarations for name in each.columns]
        missing = [name for name in names if name not in types]
        if missing:
            raise ValueError(f"there is no column {missing[0]!r}")
        if not self.clustered_by or not self.sorted_by:
            raise ValueError("a stream is clustered by at least one column, and sorted by at least one")
        if len(self.partitions) != self.function.partitions:
            raise ValueError(f"{len(self.partitions)} partitions of {self.function}")
        self._check_function(types)
        if any(len(end) != len(self.sorted_by) for group in self.groups() for end in (group.first, group.last)):
            raise ValueError("a row group begins and ends with a value for each column it is sorted by")

    def _check_function(self, types: dict[str, pa.DataType]) -> None:
        column_types = [types[name] for name in self.function_names]
        if isinstance(self.function, HashFunction):
            if len(self.function.types) != len(self.clustered_by) or list(self.function.types) != column_types:
                raise ValueError(f"{self.function} is not of the columns {', '.join(self.function_names)}")
            return
        if isinstance(self.function.boundaries, SampledBoundaries):
            raise ValueError("the boundaries of stored ranges are known")
        for key, name, type in zip(self.function.keys, self.clustered_by, column_types, strict=False):
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
    def declarations(self) -> tuple[Constraint, ...]:
        return (*self.keys, *self.dependencies)

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)

    @property
    def sort_keys(self) -> tuple[KeyColumn, ...]:
        """The order inside a partition, with the types of its columns."""
        return typed_keys(self.schema, self.sorted_by)

    @property
    def clustering_keys(self) -> tuple[KeyColumn, ...]:
        return typed_keys(self.schema, self.clustered_by)

    def groups(self) -> Iterator[RowGroup]:
        return (group for file in self.files() for group in file.groups)

    def files(self) -> Iterator[StoredFile]:
        return (file for partition in self.partitions for file in partition.files)


def typed_keys(schema: Schema, names: tuple[SortedName, ...]) -> tuple[KeyColumn, ...]:
    types = dict(schema)
    return tuple(KeyColumn(types[each.name], each.descending, each.nulls_first) for each in names)


def ranges_of(function: RangeFunction) -> Ranges:
    """The ranges of a function whose boundaries are known."""
    if isinstance(function.boundaries, SampledBoundaries):
        raise ValueError("the boundaries of stored ranges are known")
    return Ranges(function.keys, function.boundaries)
