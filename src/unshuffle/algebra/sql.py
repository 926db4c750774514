"""Expressions as Spark SQL text, to run or to read.

The text is fully parenthesized and refers to columns by whatever name the caller gives each of them, so it means the same
wherever it is put.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from unshuffle.algebra.expressions import (
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
from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.types import spark_name

if TYPE_CHECKING:
    from unshuffle.algebra.logical import Plan

_INFIX = {"+", "-", "*", "/", "%", "=", "<=>", "<>", "<", "<=", ">", ">=", "&", "|", "^", "||", "<<", ">>"}
_INFIX_WORDS = {"div": "DIV", "like": "LIKE", "ilike": "ILIKE", "rlike": "RLIKE"}
_POSTFIX = {
    "isnull": "IS NULL",
    "isnotnull": "IS NOT NULL",
    "is true": "IS TRUE",
    "is false": "IS FALSE",
    "is unknown": "IS UNKNOWN",
}


def quote(name: str) -> str:
    """A name as Spark reads it back, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def to_sql(
    expression: Expression,
    name: Callable[[Column], str],
    plan: Callable[[Plan], str] = lambda _: "SELECT ...",
    opaque: Callable[[Opaque], str] | None = None,
) -> str:
    """Spark SQL text for an expression; `name` gives columns' names, ready to stand in the text, `plan` a subquery's, and
    `opaque` what stands for an expression that has no text. Without it, that text is only to be read."""

    def sql(part: Expression) -> str:
        return to_sql(part, name, plan, opaque)

    def order(keys: tuple[SortKey, ...]) -> str:
        return ", ".join(f"{sql(k.expression)} {order_words(k)}" for k in keys)

    def listed(parts: tuple[Expression, ...]) -> str:
        return ", ".join(map(sql, parts))

    match expression:
        case Ref(column):
            return name(column)
        case Variable(variable):
            return quote(variable)
        case Literal(value, type):
            return literal(value, type)
        case Cast(operand, type, safe):
            return f"{'TRY_CAST' if safe else 'CAST'}({sql(operand)} AS {spark_name(type)})"
        case Case(branches, otherwise):
            when = " ".join(f"WHEN {sql(w)} THEN {sql(t)}" for w, t in branches)
            return f"CASE {when}{'' if otherwise is None else ' ELSE ' + sql(otherwise)} END"
        case Field(operand, field):
            return f"{sql(operand)}.{quote(field)}"
        case Lambda(parameters, body):
            listed_parameters = ", ".join(quote(p.name) for p in parameters)
            # Spark reads a single parameter only without parentheses.
            return f"{listed_parameters if len(parameters) == 1 else f'({listed_parameters})'} -> {sql(body)}"
        case Template(pieces, operands):
            return pieces[0] + "".join(sql(o) + piece for o, piece in zip(operands, pieces[1:], strict=True))
        case Call(function, arguments):
            return call_text(function, [sql(a) for a in arguments])
        case Opaque(name=function, arguments=arguments):
            return opaque(expression) if opaque is not None else f"{function}({listed(arguments)})"
        case AggregateCall():
            text = f"{expression.function}({'DISTINCT ' if expression.distinct else ''}{listed(expression.arguments)})"
            if expression.within:
                text += f" WITHIN GROUP (ORDER BY {order(expression.within)})"
            if expression.ignore_nulls:
                text += " IGNORE NULLS"
            return text + (f" FILTER (WHERE {sql(expression.where)})" if expression.where else "")
        case WindowCall(call, partition, keys, frame):
            inside = [f"PARTITION BY {listed(partition)}"] if partition else []
            inside += [f"ORDER BY {order(keys)}"] if keys else []
            inside += [frame] if frame else []
            return f"{sql(call)} OVER ({' '.join(inside)})"
        case ScalarSubquery(subquery):
            return f"({plan(subquery)})"
        case Exists(subquery):
            return f"EXISTS ({plan(subquery)})"
        case InSubquery(operands, subquery):
            left = sql(operands[0]) if len(operands) == 1 else f"({listed(operands)})"
            return f"({left} IN ({plan(subquery)}))"


def order_words(key: SortKey) -> str:
    return f"{'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def call_text(function: str, arguments: list[str]) -> str:
    if function in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {function} {arguments[1]})"
    if function in ("and", "or"):
        return f"({f' {function.upper()} '.join(arguments)})"
    if function in _INFIX_WORDS and len(arguments) == 2:
        return f"({arguments[0]} {_INFIX_WORDS[function]} {arguments[1]})"
    if function in ("like", "ilike") and len(arguments) == 3:
        return f"({arguments[0]} {function.upper()} {arguments[1]} ESCAPE {arguments[2]})"
    if function in _POSTFIX:
        return f"({arguments[0]} {_POSTFIX[function]})"
    match function:
        case "not":
            return f"(NOT {arguments[0]})"
        case "negative" | "-":
            return f"(- {arguments[0]})"
        case "~":
            return f"(~ {arguments[0]})"
        case "in":
            return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
        case "between":
            return f"({arguments[0]} BETWEEN {arguments[1]} AND {arguments[2]})"
        case "struct":  # a name and a value in turn: for Spark, columns have other names here than the user's
            return f"named_struct({', '.join(arguments)})"
        case "[]":
            return f"{arguments[0]}[{arguments[1]}]"
        case _:
            return f"{function}({', '.join(arguments)})"


def literal(value: Value, type: DataType) -> str:
    """A literal of exactly this value and type."""
    if value is None:
        return "NULL" if type is None or pa.types.is_null(type) else f"CAST(NULL AS {spark_name(type)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        suffix = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}.get(spark_name(type))
        if suffix is None:
            return f"CAST({value} AS {spark_name(type)})"
        # The most negative number has no positive counterpart to negate: Spark reads the sign with the digits.
        return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"
    if isinstance(value, float):
        kind = spark_name(type)
        if math.isnan(value) or math.isinf(value):
            word = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return f"CAST('{word}' AS {kind})"
        text = f"{value!r}{'F' if kind == 'float' else 'D'}"
        return text if not text.startswith("-") else f"({text})"
    if isinstance(value, decimal.Decimal):
        text = f"{value:f}BD" if value >= 0 else f"({value:f}BD)"
        exact = value.as_tuple()
        scale = max(0, -int(exact.exponent))
        if type is not None and (type.precision, type.scale) != (max(len(exact.digits), scale), scale):
            return f"CAST({text} AS {spark_name(type)})"
        return text
    if isinstance(value, str):
        return string_literal(value)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, datetime.datetime):
        word = "TIMESTAMP_NTZ" if type is not None and type.tz is None else "TIMESTAMP"
        return f"{word}'{value.isoformat(sep=' ')}'"
    return f"DATE'{value.isoformat()}'"


def string_literal(value: str) -> str:
    escaped = (
        value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r").replace("\0", "\\0")
    )
    return f"'{escaped}'"
