"""Spark's name for a column that the query does not name: `sum(x)`, `(a + b)`, `count(1)`.

The columns of a result must have the names that plain Spark gives them, so this file follows Catalyst's rules, which have
many exceptions. Expressions that are rarely left unnamed (LIKE ANY, sorts with a comparator) get their SQL text as a name.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import Any

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import is_date, is_interval, spark_name
from unshuffle.plan.expressions import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Expression,
    Field,
    Lambda,
    Literal,
    Ref,
    ScalarSubquery,
    SortKey,
    Template,
    Value,
    Variable,
    WindowCall,
)
from unshuffle.plan.sql import call_text, case_text, literal, order_words, template_text, to_sql


def unnamed(expression: Expression) -> str:
    """Spark's name for an output column without an alias."""
    match expression:
        case Ref(column):
            return column.name
        case Field(name=name):
            return name
        case Cast(operand=Ref(column)):
            return column.name
        case _:
            return _pretty(expression)


def _pretty(expression: Expression) -> str:
    """The name of an expression inside another one's name."""
    rule = _RULES.get(type(expression))
    return rule(expression) if rule is not None else to_sql(expression, lambda column: column.name)


def _listed(parts: Sequence[Expression]) -> str:
    return ", ".join(map(_pretty, parts))


def _order(keys: Sequence[SortKey]) -> str:
    return ", ".join(f"{_pretty(key.expression)} {order_words(key)}" for key in keys)


def _cast(cast: Cast) -> str:
    return f"{'TRY_CAST' if cast.safe else 'CAST'}({_pretty(cast.operand)} AS {spark_name(cast.type).upper()})"


def _aggregate(call: AggregateCall) -> str:
    text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{_listed(call.arguments)})"
    if call.within:
        keys = [_pretty(key.expression) + (" DESC" if key.descending else "") for key in call.within]
        text += f" WITHIN GROUP (ORDER BY {', '.join(keys)})"
    return text + (f" FILTER (WHERE {_pretty(call.where)})" if call.where else "")


def _window(window: WindowCall) -> str:
    inside = [f"PARTITION BY {_listed(window.partition)}"] if window.partition else []
    inside += [f"ORDER BY {_order(window.order)}"] if window.order else []
    inside += [_frame(window.call, bool(window.order), window.frame)]
    return f"{_pretty(window.call)} OVER ({' '.join(inside)})"


def _scalar_subquery(subquery: ScalarSubquery) -> str:
    return f"scalarsubquery({', '.join(c.name for c in sorted(subquery.outer, key=lambda c: c.id))})"


# --- calls


def _call(call: Call) -> str:
    function, arguments = call.function, call.arguments
    if function in ("+", "-") and len(arguments) == 2 and any(is_date(each.type) for each in arguments):
        return _date_arithmetic(function, *arguments)
    if function in ("lag", "lead") and len(arguments) < 3:
        defaults = ("1", "NULL")[len(arguments) - 1 :]
        return f"{function}({', '.join([*map(_pretty, arguments), *defaults])})"
    rule = _CALLS.get(function)
    return rule(arguments) if rule is not None else call_text(function, [_pretty(each) for each in arguments])


def _function(name: str) -> Callable[[Sequence[Expression]], str]:
    return lambda arguments: f"{name}({_listed(arguments)})"


def _connected(word: str) -> Callable[[Sequence[Expression]], str]:
    """In Spark, `a AND b AND c` is a tree of pairs from the left."""

    def text(arguments: Sequence[Expression]) -> str:
        first, *others = map(_pretty, arguments)
        for other in others:
            first = f"({first} {word} {other})"
        return first

    return text


def _date_arithmetic(sign: str, left: Expression, right: Expression) -> str:
    """The names of `d + 1`, `d + INTERVAL '1' MONTH` and `d - e`."""
    a, b = _pretty(left), _pretty(right)
    if is_interval(left.type) or is_interval(right.type):
        return f"{a} {sign} {b}"
    if is_date(left.type) and is_date(right.type):
        return f"({a} {sign} {b})"
    name = "date_add" if sign == "+" else "date_sub"
    return f"{name}({a}, {b})" if is_date(left.type) else f"{name}({b}, {a})"


_CALLS: dict[str, Callable[[Sequence[Expression]], str]] = {
    "~": lambda arguments: f"~{_pretty(arguments[0])}",
    "rank": _function("RANK"),
    "dense_rank": _function("DENSE_RANK"),
    "percent_rank": _function("PERCENT_RANK"),
    "struct": lambda arguments: f"struct({_listed(arguments[1::2])})",
    "ilike": _function("ilike"),
    "||": _function("concat"),
    "between": _function("between"),
    "like": lambda arguments: " LIKE ".join(map(_pretty, arguments)),
    "rlike": _function("RLIKE"),
    "if": lambda arguments: f"(IF({_listed(arguments)}))",
    "<>": lambda arguments: f"(NOT ({_pretty(arguments[0])} = {_pretty(arguments[1])}))",
    "div": lambda arguments: f"({_pretty(arguments[0])} div {_pretty(arguments[1])})",
    "and": _connected("AND"),
    "or": _connected("OR"),
}

# --- window frames

# Window functions whose default frame counts rows. Other functions have a RANGE frame.
_ROW_FRAMES = ("rank", "dense_rank", "percent_rank", "row_number", "ntile", "cume_dist", "nth_value")


def _frame(call: AggregateCall | Call, ordered: bool, frame: str | None) -> str:
    """The frame of a window function, or Spark's default if the query names none."""
    if frame:
        return frame
    if call.function in ("lag", "lead"):
        distance = _pretty(call.arguments[1]) if len(call.arguments) > 1 else "1"
        shift = distance if call.function == "lead" else f"-{distance}"
        return f"ROWS BETWEEN {shift} FOLLOWING AND {shift} FOLLOWING"
    if not ordered:
        return "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    unit = "ROWS" if call.function in _ROW_FRAMES else "RANGE"
    return f"{unit} BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


# --- literals


def _literal(value: Value, type: DataType) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    return literal(value, type)


_RULES: dict[type, Callable[[Any], str]] = {
    Ref: lambda ref: str(ref.column.name),
    Literal: lambda constant: _literal(constant.value, constant.type),
    Cast: _cast,
    Case: lambda case: case_text(case, _pretty),
    Field: lambda field: f"{_pretty(field.operand)}.{field.name}",
    Template: lambda template: template_text(template, _pretty),
    Lambda: lambda function: f"lambdafunction({_listed((function.body, *function.parameters))})",
    Variable: lambda variable: "namedlambdavariable()",
    Call: _call,
    AggregateCall: _aggregate,
    WindowCall: _window,
    ScalarSubquery: _scalar_subquery,
}
