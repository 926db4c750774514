"""Catalyst's grouping operators as ours: GROUP BY, grouping sets, and duplicates by some of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unshuffle.algebra.expressions import AggregateCall, Call, Case, Expression, Literal, Ref, columns_of, map_operands
from unshuffle.algebra.logical import Distinct, Expand, GroupBy, Plan, Project, Values
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import BOOLEAN, INT
from unshuffle.spark.catalyst_expressions import is_nullable
from unshuffle.spark.catalyst_tree import Node, NotUnderstood, Read

if TYPE_CHECKING:
    from unshuffle.spark.catalyst import PlanReader


def aggregate(reader: PlanReader, node: Node) -> Read:
    """Keys that are computed are columns below; what is computed from keys and aggregates is a projection above."""
    reader.only(node, "groupingExpressions", "aggregateExpressions", "child")
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
        known = [column for column, call in calls if call == expression and call.deterministic]
        column = (
            known[0] if known else reader.columns.new(expression.function, expression.type, is_nullable(expression))
        )
        if not known:
            calls.append((column, expression))
        return Ref(column)

    listed = node.expressions("aggregateExpressions")
    if not listed:
        raise NotUnderstood("groups without columns")
    above = reader.projected(Read(Values((), ()), ()), scope, listed, over_groups)
    group = GroupBy(plan, tuple(keys.values()), tuple(calls))
    assert isinstance(above.plan, Project)
    # Catalyst takes `a + b` and `b + a` for one key, we do not: such a column would be one of the input's.
    outside = frozenset(plan.columns) - frozenset(group.columns)
    if any(columns_of(expression) & outside for _, expression in above.plan.outputs):
        raise NotUnderstood("a grouping expression that is written in two ways")
    return Read(Project(group, above.plan.outputs), above.numbers)


def deduplicate(reader: PlanReader, node: Node) -> Read:
    """Of the rows that agree on some columns any one, which is what Spark makes of it too. (The `dedupSpec` of Spark 4.3
    says how the user named the columns.)"""
    reader.only(node, "keys", "child", "dedupSpec")
    child = reader.child(node)
    keys = tuple(dict.fromkeys(child.scope[each.id] for each in node.expressions("keys")))
    if not keys:
        raise NotUnderstood("dropDuplicates of no columns")
    rest = [column for column in child.plan.columns if column not in set(keys)]
    if not rest:
        return Read(Distinct(child.plan), child.numbers)
    kept = {column: reader.columns.like(column) for column in rest}
    firsts = [(new, AggregateCall("first", (Ref(old),), old.type, deterministic=False)) for old, new in kept.items()]
    columns = tuple(kept.get(column, column) for column in child.plan.columns)
    group = GroupBy(child.plan, keys, tuple(firsts))
    return Read(Project(group, tuple((column, Ref(column)) for column in columns)), child.numbers)


def expand(reader: PlanReader, node: Node) -> Read:
    """Grouping sets: each row once a set. A column is the same in all copies, or a key that some sets leave out, or a
    number that tells the sets apart."""
    reader.only(node, "projections", "output", "child")
    child = reader.child(node)
    output = node.expressions("output")
    copies = [[reader.expression(each, child.scope) for each in one] for one in node.expression_lists("projections")]
    number = reader.columns.new("set", INT, False)
    keys: dict[Column, tuple[Column, list[Expression]]] = {}  # what went in: what comes out, and its value in each set
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
        else:
            raise NotUnderstood("Expand for something else than grouping sets")
        taken.add(column)
    sets = tuple(
        tuple(source for source, (_, values) in keys.items() if isinstance(values[place], Ref))
        for place in range(len(copies))
    )
    plan = Expand(child.plan, tuple((out, source) for source, (out, _) in keys.items()), sets, number)
    return Read(Project(plan, tuple(outputs)), tuple(each.id for each in output))


def _is_key_or_null(value: Expression) -> bool:
    return isinstance(value, Ref) or (isinstance(value, Literal) and value.value is None)


def _by_set(number: Column, values: Sequence[Expression]) -> Expression:
    *others, last = values
    branches = tuple(
        (Call("=", (Ref(number), Literal(place, INT)), BOOLEAN), value) for place, value in enumerate(others)
    )
    return Case(branches, last, last.type) if branches else last
