"""From a sqlglot query to a logical plan.

`QueryBinder` binds WITH, ORDER BY and LIMIT. FROM, joins, set operations, SELECT and GROUP BY have a file each.
Grouping and sorting are by columns: an expression used as a key is computed by a Project first, so that properties can refer
to it. Names follow Spark's rules: a GROUP BY or ORDER BY item may be a number or an alias, a SELECT item may use the alias
of an earlier one, HAVING prefers input columns to aliases.

A query, or the innermost part of one, with a construct that only Spark understands becomes one `Foreign` operator over the
rowsets it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from sqlglot import exp

from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.errors import NameProblem, Source, Span, TypeProblem
from unshuffle.frozen import dataclass
from unshuffle.language.bind.environment import Environment
from unshuffle.language.bind.expressions.expression import ExpressionBinder
from unshuffle.language.bind.queries import unsupported
from unshuffle.language.bind.queries.from_clause import bind_relation, bind_values
from unshuffle.language.bind.queries.order_by_all import is_all
from unshuffle.language.bind.queries.scope import Scope
from unshuffle.language.bind.queries.select import SelectBinder
from unshuffle.language.bind.queries.set_operations import bind_set_operation
from unshuffle.language.bind.queries.spark_fallback import leave_to_spark
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.language.bind.user_modules import UserModules
from unshuffle.language.parse.parameters import Parameters, constant
from unshuffle.language.parse.preprocess import Macro
from unshuffle.language.parse.statements import Argument, Body
from unshuffle.plan.expressions import Expression, Ref, SortKey
from unshuffle.plan.logical import (
    Limit,
    Plan,
    Project,
    Sort,
    outer_columns,
)

Relation = Callable[[], Plan]  # the plan of one more use of a named rowset
Tables = Callable[[Sequence[str], Span], Plan]
Streams = Callable[[str, Span], Plan]
ViewCalls = Callable[[str, Sequence[Argument], Span], Plan | None]
Operators = Callable[[Body, Span], Plan]


@dataclass(slots=True)
class QueryBinder:
    """Binds the queries of one statement."""

    source: Source
    statement: Span
    numbers: ColumnNumbers
    parameters: Parameters
    environment: Environment
    table: Tables  # a rowset or table by name, for one more use; raises if there is none
    stream: Streams
    share: Callable[[str, Plan], Relation]  # a rowset that may be used more than once
    modules: UserModules
    view: ViewCalls  # one more use of a view with arguments; None if there is no such view
    operator: Operators  # a PROCESS, REDUCE, COMBINE or EXTRACT in a FROM clause
    macros: Mapping[str, Macro] = field(default_factory=dict)
    ctes: dict[str, Relation] = field(default_factory=dict)

    # --- positions

    def name_span(self, node: exp.Expr) -> Span:
        """The position of the name of a function."""
        return self.source.span(node.meta["start"], node.meta["end"] + 1) if "start" in node.meta else self.span(node)

    def span(self, node: exp.Expr) -> Span:
        places = [part.meta for part in node.walk() if "start" in part.meta]
        if not places:
            return self.statement
        return self.source.span(min(p["start"] for p in places), max(p["end"] for p in places) + 1)

    # --- queries

    def query(self, node: exp.Expr, outer: Scope | None = None) -> Plan:
        """The plan of a query. It is a `Foreign` if only Spark understands the query."""
        scope = Scope((), outer)
        try:
            return self.bind(node, scope)
        except NotUnderstood as reason:
            return leave_to_spark(self, node, str(reason))

    def relation(self, node: exp.Expr) -> tuple[Plan, Scope]:
        """A rowset by name, or a query in parentheses, and the names of its columns."""
        return bind_relation(self, node, Scope())

    def subquery(self, query: exp.Expr, outer: Scope) -> Plan:
        """A query inside an expression. It may read columns of the query around it; a `Foreign` cannot."""
        return self.bind(query, Scope((), outer))

    def bind(self, node: exp.Expr, scope: Scope) -> Plan:
        known = dict(self.ctes)
        try:
            self._with(node, scope)
            if isinstance(node, exp.Select):
                return SelectBinder(self, node, scope.parent).bind()
            if isinstance(node, exp.SetOperation):
                return self._modifiers(node, bind_set_operation(self, node, scope), scope)
            if isinstance(node, exp.Subquery):
                if node.args.get("pivots") or node.args.get("sample"):
                    raise NotUnderstood("PIVOT or TABLESAMPLE")
                return self._modifiers(node, self.bind(node.this, scope), scope)
            if isinstance(node, exp.Values):
                return bind_values(self, node, scope)[0]
            if isinstance(node, exp.Table):
                return bind_relation(self, node, scope)[0]
        finally:
            self.ctes = known
        raise NotUnderstood(f"a query of the kind {node.key}")

    def _with(self, node: exp.Expr, scope: Scope) -> None:
        with_ = node.args.get("with_")
        if with_ is None:
            return
        if with_.args.get("recursive"):
            raise NotUnderstood("a recursive WITH")
        for cte in with_.expressions:
            plan = self.query(cte.this, scope.parent)
            if outer_columns(plan):
                raise NotUnderstood("a WITH query that reads columns of the query around it")
            alias = cte.args["alias"]
            if alias.columns:
                plan = self._rename(plan, [c.name for c in alias.columns], cte)
            self.ctes[alias.name.lower()] = self.share(alias.name, plan)

    def _rename(self, plan: Plan, names: list[str], node: exp.Expr) -> Plan:
        if len(names) != len(plan.columns):
            message = f"{len(names)} column name(s) for {len(plan.columns)} column(s)"
            raise TypeProblem(message, self.span(node))
        pairs = zip(names, plan.columns, strict=True)
        return Project(plan, tuple((self.numbers.like(column, name), Ref(column)) for name, column in pairs))

    def _modifiers(self, node: exp.Expr, plan: Plan, scope: Scope) -> Plan:
        """ORDER BY, LIMIT and OFFSET after a set operation or a query in parentheses."""
        for clause in ("laterals", "sort", "cluster", "distribute", "joins", "hint"):
            if node.args.get(clause):
                raise unsupported.clause(clause)
        if order := node.args.get("order"):
            binder = ExpressionBinder(self, Scope.of(plan.columns, None, scope.parent))
            keys: list[SortKey] = []
            if is_all(order) and all(column.name.lower() != "all" for column in plan.columns):
                keys = [binder.sort_key(order.expressions[0], Ref(column)) for column in plan.columns]
                return self.limit(node, self.sort(plan, keys, plan.columns))
            for ordered in order.expressions:
                expression = self.ordinal(ordered.this, [Ref(c) for c in plan.columns]) or binder.bind(ordered.this)
                keys.append(binder.sort_key(ordered, expression))
            plan = self.sort(plan, keys, plan.columns)
        return self.limit(node, plan)

    def ordinal(self, node: exp.Expr, items: Sequence[Expression]) -> Expression | None:
        """`ORDER BY 2`: the second item."""
        if not isinstance(node, exp.Literal) or node.args.get("is_string") or not node.name.isdigit():
            return None
        number = int(node.name)
        if not 1 <= number <= len(items):
            message = f"position {number} is not in the SELECT list, which has {len(items)} item(s)"
            raise NameProblem(message, self.span(node))
        return items[number - 1]

    def sort(self, plan: Plan, keys: Sequence[SortKey], keep: Sequence[Column]) -> Plan:
        """Sorts by columns. A key that is an expression is computed before the sort and dropped after it."""
        computed: list[tuple[Column, Expression]] = []
        columns: list[SortKey] = []
        for key in keys:
            if isinstance(key.expression, Ref):
                columns.append(key)
                continue
            column = next((c for c, e in computed if e == key.expression), None)
            if column is None:
                column = self.numbers.new("key", key.expression.type)
                computed.append((column, key.expression))
            columns.append(replace(key, expression=Ref(column)))
        if computed:
            plan = Project(plan, (*((c, Ref(c)) for c in plan.columns), *computed))
        plan = Sort(plan, tuple(columns))
        return plan if tuple(plan.columns) == tuple(keep) else Project(plan, tuple((c, Ref(c)) for c in keep))

    def limit(self, node: exp.Expr, plan: Plan) -> Plan:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        count = self._count(limit, "LIMIT") if limit is not None else None
        skip = self._count(offset, "OFFSET") if offset is not None else None
        return plan if count is None and not skip else Limit(plan, count, skip or 0)

    def _count(self, clause: exp.Expr, word: str) -> int | None:
        if not isinstance(clause, exp.Limit | exp.Offset) or clause.args.get("offset"):
            raise NotUnderstood(f"this form of {word}")
        expression = clause.expression
        if isinstance(expression, exp.Column | exp.Var) and expression.name.upper() == "ALL":
            return None
        value = constant(expression, self.parameters, self.span(clause)).value
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise TypeProblem(f"{word} needs a whole number that is not negative", self.span(clause))
        return value
