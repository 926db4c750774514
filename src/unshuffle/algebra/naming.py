"""What Spark calls a column that nobody named: `sum(x)`, `(a + b)`, `count(1)`.

The columns of a result must be called what plain Spark calls them, so this follows Catalyst's rule. It is a rule with
many exceptions; expressions that few people leave unnamed (LIKE ANY, sorts with a comparator) come out as their SQL text.
"""

from __future__ import annotations

import datetime
import decimal

from unshuffle.algebra.expressions import (
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
from unshuffle.algebra.sql import call_text, literal, order_words, to_sql
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import is_date, is_interval, spark_name


def unnamed(expression: Expression) -> str:
    """What Spark calls a column of this expression when nobody gave it a name."""
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
    def order(keys: tuple[SortKey, ...]) -> str:
        return ", ".join(f"{_pretty(k.expression)} {order_words(k)}" for k in keys)

    def listed(parts: tuple[Expression, ...]) -> str:
        return ", ".join(map(_pretty, parts))

    match expression:
        case Ref(column):
            return column.name
        case Literal(value, type):
            return _pretty_literal(value, type)
        case Cast(operand, type, safe):
            return f"{'TRY_CAST' if safe else 'CAST'}({_pretty(operand)} AS {spark_name(type).upper()})"
        case Case(branches, otherwise):
            when = " ".join(f"WHEN {_pretty(w)} THEN {_pretty(t)}" for w, t in branches)
            return f"CASE {when}{'' if otherwise is None else ' ELSE ' + _pretty(otherwise)} END"
        case Field(operand, name):
            return f"{_pretty(operand)}.{name}"
        case Template(pieces, operands):
            return pieces[0] + "".join(_pretty(o) + piece for o, piece in zip(operands, pieces[1:], strict=True))
        case Lambda(parameters, body):
            return f"lambdafunction({', '.join(map(_pretty, (body, *parameters)))})"
        case Variable():
            return "namedlambdavariable()"
        case Call("~", arguments):
            return f"~{_pretty(arguments[0])}"
        case Call("+" | "-" as sign, (left, right)) if is_date(left.type) or is_date(right.type):
            return _date_arithmetic(sign, left, right)
        case Call("rank" | "dense_rank" | "percent_rank" as word, arguments):
            return f"{word.upper()}({listed(arguments)})"
        case Call("lag" | "lead" as word, arguments) if len(arguments) < 3:
            defaults = ("1", "NULL")[len(arguments) - 1 :]
            return f"{word}({', '.join([*map(_pretty, arguments), *defaults])})"
        case Call("struct", arguments):
            return f"struct({listed(arguments[1::2])})"
        case Call("ilike", arguments):
            return f"ilike({listed(arguments)})"
        case Call("||", arguments):
            return f"concat({listed(arguments)})"
        case Call("between", arguments):
            return f"between({listed(arguments)})"
        case Call("like", arguments):
            return " LIKE ".join(map(_pretty, arguments))
        case Call("rlike", arguments):
            return f"RLIKE({listed(arguments)})"
        case Call("if", arguments):
            return f"(IF({listed(arguments)}))"
        case Call("<>", arguments):
            return f"(NOT ({_pretty(arguments[0])} = {_pretty(arguments[1])}))"
        case Call("div", arguments):
            return f"({_pretty(arguments[0])} div {_pretty(arguments[1])})"
        case Call("and" | "or" as word, arguments):
            # Spark's is a tree of pairs from the left.
            text = _pretty(arguments[0])
            for argument in arguments[1:]:
                text = f"({text} {word.upper()} {_pretty(argument)})"
            return text
        case Call(function, arguments):
            return call_text(function, [_pretty(a) for a in arguments])
        case AggregateCall():
            text = f"{expression.function}({'DISTINCT ' if expression.distinct else ''}{listed(expression.arguments)})"
            if expression.within:
                keys = [_pretty(k.expression) + (" DESC" if k.descending else "") for k in expression.within]
                text += f" WITHIN GROUP (ORDER BY {', '.join(keys)})"
            return text + (f" FILTER (WHERE {_pretty(expression.where)})" if expression.where else "")
        case WindowCall(call, partition, keys, frame):
            inside = [f"PARTITION BY {listed(partition)}"] if partition else []
            inside += [f"ORDER BY {order(keys)}"] if keys else []
            inside += [_frame(call, bool(keys), frame)]
            return f"{_pretty(call)} OVER ({' '.join(inside)})"
        case ScalarSubquery(outer=outer):
            return f"scalarsubquery({', '.join(c.name for c in sorted(outer, key=lambda c: c.id))})"
        case _:
            return to_sql(expression, lambda column: column.name)


_ROW_FUNCTIONS = ("rank", "dense_rank", "percent_rank", "row_number", "ntile", "cume_dist", "nth_value")


def _frame(call: AggregateCall | Call, ordered: bool, frame: str | None) -> str:
    """The frame that Spark gives a window function which names none."""
    if frame:
        return frame
    if call.function in ("lag", "lead"):
        distance = _pretty(call.arguments[1]) if len(call.arguments) > 1 else "1"
        shift = distance if call.function == "lead" else f"-{distance}"
        return f"ROWS BETWEEN {shift} FOLLOWING AND {shift} FOLLOWING"
    if not ordered:
        return "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    unit = "ROWS" if call.function in _ROW_FUNCTIONS else "RANGE"
    return f"{unit} BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def _date_arithmetic(sign: str, left: Expression, right: Expression) -> str:
    """Spark names what it makes of `d + 1`, `d + INTERVAL '1' MONTH` and `d - e`."""
    a, b = _pretty(left), _pretty(right)
    if is_interval(left.type) or is_interval(right.type):
        return f"{a} {sign} {b}"
    if is_date(left.type) and is_date(right.type):
        return f"({a} {sign} {b})"
    name = "date_add" if sign == "+" else "date_sub"
    return f"{name}({a}, {b})" if is_date(left.type) else f"{name}({b}, {a})"


def _pretty_literal(value: Value, type: DataType) -> str:
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
