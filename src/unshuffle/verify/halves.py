"""What is begun in each partition is finished where the partitions have met.

A partial aggregate yields rows that mean nothing by themselves: how many there are for a group depends on the layout. Up
to the final half, only what moves, sorts, combines or joins them may touch them, and a join only as one that repeats a
finding as often as it would have repeated its rows, on columns that are not findings. In the same way the first rows of each
partition are good for nothing but finding the first rows of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import AggregateCall, Ref, columns_of
from unshuffle.algebra.physical import Physical
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, names
from unshuffle.properties import Sorted
from unshuffle.verify.columns import Join
from unshuffle.verify.refusal import refused

Aggregate = ops.HashAggregate | ops.StreamAggregate


@dataclass(frozen=True, slots=True)
class Findings:
    """The states of a partial aggregate that is not finished yet."""

    states: tuple[tuple[Column, AggregateCall], ...]

    @property
    def columns(self) -> frozenset[Column]:
        return frozenset(column for column, _ in self.states)

    def __str__(self) -> str:
        return f"the findings {names(self.columns)} of a partial aggregate"


@dataclass(frozen=True, slots=True)
class FirstOfEach:
    """The first rows of each partition."""

    count: int
    keys: tuple[Sorted, ...]

    def __str__(self) -> str:
        return f"the first {self.count} rows of each partition"


Unfinished = Findings | FirstOfEach | None


def unfinished_after(node: Physical, inputs: Sequence[Unfinished]) -> Unfinished:
    """What is still to be finished above this node; refuses what may not stand over something unfinished."""
    operator = node.operator
    waiting = [each for each in inputs if each is not None]
    if not waiting:
        return _begun(node)
    if len(waiting) > 1:
        raise refused(node, f"brings together {waiting[0]} and {waiting[1]}")
    (one,) = waiting
    if isinstance(operator, ops.Move | ops.LocalSort):
        return one
    if isinstance(one, Findings):
        return _over_findings(node, one)
    if isinstance(operator, ops.InOrder):
        return one
    if isinstance(operator, ops.FirstRows):
        _check_first_of_all(node, operator, one)
        return None
    raise refused(node, f"stands over {one}, which must be finished first")


def _begun(node: Physical) -> Unfinished:
    operator = node.operator
    if isinstance(operator, ops.PartialFirstRows):
        return FirstOfEach(operator.count, operator.keys)
    if isinstance(operator, Aggregate):
        if operator.phase == "partial":
            return Findings(operator.aggregates)
        if operator.phase in ("combining", "final"):
            raise refused(node, "finishes an aggregate that nothing has begun")
    return None


def _over_findings(node: Physical, begun: Findings) -> Unfinished:
    operator = node.operator
    if isinstance(operator, Aggregate) and operator.phase == "final":
        _check_finished(node, operator, begun)
        return None
    if isinstance(operator, Aggregate) and operator.phase == "combining":
        _check_combined(node, operator, begun)
        return begun
    if isinstance(operator, Join):
        return _joined(node, operator, begun)
    if isinstance(operator, ops.Compute) and _only_passes(operator) and begun.columns <= frozenset(operator.columns):
        return begun
    raise refused(node, f"stands over {begun}, which must be finished first")


def _only_passes(operator: ops.Compute) -> bool:
    return all(isinstance(made, Ref) and made.column == column for column, made in operator.outputs)


def _check_finished(node: Physical, operator: Aggregate, begun: Findings) -> None:
    made = tuple(zip(operator.states, (call for _, call in operator.aggregates), strict=True))
    if made != begun.states:
        raise refused(node, f"does not finish {begun}: it asks for {names(operator.states)}")
    if begun.columns & frozenset(operator.keys):
        raise refused(node, f"groups on {begun}")


def _check_combined(node: Physical, operator: Aggregate, begun: Findings) -> None:
    """Findings of equal keys are put together, of all keys: what the final half looks at must still be there."""
    if operator.aggregates != begun.states:
        raise refused(node, f"does not combine {begun}")
    if frozenset(operator.keys) != frozenset(node.inputs[0].columns) - begun.columns:
        raise refused(node, f"combines {begun} of other keys")


def _joined(node: Physical, operator: Join, begun: Findings) -> Unfinished:
    if operator.kind is not JoinKind.INNER:
        raise refused(node, f"is a {operator.kind.value} join over {begun}")
    condition = operator.join.condition
    if condition is not None and columns_of(condition) & begun.columns:
        raise refused(node, f"compares {begun}")
    if not begun.columns <= frozenset(node.columns):
        raise refused(node, f"drops {begun}")
    return begun


def _check_first_of_all(node: Physical, operator: ops.FirstRows, begun: FirstOfEach) -> None:
    if operator.count is None or operator.count + operator.offset > begun.count:
        raise refused(node, f"wants more rows than {begun}")
    if begun.keys[: len(operator.keys)] != operator.keys:
        raise refused(node, f"takes the first rows in another order than that of {begun}")
