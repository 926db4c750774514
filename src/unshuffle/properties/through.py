"""Layouts through the relational operators, which leave rows where they are while columns come and go.

A layout survives a projection if every column it names is kept, is copied, or has an equal that is kept. If a column
is lost but the kept ones determine it, equal rows still share a partition: the layout becomes some unknown function of
the kept columns, good for grouping and never again for a join. If the first characters of a text are kept in its place, a
layout by ranges of it is one by ranges of these, unless a boundary is longer than they are.

A join keeps the layout of a side whose columns it does not invent NULLs for. Of a NULL-extended side there remains a
layout with NULL keys anywhere; after a full outer join that is all that remains of either side, and the column that
USING makes of the two keys is the one that still says where a row is. Order survives on the
streamed side, whose rows are repeated or dropped in place, unless rows that matched nothing are added at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.properties.delivered import Delivered, Partitioned, Partitioning, Within, partitions_of, seen_by
from unshuffle.properties.dependencies import Dependencies
from unshuffle.properties.equality import interchangeable
from unshuffle.properties.functions import Unknown
from unshuffle.properties.layouts import keeps_prefix_together
from unshuffle.properties.structure import Covering, Grouped, Local, Scattered, Serial, Sorted, columns_of


def through_project(
    given: Delivered,
    facts: Dependencies,
    kept: Iterable[Column] = (),
    renamed: Mapping[Column, Column] | None = None,
    prefixes: Mapping[Column, tuple[Column, int]] | None = None,
) -> Delivered:
    """`facts` are those of the input; `renamed` maps a new column to the one it copies, as in `carry.project`; `prefixes`
    one to the column that it has the first characters of, and to their number."""
    names = _Names(facts, frozenset(kept), renamed or {}, prefixes or {})
    return Delivered(names.partitioning(given.partitioning), names.local(given.local))


def through_aggregate(given: Delivered, facts: Dependencies, groups: Iterable[Column], streaming: bool) -> Delivered:
    """One row a group, where the group was; in the order they came if streaming, else in any."""
    names = _Names(facts, frozenset(groups), {}, {})
    return Delivered(names.partitioning(given.partitioning), names.local(given.local) if streaming else ())


class _Names:
    """What each old column may be called in the output."""

    def __init__(
        self,
        facts: Dependencies,
        kept: frozenset[Column],
        renamed: Mapping[Column, Column],
        prefixes: Mapping[Column, tuple[Column, int]],
    ) -> None:
        self.facts = facts
        self.prefixes = prefixes
        self.outputs = kept | frozenset(renamed)
        self.sources = {**{column: column for column in kept}, **renamed}

    def of(self, column: Column) -> Column | None:
        """Its own name if it is kept, else the smallest-numbered output that equals it."""
        if self.sources.get(column) == column:
            return column
        equal = (new for new, old in self.sources.items() if self.facts.equal(old, column))
        return min(equal, key=lambda c: c.id, default=None)

    def determined(self, columns: Iterable[Column]) -> bool:
        return self.facts.determines(self.sources.values(), columns)

    def partitioning(self, given: Partitioning) -> Partitioning:
        if isinstance(given, Covering):
            return self._covering(given)
        if isinstance(given, Within):
            return self._first_keys(given)
        if not isinstance(given, Partitioned):
            return given
        names = [self.of(column) for column in given.columns]
        if names and names[-1] is None:
            names[-1] = self.prefix(given)
        known = tuple(name for name in names if name is not None)
        if len(known) == len(names):
            return Partitioned(given.function, known, given.nulls_apart)
        if not self.outputs or given.nulls_apart or not self.determined(given.columns):
            return self._first_keys(given)
        return self._some_function(given)

    def _first_keys(self, given: Partitioned | Within) -> Within | Scattered:
        """Of ranges, the keys before the first that is lost."""
        known: list[Column] = []
        for column in given.columns:
            name = self.of(column)
            if name is None:
                break
            known.append(name)
        return seen_by(given, known) or Scattered(given.function.partitions)

    def _covering(self, given: Covering) -> Covering:
        """Without its columns there is no telling which rows are there several times."""
        names = tuple(name for column in given.columns if (name := self.of(column)) is not None)
        if len(names) < len(given.columns):
            raise ValueError(f"rows that are {given} are not told apart without these columns")
        return Covering(given.function, names)

    def prefix(self, given: Partitioned) -> Column | None:
        """What has the first characters of a layout's last column, if no boundary has more of them."""
        for new, (old, length) in self.prefixes.items():
            if self.facts.equal(old, given.columns[-1]) and keeps_prefix_together(given, length):
                return new
        return None

    def _some_function(self, given: Partitioned) -> Partitioned:
        """The fewest outputs that determine the layout's columns, smallest numbers first."""
        chosen = set(self.sources)
        for name in sorted(self.sources, key=lambda c: -c.id):
            rest = chosen - {name}
            if rest and self.facts.determines((self.sources[n] for n in rest), given.columns):
                chosen = rest
        columns = tuple(sorted(chosen, key=lambda c: c.id))
        return Partitioned(Unknown(len(columns), given.function.partitions), columns)

    def local(self, given: Local) -> Local:
        """Cut off at the first action that cannot be named, save those that say nothing after the ones before."""
        result: list[Grouped | Sorted] = []
        for place, action in enumerate(given):
            before = columns_of(given[:place])
            if self.facts.determines(before, columns_of((action,))):
                continue
            if isinstance(action, Sorted):
                name = self.of(action.column)
                if name is None:
                    break
                result.append(action.on(name))
                continue
            needed = _needed(self.facts, before, action.columns)
            found = [self.of(column) for column in needed]
            named = frozenset(name for name in found if name is not None)
            if len(found) != sum(name is not None for name in found):
                break
            result.append(Grouped(named))
        return tuple(result)


def _needed(facts: Dependencies, context: frozenset[Column], columns: frozenset[Column]) -> list[Column]:
    """Rule 6 inside the runs of `context`."""
    kept = columns
    for column in sorted(columns, key=lambda c: -c.id):
        if facts.determines(context | (kept - {column}), (column,)):
            kept -= {column}
    return sorted(kept, key=lambda c: c.id)


def after_pairwise_join(kind: JoinKind, left: Partitioning, right: Partitioning) -> tuple[Partitioning, ...]:
    """The layouts that a join of co-partitioned inputs delivers, the strongest first. All of them hold."""
    match kind:
        case JoinKind.INNER:
            return (left, right)
        case JoinKind.SEMI | JoinKind.ANTI:
            return (left,)
        case JoinKind.LEFT:
            return (left, _nulls_anywhere(right))
        case JoinKind.RIGHT:
            return (right, _nulls_anywhere(left))
        case JoinKind.FULL:
            return (_nulls_anywhere(left), _nulls_anywhere(right))


def after_full_join_using(
    left: Partitioning, right: Partitioning, merged: Mapping[tuple[Column, Column], Column]
) -> Partitioning:
    """A full outer join USING (k): each `merged` pair (left, right) has a column coalesce(left, right) in the output.

    Neither side's own column says where a row is, but the merged one does: it is the left value where there is a left
    row, and the right value otherwise, and both inputs were sent by the same function of it.
    """
    if not isinstance(left, Partitioned) or not isinstance(right, Partitioned) or left.function != right.function:
        return left if isinstance(left, Serial) and isinstance(right, Serial) else Scattered(partitions_of(left))
    pairs = list(zip(left.columns, right.columns, strict=True))
    names = [merged.get(pair) for pair in pairs if interchangeable(pair[0].type, pair[1].type)]
    known = tuple(name for name in names if name is not None)
    if len(known) < len(pairs):
        return Scattered(left.function.partitions)
    return Partitioned(left.function, known, left.nulls_apart or right.nulls_apart)


def after_broadcast_join(placed: Partitioning) -> Partitioning:
    """The side that stays where it is keeps its layout: the other side is never the one whose rows are all kept."""
    return placed


def _nulls_anywhere(layout: Partitioning) -> Partitioning:
    if isinstance(layout, Within):
        return Scattered(layout.function.partitions)
    return Partitioned(layout.function, layout.columns, True) if isinstance(layout, Partitioned) else layout


def order_after_join(kind: JoinKind, streamed: Local, streamed_left: bool) -> Local:
    """The order of the streamed side, where no unmatched rows of the other side are added after it."""
    added = kind.extends_left if streamed_left else kind.extends_right
    return () if added else streamed
