"""Columns, columns of outer queries, common subexpressions and subqueries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.plan.expressions import Exists, Expression, InSubquery, Ref, ScalarSubquery
from unshuffle.plan.logical import outer_columns
from unshuffle.plan.predicates import is_deterministic
from unshuffle.spark.reader.catalyst_tree import CatalystNode, Untranslatable

if TYPE_CHECKING:
    from unshuffle.spark.reader.expressions.expression_reader import ScopedReader


def attribute(reader: ScopedReader, node: CatalystNode) -> Expression:
    column = reader.scopes[-1].get(node.expr_id)
    if column is None:
        raise Untranslatable(f"the column {node.fields['name']}, which is not among the input's")
    return Ref(column)


def outer(reader: ScopedReader, node: CatalystNode) -> Expression:
    (reference,) = node.fields["e"]
    expr_id = reference["exprId"]["id"] if "exprId" in reference else -1
    for scope in reversed(reader.scopes[:-1]):
        if expr_id in scope:
            return Ref(scope[expr_id])
    raise Untranslatable("a column of a query further out")


def with_(reader: ScopedReader, node: CatalystNode) -> Expression | None:
    """One value that is used twice. A deterministic value may be written twice."""
    inside, *definitions = node.children
    if len(definitions) != 1 or any(each.kind == "With" for each in inside.walk()):
        return None
    value = reader.read(definitions[0].children[0])
    return type(reader)(reader.reader, reader.scopes, value).read(inside) if is_deterministic(value) else None


def subquery(reader: ScopedReader, node: CatalystNode) -> Expression:
    values, query = node.children[:-1], node.children[-1] if node.kind == "InSubquery" else node
    plan = reader.reader.subquery(query.plan(), reader.scopes)
    outer = outer_columns(plan)
    match node.kind:
        case "ScalarSubquery":
            return ScalarSubquery(plan, outer)
        case "Exists":
            return Exists(plan, outer)
        case _:
            return InSubquery(tuple(map(reader.read, values)), plan, outer)
