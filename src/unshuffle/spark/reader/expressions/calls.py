"""Operators and functions: conditions, arithmetic, casts and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.type_coercion import arithmetic_type, common_type, literal_type
from unshuffle.catalog.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    is_decimal,
    is_integer,
    is_numeric,
)
from unshuffle.plan.expressions import Call, Case, Cast, Expression, Field, Literal, Ref, connect
from unshuffle.spark.reader.catalyst_tree import CatalystNode

if TYPE_CHECKING:
    from unshuffle.spark.reader.expressions.expression_reader import ScopedReader

# Functions of their children only, by class: our name, the type, and the required type of the first argument (None: any).
CALLS: dict[str, tuple[str, DataType, pa.DataType | None]] = {
    "EqualTo": ("=", BOOLEAN, None),
    "EqualNullSafe": ("<=>", BOOLEAN, None),
    "LessThan": ("<", BOOLEAN, None),
    "LessThanOrEqual": ("<=", BOOLEAN, None),
    "GreaterThan": (">", BOOLEAN, None),
    "GreaterThanOrEqual": (">=", BOOLEAN, None),
    "IsNull": ("isnull", BOOLEAN, None),
    "IsNotNull": ("isnotnull", BOOLEAN, None),
    "In": ("in", BOOLEAN, None),
    "RLike": ("rlike", BOOLEAN, STRING),
    "StartsWith": ("startswith", BOOLEAN, STRING),
    "EndsWith": ("endswith", BOOLEAN, STRING),
    "Contains": ("contains", BOOLEAN, STRING),
    "IsNaN": ("isnan", BOOLEAN, DOUBLE),
    "Upper": ("upper", STRING, STRING),
    "Lower": ("lower", STRING, STRING),
    "Substring": ("substring", STRING, STRING),
    "Left": ("left", STRING, STRING),
    "Length": ("length", INT, STRING),
    "Year": ("year", INT, DATE),
    "Quarter": ("quarter", INT, DATE),
    "Month": ("month", INT, DATE),
    "DayOfMonth": ("day", INT, DATE),
    "DateAdd": ("date_add", DATE, DATE),
    "DateSub": ("date_sub", DATE, DATE),
    "DateDiff": ("datediff", INT, DATE),
}
_COMPARISONS = {"EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"}
# The fields that hold the children of these classes. Any other field might change the meaning.
_CALL_FIELDS = {"left", "right", "child", "value", "list", "str", "pos", "len", "startDate", "endDate", "days"}
ARITHMETIC = {"Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%", "IntegralDivide": "div"}


def call(reader: ScopedReader, node: CatalystNode) -> Expression | None:
    name, type, first_type = CALLS[node.kind]
    if not node.fields.keys() <= _CALL_FIELDS or (node.kind == "In" and len(node.children) < 2):
        return None
    arguments = reader.children(node)
    if first_type is not None and arguments[0].type != first_type:
        return None
    if node.kind in _COMPARISONS:
        arguments = _without_coercion(arguments)
    return Call(name, arguments, type)


def _without_coercion(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The sides of a comparison without the casts of a column, or of a whole number, to the type of the other side, which are
    implied. A key of a join is then a column, and no new one."""

    def plain(one: Expression, other: Expression) -> Expression:
        match one, other:
            case Cast(Ref() as column, type, safe=False), Ref() if type == other.type and is_numeric(column.type):
                return column if is_numeric(type) and common_type(column.type, type) == type else one
            case Cast(Cast(Literal(value=int() as value) as number, middle), type, safe=False), Ref() if (
                is_decimal(type) and type == other.type and middle == literal_type(value)
            ):
                return number if common_type(middle, type) == type else one
            case _:
                return one

    left, right = arguments
    return plain(left, right), plain(right, left)


def coalesce(reader: ScopedReader, node: CatalystNode) -> Expression:
    arguments = reader.children(node)
    return Call("coalesce", arguments, arguments[0].type)


def if_(reader: ScopedReader, node: CatalystNode) -> Expression:
    arguments = reader.children(node)
    return Call("if", arguments, arguments[1].type)


def case(reader: ScopedReader, node: CatalystNode) -> Expression:
    parts = reader.children(node)
    otherwise = parts[-1] if len(parts) % 2 else None
    branches = tuple(zip(parts[0 : len(parts) // 2 * 2 : 2], parts[1::2], strict=True))
    return Case(branches, otherwise, branches[0][1].type)


def struct_field(reader: ScopedReader, node: CatalystNode) -> Expression | None:
    operand = reader.read(node.children[0])
    if operand.type is None or not pa.types.is_struct(operand.type):
        return None
    names = [each.name.lower() for each in operand.type]
    chosen = operand.type.field(node.fields["ordinal"])
    return Field(operand, chosen.name, chosen.type) if names.count(chosen.name.lower()) == 1 else None


# ----------------------------------------------------------------------------------------------------------- conditions


def connected(reader: ScopedReader, node: CatalystNode) -> Expression:
    # A chain may have thousands of terms, so there is no recursion on the left.
    kind, parts, left = node.kind, [], node
    while left.kind == kind:
        left, right = left.children
        parts.append(right)
    parts.append(left)
    return connect("and" if kind == "And" else "or", [reader.read(part) for part in reversed(parts)])


def negation(reader: ScopedReader, node: CatalystNode) -> Expression:
    operand = reader.read(node.children[0])
    if isinstance(operand, Call) and operand.function == "=":
        return Call("<>", operand.arguments, BOOLEAN)
    return Call("not", (operand,), BOOLEAN)


def like(reader: ScopedReader, node: CatalystNode) -> Expression | None:
    text, pattern = reader.children(node)
    escape = node.omitted("escapeChar")
    if text.type != STRING or (reader.reader.settings.has_plain_strings and escape != "\\"):
        return None
    return Call("like", (text, pattern) if escape == "\\" else (text, pattern, Literal(escape, STRING)), BOOLEAN)


# ------------------------------------------------------------------------------------- expressions that depend on settings


def arithmetic(reader: ScopedReader, node: CatalystNode) -> Expression | None:
    operator = ARITHMETIC[node.kind]
    left, right = reader.children(node)
    if not (is_numeric(left.type) and is_numeric(right.type)):
        return None
    if is_decimal(left.type) and is_decimal(right.type):
        type = arithmetic_type(operator, left.type, right.type)
    elif left.type == right.type:
        type = BIGINT if operator == "div" else left.type
    else:
        return None
    # Sums and products of floats overflow to infinity in every mode.
    if not (pa.types.is_floating(left.type) and operator in "+-*") and not reader.has_session_mode(node):
        return None
    if is_decimal(type) and not reader.reader.settings.precision_loss:
        type = node.result_type
    return Call(operator, (left, right), type)


def sign(reader: ScopedReader, node: CatalystNode) -> Expression | None:
    if node.fields.get("failOnError") != (reader.reader.settings.mode == "ANSI"):
        return None
    operand = reader.read(node.children[0])
    name = "negative" if node.kind == "UnaryMinus" else "abs"
    return Call(name, (operand,), operand.type) if is_numeric(operand.type) else None


def cast(reader: ScopedReader, node: CatalystNode) -> Expression | None:
    type, zone, settings = node.type, node.fields.get("timeZoneId"), reader.reader.settings
    operand = reader.read(node.children[0])
    if operand.type is None or pa.types.is_nested(operand.type) or not reader.can_name(type):
        return None
    if zone not in (None, settings.time_zone):
        return None
    assert type is not None
    if is_integer(type) and operand.type == type:
        return operand  # Spark casts all members of an IN
    is_wider = is_integer(operand.type) and (is_integer(type) and operand.type.bit_width <= type.bit_width)
    if is_wider or (is_integer(operand.type) and type == DOUBLE):
        return Cast(operand, type)
    mode = node.omitted("evalMode")
    return Cast(operand, type, safe=mode == "TRY") if mode in ("TRY", settings.mode) else None
