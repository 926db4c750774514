"""What follows a dot: functions of the user's modules, and the members of .NET that SCOPE scripts use on strings, dates,
times and intervals.

A column or a field of a struct hides a member of the same name. Members are written in terms of Spark's functions, which say
what they do with NULL: the result is NULL. docs/language.md lists all members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import DAY_TIME, is_integer, spark_name
from unshuffle.errors import NameProblem, TypeProblem, did_you_mean
from unshuffle.language.bind.expressions.call import user_call
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.plan.expressions import Call, Cast, Expression, Literal, Template
from unshuffle.plan.predicates import is_deterministic

if TYPE_CHECKING:
    from unshuffle.language.bind.expressions.expression import ExpressionBinder

_Property = Callable[[Expression], Expression]
_Method = Callable[..., Expression]

# Everything that .NET takes for white space.
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"

INT, LONG, DOUBLE, TEXT, BOOLEAN, DATE = pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32()


def qualified_call(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    """`s.Substring(0, 3)`, `string.IsNullOrEmpty(s)` or `module.function(x)`."""
    call = node.expression
    names = _names(node.this)
    if names is None:
        return _method_call(binder, binder.bind(_with_columns(node.this)), node)
    column = _as_column(node.this)
    known = [variable.name.lower() for variable in binder.variables] + list(binder.aliases)
    if names[0].lower() in known or binder.scope.find(names, binder.query.span(node)) is not None:
        return _method_call(binder, binder.bind(column), node)
    module, span = ".".join(names), binder.query.span(node)
    if len(names) == 1 and (static := _STATIC.get((names[0].lower(), call.name.lower()))) is not None:
        (argument,) = _arguments(binder, node, 1, 1)
        return static(argument)
    modules = binder.query.modules
    if not modules.has(module, span) and binder.query.environment.has_function(f"{module}.{call.name}"):
        raise NotUnderstood("a function with a qualified name")
    if not modules.is_script:
        raise NotUnderstood("a function with a qualified name")
    function = modules.function(module, call.name, span)
    return user_call(binder, function, f"{module}.{call.name}", list(call.expressions), node)


def filter_of_qualified(node: exp.Expr) -> exp.Expr:
    """`module.function(x) FILTER (...)`, of which sqlglot makes a column named `function(x) FILTER (...)` of a table."""
    filtered: exp.Expr = node.this.copy()
    *qualifier, _ = (part.copy() for part in node.parts)  # type: ignore[attr-defined]
    filtered.set("this", exp.Dot.build([*qualifier, filtered.this]))
    return filtered


def _names(node: exp.Expr) -> list[str] | None:
    """The names in `a.b.c`. None for any other expression."""
    if isinstance(node, exp.Identifier):
        return [node.name]
    if isinstance(node, exp.Column):
        return [part.name for part in node.parts]
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = _names(node.this)
        return None if before is None else [*before, node.expression.name]
    return None


def _as_column(node: exp.Expr) -> exp.Expr:
    """`a.b.c` as a column."""
    if isinstance(node, exp.Column):
        return node
    if isinstance(node, exp.Identifier):
        return exp.Column(this=node.copy())
    first = _as_column(node.this)
    if isinstance(first, exp.Column) and not first.table:
        return exp.Column(this=node.expression.copy(), table=first.this.copy())
    return exp.Dot(this=first, expression=node.expression.copy())


def _with_columns(node: exp.Expr) -> exp.Expr:
    """The expression before a method. sqlglot takes each column in it for a part of the method's qualified name."""
    copied = node.copy()
    for part in list(copied.walk()):
        parent = part.parent
        if isinstance(part, exp.Identifier):
            is_value = not isinstance(parent, _NAMED) and part.arg_key != "alias"
        else:
            is_value = isinstance(part, exp.Dot) and _names(part) is not None and not isinstance(parent, exp.Dot)
        if is_value and parent is not None:
            part.replace(_as_column(part))
    return copied


_NAMED = (exp.Column, exp.Dot, exp.Table, exp.TableAlias, exp.Lambda, exp.CTE)


def bound_property(binder: ExpressionBinder, operand: Expression, name: str, node: exp.Expr) -> Expression | None:
    """`operand.name` as a property of .NET; None where a value of this type can only have fields, or nothing at all."""
    kind = _kind(operand.type)
    if kind is None:
        return None
    made = _PROPERTIES[kind].get(name.lower()) or _PROPERTIES["any"].get(name.lower())
    if made is None:
        raise _unknown(binder, operand, name, node, [*_PROPERTIES[kind], *_METHODS[kind]], name.lower())
    return made(_repeatable(binder, operand, node) if name.lower().startswith("total") else operand)


def _method_call(binder: ExpressionBinder, operand: Expression, node: exp.Expr) -> Expression:
    name = node.expression.name
    kind = _kind(operand.type)
    if kind is None:
        what = "of a type that is not known here" if operand.type is None else f"of type {spark_name(operand.type)}"
        message = f"{name}() cannot be called on this: it is {what}"
        raise TypeProblem(message, binder.query.span(node), "cast it to string, date or timestamp first")
    found = _METHODS[kind].get(name.lower()) or _METHODS["any"].get(name.lower())
    if found is None:
        raise _unknown(binder, operand, name, node, [*_METHODS[kind], *_PROPERTIES[kind]], name.lower())
    least, most, method = found
    return method(operand, *_arguments(binder, node, least, most))


def _arguments(binder: ExpressionBinder, node: exp.Expr, least: int, most: int) -> list[Expression]:
    given = list(node.expression.expressions)
    if not least <= len(given) <= most:
        takes = str(least) if least == most else f"{least} or {most}"
        message = f"{node.expression.name} takes {takes} argument(s), but {len(given)} are given"
        raise TypeProblem(message, binder.query.span(node))
    bound = [binder.bind(each) for each in given]
    if node.expression.name.lower() in _WHOLE:
        for each in bound:
            if each.type is not None and not is_integer(each.type):
                message = f"{node.expression.name} takes whole numbers, but this is of type {spark_name(each.type)}"
                raise TypeProblem(message, binder.query.span(node))
    return bound


def _repeatable(binder: ExpressionBinder, operand: Expression, node: exp.Expr) -> Expression:
    if not is_deterministic(operand):
        message = "this value may differ each time it is computed, and the property reads it more than once"
        raise TypeProblem(message, binder.query.span(node), "compute it in a SELECT before")
    return operand


def _unknown(
    binder: ExpressionBinder, operand: Expression, name: str, node: exp.Expr, known: list[str], lower: str
) -> NameProblem | TypeProblem:
    shown = spark_name(operand.type)
    owners = [kind for kind in _PROPERTIES if lower in _PROPERTIES[kind] or lower in _METHODS[kind]]
    span = binder.query.span(node)
    if owners:
        needs = {"interval": "a time interval", "time": "a date or a timestamp", "text": "a string"}[owners[0]]
        hint = None
        if owners[0] == "interval":
            hint = "the difference of two timestamps is one; the difference of two numbers is a number already"
        return TypeProblem(f"{name} is a member of {needs}, but this is of type {shown}", span, hint)
    spelled = {each.lower(): each for each in _SPELLED}
    hint = did_you_mean(name, [spelled[each] for each in known])
    return NameProblem(f"a value of type {shown} has no field or member {name!r}", span, hint)


def _kind(type: DataType) -> str | None:
    if type is None or pa.types.is_nested(type):
        return None
    if type == DAY_TIME:
        return "interval"
    if pa.types.is_date(type) or pa.types.is_timestamp(type):
        return "time"
    return "text" if type == TEXT else "any"


# -------------------------------------------------------------------------------------------------------- the members


def _call(function: str, type: pa.DataType) -> _Method:
    return lambda *arguments: Call(function, arguments, type)


def _part(unit: str) -> _Property:
    return lambda operand: Template((f"extract({unit} FROM ", ")"), (operand,), INT)


def _component(unit: str) -> _Property:
    pieces = (f"CAST(extract({unit} FROM ", ") AS INT)")
    return lambda operand: Template(pieces, (Cast(operand, DAY_TIME),), INT)


def _milliseconds(operand: Expression) -> Expression:
    """Those after the whole seconds."""
    return Template(("(CAST(extract(SECOND FROM ", ") * 1000 AS INT) % 1000)"), (operand,), INT)


def _total(microseconds: float) -> _Property:
    """The length of an interval in some unit. Spark has no function for it, but exact parts, all of the interval's sign."""

    def total(operand: Expression) -> Expression:
        exact = Cast(operand, DAY_TIME)
        pieces = (
            "((extract(DAY FROM ",
            ") * 86400000000L + extract(HOUR FROM ",
            ") * 3600000000L + extract(MINUTE FROM ",
            ") * 60000000L + CAST(extract(SECOND FROM ",
            f") * 1000000 AS BIGINT)) / {microseconds!r}D)",
        )
        return Template(pieces, (exact,) * 4, DOUBLE)

    return total


def _added(unit: str) -> _Method:
    def add(operand: Expression, count: Expression) -> Expression:
        is_date = operand.type == DATE
        if is_date and unit in _CALENDAR:
            function, factor = _CALENDAR[unit]
            counted = count if factor == 1 else Call("*", (count, Literal(factor, INT)), INT)
            return Call(function, (operand, counted), DATE)
        result = pa.timestamp("us", tz="UTC") if is_date else operand.type
        return Template((f"timestampadd({unit}, ", ", ", ")"), (count, operand), result)

    return add


_CALENDAR = {"DAY": ("date_add", 1), "MONTH": ("add_months", 1), "YEAR": ("add_months", 12)}


def _substring(text: Expression, start: Expression, *length: Expression) -> Expression:
    first = Literal(start.value + 1, INT) if isinstance(start, Literal) and isinstance(start.value, int) else None
    return Call("substring", (text, first or Call("+", (start, Literal(1, INT)), INT), *length), TEXT)


def _trimmed(side: str) -> _Method:
    return lambda text: Template((f"TRIM({side} ", " FROM ", ")"), (Literal(_WHITE_SPACE, TEXT), text), TEXT)


def _as_text(operand: Expression, *format: Expression) -> Expression:
    return Call("date_format", (operand, *format), TEXT) if format else Cast(operand, TEXT)


def _empty(text: Expression) -> Expression:
    return Call("or", (Call("isnull", (text,), BOOLEAN), Call("=", (text, Literal("", TEXT)), BOOLEAN)), BOOLEAN)


_PROPERTIES: dict[str, dict[str, _Property]] = {
    "any": {
        "value": lambda operand: operand,
        "hasvalue": lambda operand: Call("isnotnull", (operand,), BOOLEAN),
    },
    "text": {"length": _call("length", INT)},
    "time": {
        **{unit: _part(unit.upper()) for unit in ("year", "month", "day", "hour", "minute")},
        "second": lambda operand: Call("second", (operand,), INT),
        "millisecond": _milliseconds,
        "dayofyear": _call("dayofyear", INT),
        "dayofweek": lambda operand: Call("-", (Call("dayofweek", (operand,), INT), Literal(1, INT)), INT),
        "date": lambda operand: Cast(operand, DATE),
    },
    "interval": {
        **{f"{unit.lower()}s": _component(unit) for unit in ("DAY", "HOUR", "MINUTE", "SECOND")},
        "milliseconds": lambda operand: _milliseconds(Cast(operand, DAY_TIME)),
        "totaldays": _total(86_400_000_000.0),
        "totalhours": _total(3_600_000_000.0),
        "totalminutes": _total(60_000_000.0),
        "totalseconds": _total(1_000_000.0),
        "totalmilliseconds": _total(1_000.0),
    },
}
_METHODS: dict[str, dict[str, tuple[int, int, _Method]]] = {
    "any": {"tostring": (0, 0, _as_text)},
    "text": {
        "toupper": (0, 0, _call("upper", TEXT)),
        "tolower": (0, 0, _call("lower", TEXT)),
        "trim": (0, 0, _trimmed("BOTH")),
        "trimstart": (0, 0, _trimmed("LEADING")),
        "trimend": (0, 0, _trimmed("TRAILING")),
        "substring": (1, 2, _substring),
        "startswith": (1, 1, _call("startswith", BOOLEAN)),
        "endswith": (1, 1, _call("endswith", BOOLEAN)),
        "contains": (1, 1, _call("contains", BOOLEAN)),
        "indexof": (1, 1, lambda *parts: Call("-", (Call("instr", parts, INT), Literal(1, INT)), INT)),
        "replace": (2, 2, _call("replace", TEXT)),
    },
    "time": {
        **{
            f"add{unit.lower()}s": (1, 1, _added(unit)) for unit in ("DAY", "HOUR", "MINUTE", "SECOND", "MONTH", "YEAR")
        },
        "addmilliseconds": (1, 1, _added("MILLISECOND")),
        "tostring": (0, 1, _as_text),
    },
    "interval": {},
}
_STATIC: dict[tuple[str, str], _Property] = {
    ("string", "isnullorempty"): _empty,
    ("string", "isnullorwhitespace"): lambda text: _empty(_trimmed("BOTH")(text)),
    ("datetime", "parse"): lambda text: Cast(text, pa.timestamp("us", tz="UTC")),
}
_WHOLE = {"substring", *(name for name in _METHODS["time"] if name.startswith("add"))}
_SPELLED = (
    "Value", "HasValue", "Length", "Year", "Month", "Day", "Hour", "Minute", "Second", "Millisecond", "DayOfYear",
    "DayOfWeek", "Date", "Days", "Hours", "Minutes", "Seconds", "Milliseconds", "TotalDays", "TotalHours", "TotalMinutes",
    "TotalSeconds", "TotalMilliseconds", "ToString", "ToUpper", "ToLower", "Trim", "TrimStart", "TrimEnd", "Substring",
    "StartsWith", "EndsWith", "Contains", "IndexOf", "Replace", "AddDays", "AddHours", "AddMinutes", "AddSeconds",
    "AddMonths", "AddYears", "AddMilliseconds",
)  # fmt: skip
