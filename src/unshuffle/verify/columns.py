"""Columns exist where they are read, and a join evaluates its whole condition.

An expression reads only columns of the inputs, an operator passes on only columns that it has, and every conjunct of a join
condition is one of the join's keys or in its residual condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, names
from unshuffle.plan import logical, physical
from unshuffle.plan.expressions import Call, Ref, columns_of
from unshuffle.plan.physical import PhysicalOperator, PhysicalPlan
from unshuffle.plan.predicates import conjuncts, join_condition
from unshuffle.properties import (
    FullMerge,
    InitialPartitioning,
    PartialMerge,
    PartialPartitioning,
    Partitioned,
    Repartitioning,
    Sorted,
)
from unshuffle.properties.layouts.exchange import SortConcatMerge, SortMerge
from unshuffle.verify.invalid_plan import invalid_plan

Join = physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin


def check_columns(node: PhysicalPlan, plan: logical.Plan) -> None:
    """`plan` is the logical operator that the node runs, over its inputs."""
    operator = node.operator
    available = frozenset(column for each in node.inputs for column in each.columns)
    read = frozenset(column for each in logical.expressions_of(plan) for column in columns_of(each))
    _require(node, "reads", read | frozenset(_columns_beside_expressions(operator)), available)
    for i, columns in enumerate(_positional(operator)):
        _require(node, f"takes from input {i + 1}", columns, frozenset(node.inputs[i].columns))
    if isinstance(operator, Join):
        check_condition(node, operator)
        available = frozenset(plan.made) if isinstance(plan, logical.Join) else available
        _require(node, "passes on", operator.columns, available)
    elif node.inputs:
        _require(node, "passes on", operator.columns, frozenset(plan.columns))
    repeated = [column for column, count in Counter(operator.columns).items() if count > 1]
    if repeated:
        raise invalid_plan(node, f"delivers {names(repeated)} twice")


def _require(node: PhysicalPlan, verb: str, columns: Iterable[Column], available: frozenset[Column]) -> None:
    missing = frozenset(columns) - available
    if missing:
        raise invalid_plan(node, f"{verb} {names(missing)}, which its inputs do not have")


def _columns_beside_expressions(operator: PhysicalOperator) -> Iterator[Column]:
    """Columns that an operator reads outside its expressions."""
    match operator:
        case physical.OrderBy(keys=keys) | physical.Limit(keys=keys) | physical.LocalSort(keys=keys):
            yield from _key_columns(keys)
        case physical.PartialTopN(keys=keys):
            yield from _key_columns(keys)
        case physical.Windows(by=by, order=order, input_columns=passed):
            yield from (*by, *_key_columns(order), *passed)
        case physical.HashJoin(keys=keys) | physical.MergeJoin(keys=keys):
            yield from (column for key in keys for column in key.columns)
        case physical.RunProcess(process=process):
            yield from (source for _, source in process.readonly)
        case physical.RunReduce(reduce=reduce, presort=presort):
            yield from (*reduce.keys, *_key_columns(presort), *(source for _, source in reduce.readonly))
        case physical.RunCombine(combine=combine):
            yield from (*combine.left_keys, *combine.right_keys)
        case physical.Exchange(how=how):
            yield from _exchange_columns(how)
        case _:
            return


def _key_columns(keys: Iterable[Sorted]) -> Iterator[Column]:
    return (key.column for key in keys)


def _exchange_columns(how: object) -> Iterator[Column]:
    match how:
        case InitialPartitioning(scheme=scheme) | PartialPartitioning(scheme=scheme) | Repartitioning(scheme=scheme):
            yield from scheme.columns if isinstance(scheme, Partitioned) else ()
        case _:
            pass
    match how:
        case Repartitioning(merge=merge) | FullMerge(merge=merge) | PartialMerge(merge=merge):
            yield from _key_columns(merge.keys) if isinstance(merge, SortMerge | SortConcatMerge) else ()
        case _:
            pass


def _positional(operator: PhysicalOperator) -> tuple[tuple[Column, ...], ...]:
    """The columns taken from each input, for operators that match columns by position."""
    match operator:
        case physical.Concatenate(inputs=inputs) | physical.PartitionwiseUnion(inputs=inputs):
            return inputs
        case physical.MultisetOperation(operation=operation):
            return tuple(each.columns for each in operation.inputs)
        case physical.Rename(originals=originals):
            return (originals,)
        case _:
            return ()


def check_condition(node: PhysicalPlan, operator: Join) -> None:
    if isinstance(operator, physical.HashJoin) and operator.null_aware:
        check_not_in(node, operator)
        return
    left, right = (each.columns for each in node.inputs)
    condition = join_condition(operator.join.condition, left, right)
    if not frozenset(operator.keys) <= frozenset(condition.keys):
        raise invalid_plan(node, f"compares {', '.join(map(str, operator.keys))}, which its condition does not")
    if isinstance(operator, physical.MergeJoin) and frozenset(each.key for each in operator.by) != frozenset(
        operator.keys
    ):
        raise invalid_plan(node, "merges on other keys than it compares")
    equal = {frozenset(key.columns) for key in operator.keys}
    residual = frozenset(conjuncts(operator.rest))
    for conjunct in conjuncts(operator.join.condition):
        if conjunct not in residual and columns_of(conjunct) not in equal:
            raise invalid_plan(node, "leaves out a part of its condition")


def check_not_in(node: PhysicalPlan, operator: physical.HashJoin) -> None:
    """A null-aware join is NOT IN: an anti join on `a = b or (a = b) is null`, and nothing else."""
    match operator.join.condition:
        case Call("or", (Call("=", (Ref(column=a), Ref(column=b))) as pair, Call("isnull", (tested,)))) if (
            tested == pair
        ):
            sides = [frozenset(key.columns) for key in operator.keys]
            if operator.kind is JoinKind.ANTI and operator.rest is None and sides == [frozenset((a, b))]:
                return
    raise invalid_plan(node, "is null-aware, but is not a NOT IN")
