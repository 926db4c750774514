"""How layouts propagate through relational operators, which change the columns but leave rows in their partitions.

A layout survives a projection if each of its columns is kept, copied, or equal to a kept column. If a column is dropped but
the kept columns determine it, equal rows still share a partition: the layout becomes an unknown function of the kept
columns, which serves a GROUP BY but no join. If left(s, n) is kept instead of s, a range layout on s becomes one on
left(s, n), provided that no boundary has more than n characters.

A join preserves the layout of a side that it does not NULL-extend. A NULL-extended side keeps its layout except that NULL
keys may be anywhere; after a full outer join this applies to both sides. The order of the streamed side survives, because
its rows are repeated or dropped in place, unless unmatched rows of the other side are appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.layouts.delivered import (
    Delivered,
    Partitioned,
    Partitioning,
    PrefixPartitioned,
    prefix_partitioning,
)
from unshuffle.properties.layouts.partition_functions import UnknownFunction
from unshuffle.properties.layouts.related_layouts import keeps_prefix_together
from unshuffle.properties.layouts.structure import (
    Grouped,
    Local,
    Sorted,
    TargetedBroadcast,
    UnknownPartitioning,
    columns_of,
)


def through_project(
    given: Delivered,
    facts: Dependencies,
    kept: Iterable[Column] = (),
    renamed: Mapping[Column, Column] | None = None,
    prefixes: Mapping[Column, tuple[Column, int]] | None = None,
) -> Delivered:
    """`facts` are those of the input. `renamed` maps a new column to the column it copies, as in `facts.propagate.project`.
    `prefixes` maps a new column left(s, n) to (s, n)."""
    names = _Names(facts, frozenset(kept), renamed or {}, prefixes or {})
    return Delivered(names.partitioning(given.partitioning), names.local(given.local))


def through_aggregate(given: Delivered, facts: Dependencies, groups: Iterable[Column], streaming: bool) -> Delivered:
    """One row per group, in the partition of the group. A streaming aggregate preserves the order."""
    names = _Names(facts, frozenset(groups), {}, {})
    return Delivered(names.partitioning(given.partitioning), names.local(given.local) if streaming else ())


class _Names:
    """The output columns that can replace the input columns of a layout."""

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
        """The column itself if it is kept, otherwise the equal output column with the smallest number."""
        if self.sources.get(column) == column:
            return column
        equal = (new for new, old in self.sources.items() if self.facts.equal(old, column))
        return min(equal, key=lambda c: c.id, default=None)

    def determined(self, columns: Iterable[Column]) -> bool:
        return self.facts.determines(self.sources.values(), columns)

    def partitioning(self, given: Partitioning) -> Partitioning:
        if isinstance(given, TargetedBroadcast):
            return self._targeted_broadcast(given)
        if isinstance(given, PrefixPartitioned):
            return self._key_prefix(given)
        if not isinstance(given, Partitioned):
            return given
        names = [self.of(column) for column in given.columns]
        if names and names[-1] is None:
            names[-1] = self.prefix(given)
        outputs = tuple(name for name in names if name is not None)
        if len(outputs) == len(names):
            return Partitioned(given.function, outputs, given.nulls_anywhere)
        if not self.outputs or given.nulls_anywhere or not self.determined(given.columns):
            return self._key_prefix(given)
        return self._unknown_function(given)

    def _key_prefix(self, given: Partitioned | PrefixPartitioned) -> PrefixPartitioned | UnknownPartitioning:
        """A range layout on the keys before the first dropped one."""
        prefix: list[Column] = []
        for column in given.columns:
            name = self.of(column)
            if name is None:
                break
            prefix.append(name)
        return prefix_partitioning(given, prefix) or UnknownPartitioning(given.function.partitions)

    def _targeted_broadcast(self, given: TargetedBroadcast) -> TargetedBroadcast:
        """A targeted broadcast must keep its columns: without them, copies cannot be distinguished from duplicates."""
        names = tuple(name for column in given.columns if (name := self.of(column)) is not None)
        if len(names) < len(given.columns):
            raise ValueError(f"copies made by {given} cannot be distinguished without these columns")
        return TargetedBroadcast(given.function, names)

    def prefix(self, given: Partitioned) -> Column | None:
        """An output column left(s, n) for the last column s of the layout, if no boundary has more than n characters."""
        for new, (old, length) in self.prefixes.items():
            if self.facts.equal(old, given.columns[-1]) and keeps_prefix_together(given, length):
                return new
        return None

    def _unknown_function(self, given: Partitioned) -> Partitioned:
        """An unknown function of a minimal set of output columns that determines the columns of the layout."""
        chosen = set(self.sources)
        for name in sorted(self.sources, key=lambda c: -c.id):
            rest = chosen - {name}
            if rest and self.facts.determines((self.sources[n] for n in rest), given.columns):
                chosen = rest
        columns = tuple(sorted(chosen, key=lambda c: c.id))
        return Partitioned(UnknownFunction(len(columns), given.function.partitions), columns)

    def local(self, given: Local) -> Local:
        """The order up to the first action on a dropped column. Actions that the ones before determine are omitted."""
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
    """A minimal subset of the columns: rule 6, within the runs of `context`."""
    kept = columns
    for column in sorted(columns, key=lambda c: -c.id):
        if facts.determines(context | (kept - {column}), (column,)):
            kept -= {column}
    return sorted(kept, key=lambda c: c.id)


def after_pairwise_join(kind: JoinKind, left: Partitioning, right: Partitioning) -> tuple[Partitioning, ...]:
    """The layouts that a join of co-partitioned inputs delivers, strongest first. All of them hold."""
    match kind:
        case JoinKind.INNER:
            return (left, right)
        case JoinKind.SEMI | JoinKind.ANTI:
            return (left,)
        case JoinKind.LEFT:
            return (left, _with_nulls_anywhere(right))
        case JoinKind.RIGHT:
            return (right, _with_nulls_anywhere(left))
        case JoinKind.FULL:
            return (_with_nulls_anywhere(left), _with_nulls_anywhere(right))


def _with_nulls_anywhere(layout: Partitioning) -> Partitioning:
    if isinstance(layout, PrefixPartitioned):
        return UnknownPartitioning(layout.function.partitions)
    return Partitioned(layout.function, layout.columns, True) if isinstance(layout, Partitioned) else layout


def order_after_join(kind: JoinKind, streamed: Local, streamed_left: bool) -> Local:
    """The order of the streamed side, unless unmatched rows of the other side are appended."""
    appends_unmatched = kind.extends_left if streamed_left else kind.extends_right
    return () if appends_unmatched else streamed
