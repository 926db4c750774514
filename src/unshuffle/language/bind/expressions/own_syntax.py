"""Calls with a syntax of their own: `a[i]`, `EXTRACT(YEAR FROM d)`, `INTERVAL 1 DAY`, `TRIM(BOTH x FROM y)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.schema import DataType
from unshuffle.language.bind.expressions.call import bind_call, struct
from unshuffle.language.parse.dialect import ScopeDialect
from unshuffle.plan.expressions import Call, Expression, Template

if TYPE_CHECKING:
    from unshuffle.language.bind.expressions.expression import ExpressionBinder


def bracket(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        return binder.template(node)
    container, index = binder.bind(node.this), binder.bind(node.expressions[0])
    type: DataType = None
    if container.type is not None and pa.types.is_list(container.type):
        type = container.type.value_type
    elif container.type is not None and pa.types.is_map(container.type):
        type = container.type.item_type
    return Call("[]", (container, index), type)


def extract(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    unit = node.this.name.lower()  # sqlglot upper-cases it; the column's name should have it as most people write it
    type = pa.decimal128(8, 6) if unit.upper() in ("SECOND", "SECONDS", "S", "SEC", "SECS") else pa.int32()
    return Template((f"extract({unit} FROM ", ")"), (binder.bind(node.expression),), type)


def interval(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    unit = node.args.get("unit")
    words = unit.sql(dialect=ScopeDialect).upper().split() if unit is not None else []
    type: DataType = None
    if words:
        first, last = words[0].rstrip("S"), words[-1].rstrip("S")
        if {first, last} <= {"YEAR", "MONTH", "QUARTER"}:
            type = pa.month_day_nano_interval()
        elif {first, last} <= {"DAY", "HOUR", "MINUTE", "SECOND", "WEEK", "MILLISECOND", "MICROSECOND"}:
            type = pa.duration("us")
    value = node.this
    if isinstance(value, exp.Literal) or value is None:
        return Template((node.sql(dialect=ScopeDialect),), (), type)
    return Template(("INTERVAL (", f") {' '.join(words)}"), (binder.bind(value),), type)


def tuple_(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return struct(binder, node.expressions, "named_struct")


def substring(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    return bind_call(binder, "substring", [part for part in parts if part is not None], node)


def trim(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    where = str(node.args.get("position") or "").upper()
    if node.args.get("collation"):
        return binder.template(node)
    if not where and not node.expression:
        return bind_call(binder, "trim", [node.this], node)
    characters = (binder.bind(node.expression),) if node.expression else ()
    pieces = (f"TRIM({where or 'BOTH'} ", " FROM ", ")") if characters else (f"TRIM({where} FROM ", ")")
    return Template(pieces, (*characters, binder.bind(node.this)), pa.string())


def position(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    arguments = [node.args["substr"], node.this, node.args.get("position") or exp.Literal.number(1)]
    return bind_call(binder, "locate", arguments, node)
