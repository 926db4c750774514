"""From a sqlglot query to a logical plan.

This file binds what stands around a SELECT: WITH, set operations, FROM and its joins, VALUES; `bind_select` binds the
SELECT itself. Grouping and sorting are by columns: an expression used as a key is computed by a Project
first, so that properties can speak of it. Names follow Spark's rules: a GROUP BY or ORDER BY item may be a number or an
alias, a SELECT item may use the alias of an earlier one, HAVING prefers input columns to aliases.

A query, or the innermost part of one, that holds something only Spark understands becomes one `Foreign` operator over
the rowsets it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from unshuffle.algebra.expressions import (
    Call,
    Expression,
    Ref,
    SortKey,
    connect,
    has_window,
    is_aggregate,
)
from unshuffle.algebra.logical import (
    Foreign,
    Join,
    Limit,
    Plan,
    Project,
    SetKind,
    SetOperation,
    Sort,
    Values,
    outer_columns,
)
from unshuffle.algebra.sql import literal
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers, DataType
from unshuffle.catalog.types import common_type, spark_name
from unshuffle.errors import NameProblem, Source, Span, TypeProblem, UserError
from unshuffle.language import not_understood
from unshuffle.language.bind_expression import ExpressionBinder
from unshuffle.language.bind_select import SelectBinder
from unshuffle.language.dialect import Scope as ScopeDialect
from unshuffle.language.dialect import StreamTable, read_pipes_as_spark
from unshuffle.language.environment import Environment
from unshuffle.language.not_understood import NotUnderstood
from unshuffle.language.parameters import Parameters, constant
from unshuffle.language.scope import Scope, Visible

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

    def name_span(self, node: exp.Expr) -> Span:
        """Where the name of a function stands."""
        return self.source.span(node.meta["start"], node.meta["end"] + 1) if "start" in node.meta else self.span(node)

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
                raise not_understood.clause(clause)
        if order := node.args.get("order"):
            binder = ExpressionBinder(self, Scope.of(plan.columns, None, scope.parent))
            keys: list[SortKey] = []
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
        nodes = [first, *(link.expression for link in reversed(links))]
        plans = [self._bind(operand, scope) for operand in nodes]
        everything = [not link.args.get("distinct") for link in reversed(links)]
        plan = plans[0]
        while everything:
            # UNION ALLs in a row are one operator.
            count = 1
            if kind is SetKind.UNION and everything[0]:
                count = next((i for i, all_rows in enumerate(everything) if not all_rows), len(everything))
            plan = self._combined(kind, everything[0], [plan, *plans[1 : count + 1]], nodes[: count + 1])
            plans, nodes, everything = plans[count:], nodes[count:], everything[count:]
        return plan

    def _combined(self, kind: SetKind, all_rows: bool, plans: Sequence[Plan], nodes: Sequence[exp.Expr]) -> Plan:
        word = kind.value.upper()
        first = plans[0]
        types = [column.type for column in first.columns]
        for plan, node in zip(plans[1:], nodes[1:], strict=True):
            if len(plan.columns) != len(first.columns):
                widths = f"{len(first.columns)} and {len(plan.columns)}"
                message = f"{word} needs rowsets of as many columns, but these have {widths}"
                hint = f"one has: {_listed(first)}; the other: {_listed(plan)}"
                raise TypeProblem(message, self.span(node), hint)
            for i, column in enumerate(plan.columns):
                type = common_type(types[i], column.type)
                if type is None and types[i] is not None and column.type is not None:
                    one = f"{first.columns[i].name!r} ({spark_name(types[i])})"
                    other = f"{column.name!r} ({spark_name(column.type)})"
                    message = f"{word}: the columns {one} and {other} do not match"
                    raise TypeProblem(message, self.span(node), "cast one of them")
                types[i] = type
        columns = tuple(
            self.numbers.new(column.name, types[i], any(plan.columns[i].nullable for plan in plans))
            for i, column in enumerate(first.columns)
        )
        return SetOperation(kind, all_rows, tuple(plans), columns)

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
            plan, scope = Join(JoinKind.INNER, plan, right_plan, None), scope + right_scope
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
                raise not_understood.clause(clause)
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
                ("", "CROSS"): JoinKind.INNER,
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
        equal: list[Expression] = []
        for name in using:
            pair = []
            for scope in (left, right):
                local = Scope(scope.entries)
                found = local.find([name], self.span(node))
                if found is None:
                    raise local.unknown([name], self.span(node))
                pair.append(Ref(found.column))
            equal.append(Call("=", (pair[0], pair[1]), pa.bool_()))
        return connect("and", equal)

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
        copied = read_pipes_as_spark(node.copy())
        inputs: list[tuple[str, Plan]] = []
        own = {cte.alias.lower() for cte in copied.find_all(exp.CTE)}

        def parameter(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Parameter):
                value = self.parameters.get(part.name, self.statement)
                return exp.Var(this=literal(value.value, value.type))
            return part

        copied = copied.transform(parameter)
        tables: list[exp.Table | StreamTable] = list(copied.find_all(exp.Table, StreamTable))
        for table in tables:
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
            described = self.environment.describe(sql, inputs)
        except UserError as problem:
            raise type(problem)(problem.message, problem.span or self.span(node), problem.hint) from None
        columns = tuple(self.numbers.new(name, type, nullable) for name, type, nullable in described)
        return Foreign(sql, tuple(inputs), columns, reason)


def _is_comma(join: exp.Join) -> bool:
    # sqlglot makes a CROSS join of `a, b` too; only the one that was written out went through the parser's pivots.
    return join.args.get("kind") == "CROSS" and "pivots" not in join.args


def _listed(plan: Plan) -> str:
    return ", ".join(column.name for column in plan.columns)
