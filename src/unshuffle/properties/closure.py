"""Attribute closure on bit sets: the engine under every question about dependencies.

Each class of equal columns owns one bit, so replacing a column by its representative costs nothing. A set of columns is
an int, a dependency a pair of ints, and a closure a loop of three operations a dependency.

A *unique* set of columns (a key that no two rows share) determines everything, columns that no dependency mentions
included. Its closure is therefore -1, the int that has every bit set. -1 also says "at most one row agrees on this",
which is more than any set of dependencies can say, because those allow duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties.equality import EqualColumns

EVERYTHING = -1


class Closures:
    """Closures under one set of facts, remembered. Built on first use, private to its `Dependencies`."""

    __slots__ = ("_bits", "_keys", "_memo", "_rules", "constant")

    def __init__(
        self,
        functional: Iterable[Dependency],
        classes: Iterable[EqualColumns],
        keys: Iterable[frozenset[Column]],
    ) -> None:
        self._bits: dict[int, int] = {}
        self._memo: dict[int, int] = {}
        known = 0
        for each in classes:
            bit = 1 << len(self._bits)
            for column in each.columns:
                self._bits[column.id] = bit
            if each.constant is not None:
                known |= bit
        self._rules = [(self.mask(d.determinant), self.mask(d.dependent)) for d in functional]
        self._keys = [self.mask(key) for key in keys]
        self.constant = self._close(known)

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
        """Every column that `mask` determines, constants always among them."""
        found = self._memo.get(mask)
        if found is None:
            found = self._memo[mask] = self._close(mask | self.constant)
        return found

    def _close(self, mask: int) -> int:
        waiting = self._rules
        while True:
            later = []
            for rule in waiting:
                if rule[0] & ~mask:
                    later.append(rule)
                else:
                    mask |= rule[1]
            if len(later) == len(waiting):
                break
            waiting = later
        for key in self._keys:
            if not key & ~mask:
                return EVERYTHING
        return mask
