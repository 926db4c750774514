"""What is known of the values that a physical operator yields, from the operator itself and nothing the search kept.

Each operator is read back as the logical one it runs, over stand-ins for its inputs: tables with the columns that really
come out of them. What the algebra of facts says of that operator is what holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from unshuffle.algebra import logical
from unshuffle.algebra import operators as ops
from unshuffle.algebra.facts import facts_of
from unshuffle.algebra.physical import PhysicalOperator
from unshuffle.catalog.schema import Column
from unshuffle.properties import Dependencies
from unshuffle.search.memo import with_inputs

Columns = tuple[Column, ...]


def read_back(operator: PhysicalOperator, inputs: Sequence[Columns]) -> logical.Plan:
    """The logical operator that this one runs, over inputs of these columns."""
    return _READ[type(operator)](operator, [stand_in(columns) for columns in inputs])


def stand_in(columns: Columns) -> logical.Plan:
    return logical.TableScan(("input",), columns)


def facts_after(plan: logical.Plan, facts: Sequence[Dependencies]) -> Dependencies:
    """The facts of an operator that was read back."""
    if isinstance(plan, logical.Reference):
        return facts_of(plan, [facts_of(plan.rowset, facts)])
    return facts_of(plan, facts)


def untold(operator: PhysicalOperator, plan: logical.Plan) -> PhysicalOperator:
    """The operator without what the search told it of its inputs."""
    if isinstance(operator, ops.HashJoin | ops.MergeJoin | ops.LoopJoin) and isinstance(plan, logical.Join):
        return replace(operator, join=plan, wide=[])
    if isinstance(operator, ops.Enlarge) and isinstance(plan, logical.Expand):
        return replace(operator, expand=plan)
    return operator


Inputs = Sequence[logical.Plan]


def _aggregate(op: ops.HashAggregate | ops.StreamAggregate, inputs: Inputs) -> logical.Plan:
    match op.phase:
        case "combining":
            return _same_rows(op, inputs)  # fewer of them, and what held of their keys still does
        case "partial":
            return logical.PartialGroupBy(inputs[0], op.keys, op.aggregates)
        case "final":
            return logical.FinalGroupBy(inputs[0], op.keys, op.aggregates, op.states)
        case "complete":
            return logical.GroupBy(inputs[0], op.keys, op.aggregates)


def _join(op: ops.HashJoin | ops.MergeJoin | ops.LoopJoin, inputs: Inputs) -> logical.Plan:
    return replace(op.join, left=inputs[0], right=inputs[1])


def _union(op: ops.Concatenate | ops.ConcatenatePartitions, inputs: Inputs) -> logical.Plan:
    return logical.SetOperation(logical.SetKind.UNION, True, tuple(map(stand_in, op.inputs)), op.columns)


def _multiset(op: ops.MultisetOperation, inputs: Inputs) -> logical.Plan:
    return replace(op.operation, inputs=tuple(stand_in(each.columns) for each in op.operation.inputs))


def _rename(op: ops.Rename, inputs: Inputs) -> logical.Plan:
    return logical.Reference(logical.Shared(op.name, stand_in(op.originals)), op.columns)


def _windows(op: ops.Windows, inputs: Inputs) -> logical.Plan:
    return logical.Window(inputs[0], op.calls)


def _same_rows(op: Any, inputs: Inputs) -> logical.Plan:
    """Sorts, exchanges and limits of each partition: whatever held still does, and nothing more."""
    return logical.Sort(inputs[0], ())


_READ: dict[type, Callable[[Any, Inputs], logical.Plan]] = {
    ops.FileScan: lambda op, inputs: op.scan,
    ops.TableRead: lambda op, inputs: op.table,
    ops.Rows: lambda op, inputs: op.values,
    ops.Select: lambda op, inputs: logical.Filter(inputs[0], op.predicate),
    ops.Compute: lambda op, inputs: logical.Project(inputs[0], op.outputs),
    ops.Rename: _rename,
    ops.Enlarge: lambda op, inputs: replace(op.expand, child=inputs[0]),
    ops.HashAggregate: _aggregate,
    ops.StreamAggregate: _aggregate,
    ops.HashJoin: _join,
    ops.MergeJoin: _join,
    ops.LoopJoin: _join,
    ops.Concatenate: _union,
    ops.ConcatenatePartitions: _union,
    ops.MultisetOperation: _multiset,
    ops.InOrder: _same_rows,
    ops.FirstRows: lambda op, inputs: logical.Limit(inputs[0], op.count, op.offset),
    ops.PartialFirstRows: _same_rows,
    ops.Windows: _windows,
    ops.RunProcess: lambda op, inputs: replace(op.process, child=inputs[0]),
    ops.RunReduce: lambda op, inputs: replace(op.reduce, child=inputs[0]),
    ops.RunCombine: lambda op, inputs: replace(op.combine, left=inputs[0], right=inputs[1]),
    ops.AsWritten: lambda op, inputs: with_inputs(op.plan, inputs),
    ops.ReadSpool: lambda op, inputs: logical.TableScan((op.name,), op.columns),
    ops.LocalSort: _same_rows,
    ops.Move: _same_rows,
}
