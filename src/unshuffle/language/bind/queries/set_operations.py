"""UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from unshuffle.catalog.type_coercion import common_type
from unshuffle.catalog.types import spark_name
from unshuffle.errors import TypeProblem
from unshuffle.language.bind.queries.scope import Scope
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.plan.logical import Plan, SetKind, SetOperation

if TYPE_CHECKING:
    from unshuffle.language.bind.queries.query import QueryBinder


def bind_set_operation(query: QueryBinder, node: exp.SetOperation, scope: Scope) -> Plan:
    if node.args.get("by_name") or node.args.get("side") or node.args.get("kind") or node.args.get("on"):
        raise NotUnderstood("a set operation by name")
    kind = {exp.Union: SetKind.UNION, exp.Intersect: SetKind.INTERSECT, exp.Except: SetKind.EXCEPT}[type(node)]
    # Left-deep chains of hundreds of UNION ALLs are common: no recursion on the left.
    links: list[exp.SetOperation] = [node]
    first: exp.Expr = node.this
    while type(first) is type(node) and not any(first.args.get(k) for k in ("order", "limit", "offset", "with_")):
        links.append(first)
        first = first.this
    nodes = [first, *(link.expression for link in reversed(links))]
    plans = [query.bind(operand, scope) for operand in nodes]
    keeps_all = [not link.args.get("distinct") for link in reversed(links)]
    plan = plans[0]
    while keeps_all:
        # UNION ALLs in a row are one operator.
        count = 1
        if kind is SetKind.UNION and keeps_all[0]:
            count = next((i for i, all_rows in enumerate(keeps_all) if not all_rows), len(keeps_all))
        plan = _operator_over(query, kind, keeps_all[0], [plan, *plans[1 : count + 1]], nodes[: count + 1])
        plans, nodes, keeps_all = plans[count:], nodes[count:], keeps_all[count:]
    return plan


def _operator_over(
    query: QueryBinder, kind: SetKind, all_rows: bool, plans: Sequence[Plan], nodes: Sequence[exp.Expr]
) -> Plan:
    word = kind.value.upper()
    first = plans[0]
    types = [column.type for column in first.columns]
    for plan, node in zip(plans[1:], nodes[1:], strict=True):
        if len(plan.columns) != len(first.columns):
            widths = f"{len(first.columns)} and {len(plan.columns)}"
            message = f"{word} needs rowsets with the same number of columns, but these have {widths}"
            hint = f"one has: {_column_list(first)}; the other: {_column_list(plan)}"
            raise TypeProblem(message, query.span(node), hint)
        for i, column in enumerate(plan.columns):
            type = common_type(types[i], column.type)
            if type is None and types[i] is not None and column.type is not None:
                one = f"{first.columns[i].name!r} ({spark_name(types[i])})"
                other = f"{column.name!r} ({spark_name(column.type)})"
                message = f"{word}: the columns {one} and {other} do not match"
                raise TypeProblem(message, query.span(node), "cast one of them")
            types[i] = type
    columns = tuple(
        query.numbers.new(column.name, types[i], any(plan.columns[i].nullable for plan in plans))
        for i, column in enumerate(first.columns)
    )
    return SetOperation(kind, all_rows, tuple(plans), columns)


def _column_list(plan: Plan) -> str:
    return ", ".join(column.name for column in plan.columns)
