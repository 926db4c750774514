"""One SELECT, bound in the order SQL gives it meaning: FROM, WHERE, GROUP BY, aggregates, HAVING, windows, the SELECT
list, DISTINCT, ORDER BY, LIMIT.

All expressions are first bound over the input. Aggregates and window functions are then taken out of them, each into the
operator that computes it, and what is left is an expression over that operator's output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import TYPE_CHECKING

from sqlglot import exp

from unshuffle.algebra.expressions import (
    Exists,
    Expression,
    Field,
    Lambda,
    Literal,
    Ref,
    SortKey,
    WindowCall,
    columns_of,
    has_window,
    is_aggregate,
    map_operands,
    walk,
)
from unshuffle.algebra.logical import Distinct, Filter, Plan, Project, Window
from unshuffle.algebra.naming import unnamed
from unshuffle.catalog.schema import Column
from unshuffle.errors import NameProblem, TypeProblem
from unshuffle.language import not_understood
from unshuffle.language.bind_aggregate import Aggregation
from unshuffle.language.bind_expression import ExpressionBinder
from unshuffle.language.not_understood import NotUnderstood
from unshuffle.language.scope import Scope

if TYPE_CHECKING:
    from unshuffle.language.bind_query import QueryBinder

# The clauses of a SELECT that this binder gives meaning to.
_UNDERSTOOD = {
    "with_",
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "windows",
    "distinct",
    "order",
    "limit",
    "offset",
}


@dataclass(slots=True)
class _Item:
    """An item of the SELECT list: the name it goes by and what it is."""

    name: str
    expression: Expression
    alias: str | None


@dataclass(slots=True)
class SelectBinder:
    """Binds one SELECT."""

    query: QueryBinder
    select: exp.Select
    outer: Scope | None
    items: list[_Item] = field(default_factory=list)

    def bind(self) -> Plan:
        for clause, value in self.select.args.items():
            if value and clause not in _UNDERSTOOD:
                raise not_understood.clause(clause)
        plan, scope = self.query.from_clause(self.select, self.outer)
        windows = {w.name.lower(): w for w in self.select.args.get("windows") or ()}
        if where := self.select.args.get("where"):
            predicate = ExpressionBinder(self.query, scope).predicate(where.this, "WHERE")
            self._no_aggregates(predicate, where, "WHERE")
            plan = Filter(plan, predicate)
        self._select_list(scope, windows)
        order = self._order(scope, windows)
        having_node = self.select.args.get("having")
        having = self._having(having_node, scope, windows) if having_node else None
        group = self.select.args.get("group")
        everything = [i.expression for i in self.items] + [k.expression for k in order]
        if group is not None or having is not None or any(is_aggregate(e) for e in everything):
            plan, rewrite = self._grouped(plan, scope, group)
            aggregation = rewrite
            for item in self.items:
                item.expression = aggregation(item.expression)
            order = [replace(key, expression=aggregation(key.expression)) for key in order]
            having = aggregation(having) if having is not None else None
            plan = aggregation.plan()
            if having is not None:
                plan = Filter(plan, having)
        plan, order = self._windowed(plan, order)
        plan = self._projected(plan, order)
        return self.query.limit(self.select, plan)

    # --- the SELECT list

    def _select_list(self, scope: Scope, windows: Mapping[str, exp.Window]) -> None:
        aliases: dict[str, Expression] = {}
        binder = ExpressionBinder(self.query, scope, aliases, windows)
        for node in self.select.expressions:
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                self.items.extend(self._star(node, scope))
                continue
            if isinstance(node, exp.Aliases):
                raise NotUnderstood("several aliases for one item")
            alias = node.alias if isinstance(node, exp.Alias) else None
            expression = binder.bind(node.this if isinstance(node, exp.Alias) else node)
            self.items.append(_Item(alias or self._unnamed(node, expression), expression, alias))
            if alias:
                aliases.setdefault(alias.lower(), expression)
        if not self.items:
            raise TypeProblem("the SELECT list is empty", self.query.span(self.select))

    @staticmethod
    def _unnamed(node: exp.Expr, expression: Expression) -> str:
        # A column used without an alias is called as the query writes it, whatever its case where it was made.
        if isinstance(node, exp.Column) and isinstance(expression, Ref | Field):
            return node.name
        return unnamed(expression)

    def _star(self, node: exp.Expr, scope: Scope) -> list[_Item]:
        star = node if isinstance(node, exp.Star) else node.this
        qualifier = None if isinstance(node, exp.Star) else ".".join(p.name for p in node.parts[:-1])  # type: ignore[attr-defined]
        if star.args.get("replace") or star.args.get("rename"):
            raise NotUnderstood("* REPLACE")
        if qualifier is not None and not scope.has_qualifier(qualifier):
            if scope.find(qualifier.split("."), None):
                raise NotUnderstood("the fields of a struct as columns")
            raise NameProblem(f"unknown rowset {qualifier!r} before .*", self.query.span(node))
        dropped = {e.name.lower(): e for e in star.args.get("except_") or ()}
        entries = scope.star(qualifier)
        for name, part in dropped.items():
            if not any(entry.name.lower() == name for entry in entries):
                raise scope.unknown([part.name], self.query.span(part))
        kept = [e for e in entries if e.name.lower() not in dropped]
        return [_Item(entry.name, Ref(entry.column), None) for entry in kept]

    def _no_aggregates(self, expression: Expression, node: exp.Expr, clause: str) -> None:
        if is_aggregate(expression):
            raise TypeProblem(f"an aggregate cannot stand in {clause}", self.query.span(node), "use HAVING")
        if has_window(expression):
            raise TypeProblem(f"a window function cannot stand in {clause}", self.query.span(node), "use a sub-query")

    # --- ORDER BY and HAVING, bound over the input; what they share with the SELECT list is found again by equality

    def _order(self, scope: Scope, windows: Mapping[str, exp.Window]) -> list[SortKey]:
        order = self.select.args.get("order")
        if order is None:
            return []
        # Output columns come before input columns, under their alias or as the input column they are.
        outputs: dict[str, Expression] = {}
        for item in self.items:
            outputs.setdefault(item.name.lower(), item.expression)
        binder = OutputFirst(self.query, scope, {}, windows, (), outputs)
        keys: list[SortKey] = []
        for ordered in order.expressions:
            if isinstance(ordered.this, exp.Column) and ordered.this.name.upper() == "ALL" and "all" not in outputs:
                raise NotUnderstood("ORDER BY ALL")
            ordinal = self.query.ordinal(ordered.this, [i.expression for i in self.items])
            keys.append(binder.sort_key(ordered, ordinal or binder.bind(ordered.this)))
        return keys

    def _having(self, node: exp.Expr, scope: Scope, windows: Mapping[str, exp.Window]) -> Expression:
        aliases = {item.alias.lower(): item.expression for item in self.items if item.alias}
        predicate = ExpressionBinder(self.query, scope, aliases, windows).predicate(node.this, "HAVING")
        if has_window(predicate):
            raise TypeProblem("a window function cannot stand in HAVING", self.query.span(node), "use a sub-query")
        return predicate

    # --- GROUP BY

    def _grouped(self, plan: Plan, scope: Scope, group: exp.Expr | None) -> tuple[Plan, Aggregation]:
        keys: list[Expression] = []
        sets: list[list[Expression]] | None = None
        if group is not None:
            if group.args.get("totals"):
                raise NotUnderstood("WITH TOTALS")
            if group.args.get("all"):
                keys = [i.expression for i in self.items if not is_aggregate(i.expression)]
                keys = list(dict.fromkeys(keys))
            else:
                keys, sets = self._group_items(scope, group)
        return plan, Aggregation(self.query, self.select, plan, scope, tuple(dict.fromkeys(keys)), sets)

    def _group_items(self, scope: Scope, group: exp.Expr) -> tuple[list[Expression], list[list[Expression]] | None]:
        aliases = {item.alias.lower(): item.expression for item in self.items if item.alias}
        binder = ExpressionBinder(self.query, scope, aliases)

        def key(node: exp.Expr) -> Expression:
            ordinal = self.query.ordinal(node, [i.expression for i in self.items])
            expression = ordinal if ordinal is not None else binder.bind(node)
            self._no_aggregates(expression, node, "GROUP BY")
            return expression

        def tuple_keys(node: exp.Expr) -> list[Expression]:
            if isinstance(node, exp.Tuple):
                return [key(part) for part in node.expressions]
            return [key(node.this if isinstance(node, exp.Paren) else node)]

        def alternatives(node: exp.Expr) -> list[list[Expression]]:
            if isinstance(node, exp.Rollup):
                parts = [tuple_keys(e) for e in node.expressions]
                return [[k for part in parts[:n] for k in part] for n in range(len(parts), -1, -1)]
            if isinstance(node, exp.Cube):
                parts = [tuple_keys(e) for e in node.expressions]
                choices = [c for n in range(len(parts), -1, -1) for c in combinations(parts, n)]
                return [[k for part in choice for k in part] for choice in choices]
            if isinstance(node, exp.GroupingSets):
                nested = (exp.Rollup, exp.Cube, exp.GroupingSets)
                return [
                    s for e in node.expressions for s in (alternatives(e) if isinstance(e, nested) else [tuple_keys(e)])
                ]
            return [[key(node)]]

        plain = list(group.expressions)
        grouping = [n for n in plain if isinstance(n, exp.Rollup | exp.Cube | exp.GroupingSets)]
        for clause in ("rollup", "cube", "grouping_sets"):
            for node in group.args.get(clause) or ():
                if clause != "grouping_sets" and not node.expressions:  # GROUP BY a, b WITH ROLLUP
                    node = type(node)(expressions=plain)
                    plain = []
                elif clause == "grouping_sets":  # GROUP BY a, b GROUPING SETS (..): the sets alone, of these columns
                    plain = []
                plain.append(node)
                grouping.append(node)
        if not grouping:
            return [key(node) for node in plain], None
        crossed = product(*(alternatives(node) for node in plain))
        sets = [list(dict.fromkeys(k for part in choice for k in part)) for choice in crossed]
        return [k for s in sets for k in s], sets

    # --- windows, the final projection, DISTINCT and ORDER BY

    def _windowed(self, plan: Plan, order: list[SortKey]) -> tuple[Plan, list[SortKey]]:
        calls: dict[WindowCall, Column] = {}

        def extract(expression: Expression) -> Expression:
            if isinstance(expression, WindowCall):
                if any(isinstance(p, WindowCall) for p in walk(expression) if p is not expression):
                    raise NotUnderstood("a window function inside another")
                if expression not in calls:
                    calls[expression] = self.query.numbers.new(expression.call.function, expression.type)
                return Ref(calls[expression])
            return map_operands(expression, extract)

        for item in self.items:
            item.expression = extract(item.expression)
        order = [replace(key, expression=extract(key.expression)) for key in order]
        if calls:
            plan = Window(plan, tuple((column, call) for call, column in calls.items()))
        return plan, order

    def _projected(self, plan: Plan, order: list[SortKey]) -> Plan:
        outputs: list[tuple[Column, Expression]] = []
        taken: set[Column] = set()
        for item in self.items:
            expression = item.expression
            if isinstance(expression, Ref) and expression.column not in taken and expression.column.name == item.name:
                column = next((c for c in plan.columns if c == expression.column), expression.column)
            else:
                column = self.query.numbers.new(item.name, expression.type, _nullable(expression))
            taken.add(column)
            outputs.append((column, expression))
        distinct = self.select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise NotUnderstood("DISTINCT ON")
        keep = [column for column, _ in outputs]
        made = {expression: column for column, expression in reversed(outputs)}
        keys = [replace(k, expression=_over_outputs(k.expression, made)) for k in order]
        inside = set(keep)
        hidden = sorted({c for k in keys for c in columns_of(k.expression)} - inside, key=lambda c: c.id)
        hidden = [c for c in hidden if c in set(plan.columns)]
        if distinct is not None and hidden:
            message = f"ORDER BY after SELECT DISTINCT can only use what is selected, not {hidden[0].name!r}"
            raise NameProblem(message, self.query.span(self.select.args["order"]))
        if not _passes_all(plan, outputs) or hidden:
            plan = Project(plan, (*outputs, *((c, Ref(c)) for c in hidden)))
        if distinct is not None:
            plan = Distinct(plan)
        return self.query.sort(plan, keys, keep) if keys else plan


class OutputFirst(ExpressionBinder):
    """Looks a bare name up among the SELECT list's outputs before the input."""

    __slots__ = ("outputs",)

    def __init__(
        self,
        query: QueryBinder,
        scope: Scope,
        aliases: Mapping[str, Expression],
        windows: Mapping[str, exp.Window],
        variables: tuple[()],
        outputs: Mapping[str, Expression],
    ) -> None:
        super().__init__(query, scope, aliases, windows, variables)
        self.outputs = outputs

    def bind(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in self.outputs:
            return self.outputs[node.name.lower()]
        return super().bind(node)


def _over_outputs(expression: Expression, made: Mapping[Expression, Column]) -> Expression:
    """The expression over output columns wherever a part of it is one."""
    if expression in made:
        return Ref(made[expression])
    if isinstance(expression, Lambda):
        return expression
    return map_operands(expression, lambda part: _over_outputs(part, made))


def _passes_all(plan: Plan, outputs: list[tuple[Column, Expression]]) -> bool:
    """Whether a projection would change nothing."""
    columns = [column for column, _ in outputs]
    return columns == list(plan.columns) and all(isinstance(e, Ref) and e.column == c for c, e in outputs)


def _nullable(expression: Expression) -> bool:
    match expression:
        case Ref(column):
            return column.nullable
        case Literal(value):
            return value is None
        case Exists():
            return False
        case _:
            return True
