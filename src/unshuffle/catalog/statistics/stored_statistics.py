"""What `analyze` stores about a table: statistics, and the keys and dependencies that it discovered.

Statistics of data that has changed since still guide plans, with their row counts updated. Keys and dependencies are facts:
they are used only if every file that is read was analyzed and is unchanged. A subset of the files is enough, because a key or
dependency of all rows holds for some of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.catalog.files import DataFile
from unshuffle.catalog.statistics.file_fingerprints import FileFingerprint, all_unchanged
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.frozen import dataclass


@dataclass(frozen=True, slots=True)
class StoredColumn:
    name: str
    type: str  # Spark's name of the type
    statistics: ColumnStatistics


@dataclass(frozen=True, slots=True)
class StoredStatistics:
    """The result of `analyze`. If it is not `exact`, distinct values were counted by a sketch and everything else on a
    sample, and there are no keys and dependencies."""

    root: str
    files: tuple[FileFingerprint, ...]
    rows: int
    bytes: int
    exact: bool
    columns: tuple[StoredColumn, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    dependencies: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    order_dependencies: tuple[tuple[str, tuple[str, ...]], ...] = ()  # a column, and those that never fall in its order

    def are_analyzed(self, files: Sequence[DataFile]) -> bool:
        """Whether every one of these files was analyzed and is unchanged."""
        return all_unchanged(self.files, self.root, files)

    def are_same_files(self, files: Sequence[DataFile]) -> bool:
        """Whether these are all of the analyzed files, unchanged."""
        return len(files) == len(self.files) and self.are_analyzed(files)
