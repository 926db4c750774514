"""Keys, dependencies and common orders that hold in data, found by looking at all of its rows.

What is reported is exact, for optimizing relies on it as on a declaration: a key is a set of columns without NULL on
which no two rows agree, and a -> b says that rows which agree on a agree on b, NULL agreeing with NULL. What is looked
for is bounded: keys of one column, then of two, then, if there is none, of three; dependencies on one column. Most
candidates fall to counts of distinct values or to a sample of the rows, and only the rest is checked in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from unshuffle.catalog.profile import Codes, Profile

_SAMPLE = 20_000
_CHECKED_IN_FULL = 64  # candidates for a key, of each size
_KEYS_KEPT = 8
_RISING_TRIED = 3  # keys
_FEWEST_RISING = 16  # rows, of which a few rise together by chance
# In a table of some size, a column that hardly repeats makes a key with almost any other, by chance and of no use.
_HARDLY_REPEATS = 0.9
_SOME_SIZE = 1_000

Named = tuple[str, Profile]


def keys(columns: Sequence[Named], rows: int) -> tuple[tuple[str, ...], ...]:
    """Minimal keys, those of few columns first; none of no rows, of which everything is true."""
    if not rows:
        return ()
    solid = [(name, column) for name, column in columns if not column.has_null]
    found: list[tuple[str, ...]] = [(name,) for name, column in solid if column.values == rows]
    single = {name for (name,) in found}
    most = rows if rows < _SOME_SIZE else rows * _HARDLY_REPEATS
    rest = [(name, column) for name, column in solid if name not in single and 1 < column.values <= most]
    for size in (2, 3):
        if size == 3 and found:
            break
        found += _of_size(rest, size, rows)
    return tuple(found[:_KEYS_KEPT])


def _of_size(columns: Sequence[Named], size: int, rows: int) -> list[tuple[str, ...]]:
    """Candidates with fewest combinations come first: they are the least likely to be unique by chance."""
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
        # Neighbouring rows agree most often, so a sample of them shows most duplicates; an even sample shows others.
        if not _unique(chosen, slice(0, _SAMPLE)) or not _unique(chosen, slice(0, None, step)):
            continue
        checked += 1
        if checked > _CHECKED_IN_FULL or len(found) >= _KEYS_KEPT:
            break
        if _unique(chosen, slice(None)):
            found.append(tuple(name for name, _ in chosen))
    return found


def _unique(columns: Sequence[Named], part: slice) -> bool:
    combined = combined_codes([column for _, column in columns], part)
    return len(np.unique(combined)) == len(combined)


def combined_codes(columns: Sequence[Profile], part: slice) -> npt.NDArray[np.int64]:
    """One code for each combination of the columns' codes."""
    combined = columns[0].codes[part].astype(np.int64) + 1
    size = columns[0].values + 1
    for column in columns[1:]:
        if size * (column.values + 1) >= 2**62:
            # Codes anew, so that they stay small enough to be combined with the next.
            _, combined = np.unique(combined, return_inverse=True)
            size = int(combined.max()) + 1 if len(combined) else 1
        combined = combined * (column.values + 1) + column.codes[part] + 1
        size *= column.values + 1
    return combined


def dependencies(columns: Sequence[Named], rows: int) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """(determinant, dependents), by determinant. Columns of one value depend on nothing at all; a unique column
    determines everything and is reported as a key only."""
    found: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    constant = tuple(name for name, column in columns if column.kinds == 1)
    if constant and rows:
        found.append(((), constant))
    varied = [(name, column) for name, column in columns if column.kinds > 1]
    for name, column in varied:
        if column.kinds == rows:
            continue
        dependent = tuple(
            other
            for other, candidate in varied
            if other != name and candidate.kinds <= column.kinds and _determines(column, candidate, rows)
        )
        if dependent:
            found.append(((name,), dependent))
    return tuple(found)


def rising(columns: Sequence[Named], rows: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Unique columns with those that never fall when rows are sorted by them: a calendar's years rise with its days."""
    if rows < _FEWEST_RISING:
        return ()
    found: list[tuple[str, tuple[str, ...]]] = []
    told: set[str] = set()
    keys = [(name, column) for name, column in columns if not column.has_null and column.values == rows]
    for name, key in keys[:_RISING_TRIED]:
        if name in told:
            continue
        order = np.argsort(key.ranks[key.codes])
        others = tuple(
            other for other, column in columns if other != name and column.values > 2 and _never_falls(column, order)
        )
        if others:
            found.append((name, others))
            told |= {name, *others}
    return tuple(found)


def _never_falls(column: Profile, order: npt.NDArray[np.int64]) -> bool:
    codes = column.codes[order]
    ranks = column.ranks[codes[codes >= 0]]
    return bool(np.all(ranks[1:] >= ranks[:-1]))


def _determines(column: Profile, other: Profile, rows: int) -> bool:
    step = max(1, rows // _SAMPLE)
    parts = (slice(0, _SAMPLE), slice(0, None, step), slice(None)) if rows > _SAMPLE else (slice(None),)
    return all(_agree(column, column.codes[part], other.codes[part]) for part in parts)


def _agree(column: Profile, codes: Codes, others: Codes) -> bool:
    """Of each group of equal codes, one row's other code is noted; all rows must have the one noted for their group."""
    noted = np.empty(column.values + 1, dtype=others.dtype)
    noted[codes] = others  # NULL's code, -1, is the last place
    return bool(np.array_equal(noted[codes], others))
