"""From a sqlglot query to a logical plan.

A SELECT is bound in the order SQL gives it meaning: FROM, WHERE, GROUP BY, aggregates, HAVING, windows, the SELECT list,
DISTINCT, ORDER BY, LIMIT. Grouping and sorting are by columns: an expression used as a key is computed by a Project
first, so that properties can speak of it. Names follow Spark's rules: a GROUP BY or ORDER BY item may be a number or an
alias, a SELECT item may use the alias of an earlier one, HAVING prefers input columns to aliases.

A query, or the innermost part of one, that holds something only Spark understands becomes one `Foreign` operator over
the rowsets it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

import pyarrow as pa
from sqlglot import exp

from unshuffle.algebra.expressions import (
    AggregateCall,
    Call,
    Exists,
    Expression,
    Field,
    InSubquery,
    Lambda,
    Literal,
    Ref,
    ScalarSubquery,
    SortKey,
    WindowCall,
    columns_of,
    has_window,
    is_aggregate,
    map_operands,
    walk,
)
from unshuffle.algebra.logical import (
    Distinct,
    Filter,
    Foreign,
    GroupBy,
    GroupingSets,
    Join,
    JoinKind,
    Limit,
    Plan,
    Project,
    SetKind,
    SetOperation,
    Sort,
    Values,
    Window,
    outer_columns,
)
from unshuffle.algebra.sql import literal, unnamed
from unshuffle.catalog.schema import Column, ColumnNumbers, DataType
from unshuffle.catalog.types import common_type, spark_name
from unshuffle.errors import NameProblem, Source, Span, TypeProblem
from unshuffle.language.bind_expression import ExpressionBinder, NotUnderstood
from unshuffle.language.dialect import Scope as ScopeDialect
from unshuffle.language.dialect import StreamTable, read_pipes_by_form
from unshuffle.language.environment import Environment
from unshuffle.language.parameters import Parameters, constant
from unshuffle.language.scope import Scope, Visible

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

Relation = Callable[[], Plan]  # makes a plan for one more use of a named rowset
Tables = Callable[[Sequence[str], Span], Plan]
Streams = Callable[[str, Span], Plan]


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
    ctes: dict[str, Relation] = field(default_factory=dict)

    # --- where things stand

    def span(self, node: exp.Expr) -> Span:
        places = [part.meta for part in node.walk() if "start" in part.meta]
        if not places:
            return self.statement
        return self.source.span(min(p["start"] for p in places), max(p["end"] for p in places) + 1)

    # --- queries

    def query(self, node: exp.Expr, outer: Scope | None = None) -> Plan:
        """The plan of a query; Foreign if it is not understood."""
        scope = Scope((), outer)
        try:
            return self._bind(node, scope)
        except NotUnderstood as reason:
            return self._foreign(node, str(reason), outer)

    def relation(self, node: exp.Expr) -> tuple[Plan, Scope]:
        """A rowset by name, or a query in parentheses, with the names its columns go by."""
        return self._from(node, Scope())

    def subquery(self, query: exp.Expr, outer: Scope) -> Plan:
        """A query inside an expression. It may read columns of the query around it, which a Foreign cannot."""
        return self._bind(query, Scope((), outer))

    def _bind(self, node: exp.Expr, scope: Scope) -> Plan:
        known = dict(self.ctes)
        try:
            self._with(node, scope)
            if isinstance(node, exp.Select):
                return SelectBinder(self, node, scope.parent).bind()
            if isinstance(node, exp.SetOperation):
                return self._modifiers(node, self._set_operation(node, scope), scope)
            if isinstance(node, exp.Subquery):
                if node.args.get("pivots") or node.args.get("sample"):
                    raise NotUnderstood("PIVOT or TABLESAMPLE")
                return self._modifiers(node, self._bind(node.this, scope), scope)
            if isinstance(node, exp.Values):
                return self._values(node, scope)[0]
            if isinstance(node, exp.Table):
                return self._from(node, scope)[0]
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
                raise NotUnderstood(clause.upper())
        if order := node.args.get("order"):
            binder = ExpressionBinder(self, Scope.of(plan.columns, None, scope.parent))
            keys: list[SortKey] = []
            for ordered in order.expressions:
                expression = self._ordinal(ordered.this, [Ref(c) for c in plan.columns]) or binder.bind(ordered.this)
                keys.append(binder.sort_key(ordered, expression))
            plan = self.sort(plan, keys, plan.columns)
        return self._limit(node, plan)

    def _ordinal(self, node: exp.Expr, items: Sequence[Expression]) -> Expression | None:
        """`ORDER BY 2`: the second item."""
        if not isinstance(node, exp.Literal) or node.args.get("is_string") or not node.name.isdigit():
            return None
        number = int(node.name)
        if not 1 <= number <= len(items):
            message = f"position {number} is not in the SELECT list, which has {len(items)} item(s)"
            raise NameProblem(message, self.span(node))
        return items[number - 1]

    def sort(self, plan: Plan, keys: Sequence[SortKey], keep: Sequence[Column]) -> Plan:
        """Sorts by columns: a key that is an expression is computed first and dropped after."""
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

    def _limit(self, node: exp.Expr, plan: Plan) -> Plan:
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
            raise TypeProblem(f"{word} needs a whole number, not negative", self.span(clause))
        return value

    # --- set operations

    def _set_operation(self, node: exp.SetOperation, scope: Scope) -> Plan:
        if node.args.get("by_name") or node.args.get("side") or node.args.get("kind") or node.args.get("on"):
            raise NotUnderstood("a set operation by name")
        kind = {exp.Union: SetKind.UNION, exp.Intersect: SetKind.INTERSECT, exp.Except: SetKind.EXCEPT}[type(node)]
        # Left-deep chains of hundreds of UNION ALLs are usual: no recursion on the left.
        links: list[exp.SetOperation] = [node]
        first: exp.Expr = node.this
        while type(first) is type(node) and not any(first.args.get(k) for k in ("order", "limit", "offset", "with_")):
            links.append(first)
            first = first.this
        plan = self._bind(first, scope)
        for link in reversed(links):
            plan = self._set_pair(kind, link, plan, self._bind(link.expression, scope))
        return plan

    def _set_pair(self, kind: SetKind, node: exp.SetOperation, left: Plan, right: Plan) -> Plan:
        word = kind.value.upper()
        if len(left.columns) != len(right.columns):
            widths = f"{len(left.columns)} and {len(right.columns)}"
            message = f"{word} needs two rowsets of as many columns, but these have {widths}"
            hint = f"the first has: {_listed(left)}; the second: {_listed(right)}"
            raise TypeProblem(message, self.span(node.expression), hint)
        columns = []
        for a, b in zip(left.columns, right.columns, strict=True):
            type = common_type(a.type, b.type)
            if type is None and a.type is not None and b.type is not None:
                pair = f"{a.name!r} ({spark_name(a.type)}) and {b.name!r} ({spark_name(b.type)})"
                message = f"{word}: the columns {pair} do not match"
                raise TypeProblem(message, self.span(node.expression), "cast one of them")
            columns.append(self.numbers.new(a.name, type, a.nullable or b.nullable))
        return SetOperation(kind, not node.args.get("distinct"), left, right, tuple(columns))

    # --- FROM

    def from_clause(self, select: exp.Select, outer: Scope | None) -> tuple[Plan, Scope]:
        base = Scope((), outer)
        from_ = select.args.get("from_")
        if from_ is None:
            return Values(((),), ()), base
        return self._joined(self._from(from_.this, base), select.args.get("joins") or [], base)

    def _joined(self, first: tuple[Plan, Scope], joins: list[exp.Join], base: Scope) -> tuple[Plan, Scope]:
        # In Spark a comma binds looser than JOIN: a, b RIGHT JOIN c is a x (b RIGHT JOIN c).
        groups: list[tuple[Plan, Scope]] = [first]
        for join in joins:
            right = self._from(join.this, base)
            if _is_comma(join):
                groups.append(right)
            else:
                groups[-1] = self._join(join, groups[-1], right)
        plan, scope = groups[0]
        for right_plan, right_scope in groups[1:]:
            plan, scope = Join(JoinKind.CROSS, plan, right_plan, None), scope + right_scope
        return plan, scope

    def _from(self, node: exp.Expr, base: Scope) -> tuple[Plan, Scope]:
        for clause in (
            "pivots",
            "sample",
            "laterals",
            "version",
            "when",
            "hints",
            "changes",
            "partition",
            "ordinality",
        ):
            if node.args.get(clause):
                raise NotUnderstood(clause.upper())
        if isinstance(node, exp.Table):
            if not isinstance(node.this, exp.Identifier):
                raise NotUnderstood("a table function")
            plan, scope = self._aliased(node, self._named(node), node.name, base)
        elif isinstance(node, StreamTable):
            plan, scope = self._aliased(node, self.stream(node.name, self.span(node)), None, base)
        elif isinstance(node, exp.Values):
            plan, scope = self._values(node, base)
        elif isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Table):
                plan, scope = self._from(node.this, base)
                if node.args.get("alias") is not None:
                    scope = scope.renamed(*self._alias(node, plan))
            else:
                plan, scope = self._aliased(node, self.query(node.this, base.parent), None, base)
        else:
            raise NotUnderstood(f"{node.key} in FROM")
        if node.args.get("joins"):
            plan, scope = self._joined((plan, scope), node.args["joins"], base)
        return plan, scope

    def _named(self, node: exp.Table) -> Plan:
        parts = [part.name for part in node.parts]
        if len(parts) == 1 and parts[0].lower() in self.ctes:
            return self.ctes[parts[0].lower()]()
        return self.table(parts, self.span(node.this))

    def _alias(self, node: exp.Expr, plan: Plan) -> tuple[str, list[str] | None]:
        alias = node.args["alias"]
        names = [c.name for c in alias.columns] or None
        if names is not None and len(names) != len(plan.columns):
            message = f"{len(names)} column name(s) for {len(plan.columns)} column(s)"
            raise TypeProblem(message, self.span(node))
        return alias.name, names

    def _aliased(self, node: exp.Expr, plan: Plan, name: str | None, base: Scope) -> tuple[Plan, Scope]:
        scope = Scope.of(plan.columns, name, base.parent)
        if node.args.get("alias") is not None:
            scope = scope.renamed(*self._alias(node, plan))
        return plan, scope

    def _values(self, node: exp.Values, base: Scope) -> tuple[Plan, Scope]:
        binder = ExpressionBinder(self, base)
        rows: list[tuple[Expression, ...]] = []
        for row in node.expressions:
            parts = row.expressions if isinstance(row, exp.Tuple) else [row.this if isinstance(row, exp.Paren) else row]
            rows.append(tuple(binder.bind(part) for part in parts))
        if any(len(row) != len(rows[0]) for row in rows):
            raise TypeProblem("the rows of VALUES have different numbers of columns", self.span(node))
        columns = []
        for i in range(len(rows[0])):
            type: DataType = rows[0][i].type
            for row in rows[1:]:
                type = common_type(type, row[i].type)
            columns.append(self.numbers.new(f"col{i + 1}", type))
        plan = Values(tuple(rows), tuple(columns))
        return self._aliased(node, plan, None, base)

    # --- joins

    def _join(self, node: exp.Join, left: tuple[Plan, Scope], right: tuple[Plan, Scope]) -> tuple[Plan, Scope]:
        kind = self._join_kind(node)
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
            condition = self._using_condition(using, left_scope, right_scope, node)
        elif node.args.get("on") is not None:
            condition = ExpressionBinder(self, both).predicate(node.args["on"], "ON")
            if is_aggregate(condition) or has_window(condition):
                raise TypeProblem(
                    "a join condition cannot hold an aggregate or window function", self.span(node.args["on"])
                )
        if kind is JoinKind.INNER and condition is None:
            kind = JoinKind.CROSS
        elif kind is JoinKind.CROSS and condition is not None:
            kind = JoinKind.INNER
        plan: Plan = Join(kind, left_plan, right_plan, condition)
        if kind in (JoinKind.SEMI, JoinKind.ANTI):
            return plan, left_scope
        if using:
            return self._merged(kind, plan, using, left_scope, right_scope)
        return plan, both

    def _join_kind(self, node: exp.Join) -> JoinKind:
        side, kind = str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper()
        if kind in ("SEMI", "ANTI"):
            if side == "RIGHT":
                raise NotUnderstood("a right semi or anti join")
            return JoinKind.SEMI if kind == "SEMI" else JoinKind.ANTI
        try:
            return {
                ("", ""): JoinKind.INNER,
                ("", "INNER"): JoinKind.INNER,
                ("", "CROSS"): JoinKind.CROSS,
                ("LEFT", ""): JoinKind.LEFT,
                ("LEFT", "OUTER"): JoinKind.LEFT,
                ("RIGHT", ""): JoinKind.RIGHT,
                ("RIGHT", "OUTER"): JoinKind.RIGHT,
                ("FULL", ""): JoinKind.FULL,
                ("FULL", "OUTER"): JoinKind.FULL,
            }[side, kind]
        except KeyError:
            raise NotUnderstood(f"a {side} {kind} JOIN") from None

    def _using_condition(self, using: list[str], left: Scope, right: Scope, node: exp.Expr) -> Expression:
        condition: Expression | None = None
        for name in using:
            pair = []
            for scope in (left, right):
                local = Scope(scope.entries)
                found = local.find([name], self.span(node))
                if found is None:
                    raise local.unknown([name], self.span(node))
                pair.append(Ref(found.column))
            equal = Call("=", (pair[0], pair[1]), pa.bool_())
            condition = equal if condition is None else Call("and", (condition, equal), pa.bool_())
        assert condition is not None
        return condition

    def _merged(self, kind: JoinKind, plan: Plan, using: list[str], left: Scope, right: Scope) -> tuple[Plan, Scope]:
        """USING and NATURAL: each shared column comes out once, from the side that has it."""
        lowered = [name.lower() for name in using]
        merged: list[Visible] = []
        computed: list[tuple[Column, Expression]] = []
        for name in using:
            a, b = (next(e for e in s.star() if e.name.lower() == name.lower()) for s in (left, right))
            if kind is JoinKind.FULL:
                type = common_type(a.column.type, b.column.type)
                column = self.numbers.new(a.name, type)
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

    # --- what only Spark understands

    def _foreign(self, node: exp.Expr, reason: str, outer: Scope | None) -> Plan:
        """One operator around a query: Spark gets its text, over inputs that we still bind and can optimize."""
        copied = read_pipes_by_form(node.copy())
        inputs: list[tuple[str, Plan]] = []
        own = {cte.alias.lower() for cte in copied.find_all(exp.CTE)}

        def parameter(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Parameter):
                value = self.parameters.get(part.name, self.statement)
                return exp.Var(this=literal(value.value, value.type))
            return part

        copied = copied.transform(parameter)
        for table in list(copied.find_all(exp.Table, StreamTable)):
            name = f"input_{len(inputs) + 1}"
            if isinstance(table, StreamTable):
                plan, shown = self.stream(table.name, self.span(table)), None
            elif not isinstance(table.this, exp.Identifier) or table.name.lower() in own:
                continue
            else:
                plan, shown = self._named(table), table.name
            inputs.append((name, plan))
            replacement = exp.Table(
                this=exp.to_identifier(name),
                **{k: v for k, v in table.args.items() if k != "this" and k not in ("db", "catalog")},
            )
            if shown and not replacement.args.get("alias"):
                replacement.set("alias", exp.TableAlias(this=exp.to_identifier(shown, quoted=True)))
            table.replace(replacement)
        sql = copied.sql(dialect=ScopeDialect)
        try:
            described = self.environment.describe(
                sql, [(name, [(c.name, c.type, c.nullable) for c in plan.columns]) for name, plan in inputs]
            )
        except TypeProblem as problem:
            raise TypeProblem(problem.message, problem.span or self.span(node), problem.hint) from None
        columns = tuple(self.numbers.new(name, type, nullable) for name, type, nullable in described)
        return Foreign(sql, tuple(inputs), columns, reason)


def _is_comma(join: exp.Join) -> bool:
    # sqlglot makes a CROSS join of `a, b` too; only the one that was written out went through the parser's pivots.
    return join.args.get("kind") == "CROSS" and "pivots" not in join.args


def _listed(plan: Plan) -> str:
    return ", ".join(column.name for column in plan.columns)


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
                raise NotUnderstood(clause.rstrip("_").upper())
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
        return self.query._limit(self.select, plan)

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
        binder = _OutputFirst(self.query, scope, {}, windows, (), outputs)
        keys: list[SortKey] = []
        for ordered in order.expressions:
            if isinstance(ordered.this, exp.Column) and ordered.this.name.upper() == "ALL" and "all" not in outputs:
                raise NotUnderstood("ORDER BY ALL")
            ordinal = self.query._ordinal(ordered.this, [i.expression for i in self.items])
            keys.append(binder.sort_key(ordered, ordinal or binder.bind(ordered.this)))
        return keys

    def _having(self, node: exp.Expr, scope: Scope, windows: Mapping[str, exp.Window]) -> Expression:
        aliases = {item.alias.lower(): item.expression for item in self.items if item.alias}
        predicate = ExpressionBinder(self.query, scope, aliases, windows).predicate(node.this, "HAVING")
        if has_window(predicate):
            raise TypeProblem("a window function cannot stand in HAVING", self.query.span(node), "use a sub-query")
        return predicate

    # --- GROUP BY

    def _grouped(self, plan: Plan, scope: Scope, group: exp.Expr | None) -> tuple[Plan, _Aggregation]:
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
        return plan, _Aggregation(self.query, self.select, plan, scope, tuple(dict.fromkeys(keys)), sets)

    def _group_items(self, scope: Scope, group: exp.Expr) -> tuple[list[Expression], list[list[Expression]] | None]:
        aliases = {item.alias.lower(): item.expression for item in self.items if item.alias}
        binder = ExpressionBinder(self.query, scope, aliases)

        def key(node: exp.Expr) -> Expression:
            ordinal = self.query._ordinal(node, [i.expression for i in self.items])
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


class _OutputFirst(ExpressionBinder):
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


class _Aggregation:
    """Turns expressions over a GROUP BY's input into expressions over its output, collecting the aggregates on the way.

    A part equal to a grouping expression becomes that key's column; an aggregate becomes a column of the GROUP BY; any
    other column of the input is an error, as it has no one value in a group.
    """

    def __init__(
        self,
        query: QueryBinder,
        select: exp.Select,
        child: Plan,
        scope: Scope,
        keys: tuple[Expression, ...],
        sets: list[list[Expression]] | None,
    ) -> None:
        self._query, self._select, self._scope, self._sets = query, select, scope, sets
        computed = [(query.numbers.new(_key_name(k), k.type), k) for k in keys if not isinstance(k, Ref)]
        self._inputs: dict[Expression, Column] = {k: k.column for k in keys if isinstance(k, Ref)}
        self._inputs.update({k: column for column, k in computed})
        self._inputs = {k: self._inputs[k] for k in keys}
        if computed:
            child = Project(child, (*((c, Ref(c)) for c in child.columns), *computed))
        self._child = child
        # Keys of grouping sets come out as new columns, which are NULL in the sets without them.
        self._keys: dict[Expression, Column] = (
            self._inputs if sets is None else {k: query.numbers.like(c, nullable=True) for k, c in self._inputs.items()}
        )
        self._aggregates: dict[AggregateCall, Column] = {}
        self._available = set(child.columns)

    def __call__(self, expression: Expression) -> Expression:
        if expression in self._keys:
            return Ref(self._keys[expression])
        match expression:
            case AggregateCall():
                return Ref(self._aggregate(expression))
            case WindowCall(call=AggregateCall() as call):
                inner = map_operands(call, self)
                assert isinstance(inner, AggregateCall)
                return WindowCall(
                    inner,
                    tuple(self(p) for p in expression.partition),
                    tuple(replace(k, expression=self(k.expression)) for k in expression.order),
                    expression.frame,
                )
            case Ref(column) if column in self._available:
                raise self._ungrouped(column)
            case ScalarSubquery() | Exists() | InSubquery():
                for column in sorted(expression.outer & self._available, key=lambda c: c.id):
                    if Ref(column) not in self._keys:
                        raise self._ungrouped(column)
                    if self._keys[Ref(column)] != column:
                        raise NotUnderstood("a correlated sub-query over grouping sets")
                return map_operands(expression, self)
            case Call(function="grouping" | "grouping_id"):
                raise NotUnderstood("grouping()")
            case _:
                return map_operands(expression, self)

    def _aggregate(self, call: AggregateCall) -> Column:
        if call not in self._aggregates:
            nullable = call.function not in (
                "count",
                "count_if",
                "collect_list",
                "collect_set",
                "grouping",
                "grouping_id",
            )
            self._aggregates[call] = self._query.numbers.new(call.function, call.type, nullable)
        return self._aggregates[call]

    def _ungrouped(self, column: Column) -> TypeProblem:
        span = self._query.span(self._select)
        for part in self._select.walk():
            if isinstance(part, exp.Column) and part.name.lower() == column.name.lower():
                span = self._query.span(part)
                break
        hint = "group by it too, or wrap it in an aggregate such as any_value()"
        return TypeProblem(f"the column {column.name!r} is neither grouped by nor aggregated", span, hint)

    def plan(self) -> Plan:
        aggregates = tuple((column, call) for call, column in self._aggregates.items())
        if self._sets is None:
            return GroupBy(self._child, tuple(self._inputs.values()), aggregates)
        pairs = tuple((self._keys[k], self._inputs[k]) for k in self._inputs)
        sets = tuple(tuple(self._inputs[k] for k in s) for s in self._sets)
        return GroupingSets(self._child, pairs, sets, aggregates)


def _key_name(expression: Expression) -> str:
    name = unnamed(expression)
    return name if len(name) <= 24 else "key"
