"""What is known of the data that a scan reads, from the best source there is.

1. What `unshuffle analyze` stored, if the files are the ones that were analyzed.
2. The same, if files have changed, come or gone since: row counts and ends are the footers', distinct values of columns
   that nearly identify a row grow with the rows, and values beyond the old ends get a bucket of their own.
3. The Parquet footers.

Keys and dependencies come from the first source only, or from a larger set of files that was analyzed and has not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unshuffle.catalog.files import DataFile, ParquetContents
from unshuffle.catalog.schema import Column, Dependency, Key
from unshuffle.catalog.statistics import ColumnStatistics, Histogram, TableStatistics
from unshuffle.catalog.stored_statistics import StoredStatistics, find, load
from unshuffle.catalog.types import spark_name

# A column with this share of its rows distinct is taken to be an identifier, whose values grow with the rows.
_IDENTIFIES = 0.5


@dataclass(frozen=True, slots=True)
class Known:
    """What a scan can be told: statistics, and keys and dependencies that were found to hold of its files."""

    statistics: TableStatistics
    keys: tuple[Key, ...] = ()
    dependencies: tuple[Dependency, ...] = ()


def known_of(
    columns: Sequence[Column],
    paths: Sequence[str],
    base: str | None,
    files: Sequence[DataFile],
    contents: ParquetContents,
    catalog: str | Path | None = None,
) -> Known:
    """What is known of files that are read into these columns."""
    named = {column.name: column for column in columns}
    footers = dict(contents.statistics)
    candidates = [stored for stored in map(load, find(paths, base, files, catalog)) if stored is not None]
    # The most fitting comes first, but one that holds of these very files is better than one that does not.
    exact = next((stored for stored in candidates if stored.same_files(files)), None)
    covering = exact or next((stored for stored in candidates if stored.all_analyzed(files)), None)
    best = covering or next(iter(candidates), None)
    if best is None:
        return Known(_table(contents, named, footers))
    types = {column.name: spark_name(column.type) for column in columns}
    stored = {each.name: each.statistics for each in best.columns if types.get(each.name) == each.type}
    if exact is None:
        grown = contents.rows / best.rows if best.rows else 1.0
        stored = {
            name: _brought_up_to_date(known, footers.get(name), grown, contents.rows) for name, known in stored.items()
        }
    rising = (tuple(named[name] for name in (key, *others) if name in stored) for key, others in best.rising)
    table = replace(_table(contents, named, {**footers, **stored}), rising=tuple(rising))
    return Known(table, *_facts(covering, named, stored)) if covering is not None else Known(table)


def _table(
    contents: ParquetContents, named: Mapping[str, Column], known: Mapping[str, ColumnStatistics]
) -> TableStatistics:
    pairs = tuple((column, known[name]) for name, column in named.items() if name in known)
    return TableStatistics(float(contents.rows), float(contents.bytes), pairs)


def _facts(
    stored: StoredStatistics, named: Mapping[str, Column], readable: Mapping[str, ColumnStatistics]
) -> tuple[tuple[Key, ...], tuple[Dependency, ...]]:
    """Facts of the columns as they are read now: of a column read as another type, values may fall together."""

    def columns(names: Sequence[str]) -> frozenset[Column]:
        return frozenset(named[name] for name in names if name in readable)

    keys = tuple(columns(key) for key in stored.keys if all(name in readable for name in key))
    dependencies = tuple(
        Dependency(columns(left), columns(right))
        for left, right in stored.dependencies
        if all(name in readable for name in left) and columns(right)
    )
    return keys, dependencies


def _brought_up_to_date(
    known: ColumnStatistics, footer: ColumnStatistics | None, grown: float, rows: float
) -> ColumnStatistics:
    distinct = known.distinct
    if distinct is not None:
        before = rows / grown if grown > 0.0 else rows
        distinct = min(rows, distinct * grown if distinct >= _IDENTIFIES * before else distinct)
    if footer is None or footer.low is None or known.low is None:
        return replace(known, distinct=distinct)
    try:
        narrower = footer.low > known.low or footer.high < known.high
        histogram = None if narrower else _extended(known.histogram, footer.low, footer.high, grown)
        inside = tuple(pair for pair in known.common if not narrower or footer.low <= pair[0] <= footer.high)
    except TypeError:
        return replace(known, distinct=distinct)
    if narrower and footer.distinct is not None and distinct is not None:
        distinct = min(distinct, footer.distinct)
    return replace(
        known,
        distinct=distinct,
        low=footer.low,
        high=footer.high,
        null_fraction=footer.null_fraction,
        histogram=histogram,
        common=inside if not narrower else (),
    )


def _extended(histogram: Histogram | None, low: Any, high: Any, grown: float) -> Histogram | None:
    """Rows that came since are taken to lie beyond the old ends, where there are values now."""
    if histogram is None:
        return None
    came = max(0.0, grown - 1.0)
    bounds, rows, distinct = list(histogram.bounds), list(histogram.rows), list(histogram.distinct)
    new_rows, new_values = sum(rows) * came, max(1.0, sum(distinct) * came)
    below, above = low < bounds[0], high > bounds[-1]
    share = 0.5 if below and above else 1.0
    if below:
        bounds, rows, distinct = [low, *bounds], [new_rows * share, *rows], [new_values * share, *distinct]
    if above:
        bounds, rows, distinct = [*bounds, high], [*rows, new_rows * share], [*distinct, new_values * share]
    return Histogram(tuple(bounds), tuple(rows), tuple(distinct))
