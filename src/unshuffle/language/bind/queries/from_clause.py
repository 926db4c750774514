"""FROM: rowsets by name, streams, queries in parentheses, VALUES, and how they are joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.type_coercion import common_type
from unshuffle.errors import TypeProblem
from unshuffle.language.bind.expressions.expression import ExpressionBinder
from unshuffle.language.bind.queries import unsupported
from unshuffle.language.bind.queries.joins import bind_join
from unshuffle.language.bind.queries.scope import Scope
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.language.parse.dialect import OperatorTable, StreamTable
from unshuffle.language.parse.statements import Argument
from unshuffle.plan.expressions import Expression
from unshuffle.plan.logical import Join, Plan, Values

if TYPE_CHECKING:
    from unshuffle.language.bind.queries.query import QueryBinder

# Clauses after a rowset, by sqlglot's names for them.
_ONLY_SPARK = (
    "pivots", "sample", "laterals", "version", "when", "hints", "changes", "partition", "ordinality",
)  # fmt: skip


def bind_from(query: QueryBinder, select: exp.Select, outer: Scope | None) -> tuple[Plan, Scope]:
    """The FROM clause of a SELECT. Without one, a SELECT has one row of no columns."""
    base = Scope((), outer)
    from_ = select.args.get("from_")
    if from_ is None:
        return Values(((),), ()), base
    return _joined(query, bind_relation(query, from_.this, base), select.args.get("joins") or [], base)


def _joined(query: QueryBinder, first: tuple[Plan, Scope], joins: list[exp.Join], base: Scope) -> tuple[Plan, Scope]:
    # In Spark a comma binds looser than JOIN: a, b RIGHT JOIN c is a x (b RIGHT JOIN c).
    groups: list[tuple[Plan, Scope]] = [first]
    for join in joins:
        right = bind_relation(query, join.this, base)
        if _is_comma(join):
            groups.append(right)
        else:
            groups[-1] = bind_join(query, join, groups[-1], right)
    plan, scope = groups[0]
    for right_plan, right_scope in groups[1:]:
        plan, scope = Join(JoinKind.INNER, plan, right_plan, None), scope + right_scope
    return plan, scope


def bind_relation(query: QueryBinder, node: exp.Expr, base: Scope) -> tuple[Plan, Scope]:
    """A rowset of a FROM clause, and the names of its columns."""
    for clause in _ONLY_SPARK:
        if node.args.get(clause):
            raise unsupported.clause(clause)
    if isinstance(node, exp.Table):
        plan, scope = _aliased(query, node, bind_name(query, node), node.this.name, base)
    elif isinstance(node, OperatorTable):
        plan, scope = _aliased(query, node, bind_operator(query, node), None, base)
    elif isinstance(node, StreamTable):
        plan, scope = _aliased(query, node, query.stream(node.name, query.span(node)), None, base)
    elif isinstance(node, exp.Values):
        plan, scope = bind_values(query, node, base)
    elif isinstance(node, exp.Subquery):
        if isinstance(node.this, exp.Table):
            plan, scope = bind_relation(query, node.this, base)
            if node.args.get("alias") is not None:
                scope = scope.renamed(*_alias(query, node, plan))
        else:
            plan, scope = _aliased(query, node, query.query(node.this, base.parent), None, base)
    else:
        raise NotUnderstood(f"{node.key} in FROM")
    if node.args.get("joins"):
        plan, scope = _joined(query, (plan, scope), node.args["joins"], base)
    return plan, scope


def bind_name(query: QueryBinder, node: exp.Table) -> Plan:
    """One more use of a rowset that is named: a WITH query first, then what the script and the session know. A name with
    arguments is a view."""
    if isinstance(node.this, exp.Anonymous):
        arguments = [_view_argument(query, each) for each in node.this.expressions]
        called = query.view(node.this.name, arguments, query.span(node))
        if called is not None:
            return called
    if not isinstance(node.this, exp.Identifier):
        raise NotUnderstood("a table function")
    parts = [part.name for part in node.parts]
    if len(parts) == 1 and parts[0].lower() in query.ctes:
        return query.ctes[parts[0].lower()]()
    return query.table(parts, query.span(node.this))


def bind_operator(query: QueryBinder, node: OperatorTable) -> Plan:
    """A PROCESS, REDUCE, COMBINE or EXTRACT."""
    return query.operator(node.args["body"], query.span(node))


def _view_argument(query: QueryBinder, node: exp.Expr) -> Argument:
    if isinstance(node, exp.EQ) and isinstance(node.this, exp.Column):
        return Argument(node.this.name, node.expression, query.span(node))
    if isinstance(node, exp.PropertyEQ | exp.Kwarg):
        return Argument(node.this.name, node.expression, query.span(node))
    return Argument(None, node, query.span(node))


def _alias(query: QueryBinder, node: exp.Expr, plan: Plan) -> tuple[str, list[str] | None]:
    alias = node.args["alias"]
    names = [c.name for c in alias.columns] or None
    if names is not None and len(names) != len(plan.columns):
        message = f"{len(names)} column name(s) for {len(plan.columns)} column(s)"
        raise TypeProblem(message, query.span(node))
    return alias.name, names


def _aliased(query: QueryBinder, node: exp.Expr, plan: Plan, name: str | None, base: Scope) -> tuple[Plan, Scope]:
    scope = Scope.of(plan.columns, name, base.parent)
    if node.args.get("alias") is not None:
        scope = scope.renamed(*_alias(query, node, plan))
    return plan, scope


def bind_values(query: QueryBinder, node: exp.Values, base: Scope) -> tuple[Plan, Scope]:
    binder = ExpressionBinder(query, base)
    rows: list[tuple[Expression, ...]] = []
    for row in node.expressions:
        parts = row.expressions if isinstance(row, exp.Tuple) else [row.this if isinstance(row, exp.Paren) else row]
        rows.append(tuple(binder.bind(part) for part in parts))
    if any(len(row) != len(rows[0]) for row in rows):
        raise TypeProblem("the rows of VALUES have different numbers of columns", query.span(node))
    columns = []
    for i in range(len(rows[0])):
        type: DataType = rows[0][i].type
        for row in rows[1:]:
            type = common_type(type, row[i].type)
        columns.append(query.numbers.new(f"col{i + 1}", type))
    plan = Values(tuple(rows), tuple(columns))
    return _aliased(query, node, plan, None, base)


def _is_comma(join: exp.Join) -> bool:
    # sqlglot makes a CROSS join of `a, b` too. Only a join that is written out has been asked for pivots by its parser.
    return join.args.get("kind") == "CROSS" and "pivots" not in join.args
