"""Grouping operators: GROUP BY, grouping sets, and `dropDuplicates`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import BOOLEAN, INT
from unshuffle.plan.expressions import AggregateCall, Call, Case, Expression, Literal, Ref, columns_of, map_operands
from unshuffle.plan.logical import Distinct, Expand, GroupBy, Plan, Project, Values
from unshuffle.spark.reader.catalyst_tree import CatalystNode, ReadPlan, Untranslatable
from unshuffle.spark.reader.expressions.nullability import is_nullable
from unshuffle.spark.reader.operators.one_input import projected

if TYPE_CHECKING:
    from unshuffle.spark.reader.plan_reader import PlanReader


def aggregate(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    """GROUP BY. Computed keys become a projection below it, expressions of keys and aggregates one above it."""
    node.allow_only("groupingExpressions", "aggregateExpressions", "child")
    child = reader.child(node)
    scope = child.scope
    keys: dict[Expression, Column] = {}
    for each in node.expressions("groupingExpressions"):
        key = reader.expression(each, scope)
        if key not in keys:
            keys[key] = key.column if isinstance(key, Ref) else reader.columns.new("key", key.type, is_nullable(key))
    computed = [(column, key) for key, column in keys.items() if not isinstance(key, Ref)]
    plan: Plan = child.plan
    if computed:
        plan = Project(plan, (*((column, Ref(column)) for column in plan.columns), *computed))
    calls: list[tuple[Column, AggregateCall]] = []

    def over_groups(expression: Expression) -> Expression:
        if expression in keys:
            return Ref(keys[expression])
        if not isinstance(expression, AggregateCall):
            return map_operands(expression, over_groups)
        for column, call in calls:
            if call == expression and call.deterministic:
                return Ref(column)
        new = reader.columns.new(expression.function, expression.type, is_nullable(expression))
        calls.append((new, expression))
        return Ref(new)

    listed = node.expressions("aggregateExpressions")
    if not listed:
        raise Untranslatable("groups without columns")
    above = projected(reader, ReadPlan(Values((), ()), ()), scope, listed, over_groups)
    group = GroupBy(plan, tuple(keys.values()), tuple(calls))
    assert isinstance(above.plan, Project)
    # Catalyst treats `a + b` and `b + a` as one key, we do not: the projection would then read a column of the input.
    outside = frozenset(plan.columns) - frozenset(group.columns)
    if any(columns_of(expression) & outside for _, expression in above.plan.outputs):
        raise Untranslatable("a grouping expression that is written in two ways")
    return ReadPlan(Project(group, above.plan.outputs), above.expr_ids)


def deduplicate(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    """One row, any one, of those that agree on some columns. Spark does the same. (The `dedupSpec` of Spark 4.3 records how
    the user named the columns.)"""
    node.allow_only("keys", "child", "dedupSpec")
    child = reader.child(node)
    keys = tuple(dict.fromkeys(child.scope[each.expr_id] for each in node.expressions("keys")))
    if not keys:
        raise Untranslatable("dropDuplicates of no columns")
    rest = [column for column in child.plan.columns if column not in set(keys)]
    if not rest:
        return ReadPlan(Distinct(child.plan), child.expr_ids)
    kept = {column: reader.columns.like(column) for column in rest}
    firsts = [(new, AggregateCall("first", (Ref(old),), old.type, deterministic=False)) for old, new in kept.items()]
    columns = tuple(kept.get(column, column) for column in child.plan.columns)
    group = GroupBy(child.plan, keys, tuple(firsts))
    return ReadPlan(Project(group, tuple((column, Ref(column)) for column in columns)), child.expr_ids)


def expand(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    """Grouping sets, and UNPIVOT: a copy of each row for each set. A column is equal in all copies, or a key that some sets
    omit, or has another value in each copy."""
    node.allow_only("projections", "output", "child")
    child = reader.child(node)
    output = node.expressions("output")
    copies = [[reader.expression(each, child.scope) for each in one] for one in node.expression_lists("projections")]
    number = reader.columns.new("set", INT, False)
    keys: dict[Column, tuple[Column, list[Expression]]] = {}  # input column: output column, and its value in each set
    outputs: list[tuple[Column, Expression]] = []
    taken: set[Column] = set()
    for each, values in zip(output, zip(*copies, strict=True), strict=True):
        (column,) = reader.attributes([each])
        first = values[0]
        sources = {value.column for value in values if isinstance(value, Ref)}
        if isinstance(first, Ref) and all(value == first for value in values):
            column = first.column if first.column not in taken else column
            outputs.append((column, first))
        elif all(isinstance(value, Literal) and type(value.value) is int for value in values):
            outputs.append((column, _by_set(number, values)))
        elif len(sources) == 1 and not sources & keys.keys() and all(map(_is_key_or_null, values)):
            keys[sources.pop()] = column, list(values)
            outputs.append((column, Ref(column)))
        elif column.type is not None:
            outputs.append((column, _by_set(number, values)))
        else:
            raise Untranslatable("Expand of values of an unknown type")
        taken.add(column)
    sets = tuple(
        tuple(source for source, (_, values) in keys.items() if isinstance(values[i], Ref)) for i in range(len(copies))
    )
    plan = Expand(child.plan, tuple((out, source) for source, (out, _) in keys.items()), sets, number)
    return ReadPlan(Project(plan, tuple(outputs)), tuple(each.expr_id for each in output))


def _is_key_or_null(value: Expression) -> bool:
    return isinstance(value, Ref) or (isinstance(value, Literal) and value.value is None)


def _by_set(number: Column, values: Sequence[Expression]) -> Expression:
    *others, last = values
    branches = tuple((Call("=", (Ref(number), Literal(i, INT)), BOOLEAN), value) for i, value in enumerate(others))
    return Case(branches, last, last.type) if branches else last
