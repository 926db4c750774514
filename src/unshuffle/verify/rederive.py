"""The facts about the result of a physical operator, derived from the operator alone and not from the memo.

Each operator is translated back to the logical operator that it runs, over placeholders for its inputs: tables with the
columns that the inputs really deliver. The facts of that logical operator are those of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from unshuffle.catalog.schema import Column
from unshuffle.plan import logical, physical
from unshuffle.plan.facts import facts_of
from unshuffle.plan.physical import PhysicalOperator
from unshuffle.plan.rebuild import with_inputs
from unshuffle.properties import Dependencies

Columns = tuple[Column, ...]


def to_logical(operator: PhysicalOperator, inputs: Sequence[Columns]) -> logical.Plan:
    """The logical operator that a physical one runs, over inputs with these columns."""
    return _TO_LOGICAL[type(operator)](operator, [placeholder(columns) for columns in inputs])


def placeholder(columns: Columns) -> logical.Plan:
    return logical.TableScan(("input",), columns)


def facts_after(plan: logical.Plan, facts: Sequence[Dependencies]) -> Dependencies:
    """The facts of an operator, given those of its inputs."""
    if isinstance(plan, logical.Reference):
        return facts_of(plan, [facts_of(plan.rowset, facts)])
    return facts_of(plan, facts)


def without_search_results(operator: PhysicalOperator, plan: logical.Plan) -> PhysicalOperator:
    """The operator with its inputs' properties as derived here, not as the search recorded them."""
    if isinstance(operator, physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin) and isinstance(
        plan, logical.Join
    ):
        return replace(operator, join=plan, wide=[])
    if isinstance(operator, physical.Expand) and isinstance(plan, logical.Expand):
        return replace(operator, expand=plan)
    return operator


Inputs = Sequence[logical.Plan]


def _aggregate(op: physical.HashAggregate | physical.SortAggregate, inputs: Inputs) -> logical.Plan:
    match op.phase:
        case "combining":
            return _same_rows(op, inputs)  # merging drops rows only, so all facts still hold
        case "partial":
            return logical.PartialGroupBy(inputs[0], op.keys, op.aggregates)
        case "final":
            return logical.FinalGroupBy(inputs[0], op.keys, op.aggregates, op.states)
        case "complete":
            return logical.GroupBy(inputs[0], op.keys, op.aggregates)


def _join(op: physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin, inputs: Inputs) -> logical.Plan:
    return replace(op.join, left=inputs[0], right=inputs[1])


def _union(op: physical.Concatenate | physical.PartitionwiseUnion, inputs: Inputs) -> logical.Plan:
    return logical.SetOperation(logical.SetKind.UNION, True, tuple(map(placeholder, op.inputs)), op.columns, op.whole)


def _multiset(op: physical.MultisetOperation, inputs: Inputs) -> logical.Plan:
    return replace(op.operation, inputs=tuple(placeholder(each.columns) for each in op.operation.inputs))


def _rename(op: physical.Rename, inputs: Inputs) -> logical.Plan:
    return logical.Reference(logical.Shared(op.name, placeholder(op.originals)), op.columns)


def _windows(op: physical.Windows, inputs: Inputs) -> logical.Plan:
    return logical.Window(inputs[0], op.calls)


def _same_rows(op: Any, inputs: Inputs) -> logical.Plan:
    """Sorts, exchanges and partial top-n preserve all facts and add none."""
    return logical.Sort(inputs[0], ())


_TO_LOGICAL: Mapping[type, Callable[[Any, Inputs], logical.Plan]] = physical.per_operator(
    "verification",
    {
        physical.FileScan: lambda op, inputs: op.scan,
        physical.TableRead: lambda op, inputs: op.table,
        physical.Rows: lambda op, inputs: op.values,
        physical.Filter: lambda op, inputs: logical.Filter(inputs[0], op.predicate),
        physical.Project: lambda op, inputs: logical.Project(inputs[0], op.outputs),
        physical.Rename: _rename,
        physical.Expand: lambda op, inputs: replace(op.expand, child=inputs[0]),
        physical.HashAggregate: _aggregate,
        physical.SortAggregate: _aggregate,
        physical.HashJoin: _join,
        physical.MergeJoin: _join,
        physical.NestedLoopJoin: _join,
        physical.Concatenate: _union,
        physical.PartitionwiseUnion: _union,
        physical.MultisetOperation: _multiset,
        physical.OrderBy: _same_rows,
        physical.Limit: lambda op, inputs: logical.Limit(inputs[0], op.count, op.offset),
        physical.PartialTopN: _same_rows,
        physical.Windows: _windows,
        physical.RunProcess: lambda op, inputs: replace(op.process, child=inputs[0]),
        physical.RunReduce: lambda op, inputs: replace(op.reduce, child=inputs[0]),
        physical.RunCombine: lambda op, inputs: replace(op.combine, left=inputs[0], right=inputs[1]),
        physical.SparkFallback: lambda op, inputs: with_inputs(op.plan, inputs),
        physical.ReadSpool: lambda op, inputs: logical.TableScan((op.name,), op.columns),
        physical.LocalSort: _same_rows,
        physical.Exchange: _same_rows,
    },
)
