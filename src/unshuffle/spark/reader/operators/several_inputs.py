"""Operators with several inputs: joins, set operations, and references to common table expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.plan.logical import Join, Reference, SetKind, SetOperation, Shared
from unshuffle.spark.reader.catalyst_tree import CatalystNode, ReadPlan, Untranslatable

if TYPE_CHECKING:
    from unshuffle.spark.reader.plan_reader import PlanReader

_JOINS = {
    "Inner": JoinKind.INNER,
    "Cross": JoinKind.INNER,
    "LeftOuter": JoinKind.LEFT,
    "RightOuter": JoinKind.RIGHT,
    "FullOuter": JoinKind.FULL,
    "LeftSemi": JoinKind.SEMI,
    "LeftAnti": JoinKind.ANTI,
}


def join(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    node.allow_only("left", "right", "joinType", "condition", "hint")
    kind = _JOINS.get(node.object("joinType"))
    if kind is None:
        raise Untranslatable("a join of a kind that SQL does not have")
    left, right = map(reader.read, node.children)
    condition = node.expression("condition")
    on = reader.expression(condition, {**right.scope, **left.scope}) if condition is not None else None
    is_one_sided = kind in (JoinKind.SEMI, JoinKind.ANTI)
    expr_ids = left.expr_ids if is_one_sided else (*left.expr_ids, *right.expr_ids)
    return ReadPlan(Join(kind, left.plan, right.plan, on), expr_ids)


def union(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    node.allow_only("children", "byName", "allowMissingCol")
    if node.fields["byName"] or node.fields["allowMissingCol"]:
        raise Untranslatable("a union by name")
    return _set_operation(reader, node, SetKind.UNION, True)


def set_operation(reader: PlanReader, node: CatalystNode, kind: SetKind) -> ReadPlan:
    return _set_operation(reader, node, kind, bool(node.fields["isAll"]))


def _set_operation(reader: PlanReader, node: CatalystNode, kind: SetKind, is_all: bool) -> ReadPlan:
    inputs = tuple(map(reader.read, node.children))
    columns = []
    for position, first in enumerate(inputs[0].plan.columns):
        each = [one.plan.columns[position] for one in inputs]
        type = first.type if all(column.type == first.type for column in each) else None
        nullable = first.nullable if kind is SetKind.EXCEPT else any(column.nullable for column in each)
        columns.append(reader.columns.new(first.name, type, nullable))
    plan = SetOperation(kind, is_all, tuple(one.plan for one in inputs), tuple(columns))
    return ReadPlan(plan, inputs[0].expr_ids)


def reference(reader: PlanReader, shared: Shared, output: Sequence[CatalystNode]) -> ReadPlan:
    columns = tuple(
        reader.columns.new(each.fields["name"], old.type, old.nullable)
        for each, old in zip(output, shared.columns, strict=True)
    )
    return ReadPlan(Reference(shared, columns), tuple(each.expr_id for each in output))
