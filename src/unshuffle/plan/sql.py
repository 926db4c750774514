"""Expressions as Spark SQL text, to run or to read.

The text is fully parenthesized and names columns as the caller wants, so it means the same wherever it is inserted.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.types import spark_name, sql_name
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Exists,
    Expression,
    Field,
    InSubquery,
    Lambda,
    Literal,
    Opaque,
    Ref,
    ScalarSubquery,
    SortKey,
    Template,
    Value,
    Variable,
    WindowCall,
)

if TYPE_CHECKING:
    from unshuffle.plan.logical import Plan


def quote(name: str) -> str:
    """A name in backquotes, which Spark reads back whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def to_sql(
    expression: Expression,
    name: Callable[[Column], str],
    plan: Callable[[Plan], str] = lambda _: "SELECT ...",
    opaque: Callable[[Opaque], str] | None = None,
    string: Callable[[str], str] | None = None,
) -> str:
    """Spark SQL text for an expression. `name` gives the text for a column, `plan` for a subquery, `opaque` for an
    expression that has no SQL text, and `string` for a string. Without `opaque`, the text is for people only."""
    return SqlWriter(name, plan, opaque, string or string_literal)(expression)


@dataclass(frozen=True, slots=True)
class SqlWriter:
    name: Callable[[Column], str]
    plan: Callable[[Plan], str]
    opaque: Callable[[Opaque], str] | None
    string: Callable[[str], str]

    def __call__(self, expression: Expression) -> str:
        return _WRITE[type(expression)](self, expression)

    def listed(self, parts: Sequence[Expression]) -> str:
        return ", ".join(map(self, parts))

    def order(self, keys: Sequence[SortKey]) -> str:
        return ", ".join(f"{self(key.expression)} {order_words(key)}" for key in keys)


def _cast(sql: SqlWriter, cast: Cast) -> str:
    return f"{'TRY_CAST' if cast.safe else 'CAST'}({sql(cast.operand)} AS {sql_name(cast.type)})"


def _literal(sql: SqlWriter, constant: Literal) -> str:
    is_text = isinstance(constant.value, str)
    return sql.string(str(constant.value)) if is_text else literal(constant.value, constant.type)


def _lambda(sql: SqlWriter, function: Lambda) -> str:
    parameters = ", ".join(quote(each.name) for each in function.parameters)
    # Spark accepts a single parameter only without parentheses.
    return f"{parameters if len(function.parameters) == 1 else f'({parameters})'} -> {sql(function.body)}"


def _opaque(sql: SqlWriter, opaque: Opaque) -> str:
    return sql.opaque(opaque) if sql.opaque is not None else f"{opaque.name}({sql.listed(opaque.arguments)})"


def _aggregate(sql: SqlWriter, call: AggregateCall) -> str:
    if call.opaque is not None and sql.opaque is not None:
        return _opaque(sql, Opaque(call.opaque.number, call.function, call.opaque.code, call.arguments, call.type))
    text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{sql.listed(call.arguments)})"
    if call.within:
        text += f" WITHIN GROUP (ORDER BY {sql.order(call.within)})"
    if call.ignore_nulls:
        text += " IGNORE NULLS"
    return text + (f" FILTER (WHERE {sql(call.where)})" if call.where else "")


def _window(sql: SqlWriter, window: WindowCall) -> str:
    inside = [f"PARTITION BY {sql.listed(window.partition)}"] if window.partition else []
    inside += [f"ORDER BY {sql.order(window.order)}"] if window.order else []
    inside += [window.frame] if window.frame else []
    return f"{sql(window.call)} OVER ({' '.join(inside)})"


def _in_subquery(sql: SqlWriter, subquery: InSubquery) -> str:
    operands = subquery.operands
    left = sql(operands[0]) if len(operands) == 1 else f"({sql.listed(operands)})"
    return f"({left} IN ({sql.plan(subquery.plan)}))"


_WRITE: dict[type, Callable[[SqlWriter, Any], str]] = {
    Ref: lambda sql, ref: sql.name(ref.column),
    Variable: lambda sql, variable: quote(variable.name),
    Literal: _literal,
    Cast: _cast,
    Case: lambda sql, case: case_text(case, sql),
    Field: lambda sql, part: f"{sql(part.operand)}.{quote(part.name)}",
    Lambda: _lambda,
    Template: lambda sql, template: template_text(template, sql),
    Call: lambda sql, call: call_text(call.function, [sql(each) for each in call.arguments]),
    Opaque: _opaque,
    AggregateCall: _aggregate,
    WindowCall: _window,
    ScalarSubquery: lambda sql, subquery: f"({sql.plan(subquery.plan)})",
    Exists: lambda sql, subquery: f"EXISTS ({sql.plan(subquery.plan)})",
    InSubquery: _in_subquery,
}


def case_text(case: Case, text: Callable[[Expression], str]) -> str:
    when = " ".join(f"WHEN {text(condition)} THEN {text(value)}" for condition, value in case.branches)
    return f"CASE {when}{'' if case.otherwise is None else ' ELSE ' + text(case.otherwise)} END"


def template_text(template: Template, text: Callable[[Expression], str]) -> str:
    first, *others = template.pieces
    return first + "".join(text(each) + piece for each, piece in zip(template.operands, others, strict=True))


def order_words(key: SortKey) -> str:
    return f"{'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


# --- calls

_INFIX = {name: name for name in ("+", "-", "*", "/", "%", "=", "<=>", "<>", "<", "<=", ">", ">=", "&", "|", "^", "||")}
_INFIX |= {"<<": "<<", ">>": ">>", "div": "DIV", "like": "LIKE", "ilike": "ILIKE", "rlike": "RLIKE"}
_POSTFIX = {
    "isnull": "IS NULL",
    "isnotnull": "IS NOT NULL",
    "is true": "IS TRUE",
    "is false": "IS FALSE",
    "is unknown": "IS UNKNOWN",
}
_SPECIAL: dict[str, Callable[[list[str]], str]] = {
    "and": lambda parts: f"({' AND '.join(parts)})",
    "or": lambda parts: f"({' OR '.join(parts)})",
    "not": lambda parts: f"(NOT {parts[0]})",
    "negative": lambda parts: f"(- {parts[0]})",
    "-": lambda parts: f"(- {parts[0]})",  # with one argument
    "~": lambda parts: f"(~ {parts[0]})",
    "in": lambda parts: f"({parts[0]} IN ({', '.join(parts[1:])}))",
    "between": lambda parts: f"({parts[0]} BETWEEN {parts[1]} AND {parts[2]})",
    # Pairs of a name and a value. `struct` would take the names from the columns, which Spark knows under other names.
    "struct": lambda parts: f"named_struct({', '.join(parts)})",
    "[]": lambda parts: f"{parts[0]}[{parts[1]}]",
}


def call_text(function: str, arguments: list[str]) -> str:
    """A call of a function or operator on arguments that are text already."""
    if function in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {_INFIX[function]} {arguments[1]})"
    if function in ("like", "ilike") and len(arguments) == 3:
        return f"({arguments[0]} {function.upper()} {arguments[1]} ESCAPE {arguments[2]})"
    if function in _POSTFIX:
        return f"({arguments[0]} {_POSTFIX[function]})"
    if function in _SPECIAL:
        return _SPECIAL[function](arguments)
    return f"{function}({', '.join(arguments)})"


# --- literals

DOLLAR = "\\u0024"
_INTEGER_SUFFIX = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}


def literal(value: Value, type: DataType) -> str:
    """A literal of exactly this value and type."""
    if value is None:
        return "NULL" if type is None or pa.types.is_null(type) else f"CAST(NULL AS {sql_name(type)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return _integer(value, type)
    if isinstance(value, float):
        return _float(value, type)
    if isinstance(value, decimal.Decimal):
        return _decimal(value, type)
    if isinstance(value, str):
        return string_literal(value)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, datetime.datetime):
        word = "TIMESTAMP_NTZ" if type is not None and type.tz is None else "TIMESTAMP_LTZ"
        return f"{word}'{value.isoformat(sep=' ')}'"
    return f"DATE'{value.isoformat()}'"


def _integer(value: int, type: DataType) -> str:
    suffix = _INTEGER_SUFFIX.get(spark_name(type))
    if suffix is None:
        return f"CAST({value} AS {sql_name(type)})"
    # The most negative number has no positive counterpart to negate: Spark reads the sign with the digits.
    return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"


def _float(value: float, type: DataType) -> str:
    kind = spark_name(type)
    if math.isnan(value) or math.isinf(value):
        word = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{word}' AS {kind})"
    text = f"{value!r}{'F' if kind == 'float' else 'D'}"
    return text if not text.startswith("-") else f"({text})"


def _decimal(value: decimal.Decimal, type: DataType) -> str:
    text = f"{value:f}BD" if value >= 0 else f"({value:f}BD)"
    exact = value.as_tuple()
    scale = max(0, -int(exact.exponent))
    if type is not None and (type.precision, type.scale) != (max(len(exact.digits), scale), scale):
        return f"CAST({text} AS {sql_name(type)})"
    return text


def string_as_bytes(value: str) -> str:
    """A string that means the same whether or not a backslash is an escape (`spark.sql.parser.escapedStringLiterals`)."""
    if not re.search(r"['\\\r\n\0$]", value):
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def string_literal(value: str) -> str:
    escaped = (
        value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r").replace("\0", "\\0")
    )
    # Spark replaces ${env:HOME} by the variable's value even inside a string.
    return f"'{escaped.replace('${', DOLLAR + '{')}'"
