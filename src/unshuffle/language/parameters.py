"""Script parameters: `#DECLARE days int = 30`, `@days`, `--param days=7`.

A parameter is a typed value from the moment it is read. It enters an expression as a literal of its type, never as SQL
text, so no value can change what a query means.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import from_spark_name, spark_name
from unshuffle.errors import NameProblem, Span, SyntaxProblem, TypeProblem, UserError, did_you_mean
from unshuffle.language.dialect import read_pipes_as_spark

Value = None | bool | int | float | decimal.Decimal | str | bytes | datetime.date | datetime.datetime


@dataclass(frozen=True, slots=True)
class Constant:
    value: Value
    type: DataType

    def __str__(self) -> str:
        return "" if self.value is None else str(self.value)


class Parameters:
    """The parameters of one script: what the caller gave, typed by what the script declares."""

    def __init__(self, given: Mapping[str, object], today: datetime.date | None = None) -> None:
        self._given = {name.lower(): (name, value) for name, value in given.items()}
        self._declared: dict[str, Constant] = {}
        today_given = self._given.pop("today", ("Today", today or datetime.date.today()))[1]
        self._declared["today"] = Constant(convert(today_given, pa.date32(), "the parameter Today"), pa.date32())
        self._used = {"today"}

    def declare(self, name: str, type: pa.DataType, default: Constant | None, span: Span) -> None:
        key = name.lower()
        if key in self._declared:
            raise NameProblem(f"the parameter {name!r} is declared twice", span)
        if key in self._given:
            self._used.add(key)
            value = convert(self._given[key][1], type, f"the parameter {name!r}", span)
        elif default is not None:
            value = convert(default.value, type, f"the default of the parameter {name!r}", span)
        else:
            raise NameProblem(f"the parameter {name!r} has no value", span, f"give one with --param {name}=VALUE")
        self._declared[key] = Constant(value, type)

    def declare_python_values(self) -> None:
        """Takes values given from Python as declared by their own types: a query in a string has no #DECLARE."""
        for key, (name, value) in self._given.items():
            if key not in self._declared:
                self._declared[key] = Constant(value, _type_of(name, value))  # type: ignore[arg-type]
                self._used.add(key)

    def get(self, name: str, span: Span | None) -> Constant:
        try:
            return self._declared[name.lower()]
        except KeyError:
            hint = (
                did_you_mean(name, self._declared.keys() - {"today"}) or f'declare it: #DECLARE {name} string = "...";'
            )
            raise NameProblem(f"unknown parameter @{name}", span, hint) from None

    def check_all_used(self) -> None:
        for key, (name, _) in self._given.items():
            if key not in self._used:
                known = [n for n in self._declared if n != "today"]
                hint = did_you_mean(name, known) or (
                    f"it declares: {', '.join(sorted(known))}" if known else "it declares no parameters"
                )
                raise NameProblem(f"the script declares no parameter {name!r}", None, hint)


def constant(node: exp.Expr, parameters: Parameters, span: Span) -> Constant:
    """The value of an expression of literals and parameters."""

    def substitute(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Parameter):
            return exp.convert(parameters.get(part.name, span).value)
        return part

    tree = read_pipes_as_spark(node.copy()).transform(substitute)
    if not isinstance(tree, exp.Literal | exp.Boolean | exp.Null):
        from sqlglot.optimizer.simplify import (
            simplify,  # most constants are literals and can do without sqlglot's optimizer
        )

        tree = simplify(tree, dialect="spark")
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Null):
        return Constant(None, pa.null())
    if isinstance(tree, exp.Boolean):
        return Constant(bool(tree.this), pa.bool_())
    if isinstance(tree, exp.Literal) and tree.is_string:
        return Constant(tree.name, pa.string())
    if isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Literal):
        type = from_spark_name(tree.to.sql(dialect="spark"))
        return Constant(convert(tree.this.name, type, "this value", span), type)
    sign, number = 1, tree
    if isinstance(number, exp.Neg):
        sign, number = -1, number.this
    if isinstance(number, exp.Literal) and not number.is_string:
        text = number.name
        if text.isdigit():
            value = sign * int(text)
            return Constant(value, pa.int32() if -(2**31) <= value < 2**31 else pa.int64())
        return Constant(sign * float(text), pa.float64())
    raise SyntaxProblem("expected a constant here", span, "literals and @parameters only")


def convert(value: object, type: pa.DataType, what: str, span: Span | None = None) -> Value:
    """A value as the type wants it: from the command line it comes as text, from Python as itself."""

    def wrong(hint: str | None = None) -> UserError:
        return TypeProblem(f"{what} should be of type {spark_name(type)}, but is {value!r}", span, hint)

    try:
        if value is None:
            return None
        if pa.types.is_boolean(type):
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.lower() in ("true", "false"):
                return value.lower() == "true"
            raise wrong("true or false")
        if pa.types.is_integer(type):
            if isinstance(value, bool) or not isinstance(value, int | str):
                raise wrong()
            number = int(value)
            limit = 2 ** (type.bit_width - 1)
            if not -limit <= number < limit:
                raise wrong(f"from {-limit} to {limit - 1}")
            return number
        if pa.types.is_floating(type):
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise wrong()
            return float(value)
        if pa.types.is_decimal(type):
            if isinstance(value, bool) or not isinstance(value, int | str | float | decimal.Decimal):
                raise wrong()
            return decimal.Decimal(str(value))
        if pa.types.is_date(type):
            if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date | str):
                raise wrong("as YYYY-MM-DD")
            return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value)
        if pa.types.is_timestamp(type):
            if not isinstance(value, datetime.datetime | str):
                raise wrong("as YYYY-MM-DD HH:MM:SS")
            return value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(value)
        if pa.types.is_string(type):
            if not isinstance(value, str):
                raise wrong()
            return value
    except (ValueError, decimal.InvalidOperation):
        raise wrong() from None
    raise TypeProblem(
        f"{what} cannot be of type {spark_name(type)}", span, "use a number, string, bool, date or timestamp"
    )


def _type_of(name: str, value: object) -> pa.DataType:
    for python, arrow in (
        (bool, pa.bool_()),
        (int, pa.int64()),
        (float, pa.float64()),
        (str, pa.string()),
        (datetime.datetime, pa.timestamp("us", tz="UTC")),
        (datetime.date, pa.date32()),
    ):
        if isinstance(value, python):
            return pa.int32() if arrow == pa.int64() and -(2**31) <= value < 2**31 else arrow  # type: ignore[operator]
    if value is None:
        return pa.null()
    if isinstance(value, decimal.Decimal):
        return pa.scalar(value).type
    raise TypeProblem(f"the parameter {name!r} is a {type(value).__name__}", None, "use a number, string, bool or date")
