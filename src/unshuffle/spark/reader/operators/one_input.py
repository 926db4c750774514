"""Operators with one input: projections, filters, sorts, limits and windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Expression, Literal, Ref, WindowCall
from unshuffle.plan.logical import Distinct, Filter, Limit, Project, Sort, Window
from unshuffle.spark.reader.catalyst_tree import AttributeScope, CatalystNode, ReadPlan, Untranslatable
from unshuffle.spark.reader.expressions.nullability import is_nullable

if TYPE_CHECKING:
    from unshuffle.spark.reader.plan_reader import PlanReader


def project(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    node.allow_only("projectList", "child")
    child = reader.child(node)
    return projected(reader, child, child.scope, node.expressions("projectList"))


def projected(
    reader: PlanReader,
    child: ReadPlan,
    scope: AttributeScope,
    listed: Sequence[CatalystNode],
    change: Callable[[Expression], Expression] = lambda expression: expression,
) -> ReadPlan:
    """A projection to the listed expressions, each after `change`. A column that keeps its name keeps its identity."""
    outputs: dict[Column, Expression] = {}
    for each in listed:
        expression = change(reader.expression(each, scope))
        name = each.fields["name"]
        if each.kind == "AttributeReference" and isinstance(expression, Ref) and expression.column.name == name:
            column = expression.column
        else:
            column = reader.columns.new(name, expression.type, is_nullable(expression))
        outputs[column if column not in outputs else reader.columns.like(column)] = expression
    expr_ids = tuple(each.expr_id for each in listed)
    if tuple(outputs) == child.plan.columns:
        return ReadPlan(child.plan, expr_ids)
    return ReadPlan(Project(child.plan, tuple(outputs.items())), expr_ids)


def filter_(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    node.allow_only("condition", "child")
    child = reader.child(node)
    condition = node.expression("condition")
    assert condition is not None
    return ReadPlan(Filter(child.plan, reader.expression(condition, child.scope)), child.expr_ids)


def sort(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    node.allow_only("order", "global", "child", "hint")
    if node.fields["global"] is not True:
        raise Untranslatable("a sort within partitions")
    child = reader.child(node)
    keys = reader.expressions.sort_keys(node.expressions("order"), reader.scopes(child.scope))
    # A constant orders nothing, and SQL would read a number as the position of a column.
    keys = tuple(key for key in keys if not isinstance(key.expression, Literal))
    return ReadPlan(Sort(child.plan, keys) if keys else child.plan, child.expr_ids)


def limit(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    node.allow_only("limitExpr", "child")
    (local,) = node.children
    count = _count(reader, node, "limitExpr")
    if local.kind != "LocalLimit" or _count(reader, local, "limitExpr") != count:
        raise Untranslatable("a global limit without an equal local limit")
    child = reader.child(local)
    match child.plan:
        case Limit(inner, None, offset):
            return ReadPlan(Limit(inner, count, offset), child.expr_ids)
        case _:
            return ReadPlan(Limit(child.plan, count), child.expr_ids)


def offset(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    node.allow_only("offsetExpr", "child")
    child = reader.child(node)
    return ReadPlan(Limit(child.plan, None, _count(reader, node, "offsetExpr")), child.expr_ids)


def _count(reader: PlanReader, node: CatalystNode, name: str) -> int:
    expression = node.expression(name)
    count = reader.expression(expression, {}) if expression is not None else None
    if not isinstance(count, Literal) or type(count.value) is not int:
        raise Untranslatable("a limit that is not a number")
    return count.value


def distinct(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    child = reader.child(node)
    return ReadPlan(Distinct(child.plan), child.expr_ids)


def window(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    node.allow_only("windowExpressions", "partitionSpec", "orderSpec", "child")
    child = reader.child(node)
    calls: list[tuple[Column, WindowCall]] = []
    listed = node.expressions("windowExpressions")
    for each in listed:
        call = reader.expression(each, child.scope)
        if not isinstance(call, WindowCall):
            raise Untranslatable("a window function inside an expression")
        calls.append((reader.columns.new(each.fields["name"], call.type, is_nullable(call)), call))
    return ReadPlan(Window(child.plan, tuple(calls)), (*child.expr_ids, *(each.expr_id for each in listed)))
