"""Literals, typed literals, parameters and casts."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.errors import TypeProblem
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.language.parse.dialect import ScopeDialect
from unshuffle.plan.expressions import Cast, Expression, Literal, Template
from unshuffle.plan.sql import string_literal

_VARIABLE = re.compile(r"\$\{[^}$ ]+\}")  # Spark replaces it by a setting or an environment variable, in strings too

if TYPE_CHECKING:
    from unshuffle.language.bind.expressions.expression import ExpressionBinder


def literal(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    if node.args.get("is_string"):
        if _VARIABLE.search(node.name):
            raise NotUnderstood("a variable ${...}")
        return Literal(node.name, pa.string())
    return number(node.name)


def number(text: str, sign: int = 1) -> Expression:
    if re.fullmatch(r"\d+", text):
        value = sign * int(text)
        if -(2**63) <= value < 2**63:
            return Literal(value, pa.int32() if -(2**31) <= value < 2**31 else pa.int64())
        if len(text) > 38:
            raise NotUnderstood("a number of more than 38 digits")
        return Literal(decimal.Decimal(value), pa.decimal128(len(text.lstrip("0")), 0))
    if re.search(r"[eE]", text):
        return Literal(sign * float(text), pa.float64())
    exact = decimal.Decimal(text)
    digits, scale = len(exact.as_tuple().digits), max(0, -int(exact.as_tuple().exponent))
    if max(digits, scale) > 38:
        raise NotUnderstood("a decimal literal of more than 38 digits")
    # A product would be rounded to the 28 digits of Python's default context.
    return Literal(exact.copy_negate() if sign < 0 else exact, pa.decimal128(max(digits, scale), scale))


def has_suffix(node: exp.Expr) -> bool:
    """Is it a number like `128Y`? sqlglot reads it as a cast, of a literal that is longer in the text than its digits."""
    inside = node.this if isinstance(node, exp.Cast) else None
    if not isinstance(inside, exp.Literal) or "start" not in inside.meta:
        return False
    return bool(inside.meta["end"] - inside.meta["start"] + 1 > len(inside.name))


def parameter(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    constant = binder.query.parameters.get(node.name, binder.query.span(node))
    return Literal(constant.value, constant.type)


def _typed_literal(binder: ExpressionBinder, type: str, node: exp.Expr) -> Expression:
    """`DATE '2024-01-31'`. A TIMESTAMP stays text: its value depends on the time zone of the session."""
    if type.upper() == "DATE" and re.fullmatch(r"\d{4}-\d{2}-\d{2}", node.this.name):
        try:
            return Literal(datetime.date.fromisoformat(node.this.name), pa.date32())
        except ValueError:
            raise TypeProblem(f"{node.this.name!r} is not a day of the calendar", binder.query.span(node)) from None
    try:
        result: DataType = from_spark_name(type)
    except ValueError as error:
        raise TypeProblem(str(error), binder.query.span(node)) from None
    return Template((f"{type.upper()} {string_literal(node.this.name)}",), (), result)


def cast(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    if node.args.get("format"):
        return binder.template(node)
    text = node.args["to"].sql(dialect=ScopeDialect)
    if node.args.get("is_literal"):
        return _typed_literal(binder, text, node)
    try:
        type = from_spark_name(text)
    except ValueError as error:
        raise TypeProblem(str(error), binder.query.span(node)) from None
    operand = binder.bind(node.this)
    return Cast(operand, type, safe=isinstance(node, exp.TryCast))


def null(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return Literal(None, pa.null())


def boolean(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return Literal(bool(node.this), pa.bool_())


def hex_bytes(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    digits = node.name
    return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits), pa.binary())
