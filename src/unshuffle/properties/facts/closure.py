"""Attribute closure on bit sets. Every question about dependencies is answered here.

Each class of equal columns has one bit, so replacing a column by its representative costs nothing. A set of columns is an
int and a dependency is a pair of ints.

A unique set of columns (a key: no two rows agree on it) determines every column, including columns that no dependency
mentions. Its closure is -1, the int with every bit set. A closure of -1 also means that at most one row has these values.
Dependencies alone cannot express that, because they allow duplicate rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties.facts.equality import EqualColumns

EVERYTHING = -1


class Closures:
    """Memoized closures under one set of facts. `Dependencies` builds it on first use."""

    __slots__ = ("_bits", "_keys", "_memo", "_rules", "constant")

    def __init__(
        self,
        functional: Iterable[Dependency],
        classes: Iterable[EqualColumns],
        keys: Iterable[frozenset[Column]],
    ) -> None:
        self._bits: dict[int, int] = {}
        self._memo: dict[int, int] = {}
        constant = 0
        for each in classes:
            bit = 1 << len(self._bits)
            for column in each.columns:
                self._bits[column.id] = bit
            if each.constant is not None:
                constant |= bit
        self._rules = [(self.mask(d.determinant), self.mask(d.dependent)) for d in functional]
        self._keys = [self.mask(key) for key in keys]
        self.constant = self._close(constant)

    def bit(self, column: Column) -> int:
        bits = self._bits
        found = bits.get(column.id)
        if found is None:
            found = bits[column.id] = 1 << len(bits)
        return found

    def mask(self, columns: Iterable[Column]) -> int:
        found = 0
        get = self._bits.get
        for column in columns:
            found |= get(column.id) or self.bit(column)
        return found

    def close(self, mask: int) -> int:
        """Every column that `mask` determines. Constants are always included."""
        found = self._memo.get(mask)
        if found is None:
            found = self._memo[mask] = self._close(mask | self.constant)
        return found

    def _close(self, mask: int) -> int:
        pending = self._rules
        while True:
            later = []
            for rule in pending:
                if rule[0] & ~mask:
                    later.append(rule)
                else:
                    mask |= rule[1]
            if len(later) == len(pending):
                break
            pending = later
        for key in self._keys:
            if not key & ~mask:
                return EVERYTHING
        return mask
