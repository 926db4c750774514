"""Discovers the keys, functional dependencies and order dependencies that hold in data.

The result is exact, because plans rely on it as on a declared constraint. A key is a set of columns without NULL on which no
two rows agree. a -> b says that rows which agree on a agree on b, NULL agreeing with NULL. The search is bounded: keys of one
column, then of two, then, if there is none, of three; dependencies on one column. Counts of distinct values and samples of
the rows rule out most candidates. Only the rest is checked on all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from unshuffle.catalog.statistics.column_statistics import Codes, ColumnProfile

_SAMPLE = 20_000
_MAX_FULL_CHECKS = 64  # of key candidates, for each number of columns
_MAX_KEYS = 8
_MAX_ORDERS = 3  # keys whose order is compared with other columns
_MIN_ORDER_ROWS = 16  # among fewer rows, columns have the same order by chance
# In a large table, a nearly unique column forms a key with almost any other, by chance and of no use.
_NEARLY_UNIQUE = 0.9
_LARGE_TABLE = 1_000

Named = tuple[str, ColumnProfile]


def keys(columns: Sequence[Named], rows: int) -> tuple[tuple[str, ...], ...]:
    """Minimal keys, those with the fewest columns first. A table without rows has none, though every set would be one."""
    if not rows:
        return ()
    non_null = [(name, column) for name, column in columns if not column.has_null]
    found: list[tuple[str, ...]] = [(name,) for name, column in non_null if column.values == rows]
    single = {name for (name,) in found}
    max_values = rows if rows < _LARGE_TABLE else rows * _NEARLY_UNIQUE
    rest = [(name, column) for name, column in non_null if name not in single and 1 < column.values <= max_values]
    for size in (2, 3):
        if size == 3 and found:
            break
        found += _keys_of_size(rest, size, rows)
    return tuple(found[:_MAX_KEYS])


def _keys_of_size(columns: Sequence[Named], size: int, rows: int) -> list[tuple[str, ...]]:
    """Candidates with the fewest combinations of values come first: they are the least likely to be unique by chance."""
    candidates = []
    for chosen in combinations(columns, size):
        product = 1
        for _, column in chosen:
            product *= column.values
        if product >= rows:
            candidates.append((product, chosen))
    candidates.sort(key=lambda pair: pair[0])
    step = max(1, rows // _SAMPLE)
    found: list[tuple[str, ...]] = []
    checked = 0
    for _, chosen in candidates:
        # Neighbouring rows agree most often, so the first rows show most duplicates. An even sample shows others.
        if not _is_unique(chosen, slice(0, _SAMPLE)) or not _is_unique(chosen, slice(0, None, step)):
            continue
        checked += 1
        if checked > _MAX_FULL_CHECKS or len(found) >= _MAX_KEYS:
            break
        if _is_unique(chosen, slice(None)):
            found.append(tuple(name for name, _ in chosen))
    return found


def _is_unique(columns: Sequence[Named], part: slice) -> bool:
    combined = combined_codes([column for _, column in columns], part)
    return len(np.unique(combined)) == len(combined)


def combined_codes(columns: Sequence[ColumnProfile], part: slice) -> npt.NDArray[np.int64]:
    """A code for each combination of the columns' codes."""
    combined = columns[0].codes[part].astype(np.int64) + 1
    size = columns[0].values + 1
    for column in columns[1:]:
        if size * (column.values + 1) >= 2**62:
            # New codes, small enough to be combined with the next column's.
            _, combined = np.unique(combined, return_inverse=True)
            size = int(combined.max()) + 1 if len(combined) else 1
        combined = combined * (column.values + 1) + column.codes[part] + 1
        size *= column.values + 1
    return combined


def dependencies(columns: Sequence[Named], rows: int) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Pairs of determinant and dependents. A constant column depends on the empty set. A unique column determines
    everything, and is reported as a key only."""
    found: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    constant = tuple(name for name, column in columns if column.distinct_with_null == 1)
    if constant and rows:
        found.append(((), constant))
    varied = [(name, column) for name, column in columns if column.distinct_with_null > 1]
    for name, column in varied:
        if column.distinct_with_null == rows:
            continue
        dependent = tuple(
            other for other, candidate in varied if other != name and _determines(column, candidate, rows)
        )
        if dependent:
            found.append(((name,), dependent))
    return tuple(found)


def order_dependencies(columns: Sequence[Named], rows: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Unique columns, with the columns that never fall when rows are sorted by them: years rise with days in a calendar."""
    if rows < _MIN_ORDER_ROWS:
        return ()
    found: list[tuple[str, tuple[str, ...]]] = []
    covered: set[str] = set()
    keys = [(name, column) for name, column in columns if not column.has_null and column.values == rows]
    for name, key in keys[:_MAX_ORDERS]:
        if name in covered:
            continue
        order = np.argsort(key.ranks[key.codes])
        others = tuple(
            other for other, column in columns if other != name and column.values > 2 and _never_falls(column, order)
        )
        if others:
            found.append((name, others))
            covered |= {name, *others}
    return tuple(found)


def _never_falls(column: ColumnProfile, order: npt.NDArray[np.int64]) -> bool:
    codes = column.codes[order]
    ranks = column.ranks[codes[codes >= 0]]
    return bool(np.all(ranks[1:] >= ranks[:-1]))


def _determines(column: ColumnProfile, other: ColumnProfile, rows: int) -> bool:
    if other.distinct_with_null > column.distinct_with_null:
        return False
    step = max(1, rows // _SAMPLE)
    parts = (slice(0, _SAMPLE), slice(0, None, step), slice(None)) if rows > _SAMPLE else (slice(None),)
    return all(_agree(column, column.codes[part], other.codes[part]) for part in parts)


def _agree(column: ColumnProfile, codes: Codes, others: Codes) -> bool:
    """Whether rows with equal codes have equal other codes. One row of each group sets what all of its rows must have."""
    expected = np.empty(column.values + 1, dtype=others.dtype)
    expected[codes] = others  # NULL has the code -1, which is the last index
    return bool(np.array_equal(expected[codes], others))
