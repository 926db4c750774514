"""Draws keys, rows and cuts, and orders them by brute force: value by value, sharing no code with the package. Pools of
values are small, so that duplicates, NULLs and rows on a boundary are common."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
from hypothesis import settings

from tests.support.property_rows import Choices, choices
from unshuffle.partitions import (
    END,
    START,
    Cut,
    HashConnections,
    KeyColumn,
    KeyInterval,
    PartitionRead,
    RangeConnections,
)

__all__ = ["Choices", "choices", "half"]

half = settings(max_examples=settings().max_examples // 2)  # many tests here check many rows per example

DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12)
UTC = datetime.UTC
NAN = float("nan")

POOLS: dict[pa.DataType, list[Any]] = {
    pa.int64(): [-(2**63), -1, 0, 1, 2, 3, 2**63 - 1],
    pa.int32(): [0, 1, 2, 3, 4],
    pa.float64(): [float("-inf"), -1.5, -0.0, 0.0, 5e-324, 0.5, float("inf"), NAN],
    pa.string(): ["", "a", "a\0", "ab", "abc", "b", "é", "\uffff", "\U00010000", "\U0010ffff"],
    pa.binary(): [b"", b"\0", b"a", b"a\0", b"ab", b"\x7f", b"\xff", b"\xff\xff"],
    pa.decimal128(5, 2): [Decimal("-999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("1.5"), Decimal("1.50")],
    pa.bool_(): [False, True],
    pa.date32(): [datetime.date.min, DAY, DAY + datetime.timedelta(1), datetime.date.max],
    pa.timestamp("us"): [NOON, NOON + datetime.timedelta(microseconds=1), datetime.datetime.max],
    pa.timestamp("us", "UTC"): [NOON.replace(tzinfo=UTC), datetime.datetime(2024, 3, 1, tzinfo=UTC)],
}
TYPES = list(POOLS)


def compare_values(key: KeyColumn, a: Any, b: Any) -> int:
    if a is None or b is None:
        if a is None and b is None:
            return 0
        return -1 if (a is None) == key.nulls_first else 1
    if isinstance(a, float) and (a != a or b != b):
        found = int(a != a) - int(b != b)
    else:
        if isinstance(a, str):
            a, b = a.encode(), b.encode()
        found = int(a > b) - int(a < b)
    return -found if key.descending else found


def compare(keys: Sequence[KeyColumn], a: Sequence[Any], b: Sequence[Any]) -> int:
    """Compares two rows, or two key prefixes up to the shorter one."""
    for key, x, y in zip(keys, a, b, strict=False):
        if found := compare_values(key, x, y):
            return found
    return 0


def below(keys: Sequence[KeyColumn], row: Sequence[Any], cut: Cut) -> bool:
    """Is a row before a cut?"""
    found = compare(keys, row, cut.values)
    return found < 0 or (found == 0 and cut.after)


def holds(keys: Sequence[KeyColumn], interval: KeyInterval, row: Sequence[Any]) -> bool:
    return not below(keys, row, interval.low) and below(keys, row, interval.high)


def range_of(keys: Sequence[KeyColumn], boundaries: Sequence[Sequence[Any]], row: Sequence[Any]) -> int:
    return sum(not below(keys, row, Cut(tuple(b))) for b in boundaries)


# --- drawing


def keys(ch: Choices, least: int = 1, most: int = 3) -> tuple[KeyColumn, ...]:
    return tuple(KeyColumn(ch.pick(TYPES), ch.flag(), ch.flag()) for _ in range(least + ch.below(most - least + 1)))


def row(ch: Choices, of: Sequence[KeyColumn]) -> tuple[Any, ...]:
    return tuple(None if ch.flag(6) else ch.pick(POOLS[key.type]) for key in of)


def rows(ch: Choices, of: Sequence[KeyColumn], most: int = 12) -> list[tuple[Any, ...]]:
    return [row(ch, of) for _ in range(1 + ch.below(most))]


def beginning(ch: Choices, of: Sequence[KeyColumn], least: int = 1) -> tuple[Any, ...]:
    return row(ch, of[: least + ch.below(len(of) - least + 1)])


def boundaries(ch: Choices, of: Sequence[KeyColumn], most: int = 6) -> tuple[tuple[Any, ...], ...]:
    """Boundaries in order, with duplicates."""

    def order(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
        return compare(of, a, b) or len(a) - len(b)

    return tuple(sorted((beginning(ch, of) for _ in range(ch.below(most + 1))), key=cmp_to_key(order)))


def cut(ch: Choices, of: Sequence[KeyColumn]) -> Cut:
    return Cut(beginning(ch, of, 0), ch.flag())


def interval(ch: Choices, of: Sequence[KeyColumn]) -> KeyInterval:
    """An interval between any two cuts. Many are empty."""
    return KeyInterval(START if ch.flag(4) else cut(ch, of), END if ch.flag(4) else cut(ch, of))


def all_reads(connections: HashConnections | RangeConnections) -> list[list[PartitionRead]]:
    """The reads of each output."""
    return [connections.reads(output) for output in range(connections.outputs)]
