"""Script parameters: `#DECLARE days int = 30`, `@days`, `--param days=7`.

A parameter is a typed value from the moment it is read. It enters an expression as a literal of its type, never as SQL
text, so no value can change what a query means.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.errors import NameProblem, Span, SyntaxProblem, did_you_mean
from unshuffle.frozen import dataclass
from unshuffle.language.parse.dialect import read_pipes_as_spark
from unshuffle.language.parse.values import Value, convert, type_of


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A value and its type."""

    value: Value
    type: DataType

    def __str__(self) -> str:
        return "" if self.value is None else str(self.value)


class Parameters:
    """The parameters of one script: the caller's values, with the types that the script declares."""

    def __init__(self, given: Mapping[str, object], today: datetime.date | None = None) -> None:
        self._given = {name.lower(): (name, value) for name, value in given.items()}
        self._declared: dict[str, ConstantValue] = {}
        today_given = self._given.pop("today", ("Today", today or datetime.date.today()))[1]
        self._declared["today"] = ConstantValue(convert(today_given, pa.date32(), "the parameter Today"), pa.date32())
        self._used = {"today"}

    def declare(self, name: str, type: pa.DataType, default: ConstantValue | None, span: Span) -> None:
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
        self._declared[key] = ConstantValue(value, type)

    def declare_python_values(self) -> None:
        """Declares the values given from Python, each with its own type: a query in a string has no #DECLARE."""
        for key, (name, value) in self._given.items():
            if key not in self._declared:
                self._declared[key] = ConstantValue(value, type_of(name, value))  # type: ignore[arg-type]
                self._used.add(key)

    def and_also(self, values: Mapping[str, ConstantValue]) -> Parameters:
        """These parameters and others, which hide those of the same names. The names are in lower case."""
        both = Parameters({})
        both._declared = {**self._declared, **values}
        return both

    def get(self, name: str, span: Span | None) -> ConstantValue:
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


def constant(node: exp.Expr, parameters: Parameters, span: Span) -> ConstantValue:
    """The value of an expression of literals and parameters."""
    tree = _simplified(node, parameters, span)
    if isinstance(tree, exp.Null):
        return ConstantValue(None, pa.null())
    if isinstance(tree, exp.Boolean):
        return ConstantValue(bool(tree.this), pa.bool_())
    if isinstance(tree, exp.Literal) and tree.is_string:
        return ConstantValue(tree.name, pa.string())
    if isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Literal):
        type = from_spark_name(tree.to.sql(dialect="spark"))
        return ConstantValue(convert(tree.this.name, type, "this value", span), type)
    sign, number = (-1, tree.this) if isinstance(tree, exp.Neg) else (1, tree)
    if isinstance(number, exp.Literal) and not number.is_string:
        return _number(sign, number.name)
    raise SyntaxProblem("expected a constant here", span, "literals and @parameters only")


def _simplified(node: exp.Expr, parameters: Parameters, span: Span) -> exp.Expr:
    def substitute(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Parameter):
            return exp.convert(parameters.get(part.name, span).value)
        return part

    tree: exp.Expr = read_pipes_as_spark(node.copy()).transform(substitute)
    if not isinstance(tree, exp.Literal | exp.Boolean | exp.Null):
        # Most constants are literals, and do without this import.
        from sqlglot.optimizer.simplify import simplify

        tree = simplify(tree, dialect="spark")
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _number(sign: int, text: str) -> ConstantValue:
    if not text.isdigit():
        return ConstantValue(sign * float(text), pa.float64())
    value = sign * int(text)
    return ConstantValue(value, pa.int32() if -(2**31) <= value < 2**31 else pa.int64())
