"""Exchanges for a join that could partition on fewer of its keys, so that a further dependency makes an exchange above the
join unnecessary.

    SELECT R.c, S.d, count(*) FROM R JOIN S ON R.a = S.a AND R.b = S.b GROUP BY R.c, S.d

Both sides are partitioned on (a, b), and the groups need an exchange on (c, d). A dependency c -> a does not help while b is
among the partitioning columns. With both sides partitioned on a alone, it does (ICDE 2010, Figure 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.explain.why.what_if import DerivedPlan, State, with_dependencies
from unshuffle.frozen import dataclass
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Clustered, Delivered, HashFunction, Partitioned, Repartitioning


@dataclass(frozen=True, slots=True)
class FewerColumns:
    """The dependency that is assumed, and the states of the join's exchanges if they partition on its dependent column."""

    dependency: Dependency
    states: Mapping[PhysicalPlan, State]


def exchanges_on_fewer_columns(plan: DerivedPlan, node: PhysicalPlan, required: Clustered) -> Iterator[FewerColumns]:
    """For an exchange and the columns that it brings together: one key after the other of each pair-wise join below it. The
    dependency is the least that can do, on the required columns of one side."""
    for left, right in _partitioned_joins(node.inputs[0]):
        for place in range(len(_columns(left))):
            states = {each: _on_one_column(plan, each, place) for each in (left, right)}
            for side in (left, right):
                determinant = frozenset(_arriving(node.inputs[0], side, required.maximum))
                column = _columns(side)[place]
                if determinant and column not in determinant:
                    dependency = Dependency(determinant, frozenset((column,)))
                    delivered, facts = states[side]
                    yield FewerColumns(
                        dependency, {**states, side: (delivered, with_dependencies(facts, [dependency]))}
                    )


def _partitioned_joins(node: PhysicalPlan) -> Iterator[tuple[PhysicalPlan, PhysicalPlan]]:
    """The pairs of hash exchanges on several columns that pair-wise joins read, down to the next exchanges."""
    if isinstance(node.operator, physical.Exchange):
        return
    if isinstance(node.operator, physical.HashJoin | physical.MergeJoin):
        left, right = (_below_sort(each) for each in node.inputs)
        if len(_columns(left)) > 1 and len(_columns(left)) == len(_columns(right)):
            yield left, right
    for each in node.inputs:
        yield from _partitioned_joins(each)


def _below_sort(node: PhysicalPlan) -> PhysicalPlan:
    return node.inputs[0] if isinstance(node.operator, physical.LocalSort) else node


def _columns(node: PhysicalPlan) -> Sequence[Column]:
    """The columns of a hash exchange."""
    scheme = _scheme(node)
    return scheme.columns if scheme is not None else ()


def _scheme(node: PhysicalPlan) -> Partitioned | None:
    how = node.operator.how if isinstance(node.operator, physical.Exchange) else None
    scheme = how.scheme if isinstance(how, Repartitioning) else None
    return scheme if isinstance(scheme, Partitioned) and isinstance(scheme.function, HashFunction) else None


def _on_one_column(plan: DerivedPlan, node: PhysicalPlan, place: int) -> State:
    delivered, facts = plan.state(node)
    scheme = _scheme(node)
    assert scheme is not None
    assert isinstance(scheme.function, HashFunction)
    function = HashFunction((scheme.function.types[place],), scheme.function.partitions, scheme.function.family)
    return Delivered(Partitioned(function, (scheme.columns[place],)), delivered.local), facts


def _arriving(node: PhysicalPlan, source: PhysicalPlan, columns: frozenset[Column]) -> Iterator[Column]:
    """The columns of `source` that a node passes on under these names."""
    if node is source:
        yield from columns
        return
    for each in node.inputs:
        names = {node.operator.source(column) or column for column in columns}
        yield from _arriving(each, source, frozenset(names & frozenset(each.columns)))
