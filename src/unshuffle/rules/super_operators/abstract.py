"""Abstract operator trees: core operators, and edges between them on which filters, projections and renames may stand.

`edges` walks down from a group as AdvanceNext does (section 4.2), and sums up what it passes in a projection and a predicate
(Algorithm 5): of the columns at its upper end, what they are in the columns at its lower end, and which rows get through.

    filter  d > 100                       upper end    columns a, d
    project a, d = b + c         -->      outputs      a = a, d = b + c
    rows    a, b, c                       predicate    b + c > 100

An edge ends above what gives another result each time, and at a shared rowset: what others read as well is a leaf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from unshuffle.algebra.expressions import Expression, Ref
from unshuffle.algebra.logical import Filter, GroupBy, Plan, Project, Reference
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import is_movable, substitute
from unshuffle.search.memo import Group


@dataclass(frozen=True, slots=True)
class Edge:
    """From the columns of one group to those of a group below it. The predicates are in the columns of the lower one, and in
    the order they are asked in: one may only be safe to ask where those before it hold."""

    outputs: Mapping[Column, Expression]
    predicates: tuple[Expression, ...]
    bottom: Group
    shared: bool = False  # does it end in a rowset that others may read?

    def down(self, expression: Expression) -> Expression:
        """An expression over the upper columns in the lower ones (TraverseDown, Algorithm 4)."""
        return substitute(expression, self.outputs)

    def over(self, instead: Mapping[Column, Expression]) -> Edge:
        """The edge over another bottom, whose columns the old ones are."""
        outputs = {column: substitute(expression, instead) for column, expression in self.outputs.items()}
        return Edge(outputs, tuple(substitute(each, instead) for each in self.predicates), self.bottom, self.shared)


def edges(group: Group) -> Iterator[Edge]:
    """Every edge that begins at a group, the empty one first."""
    yield from _below(Edge({column: Ref(column) for column in group.columns}, (), group))


def _below(edge: Edge) -> Iterator[Edge]:
    yield edge
    if edge.shared:
        return
    for each in edge.bottom.expressions:
        match each:
            case Filter(child, predicate) if is_movable(predicate):
                yield from _below(Edge(edge.outputs, (predicate, *edge.predicates), cast(Group, child)))
            case Project(child, outputs) if all(is_movable(expression) for _, expression in outputs):
                made = dict(outputs)
                yield from _below(_through(edge, made, cast(Group, child), shared=False))
            case Reference(rowset, columns):
                renamed = {new: Ref(old) for new, old in zip(columns, rowset.columns, strict=True)}
                yield from _below(_through(edge, renamed, cast(Group, rowset), shared=True))
            case _:
                pass


def _through(edge: Edge, made: Mapping[Column, Expression], bottom: Group, shared: bool) -> Edge:
    outputs = {column: substitute(expression, made) for column, expression in edge.outputs.items()}
    return Edge(outputs, tuple(substitute(each, made) for each in edge.predicates), bottom, shared)


Core = TypeVar("Core", bound=Plan)


def cores(group: Group, core: type[Core]) -> Iterator[tuple[Edge, Core]]:
    """The operators of a kind that an edge leads to from a group. What others read as well is not passed: it would be
    computed for them again."""
    for edge in edges(group):
        if not edge.shared:
            for each in edge.bottom.expressions:
                if isinstance(each, core):
                    yield edge, each


def reaches(group: Group, core: type[Plan] | tuple[type[Plan], ...], depth: int = 8) -> bool:
    """Is there such an operator at the end of an edge? Names only, for this is asked of every join and union."""
    for each in group.expressions:
        if isinstance(each, core):
            return True
        if isinstance(each, Filter | Project) and depth and reaches(cast(Group, each.child), core, depth - 1):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Branch:
    """A grouping of the leaf on its way to where it meets the others."""

    above: Edge
    grouping: GroupBy
    below: Edge

    @property
    def keys(self) -> tuple[Expression, ...]:
        """The grouping keys in the leaf's columns."""
        return tuple(self.below.down(Ref(key)) for key in self.grouping.keys)
