"""Abstract operator trees: core operators, connected by edges that may hold filters, projections and renames.

`edges` walks down from a group as AdvanceNext does (section 4.2) and folds the operators that it passes into a projection
and predicates (Algorithm 5). The projection expresses the columns at the upper end in the columns at the lower end. The
predicates say which rows of the lower end reach the upper end.

    filter  d > 100                       upper end    columns a, d
    project a, d = b + c         -->      outputs      a = a, d = b + c
    rows    a, b, c                       predicate    b + c > 100

An edge ends above operators that are not deterministic, and at a shared rowset, which is always a leaf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Expression, Ref
from unshuffle.plan.logical import Filter, GroupBy, Plan, Project, Reference
from unshuffle.plan.movable_conditions import is_movable, substitute
from unshuffle.plan.predicates import conjuncts
from unshuffle.search.memo import Group, as_group


@dataclass(frozen=True, slots=True)
class Edge:
    """A path from one group to a group below it. The predicates, conjuncts of its filters, are in the lower group's columns
    and keep their order of evaluation: a predicate may be safe to evaluate only for rows that satisfy the ones before it."""

    outputs: Mapping[Column, Expression]
    predicates: tuple[Expression, ...]
    bottom: Group
    shared: bool = False  # does it end in a rowset that other operators may read?

    def down(self, expression: Expression) -> Expression:
        """An expression over the upper columns, in terms of the lower ones (TraverseDown, Algorithm 4)."""
        return substitute(expression, self.outputs)

    def over(self, instead: Mapping[Column, Expression]) -> Edge:
        """The same edge with the lower columns replaced."""
        outputs = {column: substitute(expression, instead) for column, expression in self.outputs.items()}
        return Edge(outputs, tuple(substitute(each, instead) for each in self.predicates), self.bottom, self.shared)


def edges(group: Group) -> Iterator[Edge]:
    """Every edge that starts at a group, the empty one first."""
    yield from _below(Edge({column: Ref(column) for column in group.columns}, (), group))


def _below(edge: Edge) -> Iterator[Edge]:
    yield edge
    if edge.shared:
        return
    for each in edge.bottom.expressions:
        match each:
            case Filter(child, predicate) if is_movable(predicate):
                yield from _below(Edge(edge.outputs, (*conjuncts(predicate), *edge.predicates), as_group(child)))
            case Project(child, outputs) if all(is_movable(expression) for _, expression in outputs):
                made = dict(outputs)
                yield from _below(_through(edge, made, as_group(child), shared=False))
            case Reference(rowset, columns):
                renamed = {new: Ref(old) for new, old in zip(columns, rowset.columns, strict=True)}
                yield from _below(_through(edge, renamed, as_group(rowset), shared=True))
            case _:
                pass


def _through(edge: Edge, made: Mapping[Column, Expression], bottom: Group, shared: bool) -> Edge:
    outputs = {column: substitute(expression, made) for column, expression in edge.outputs.items()}
    return Edge(outputs, tuple(substitute(each, made) for each in edge.predicates), bottom, shared)


Core = TypeVar("Core", bound=Plan)


def cores(group: Group, core: type[Core]) -> Iterator[tuple[Edge, Core]]:
    """The operators of a kind that edges from a group lead to. Edges into a shared rowset are excluded: the rowset would be
    computed once more for its other readers."""
    for edge in edges(group):
        if not edge.shared:
            yield from ((edge, each) for each in edge.bottom.expressions if isinstance(each, core))


def reaches(group: Group, core: type[Plan] | tuple[type[Plan], ...], depth: int = 8) -> bool:
    """Does an edge lead to such an operator? Looks at types only, because it is called for every join and union."""
    for each in group.expressions:
        if isinstance(each, core):
            return True
        if isinstance(each, Filter | Project) and depth and reaches(as_group(each.child), core, depth - 1):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Branch:
    """A grouping of the leaf: the edge above it, up to the operator that combines the branches, and the edge below it."""

    above: Edge
    grouping: GroupBy
    below: Edge

    @property
    def keys(self) -> tuple[Expression, ...]:
        """The grouping keys in terms of the leaf's columns."""
        return tuple(self.below.down(Ref(key)) for key in self.grouping.keys)
