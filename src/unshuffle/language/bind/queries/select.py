"""One SELECT, bound in the order in which SQL evaluates it: FROM, WHERE, GROUP BY, aggregates, HAVING, windows, the SELECT
list, DISTINCT, ORDER BY, LIMIT.

All expressions are first bound over the input. Aggregates and window functions are then moved into the operators that compute
them, and the rest of each expression is rewritten over the operator's output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from unshuffle.catalog.schema import Column
from unshuffle.errors import NameProblem, TypeProblem
from unshuffle.frozen import dataclass
from unshuffle.language.bind.expressions.expression import ExpressionBinder
from unshuffle.language.bind.queries import unsupported
from unshuffle.language.bind.queries.aggregate import Aggregation
from unshuffle.language.bind.queries.from_clause import bind_from
from unshuffle.language.bind.queries.group_items import GroupItems
from unshuffle.language.bind.queries.order_by_all import is_all
from unshuffle.language.bind.queries.scope import Scope
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.plan.column_naming import unnamed
from unshuffle.plan.expressions import (
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
from unshuffle.plan.logical import Distinct, Filter, Plan, Project, Window

if TYPE_CHECKING:
    from unshuffle.language.bind.queries.query import QueryBinder

# The clauses of a SELECT that this binder understands.
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
    """An item of the SELECT list: its name and its expression."""

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
                raise unsupported.clause(clause)
        plan, scope = bind_from(self.query, self.select, self.outer)
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
            aggregation = self._aggregation(plan, scope, group)
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
        # A column without an alias is named as the query spells it, whatever its case in the input.
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
            raise TypeProblem(f"an aggregate is not allowed in {clause}", self.query.span(node), "use HAVING")
        if has_window(expression):
            raise TypeProblem(f"a window function is not allowed in {clause}", self.query.span(node), "use a sub-query")

    # --- ORDER BY and HAVING, bound over the input; parts that they share with the SELECT list are matched by equality

    def _order(self, scope: Scope, windows: Mapping[str, exp.Window]) -> list[SortKey]:
        order = self.select.args.get("order")
        if order is None:
            return []
        # A name means an output column first, then an input column.
        outputs: dict[str, Expression] = {}
        for item in self.items:
            outputs.setdefault(item.name.lower(), item.expression)
        binder = OutputFirst(self.query, scope, {}, windows, (), outputs)
        if is_all(order) and "all" not in outputs and scope.find(["all"], self.query.span(order)) is None:
            return [binder.sort_key(order.expressions[0], item.expression) for item in self.items]
        keys: list[SortKey] = []
        for ordered in order.expressions:
            ordinal = self.query.ordinal(ordered.this, [i.expression for i in self.items])
            keys.append(binder.sort_key(ordered, ordinal or binder.bind(ordered.this)))
        return keys

    def _having(self, node: exp.Expr, scope: Scope, windows: Mapping[str, exp.Window]) -> Expression:
        aliases = {item.alias.lower(): item.expression for item in self.items if item.alias}
        predicate = ExpressionBinder(self.query, scope, aliases, windows).predicate(node.this, "HAVING")
        if has_window(predicate):
            raise TypeProblem("a window function is not allowed in HAVING", self.query.span(node), "use a sub-query")
        return predicate

    # --- GROUP BY

    def _aggregation(self, plan: Plan, scope: Scope, group: exp.Expr | None) -> Aggregation:
        keys: list[Expression] = []
        sets: list[list[Expression]] | None = None
        if group is not None:
            if group.args.get("totals"):
                raise NotUnderstood("WITH TOTALS")
            if group.args.get("all"):
                keys = [i.expression for i in self.items if not is_aggregate(i.expression)]
                keys = list(dict.fromkeys(keys))
            else:
                aliases = {item.alias.lower(): item.expression for item in self.items if item.alias}
                binder = ExpressionBinder(self.query, scope, aliases)
                keys, sets = GroupItems(lambda node: self._group_key(binder, node)).of(group)
        return Aggregation(self.query, self.select, plan, tuple(dict.fromkeys(keys)), sets)

    def _group_key(self, binder: ExpressionBinder, node: exp.Expr) -> Expression:
        ordinal = self.query.ordinal(node, [i.expression for i in self.items])
        expression = ordinal if ordinal is not None else binder.bind(node)
        self._no_aggregates(expression, node, "GROUP BY")
        return expression

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
            expression, column = item.expression, None
            if isinstance(expression, Ref) and expression.column not in taken and expression.column.name == item.name:
                # None for a column of an outer query, which is another column where it is selected.
                column = next((c for c in plan.columns if c == expression.column), None)
            if column is None:
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
    """Looks an unqualified name up among the outputs of the SELECT list before the input."""

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
    """The expression with every part that is an output column replaced by that column."""
    if expression in made:
        return Ref(made[expression])
    if isinstance(expression, Lambda):
        return expression
    return map_operands(expression, lambda part: _over_outputs(part, made))


def _passes_all(plan: Plan, outputs: list[tuple[Column, Expression]]) -> bool:
    """Whether a projection would only repeat the plan's columns."""
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
