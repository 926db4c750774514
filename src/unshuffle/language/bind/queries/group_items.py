"""The items of GROUP BY: plain keys, or the grouping sets that ROLLUP, CUBE and GROUPING SETS stand for.

`GROUP BY a, ROLLUP (b, c)` has the sets (a, b, c), (a, b) and (a): one for each combination of the items' alternatives.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

from sqlglot import exp

from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Expression

Keys = list[Expression]
_GROUPING = (exp.Rollup, exp.Cube, exp.GroupingSets)


@dataclass(frozen=True, slots=True)
class GroupItems:
    """Reads the items of a GROUP BY. `bind_key` binds one key."""

    bind_key: Callable[[exp.Expr], Expression]

    def of(self, group: exp.Expr) -> tuple[Keys, list[Keys] | None]:
        """All keys, and the grouping sets, if there are any."""
        items = _items(group)
        if not any(isinstance(item, _GROUPING) for item in items):
            return [self.bind_key(item) for item in items], None
        combined = product(*(self._alternatives(item) for item in items))
        sets = [list(dict.fromkeys(key for keys in choice for key in keys)) for choice in combined]
        return [key for keys in sets for key in keys], sets

    def _alternatives(self, item: exp.Expr) -> list[Keys]:
        """The sets of keys that an item adds, one of them to each grouping set."""
        if isinstance(item, exp.GroupingSets):
            return [keys for part in item.expressions for keys in self._grouping_set(part)]
        if not isinstance(item, exp.Rollup | exp.Cube):
            return [[self.bind_key(item)]]
        parts = [self._tuple(part) for part in item.expressions]
        sizes = range(len(parts), -1, -1)
        if isinstance(item, exp.Rollup):
            chosen = [tuple(parts[:size]) for size in sizes]
        else:
            chosen = [choice for size in sizes for choice in combinations(parts, size)]
        return [[key for keys in choice for key in keys] for choice in chosen]

    def _grouping_set(self, part: exp.Expr) -> list[Keys]:
        return self._alternatives(part) if isinstance(part, _GROUPING) else [self._tuple(part)]

    def _tuple(self, node: exp.Expr) -> Keys:
        if isinstance(node, exp.Tuple):
            return [self.bind_key(part) for part in node.expressions]
        return [self.bind_key(node.this if isinstance(node, exp.Paren) else node)]


def _items(group: exp.Expr) -> list[exp.Expr]:
    """The items in order. sqlglot keeps some of them apart."""
    items = list(group.expressions)
    for clause in ("rollup", "cube"):
        for node in group.args.get(clause) or ():
            # GROUP BY a, b WITH ROLLUP has the keys of the ROLLUP before it.
            items = [*items, node] if node.expressions else [type(node)(expressions=items)]
    for node in group.args.get("grouping_sets") or ():
        # GROUP BY a, b GROUPING SETS (...) groups by the sets alone; a and b only name their columns.
        items = [node]
    return items
