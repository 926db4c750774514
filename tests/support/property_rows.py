"""Relations that satisfy random facts, and functions that really partition, sort and merge them.

All randomness comes from `Choices`, a string of bytes whose seed and length hypothesis draws and shrinks. Apart from the
data types, no code under test decides where a row goes or what a fact implies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from itertools import combinations
from random import Random
from typing import Any, TypeVar
from zlib import crc32

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.property_semantics import Leaf, Row, compare_rows, partition_number, seen
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties import (
    ConcatMerge,
    ConstantValue,
    Dependencies,
    EqualColumns,
    Grouped,
    Local,
    Merge,
    Ordered,
    Partitioned,
    RandomMerge,
    SampledBoundaries,
    Serial,
    SortConcatMerge,
    Sorted,
    SortMerge,
    hashed,
    ranged,
)
from unshuffle.properties.layouts.structure import UnknownPartitioning

T = TypeVar("T")
INT = pa.int64()
VALUES = (None, 0, 1, 2)
COLUMNS = tuple(Column(i + 1, name, INT) for i, name in enumerate("abcd"))


class Choices:
    """A sequence of small decisions. Past its end, every decision is the first option."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def below(self, n: int) -> int:
        if self.at >= len(self.data):
            return 0
        self.at += 1
        return self.data[self.at - 1] % n

    def flag(self, one_in: int = 2) -> bool:
        return self.below(one_in) == one_in - 1

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def subset(self, options: Sequence[T], least: int = 0) -> list[T]:
        chosen = [o for o in options if self.flag()]
        while len(chosen) < min(least, len(options)):
            chosen.append(self.pick([o for o in options if o not in chosen]))
        return chosen

    def shuffle(self, items: Sequence[T]) -> list[T]:
        rest, result = list(items), []
        while rest:
            result.append(rest.pop(self.below(len(rest))))
        return result


def _choices(seed: int, length: int) -> Choices:
    return Choices(Random(seed).randbytes(min(length, 400)))


# Drawing 400 bytes one by one takes longer than most tests need to use them. Half of all lengths are 400: more than any
# test reads.
choices = st.builds(_choices, st.integers(0, 2**24 - 1), st.integers(0, 800))


def draw_facts(ch: Choices, columns: Sequence[Column] = COLUMNS, most: int = 3) -> Dependencies:
    functional, classes, keys, solid = [], [], [], []
    for _ in range(ch.below(most + 1)):
        match ch.below(8):
            case 0 | 1 | 2 | 3:
                right = ch.pick(columns)
                left = ch.subset([c for c in columns if c != right])[:2]
                functional.append(Dependency(frozenset(left), frozenset((right,))))
            case 4 | 5:
                classes.append(EqualColumns(frozenset(ch.shuffle(columns)[:2])))
            case 6:
                classes.append(EqualColumns(frozenset((ch.pick(columns),)), ConstantValue(ch.pick(VALUES))))
            case _:
                keys.append(frozenset(ch.subset(columns, least=1)))
    if ch.flag(3):
        solid = ch.subset(columns, least=1)
    return Dependencies.of(functional, classes, keys, solid)


def draw_rows(ch: Choices, facts: Dependencies, columns: Sequence[Column] = COLUMNS, most: int = 7) -> list[Row]:
    """Random rows, changed towards the facts, without the rows that still violate one."""
    rows = [{c: ch.pick(VALUES) for c in columns} for _ in range(ch.below(most) + 1)]
    return repaired(rows, facts)


def repaired(rows: list[dict[Column, Any]], facts: Dependencies) -> list[Row]:
    for _ in range(2):
        for row in rows:
            for column in facts.never_null:
                if column in row and row[column] is None:
                    row[column] = 1
            for each in facts.classes:
                value = each.constant.value if each.constant is not None else row[each.representative]
                for column in each.columns:
                    row[column] = value
        for dependency in facts.functional:
            first: dict[tuple[Any, ...], Row] = {}
            for row in rows:
                source = first.setdefault(seen(row, sorted(dependency.determinant, key=lambda c: c.id)), row)
                for column in dependency.dependent:
                    row[column] = source[column]
    kept: list[Row] = []
    for row in rows:
        if all(fits(other, row, facts) for other in kept) and fits_alone(row, facts):
            kept.append(row)
    return kept


def same(one: Row, other: Row, columns: frozenset[Column]) -> bool:
    return all(one[c] == other[c] for c in columns)


def fits(one: Row, other: Row, facts: Dependencies) -> bool:
    strict = all(same(one, other, d.dependent) or not same(one, other, d.determinant) for d in facts.functional)
    weak = all(
        same(one, other, d.dependent)
        or not same(one, other, d.determinant)
        or any(one[c] is None for c in d.determinant)
        for d in facts.lax
    )
    return strict and weak and not any(same(one, other, key) for key in facts.keys)


def fits_alone(row: Row, facts: Dependencies) -> bool:
    for each in facts.classes:
        values = {row[c] for c in each.columns}
        if len(values) > 1 or (each.constant is not None and values != {each.constant.value}):
            return False
    return all(row[c] is not None for c in facts.never_null)


def draw_sorted(ch: Choices, column: Column) -> Sorted:
    return Sorted(column, ch.flag(), ch.flag())


def draw_local(ch: Choices, columns: Sequence[Column] = COLUMNS, most: int = 3) -> Local:
    actions: list[Grouped | Sorted] = []
    for _ in range(ch.below(most + 1)):
        if ch.flag():
            actions.append(draw_sorted(ch, ch.pick(columns)))
        else:
            actions.append(Grouped(frozenset(ch.subset(columns, least=1)[:3])))
    return tuple(actions)


def arrange(ch: Choices, rows: Sequence[Row], local: Local) -> list[Row]:
    """The rows in a random order that has the local property."""
    if not local:
        return ch.shuffle(rows)
    action, rest = local[0], local[1:]
    columns = (action.column,) if isinstance(action, Sorted) else sorted(action.columns, key=lambda c: c.id)
    buckets: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        buckets.setdefault(seen(row, columns), []).append(row)
    groups = list(buckets.values())
    if isinstance(action, Sorted):
        groups.sort(key=cmp_to_key(lambda x, y: compare_rows(x[0], y[0], (action,))))
    else:
        groups = ch.shuffle(groups)
    return [row for group in groups for row in arrange(ch, group, rest)]


def hash_leaf(salt: int = 0):
    """A stand-in for Spark's hash. As in Spark, the result depends on the type."""

    def leaf(function: Leaf, values: tuple[Any, ...]) -> int:
        typed = [(str(t), v) for t, v in zip(function.types, values, strict=True)]
        return crc32(repr((salt, getattr(function, "family", ""), typed)).encode()) % function.partitions

    return leaf


def place_formula(ch: Choices, rows: Sequence[Row], claim: Any, count: int = 3) -> list[list[Row]]:
    """Rows placed by a random function under which the claim holds."""
    parts: list[list[Row]] = [[] for _ in range(1 if isinstance(claim, Serial) else count)]
    match claim:
        case Grouped():
            columns = sorted(claim.columns, key=lambda c: c.id)
            home: dict[tuple[Any, ...], int] = {}
            for row in rows:
                key = seen(row, columns)
                if key not in home:
                    home[key] = ch.below(count)
                parts[home[key]].append(row)
        case Ordered():
            ranked = sorted(rows, key=cmp_to_key(lambda x, y: compare_rows(x, y, claim.keys)))
            at, last = 0, None
            for row in ranked:
                if last is not None and compare_rows(last, row, claim.keys) != 0 and ch.flag():
                    at = min(at + 1, count - 1)
                parts[at].append(row)
                last = row
        case Serial():
            parts[0].extend(rows)
        case UnknownPartitioning():
            for row in rows:
                parts[ch.below(count)].append(row)
    return parts


def draw_boundaries(ch: Choices, keys: Sequence[Sorted]) -> tuple[tuple[Any, ...], ...]:
    """Two or three ascending boundaries, one of them of full length."""
    points = [tuple(ch.pick(VALUES) for _ in keys[: 1 + ch.below(len(keys))]) for _ in range(ch.below(3))]
    points.append(tuple(ch.pick(VALUES) for _ in keys))
    points = list(dict.fromkeys(points))
    probe = ranged(keys, SampledBoundaries("probe", 2)).function
    return tuple(sorted(points, key=cmp_to_key(probe.compare)))


def draw_layout(ch: Choices, columns: Sequence[Column] = COLUMNS) -> Partitioned:
    on = ch.shuffle(columns)[: 1 + ch.below(2)]
    if ch.flag():
        return hashed(on, 2 + ch.below(3))
    keys = [draw_sorted(ch, column) for column in on]
    return ranged(keys, draw_boundaries(ch, keys))


def place(rows: Sequence[Row], layout: Partitioned, salt: int = 0) -> list[list[Row]]:
    parts: list[list[Row]] = [[] for _ in range(layout.function.partitions)]
    leaf = hash_leaf(salt)
    for row in rows:
        parts[partition_number(layout.function, tuple(row[c] for c in layout.columns), leaf)].append(row)
    return parts


def merge_streams(ch: Choices, streams: Sequence[Sequence[Row]], merge: Merge) -> list[Row]:
    """The merge operators of section II-C, with random ties and choices."""
    waiting = [list(stream) for stream in streams if stream]
    match merge:
        case RandomMerge():
            result = []
            while waiting:
                stream = ch.pick(waiting)
                result.append(stream.pop(0))
                waiting = [s for s in waiting if s]
            return result
        case SortMerge():
            result = []
            while waiting:
                least = min((s[0] for s in waiting), key=cmp_to_key(lambda x, y: compare_rows(x, y, merge.keys)))
                ties = [s for s in waiting if compare_rows(s[0], least, merge.keys) == 0]
                result.append(ch.pick(ties).pop(0))
                waiting = [s for s in waiting if s]
            return result
        case ConcatMerge():
            return [row for stream in ch.shuffle(waiting) for row in stream]
        case SortConcatMerge():
            mixed = ch.shuffle(waiting)
            mixed.sort(key=cmp_to_key(lambda x, y: compare_rows(x[0], y[0], merge.keys)))
            return [row for stream in mixed for row in stream]


def subsets(columns: Sequence[Column], least: int = 0) -> list[frozenset[Column]]:
    return [frozenset(c) for n in range(least, len(columns) + 1) for c in combinations(columns, n)]
