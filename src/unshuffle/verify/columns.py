"""Columns are there where they are read, and an operator says of itself what the operator it runs says.

An expression may read only what comes out of the inputs, an operator may pass on only what went in, and a join must look at
its whole condition: what is not one of its keys is in the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from unshuffle.algebra import logical
from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import Call, Ref, columns_of
from unshuffle.algebra.physical import Physical, PhysicalOperator
from unshuffle.algebra.predicates import conjuncts, join_condition
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, names
from unshuffle.properties import (
    FullMerge,
    InitialPartitioning,
    PartialMerge,
    PartialPartitioning,
    Partitioned,
    Repartitioning,
    Sorted,
)
from unshuffle.properties.exchange import SortConcatMerge, SortMerge
from unshuffle.verify.refusal import refused

Join = ops.HashJoin | ops.MergeJoin | ops.LoopJoin


def check_columns(node: Physical, plan: logical.Plan) -> None:
    """`plan` is the node's operator, read back over its inputs."""
    operator = node.operator
    given = frozenset(column for each in node.inputs for column in each.columns)
    read = frozenset(column for each in logical.expressions_of(plan) for column in columns_of(each))
    _there(node, "reads", read | frozenset(_named(operator)), given)
    for place, columns in enumerate(_positional(operator)):
        _there(node, f"takes from input {place + 1}", columns, frozenset(node.inputs[place].columns))
    if isinstance(operator, Join):
        check_condition(node, operator)
        made = frozenset(plan.made) if isinstance(plan, logical.Join) else given
        _there(node, "passes on", operator.columns, made)
    elif node.inputs:
        _there(node, "passes on", operator.columns, frozenset(plan.columns))
    twice = [column for column, count in Counter(operator.columns).items() if count > 1]
    if twice:
        raise refused(node, f"yields {names(twice)} twice")


def _there(node: Physical, verb: str, wanted: Iterable[Column], given: frozenset[Column]) -> None:
    missing = frozenset(wanted) - given
    if missing:
        raise refused(node, f"{verb} {names(missing)}, which its inputs do not have")


def _named(operator: PhysicalOperator) -> Iterator[Column]:
    """Columns that an operator works with beside those in its expressions."""
    match operator:
        case ops.InOrder(keys=keys) | ops.FirstRows(keys=keys) | ops.LocalSort(keys=keys):
            yield from _sorted(keys)
        case ops.PartialFirstRows(keys=keys):
            yield from _sorted(keys)
        case ops.Windows(by=by, order=order, input_columns=passed):
            yield from (*by, *_sorted(order), *passed)
        case ops.HashJoin(keys=keys) | ops.MergeJoin(keys=keys):
            yield from (column for key in keys for column in key.columns)
        case ops.RunProcess(process=process):
            yield from (source for _, source in process.readonly)
        case ops.RunReduce(reduce=reduce, presort=presort):
            yield from (*reduce.keys, *_sorted(presort), *(source for _, source in reduce.readonly))
        case ops.RunCombine(combine=combine):
            yield from (*combine.left_keys, *combine.right_keys)
        case ops.Move(how=how):
            yield from _moved(how)
        case _:
            return


def _sorted(keys: Iterable[Sorted]) -> Iterator[Column]:
    return (key.column for key in keys)


def _moved(how: object) -> Iterator[Column]:
    match how:
        case InitialPartitioning(scheme=scheme) | PartialPartitioning(scheme=scheme) | Repartitioning(scheme=scheme):
            yield from scheme.columns if isinstance(scheme, Partitioned) else ()
        case _:
            pass
    match how:
        case Repartitioning(merge=merge) | FullMerge(merge=merge) | PartialMerge(merge=merge):
            yield from _sorted(merge.keys) if isinstance(merge, SortMerge | SortConcatMerge) else ()
        case _:
            pass


def _positional(operator: PhysicalOperator) -> tuple[tuple[Column, ...], ...]:
    """Of operators that match the columns of their inputs by position: which they take from each."""
    match operator:
        case ops.Concatenate(inputs=inputs) | ops.ConcatenatePartitions(inputs=inputs):
            return inputs
        case ops.MultisetOperation(operation=operation):
            return tuple(each.columns for each in operation.inputs)
        case ops.Rename(originals=originals):
            return (originals,)
        case _:
            return ()


def check_condition(node: Physical, operator: Join) -> None:
    if isinstance(operator, ops.HashJoin) and operator.null_aware:
        check_not_in(node, operator)
        return
    left, right = (each.columns for each in node.inputs)
    told = join_condition(operator.join.condition, left, right)
    if not frozenset(operator.keys) <= frozenset(told.keys):
        raise refused(node, f"compares {', '.join(map(str, operator.keys))}, which is not what its condition says")
    if isinstance(operator, ops.MergeJoin) and frozenset(each.key for each in operator.by) != frozenset(operator.keys):
        raise refused(node, "merges on other keys than it compares")
    equal = {frozenset(key.columns) for key in operator.keys}
    looked_at = frozenset(conjuncts(operator.rest))
    for part in conjuncts(operator.join.condition):
        if part not in looked_at and columns_of(part) not in equal:
            raise refused(node, "leaves out a part of its condition")


def check_not_in(node: Physical, operator: ops.HashJoin) -> None:
    """NOT IN is an anti join on `a = b or (a = b) is null`, and nothing else is."""
    match operator.join.condition:
        case Call("or", (Call("=", (Ref(column=a), Ref(column=b))) as pair, Call("isnull", (tested,)))) if (
            tested == pair
        ):
            sides = [frozenset(key.columns) for key in operator.keys]
            if operator.kind is JoinKind.ANTI and operator.rest is None and sides == [frozenset((a, b))]:
                return
    raise refused(node, "is not the NOT IN that it claims to be")
