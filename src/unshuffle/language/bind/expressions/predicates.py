"""Predicates, CASE, IF and subqueries."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.type_coercion import common_type
from unshuffle.errors import TypeProblem
from unshuffle.language.bind.expressions.operators import BOOLEAN, binary
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.plan.expressions import Call, Case, Exists, Expression, InSubquery, Literal, ScalarSubquery
from unshuffle.plan.logical import outer_columns

if TYPE_CHECKING:
    from unshuffle.language.bind.expressions.expression import ExpressionBinder

_IS = {True: "is true", False: "is false"}


def is_(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    operand = binder.bind(node.this)
    if isinstance(node.expression, exp.Null):
        return Call("isnull", (operand,), BOOLEAN)
    if isinstance(node.expression, exp.Boolean):
        return Call(_IS[bool(node.expression.this)], (operand,), BOOLEAN)
    return binder.template(node)


def distinct_from(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return Call("not", (Call("<=>", (binder.bind(node.this), binder.bind(node.expression)), BOOLEAN),), BOOLEAN)


def between(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    if node.args.get("symmetric"):
        raise NotUnderstood("BETWEEN SYMMETRIC")
    parts = (binder.bind(node.this), binder.bind(node.args["low"]), binder.bind(node.args["high"]))
    return Call("between", parts, BOOLEAN)


def in_(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    if node.args.get("unnest") or node.args.get("field"):
        raise NotUnderstood("IN over something else than a list or a query")
    if query := node.args.get("query"):
        needle = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        plan = binder.query.subquery(query, binder.scope)
        operands = tuple(binder.bind(part) for part in needle)
        if len(plan.columns) != len(operands):
            message = f"IN compares {len(operands)} value(s) with a query of {len(plan.columns)} columns"
            raise TypeProblem(message, binder.query.span(node))
        return InSubquery(operands, plan, outer_columns(plan))
    return Call("in", (binder.bind(node.this), *(binder.bind(e) for e in node.expressions)), BOOLEAN)


def escape(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    like = binder.bind(node.this)
    if not isinstance(like, Call) or like.function not in ("like", "ilike"):
        return binder.template(node)
    return Call(like.function, (*like.arguments, binder.bind(node.expression)), BOOLEAN)


def like(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    if isinstance(node.expression, exp.Any | exp.All) or node.args.get("negate"):
        return binder.template(node)
    return binary(binder, node)


def scalar_subquery(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    plan = binder.query.subquery(node, binder.scope)
    if len(plan.columns) != 1:
        message = f"a query used as a value must have one column, but this has {len(plan.columns)}"
        raise TypeProblem(message, binder.query.span(node))
    return ScalarSubquery(plan, outer_columns(plan))


def exists(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    plan = binder.query.subquery(node.this, binder.scope)
    return Exists(plan, outer_columns(plan))


def case(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    operand = binder.bind(node.this) if node.this else None
    branches: list[tuple[Expression, Expression]] = []
    for when in node.args["ifs"]:
        if operand is None:
            condition = binder.predicate(when.this, "WHEN")
        else:
            condition = Call("=", (operand, binder.bind(when.this)), BOOLEAN)
        branches.append((condition, binder.bind(when.args["true"])))
    default = node.args.get("default")
    otherwise = binder.bind(default) if default is not None else None
    values = [value for _, value in branches] + ([otherwise] if otherwise is not None else [])
    return Case(tuple(branches), otherwise, reduce(common_type, (v.type for v in values)))


def if_(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    condition = binder.predicate(node.this, "IF")
    then = binder.bind(node.args["true"])
    otherwise = binder.bind(node.args["false"]) if node.args.get("false") else Literal(None, pa.null())
    return Call("if", (condition, then, otherwise), common_type(then.type, otherwise.type))
