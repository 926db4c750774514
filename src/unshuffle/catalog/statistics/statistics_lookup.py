"""The statistics and facts of the data that a scan reads, from the best available source.

1. What `unshuffle analyze` stored, if the files are exactly those that were analyzed.
2. The same, updated, if files were changed, added or removed since. Row counts, minima and maxima come from the footers. The
   distinct values of columns that nearly identify a row grow with the rows. Values outside the old bounds get a bucket.
3. The Parquet footers.

Keys and dependencies come from the first source only, or from an analyzed superset of the files that is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unshuffle.catalog.files import DataFile
from unshuffle.catalog.parquet_files import ParquetContents
from unshuffle.catalog.schema import Column, Dependency, Key
from unshuffle.catalog.statistics.persistence import find, find_at, load
from unshuffle.catalog.statistics.stored_statistics import StoredStatistics
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, EquiDepthHistogram, TableStatistics
from unshuffle.catalog.types import spark_name
from unshuffle.frozen import dataclass

# A column with at least this many distinct values per row is assumed to be an identifier, which grows with the rows.
_IDENTIFIER_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class ScanFacts:
    """The statistics of a scan's files, and the keys and dependencies discovered in them."""

    statistics: TableStatistics
    keys: tuple[Key, ...] = ()
    dependencies: tuple[Dependency, ...] = ()


def scan_facts(
    columns: Sequence[Column],
    paths: Sequence[str],
    base: str | None,
    files: Sequence[DataFile],
    contents: ParquetContents,
    catalog: str | Path | None = None,
) -> ScanFacts:
    """The statistics and facts of files that are read into these columns."""
    return _best_facts(columns, find(paths, base, files, catalog), files, contents)


def stream_facts(
    columns: Sequence[Column],
    path: str,
    files: Sequence[DataFile],
    contents: ParquetContents,
    catalog: str | Path | None = None,
) -> ScanFacts:
    """The statistics and facts of the files of one version of the structured stream at a path."""
    return _best_facts(columns, find_at([path], catalog), files, contents)


def _best_facts(
    columns: Sequence[Column], places: Sequence[Path], files: Sequence[DataFile], contents: ParquetContents
) -> ScanFacts:
    named = {column.name: column for column in columns}
    footers = dict(contents.statistics)
    candidates = [stored for stored in map(load, places) if stored is not None]
    # The most specific candidate comes first, but one of exactly these files is better than one of others.
    exact = next((stored for stored in candidates if stored.are_same_files(files)), None)
    covering = exact or next((stored for stored in candidates if stored.are_analyzed(files)), None)
    best = covering or next(iter(candidates), None)
    if best is None:
        return ScanFacts(_table(contents, named, footers))
    types = {column.name: spark_name(column.type) for column in columns}
    stored = {each.name: each.statistics for each in best.columns if types.get(each.name) == each.type}
    if exact is None:
        growth = contents.rows / best.rows if best.rows else 1.0
        stored = {
            name: _updated(statistics, footers.get(name), growth, contents.rows) for name, statistics in stored.items()
        }
    stored = {
        name: replace(statistics, overlap=footers[name].overlap if name in footers else 1.0)
        for name, statistics in stored.items()
    }
    orders = (tuple(named[n] for n in (key, *others) if n in stored) for key, others in best.order_dependencies)
    table = replace(_table(contents, named, {**footers, **stored}), order_dependencies=tuple(orders))
    return ScanFacts(table, *_facts(covering, named, stored)) if covering is not None else ScanFacts(table)


def _table(
    contents: ParquetContents, named: Mapping[str, Column], statistics: Mapping[str, ColumnStatistics]
) -> TableStatistics:
    pairs = tuple((column, statistics[name]) for name, column in named.items() if name in statistics)
    return TableStatistics(float(contents.rows), float(contents.bytes), pairs)


def _facts(
    stored: StoredStatistics, named: Mapping[str, Column], readable: Mapping[str, ColumnStatistics]
) -> tuple[tuple[Key, ...], tuple[Dependency, ...]]:
    """The facts about readable columns. Different values may be equal when they are read as another type, so a column that
    is read as another type has no facts."""

    def columns(names: Sequence[str]) -> frozenset[Column]:
        return frozenset(named[name] for name in names if name in readable)

    keys = tuple(columns(key) for key in stored.keys if all(name in readable for name in key))
    dependencies = tuple(
        Dependency(columns(left), columns(right))
        for left, right in stored.dependencies
        if all(name in readable for name in left) and columns(right)
    )
    return keys, dependencies


def _updated(stored: ColumnStatistics, footer: ColumnStatistics | None, growth: float, rows: float) -> ColumnStatistics:
    """Statistics of files that have changed since. `growth` is the factor by which the number of rows has changed."""
    distinct = stored.distinct
    if distinct is not None:
        before = rows / growth if growth > 0.0 else rows
        distinct = min(rows, distinct * growth if distinct >= _IDENTIFIER_RATIO * before else distinct)
    if footer is None or footer.low is None or stored.low is None:
        return replace(stored, distinct=distinct)
    try:
        is_narrower = footer.low > stored.low or footer.high < stored.high
        histogram = None if is_narrower else _extended(stored.histogram, footer.low, footer.high, growth)
    except TypeError:
        return replace(stored, distinct=distinct)
    if is_narrower and footer.distinct is not None and distinct is not None:
        distinct = min(distinct, footer.distinct)
    return replace(
        stored,
        distinct=distinct,
        low=footer.low,
        high=footer.high,
        null_fraction=footer.null_fraction,
        histogram=histogram,
        common=stored.common if not is_narrower else (),
    )


def _extended(histogram: EquiDepthHistogram | None, low: Any, high: Any, growth: float) -> EquiDepthHistogram | None:
    """New rows are assumed to have the values outside the old bounds, if there are such values."""
    if histogram is None:
        return None
    new_share = max(0.0, growth - 1.0)
    bounds, rows, distinct = list(histogram.bounds), list(histogram.rows), list(histogram.distinct)
    new_rows, new_values = sum(rows) * new_share, max(1.0, sum(distinct) * new_share)
    is_below, is_above = low < bounds[0], high > bounds[-1]
    share = 0.5 if is_below and is_above else 1.0
    if is_below:
        bounds, rows, distinct = [low, *bounds], [new_rows * share, *rows], [new_values * share, *distinct]
    if is_above:
        bounds, rows, distinct = [*bounds, high], [*rows, new_rows * share], [*distinct, new_values * share]
    return EquiDepthHistogram(tuple(bounds), tuple(rows), tuple(distinct))
