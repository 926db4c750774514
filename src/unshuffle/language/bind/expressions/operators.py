"""Arithmetic, comparison, logical and bitwise operators, and `||`."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.type_coercion import arithmetic_type, common_type, literal_type
from unshuffle.catalog.types import is_decimal, is_integer, spark_name
from unshuffle.errors import TypeProblem
from unshuffle.language.bind.expressions.literals import has_suffix, number
from unshuffle.plan.expressions import Call, Cast, Expression, Literal, connect

if TYPE_CHECKING:
    from unshuffle.language.bind.expressions.expression import ExpressionBinder

BOOLEAN = pa.bool_()
BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "and",
    exp.Or: "or",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.RegexpLike: "rlike",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.DPipe: "||",
}
_ARITHMETIC = {"+", "-", "*", "/", "%", "div"}
_BITWISE = {"&", "|", "^"}


def binary(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    operator = BINARY[type(node)]
    # Generated queries have left-deep chains (a AND b AND c ...) of thousands of terms: no recursion on the left.
    chain: list[exp.Expr] = []
    while type(node) in BINARY and BINARY[type(node)] == operator and isinstance(node, exp.Binary):
        chain.append(node)
        node = node.this
    if operator in ("and", "or"):
        nodes = [node, *(link.expression for link in reversed(chain))]
        return connect("and" if operator == "and" else "or", [_condition(binder, operator, n) for n in nodes])
    left = binder.bind(node)
    for link in reversed(chain):
        left = _operation(operator, left, binder.bind(link.expression))
    return left


def _condition(binder: ExpressionBinder, operator: str, node: exp.Expr) -> Expression:
    bound = binder.bind(node)
    # A string is cast to a boolean, as Spark does.
    if bound.type is not None and bound.type not in (BOOLEAN, pa.null(), pa.string()):
        message = f"{operator.upper()} needs conditions, but this is of type {spark_name(bound.type)}"
        raise TypeProblem(message, binder.query.span(node))
    return bound


def _operation(operator: str, left: Expression, right: Expression) -> Expression:
    if operator in _ARITHMETIC:
        type = arithmetic_type(operator, _operand_type(left, right), _operand_type(right, left))
    elif operator in _BITWISE:
        type = common_type(left.type, right.type)
    elif operator in ("<<", ">>"):
        type = left.type
    elif operator == "||":
        type = _concatenation_type(left.type, right.type)
    else:
        type = BOOLEAN
    return Call(operator, (left, right), type)


def _concatenation_type(left: DataType, right: DataType) -> DataType:
    if left is None or right is None:
        return None
    if pa.types.is_list(left) or pa.types.is_list(right):
        return common_type(left, right)
    return pa.binary() if pa.types.is_binary(left) and pa.types.is_binary(right) else pa.string()


def pipes(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    """`||` is OR between conditions, and concatenation between anything else."""
    parts = [binder.bind(part) for part in node.expressions]
    if all(part.type == BOOLEAN for part in parts):
        return connect("or", parts)
    return reduce(lambda left, right: _operation("||", left, right), parts)


def ambiguous_pipes(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    as_or = node.expression
    try:
        parts = [binder.bind(part) for part in (as_or.flatten(unnest=False) if isinstance(as_or, exp.Or) else [as_or])]
    except TypeProblem:
        parts = []
    if parts and all(part.type == BOOLEAN for part in parts):
        return connect("or", parts)
    return binder.bind(node.this)


def negative(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    if isinstance(node.this, exp.Literal) and not node.this.args.get("is_string"):
        return number(node.this.name, -1)
    operand = binder.bind(node.this)
    if has_suffix(node.this) and isinstance(operand, Cast) and is_integer(operand.type):
        return Literal(-int(node.this.this.name), operand.type)  # the sign is part of it: 128 alone is no tinyint
    return Call("negative", (operand,), operand.type)


def not_(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    operand = binder.bind(node.this)
    if isinstance(operand, Call) and operand.function == "isnull":
        return Call("isnotnull", operand.arguments, BOOLEAN)
    return Call("not", (operand,), BOOLEAN)


def bitwise_not(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    operand = binder.bind(node.this)
    return Call("~", (operand,), operand.type)


def _operand_type(operand: Expression, other: Expression) -> DataType:
    """The type of an operand of arithmetic. An integer literal beside a decimal is a decimal of as many digits as it has."""
    if isinstance(operand, Literal) and type(operand.value) is int and is_decimal(other.type):
        return literal_type(operand.value)
    return operand.type
