"""The leaves that read files, tables and literal rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan import logical
from unshuffle.plan.physical.base import InputFacts, InputLayouts, LeafOperator
from unshuffle.plan.physical.join import DynamicPruning
from unshuffle.properties import Delivered, Partitioned, RangeFunction, Serial, UnknownPartitioning
from unshuffle.properties.layouts.related_layouts import read_in_place
from unshuffle.properties.layouts.structure import columns_of


@dataclass(frozen=True, slots=True)
class FileScan(LeafOperator):
    """Reads plain files, one task per piece, or the partitions of a structured stream.

    Stored partitions are read either as stored, or so that each task reads every stored partition that can hold rows of its
    own and keeps only those rows (SIGMOD 2012, sections 3.1 and 3.2). `readers` is then the average number of tasks that
    read a stored partition. With `bounded_by`, the bounds of that column say which row groups a task reads."""

    scan: logical.Scan
    layout: Delivered
    readers: float | None = None
    bounded_by: Column | None = None
    prunings: tuple[DynamicPruning, ...] = ()  # of its folders, at run time, by joins above

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.scan.columns

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return self.layout

    def read_as(self, layout: Partitioned) -> FileScan | None:
        """A scan of the same rows in another layout, if the stored layout, or the bounds of its first column, say which tasks
        can need which rows."""
        if self.readers is not None or not set(layout.columns) <= set(self.columns):
            return None
        return self._read_stored(layout) or self._read_bounded(layout)

    def _read_stored(self, layout: Partitioned) -> FileScan | None:
        stored = self.scan.stored
        in_place = read_in_place(stored, layout) if stored is not None else None
        if in_place is None:
            return None
        read = set(self.columns)
        local = takewhile(lambda key: columns_of((key,)) <= read, in_place.local)
        return replace(self, layout=Delivered(layout, tuple(local)), readers=in_place.readers)

    def _read_bounded(self, layout: Partitioned) -> FileScan | None:
        bounds = self.scan.bounds
        if bounds is None or not isinstance(layout.function, RangeFunction) or layout.nulls_anywhere:
            return None
        readers = bounds.readers(layout.columns[0], layout.function, self.scan.needed)
        if readers is None:
            return None
        return replace(self, layout=Delivered(layout), readers=readers, bounded_by=layout.columns[0])


@dataclass(frozen=True, slots=True)
class TableRead(LeafOperator):
    table: logical.TableScan

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.table.columns

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return Delivered(UnknownPartitioning())


@dataclass(frozen=True, slots=True)
class Rows(LeafOperator):
    values: logical.Values

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.values.columns

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return Delivered(Serial())
