"""The leaves of a plan: files, tables of the Spark session, and literal rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from unshuffle.catalog.schema import Column, DataType, Dependency, Key
from unshuffle.catalog.statistics.table_look import TableLook
from unshuffle.catalog.statistics.table_statistics import TableStatistics
from unshuffle.errors import Span
from unshuffle.frozen import dataclass
from unshuffle.partitions import KeyHistogram, KeyInterval
from unshuffle.plan.expressions import Expression, Value
from unshuffle.plan.logical.node import Leaf
from unshuffle.plan.logical.user_defined import UserClass
from unshuffle.properties import Delivered

if TYPE_CHECKING:
    from unshuffle.plan.part_bounds import PartBounds
    from unshuffle.sstream.store import Stream
    from unshuffle.sstream.stored_layout import StoredLayout


@dataclass(frozen=True, slots=True)
class Format:
    """A built-in file format with its options."""

    name: str
    options: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.options)})"


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a scan.

    `base` is the folder below which `column=value` folders are partition columns. `relation` is Spark's own relation if a
    DataFrame reads the files: it has the options, the schema and the file list of that DataFrame. `stored` are all columns of
    Parquet files, and `version` changes when any file does; both are empty if unknown."""

    paths: tuple[str, ...]
    format: Format | UserClass
    base: str | None = None
    rows: int | None = None
    bytes: int | None = None
    relation: Any = field(default=None, compare=False, repr=False)
    stored: tuple[tuple[str, DataType], ...] = field(default=(), compare=False, repr=False)
    version: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StoredParts:
    """The partitions that files are stored in: those of a structured stream, or the folders or buckets of a table. Paths of
    files are below `root`. `folder_columns` are not in the files: their values are in the names of folders, and they are the
    first columns of the sort order."""

    layout: StoredLayout
    root: str
    folder_columns: tuple[str, ...] = ()

    def path_of(self, file: Any) -> str:
        return f"{self.root}/{file.path}" if self.root else str(file.path)


@dataclass(frozen=True, slots=True)
class Scan(Leaf):
    """Reads files with the types they have. A declared type that differs is a cast in a Project above."""

    label: str
    files: Files
    columns: tuple[Column, ...]
    keys: tuple[Key, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    span: Span | None = field(default=None, compare=False)
    statistics: TableStatistics | None = field(default=None, compare=False)
    layout: Delivered | None = None  # of files that are stored in partitions, in terms of the columns that are read
    stored: Delivered | None = None  # the same layout in terms of all columns of the files
    # The histogram of the columns that the files are clustered by.
    spread: KeyHistogram | None = field(default=None, compare=False, repr=False)
    spread_on: tuple[Column, ...] = ()
    parts: StoredParts | None = field(default=None, compare=False, repr=False)
    # The buckets of a table that is in folders as well, if the scan has the layout of the folders.
    buckets: StoredParts | None = field(default=None, compare=False, repr=False)
    bounds: PartBounds | None = field(
        default=None, compare=False, repr=False
    )  # of columns in the row groups of the files
    needed: tuple[int, ...] | None = None  # the numbers of the row groups that the query needs
    stream: Stream | None = field(default=None, compare=False, repr=False)  # the version that the files belong to
    # The ranges of the stored sort order that the query needs. Row groups outside them are not read.
    within: tuple[KeyInterval, ...] | None = None
    # The rows of the files that an estimate may look at.
    look: TableLook | None = field(default=None, compare=False, repr=False)
    share: float = field(default=1.0, compare=False)  # the fraction of the bytes of its estimated rows that is read

    @property
    def folder_columns(self) -> tuple[str, ...]:
        """The columns whose values are in the names of folders, where these can be read for certain."""
        known = self.bounds or self.parts
        return known.folder_columns if known is not None else ()

    @property
    def read_share(self) -> float | None:
        """The fraction of the bytes of its files that is read; None if that is all."""
        if self.bounds is not None and self.needed is not None:
            return self.share * self.bounds.bytes_of(self.needed) / max(1, self.bounds.bytes_of())
        return self.share if self.within is not None else None

    def renamed(self, columns: Mapping[Column, Column]) -> Scan:
        """The same scan under other column numbers, with all its facts."""

        def renamed_set(some: frozenset[Column]) -> frozenset[Column]:
            return frozenset(columns[column] for column in some)

        def renamed_column(column: Column) -> Column:
            return columns.get(column, column)  # a column that is not read keeps its number

        return replace(
            self,
            columns=tuple(columns[column] for column in self.columns),
            keys=tuple(map(renamed_set, self.keys)),
            dependencies=tuple(
                Dependency(renamed_set(d.determinant), renamed_set(d.dependent)) for d in self.dependencies
            ),
            statistics=self.statistics.renamed(columns) if self.statistics is not None else None,
            layout=self.layout.renamed(renamed_column) if self.layout is not None else None,
            stored=self.stored.renamed(renamed_column) if self.stored is not None else None,
            spread_on=tuple(map(renamed_column, self.spread_on)),
        )


@dataclass(frozen=True, slots=True)
class TableScan(Leaf):
    """Rows that only the Spark session has: a table or view of that name or, with a `relation`, the source of a DataFrame,
    which may have no name in Spark. The columns are the source's columns by position."""

    name: tuple[str, ...]
    columns: tuple[Column, ...]
    relation: Any = field(default=None, compare=False, repr=False)
    rows: int | None = None
    keys: tuple[Key, ...] = ()
    dependencies: tuple[Dependency, ...] = ()


@dataclass(frozen=True, slots=True)
class Values(Leaf):
    """Rows that are written in the query. A SELECT without FROM reads one row without columns."""

    rows: tuple[tuple[Expression, ...], ...]
    columns: tuple[Column, ...]
