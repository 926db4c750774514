"""A look at the rows of a table when a query over it is planned.

Footers say how many rows there are, and the least and greatest value of each column. They do not say which rows satisfy a
filter, or which values of a key remain. So the values of the columns that a query filters, joins and groups by are read: all
rows of a small table, a sample of a large one.

    small       every value, so that whatever is computed from the rows is exact
    large       random rows of evenly spaced row groups, the same rows for every column

A column is read when it is first asked for, and kept as long as its files do not change, up to a number of bytes for all
tables together. Whatever cannot be read has no values: an estimate then does without. The rows are the same each time, so
the same query gets the same plan.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from unshuffle.catalog.files import DataFile, HashedTuple, is_uri, without_scheme
from unshuffle.catalog.folder_types import partition_value
from unshuffle.catalog.parquet_files import EXACT_FOOTERS, ParquetContents, footers_of
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.statistics.column_statistics import count_values
from unshuffle.catalog.statistics.distinct_estimate import in_all_rows
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.catalog.statistics.value_codes import Codes, codes_of
from unshuffle.constants import LOOKS
from unshuffle.frozen import dataclass

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A row group, and the rows of it that are in the sample; None for all."""

    file: DataFile
    footer: Any
    group: int
    rows: int
    positions: Positions | None


class TableLook:
    """The rows of a table that were looked at. `population` is the number of all its rows."""

    def __init__(self, files: Sequence[DataFile], contents: ParquetContents) -> None:
        self.population = contents.rows
        self.is_complete = contents.rows <= LOOKS.complete_rows
        self.bytes = 0
        self._files = files
        self._types: Mapping[str, DataType] = dict(contents.columns)
        self._partition_columns = frozenset(contents.partition_columns)
        self._pieces: list[_Piece] | None = None
        self._columns: dict[str, pa.Array | None] = {}
        self._codes: dict[str, Codes] = {}
        self._statistics: dict[str, ColumnStatistics | None] = {}
        self._lock = Lock()

    @property
    def rows(self) -> int:
        """The number of rows that were looked at."""
        return sum(each.rows if each.positions is None else len(each.positions) for each in self._sampled())

    def column(self, name: str) -> pa.Array | None:
        """The values of a column in these rows; None if they cannot be read."""
        with self._lock:
            if name not in self._columns:
                values = self._read(name)
                self._columns[name] = values
                self.bytes += values.nbytes if values is not None else 0
                added = True
            else:
                added = False
            found = self._columns[name]
        if added:
            _LOOKS.trim(self)
        return found

    def exact_column(self, name: str, type: DataType) -> pa.Array | None:
        """The values of a column exactly as every reader finds them; None unless all rows were looked at, and every file has
        the column by this name and in this type."""
        if not self.is_complete or self._types.get(name) != type or name in self._partition_columns:
            return None
        for footer in {id(each.footer): each.footer for each in self._sampled()}.values():
            schema = footer.schema.to_arrow_schema()
            if name not in schema.names or schema.field(name).type != type:
                return None
        values = self.column(name)
        return values if values is not None and len(values) == self.population else None

    def codes(self, name: str) -> Codes | None:
        """The values of a column as numbers."""
        if name not in self._codes:
            values = self.column(name)
            if values is None:
                return None
            self._codes[name] = codes_of(values)
            self.bytes += self._codes[name].nbytes
        return self._codes[name]

    def statistics(self, name: str) -> ColumnStatistics | None:
        """The statistics of a column in all rows, as far as these rows tell; None if it cannot be read."""
        if name not in self._statistics:
            values = self.column(name)
            self._statistics[name] = None if values is None else self._counted(values)
        return self._statistics[name]

    def _counted(self, values: pa.Array) -> ColumnStatistics | None:
        try:
            found, counts = count_values(values, LOOKS.sampled_rows)
        except (pa.ArrowException, ValueError, TypeError):
            return None
        if self.is_complete:
            return found
        once, twice = int((counts == 1).sum()), int((counts == 2).sum())
        distinct = in_all_rows(len(counts), once, twice, len(values), float(self.population))
        common = tuple(pair for pair in found.common if pair[1] * len(values) >= LOOKS.min_rows)
        common = found.common if distinct == len(counts) else common
        return _of_more_rows(found, distinct, common, once > (1.0 - LOOKS.covered_share) * len(values))

    def _read(self, name: str) -> pa.Array | None:
        type = self._types.get(name)
        if type is None or pa.types.is_nested(type):
            return None
        try:
            parts = [self._part(piece, name, type) for piece in self._sampled()]
            return pa.concat_arrays(parts) if parts else pa.array([], type)
        except (OSError, ValueError, KeyError, pa.ArrowException):
            return None  # The files are gone, changed or damaged: whatever reads the rows will report it.

    def _part(self, piece: _Piece, name: str, type: pa.DataType) -> pa.Array:
        count = piece.rows if piece.positions is None else len(piece.positions)
        if name in self._partition_columns:
            value = partition_value(dict(piece.file.partition).get(name, ""), type)
            return pa.repeat(pa.scalar(value, type), count)
        if name not in piece.footer.schema.names:
            return pa.nulls(count, type)
        with pa.parquet.ParquetFile(
            without_scheme(piece.file.path), metadata=piece.footer, coerce_int96_timestamp_unit="us"
        ) as file:
            column = file.read_row_group(piece.group, [name], use_threads=False).column(0)
        if piece.positions is not None:
            column = column.take(pa.array(piece.positions))
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
        return values if values.type == type else values.cast(type)

    def _sampled(self) -> list[_Piece]:
        if self._pieces is None:
            try:
                self._pieces = self._choose()
            except (OSError, pa.ArrowException):
                self._pieces = []
        return self._pieces

    def _choose(self) -> list[_Piece]:
        footers = footers_of(HashedTuple.of(self._files))
        groups = [
            (file, footer, group, footer.row_group(group).num_rows)
            for file, footer in zip(self._files, footers, strict=True)
            for group in range(footer.num_row_groups)
        ]
        if self.is_complete:
            return [_Piece(*each, None) for each in groups]
        average = max(1, self.population // max(1, len(groups)))
        count = max(1, min(LOOKS.row_groups, LOOKS.decoded_rows // average))
        step = max(1, -(-len(groups) // count))
        chosen = groups[step // 2 :: step]
        total = max(1, sum(rows for *_, rows in chosen))
        random = np.random.default_rng(total)  # the same for the same table
        pieces = []
        for file, footer, group, rows in chosen:
            count = min(rows, max(1, round(LOOKS.sampled_rows * rows / total)))
            positions = np.sort(random.choice(rows, count, replace=False)) if count < rows else None
            pieces.append(_Piece(file, footer, group, rows, positions))
        return pieces


def _of_more_rows(
    sampled: ColumnStatistics, distinct: float | None, common: tuple[tuple[Any, float], ...], is_guess: bool
) -> ColumnStatistics:
    """The statistics of a sample's column for all rows: they have more values, in the same proportions."""
    histogram = sampled.histogram
    growth = distinct / sampled.distinct if distinct and sampled.distinct else 1.0
    if histogram is not None and growth > 1.0:
        histogram = replace(histogram, distinct=tuple(count * growth for count in histogram.distinct))
    return replace(sampled, distinct=distinct, common=common, histogram=histogram, is_sampled=is_guess)


class _Kept:
    """The looks at unchanged files, the least recently used first."""

    def __init__(self) -> None:
        self._looks: OrderedDict[HashedTuple[DataFile], TableLook] = OrderedDict()
        self._lock = Lock()

    def of(self, files: HashedTuple[DataFile], contents: ParquetContents) -> TableLook:
        with self._lock:
            look = self._looks.get(files)
            if look is None:
                look = self._looks[files] = TableLook(files, contents)
            self._looks.move_to_end(files)
            while len(self._looks) > LOOKS.tables:
                self._looks.popitem(last=False)
            return look

    def trim(self, newest: TableLook) -> None:
        """Forgets the looks that were used least recently, until the others fit. A plan that holds one keeps it alive."""
        with self._lock:
            total = sum(each.bytes for each in self._looks.values())
            for files, look in list(self._looks.items()):
                if total <= LOOKS.kept_bytes:
                    return
                if look is not newest:
                    total -= look.bytes
                    del self._looks[files]


_LOOKS = _Kept()


def look_at(files: Sequence[DataFile], contents: ParquetContents) -> TableLook | None:
    """A look at Parquet files, which reads nothing yet. None if looking would not be cheap: files that are not local, or
    too many files."""
    are_known = all(file.modified is not None and not is_uri(file.path.removeprefix("file://")) for file in files)
    if not files or not are_known or len(files) > min(LOOKS.files, EXACT_FOOTERS) or contents.rows <= 0:
        return None
    return _LOOKS.of(HashedTuple.of(files), contents)
