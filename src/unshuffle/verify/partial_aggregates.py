"""Every partial aggregate is finished by its final aggregate, and every partial top-n by its limit.

The rows of a partial aggregate have no meaning by themselves: how many there are for a group depends on the layout. Below the
final aggregate, partial states may only be moved, sorted, merged or joined. A join must be an inner join on other columns, so
that it repeats a state as often as it would repeat the rows behind it. In the same way, the first rows of each partition may
only be used to find the first rows of all.
"""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, names
from unshuffle.frozen import dataclass
from unshuffle.plan import physical
from unshuffle.plan.expressions import AggregateCall, Ref, columns_of
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Sorted
from unshuffle.verify.columns import Join
from unshuffle.verify.invalid_plan import invalid_plan

Aggregate = physical.HashAggregate | physical.SortAggregate


@dataclass(frozen=True, slots=True)
class PartialStates:
    """The states of a partial aggregate that has no final aggregate yet."""

    states: tuple[tuple[Column, AggregateCall], ...]

    @property
    def columns(self) -> frozenset[Column]:
        return frozenset(column for column, _ in self.states)

    def __str__(self) -> str:
        return f"the partial states {names(self.columns)}"


@dataclass(frozen=True, slots=True)
class PartialTopRows:
    """The first rows of each partition, with no limit over them yet."""

    count: int
    keys: tuple[Sorted, ...]

    def __str__(self) -> str:
        return f"the first {self.count} rows of each partition"


PartialResult = PartialStates | PartialTopRows


def partial_result_after(node: PhysicalPlan, inputs: Sequence[PartialResult | None]) -> PartialResult | None:
    """The partial result that this node delivers, given those of its inputs. Raises if the node must not read one."""
    operator = node.operator
    partial = [each for each in inputs if each is not None]
    if not partial:
        return _new_partial_result(node)
    if len(partial) > 1:
        raise invalid_plan(node, f"combines {partial[0]} with {partial[1]}")
    (result,) = partial
    if isinstance(operator, physical.Exchange | physical.LocalSort):
        return result
    if isinstance(result, PartialStates):
        return _over_states(node, result)
    if isinstance(operator, physical.OrderBy):
        return result
    if isinstance(operator, physical.Limit):
        _check_limit(node, operator, result)
        return None
    raise invalid_plan(node, f"reads {result}, which must be finished first")


def _new_partial_result(node: PhysicalPlan) -> PartialResult | None:
    operator = node.operator
    if isinstance(operator, physical.PartialTopN):
        return PartialTopRows(operator.count, operator.keys)
    if isinstance(operator, Aggregate):
        if operator.phase == "partial":
            return PartialStates(operator.aggregates)
        if operator.phase in ("combining", "final"):
            raise invalid_plan(node, "has no partial aggregate below it")
    return None


def _over_states(node: PhysicalPlan, partial: PartialStates) -> PartialResult | None:
    operator = node.operator
    if isinstance(operator, Aggregate) and operator.phase == "final":
        _check_final(node, operator, partial)
        return None
    if isinstance(operator, Aggregate) and operator.phase == "combining":
        _check_combining(node, operator, partial)
        return partial
    if isinstance(operator, Join):
        return _over_join(node, operator, partial)
    if (
        isinstance(operator, physical.Project)
        and _only_passes_through(operator)
        and partial.columns <= frozenset(operator.columns)
    ):
        return partial
    raise invalid_plan(node, f"reads {partial}, which must be finished first")


def _only_passes_through(operator: physical.Project) -> bool:
    return all(isinstance(value, Ref) and value.column == column for column, value in operator.outputs)


def _check_final(node: PhysicalPlan, operator: Aggregate, partial: PartialStates) -> None:
    states = tuple(zip(operator.states, (call for _, call in operator.aggregates), strict=True))
    if states != partial.states:
        raise invalid_plan(node, f"does not finish {partial}: it reads {names(operator.states)}")
    if partial.columns & frozenset(operator.keys):
        raise invalid_plan(node, f"groups by {partial}")


def _check_combining(node: PhysicalPlan, operator: Aggregate, partial: PartialStates) -> None:
    """States are merged by all other columns: the final aggregate, and joins below it, may read any of them."""
    if operator.aggregates != partial.states:
        raise invalid_plan(node, f"does not merge {partial}")
    if frozenset(operator.keys) != frozenset(node.inputs[0].columns) - partial.columns:
        raise invalid_plan(node, f"merges {partial} by other keys")


def _over_join(node: PhysicalPlan, operator: Join, partial: PartialStates) -> PartialResult | None:
    if operator.kind is not JoinKind.INNER:
        raise invalid_plan(node, f"is a {operator.kind.value} join over {partial}")
    condition = operator.join.condition
    if condition is not None and columns_of(condition) & partial.columns:
        raise invalid_plan(node, f"compares {partial}")
    if not partial.columns <= frozenset(node.columns):
        raise invalid_plan(node, f"drops {partial}")
    return partial


def _check_limit(node: PhysicalPlan, operator: physical.Limit, partial: PartialTopRows) -> None:
    if operator.count is None or operator.count + operator.offset > partial.count:
        raise invalid_plan(node, f"needs more rows than {partial}")
    if partial.keys[: len(operator.keys)] != operator.keys:
        raise invalid_plan(node, f"orders rows otherwise than {partial}")
