"""JOIN: its kind, its condition, and the names of its columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.type_coercion import common_type
from unshuffle.errors import TypeProblem
from unshuffle.language.bind.expressions.call import is_unrepeatable
from unshuffle.language.bind.expressions.expression import ExpressionBinder
from unshuffle.language.bind.queries.scope import Scope, Visible
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.plan.expressions import Call, Expression, Ref, connect, has_window, is_aggregate
from unshuffle.plan.logical import Join, Plan, Project

if TYPE_CHECKING:
    from unshuffle.language.bind.queries.query import QueryBinder

_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT,
    ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.RIGHT,
    ("RIGHT", "OUTER"): JoinKind.RIGHT,
    ("FULL", ""): JoinKind.FULL,
    ("FULL", "OUTER"): JoinKind.FULL,
}


def bind_join(
    query: QueryBinder, node: exp.Join, left: tuple[Plan, Scope], right: tuple[Plan, Scope]
) -> tuple[Plan, Scope]:
    kind = _join_kind(node)
    (left_plan, left_scope), (right_plan, right_scope) = left, right
    both = left_scope + right_scope
    using = [i.name for i in node.args.get("using") or ()]
    if str(node.args.get("method") or "").upper() == "NATURAL":
        right_names = {e.name.lower() for e in right_scope.star()}
        using = [e.name for e in left_scope.star() if e.name.lower() in right_names]
    elif node.args.get("method"):
        raise NotUnderstood(f"{node.args['method']} JOIN")
    condition: Expression | None = None
    if using:
        condition = _using_condition(query, using, left_scope, right_scope, node)
    elif node.args.get("on") is not None:
        condition = ExpressionBinder(query, both).predicate(node.args["on"], "ON")
        if is_aggregate(condition) or has_window(condition):
            raise TypeProblem(
                "a join condition cannot hold an aggregate or window function", query.span(node.args["on"])
            )
        if is_unrepeatable(condition):
            message = "a function that is not declared deterministic cannot stand in ON"
            hint = "compute it in a SELECT before, or declare it with @unshuffle.function(..., deterministic=True)"
            raise TypeProblem(message, query.span(node.args["on"]), hint)
    plan: Plan = Join(kind, left_plan, right_plan, condition)
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return plan, left_scope
    if using:
        return _merge_columns(query, kind, plan, using, left_scope, right_scope)
    return plan, both


def _join_kind(node: exp.Join) -> JoinKind:
    side, kind = str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper()
    if kind in ("SEMI", "ANTI"):
        if side == "RIGHT":
            raise NotUnderstood("a right semi or anti join")
        return JoinKind.SEMI if kind == "SEMI" else JoinKind.ANTI
    if (side, kind) not in _KINDS:
        raise NotUnderstood(f"a {side} {kind} JOIN")
    return _KINDS[side, kind]


def _using_condition(query: QueryBinder, using: list[str], left: Scope, right: Scope, node: exp.Expr) -> Expression:
    equalities: list[Expression] = []
    for name in using:
        pair = []
        for scope in (left, right):
            local = Scope(scope.entries)
            match = local.find([name], query.span(node))
            if match is None:
                raise local.unknown([name], query.span(node))
            pair.append(Ref(match.column))
        equalities.append(Call("=", (pair[0], pair[1]), pa.bool_()))
    return connect("and", equalities)


def _merge_columns(
    query: QueryBinder, kind: JoinKind, plan: Plan, using: list[str], left: Scope, right: Scope
) -> tuple[Plan, Scope]:
    """USING and NATURAL: each shared column comes out once. It is the left one, the right one in a RIGHT JOIN, and in a
    FULL JOIN the first of the two that is not NULL."""
    lowered = [name.lower() for name in using]
    merged: list[Visible] = []
    computed: list[tuple[Column, Expression]] = []
    for name in using:
        a, b = (next(e for e in s.star() if e.name.lower() == name.lower()) for s in (left, right))
        if kind is JoinKind.FULL:
            type = common_type(a.column.type, b.column.type)
            column = query.numbers.new(a.name, type)
            computed.append((column, Call("coalesce", (Ref(a.column), Ref(b.column)), type)))
            merged.append(Visible(a.name, None, column))
        else:
            kept = b if kind is JoinKind.RIGHT else a
            merged.append(Visible(a.name, kept.qualifier, kept.column))
    if computed:
        plan = Project(plan, (*computed, *((c, Ref(c)) for c in plan.columns)))

    def rest(scope: Scope) -> list[Visible]:
        kept_columns = {m.column for m in merged}
        entries = []
        for entry in scope.entries:
            if entry.only_qualified or entry.name.lower() not in lowered:
                entries.append(entry)
            elif entry.column not in kept_columns:
                entries.append(replace(entry, only_qualified=True))
        return entries

    return plan, Scope((*merged, *rest(left), *rest(right)), left.parent)
