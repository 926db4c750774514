"""A query that only Spark understands, as one operator over the rowsets that it reads.

Spark gets the text of the query. The rowsets are bound as usual, and can be optimized. The columns of the result are Spark's
to say: this is the one place in binding that may start Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from unshuffle.errors import UserError
from unshuffle.language.bind.queries.from_clause import bind_name, bind_operator
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.language.parse.dialect import OperatorTable, ScopeDialect, StreamTable, read_pipes_as_spark
from unshuffle.plan.logical import Foreign, Plan
from unshuffle.plan.sql import literal

if TYPE_CHECKING:
    from unshuffle.language.bind.queries.query import QueryBinder


def leave_to_spark(query: QueryBinder, node: exp.Expr, reason: str) -> Plan:
    """The operator for a query. `reason` says what in it only Spark understands."""
    copied = _with_parameter_values(query, read_pipes_as_spark(node.copy()))
    inputs: list[tuple[str, Plan]] = []
    cte_names = {cte.alias.lower() for cte in copied.find_all(exp.CTE)}
    tables: list[exp.Table | StreamTable | OperatorTable] = list(copied.find_all(exp.Table, StreamTable, OperatorTable))
    for table in tables:
        name = f"input_{len(inputs) + 1}"
        if isinstance(table, StreamTable):
            plan, alias = query.stream(table.name, query.span(table)), None
        elif isinstance(table, OperatorTable):
            plan, alias = bind_operator(query, table), None
        elif isinstance(table.this, exp.Identifier) and table.name.lower() in cte_names:
            continue
        else:
            try:
                plan, alias = bind_name(query, table), table.this.name
            except NotUnderstood:
                continue
        inputs.append((name, plan))
        table.replace(_renamed(table, name, alias))
    sql = copied.sql(dialect=ScopeDialect)
    try:
        described = query.environment.describe(sql, inputs)
    except UserError as problem:
        raise type(problem)(problem.message, problem.span or query.span(node), problem.hint) from None
    columns = tuple(query.numbers.new(name, type, nullable) for name, type, nullable in described)
    return Foreign(sql, tuple(inputs), columns, reason)


def _with_parameter_values(query: QueryBinder, tree: exp.Expr) -> exp.Expr:
    def substitute(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Parameter):
            value = query.parameters.get(part.name, query.statement)
            return exp.Var(this=literal(value.value, value.type))
        return part

    substituted: exp.Expr = tree.transform(substitute)
    return substituted


def _renamed(table: exp.Table | StreamTable | OperatorTable, name: str, alias: str | None) -> exp.Table:
    """The same rowset by the name that Spark will know it by. Columns stay qualified by the name in the query."""
    kept = {key: value for key, value in table.args.items() if key not in ("this", "db", "catalog", "body")}
    renamed = exp.Table(this=exp.to_identifier(name), **kept)
    if alias and not renamed.args.get("alias"):
        renamed.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return renamed
