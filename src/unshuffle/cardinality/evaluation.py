"""Values of expressions over rows that were looked at, computed by Arrow.

They guide estimates and are not those of Spark in every corner: decimals are floating-point numbers here, and a cast that
Spark rejects is simply not evaluated. What cannot be evaluated raises `NotEvaluated`, and the estimate rests on statistics.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from unshuffle.cardinality.literal_values import UNKNOWN, converted, value_of
from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Call, Case, Cast, Expression, Literal, Ref, Template

Values = Any  # an array of one value a row, or a scalar for all rows
ColumnValues = Callable[[Column], pa.Array | None]


class NotEvaluated(Exception):
    """An expression, or a column of it, has no values here."""


def evaluated(expression: Expression, column: ColumnValues) -> Values:
    """The values of an expression over the columns that `column` gives."""
    try:
        return _Evaluation(column).of(expression)
    except (
        pa.ArrowException,
        ArithmeticError,
        TypeError,
        ValueError,
        AttributeError,
        LookupError,
        RecursionError,
    ) as e:
        raise NotEvaluated(str(e)) from None


def is_true(condition: Expression, column: ColumnValues, rows: int) -> pa.Array:
    """For each row, whether a condition is true, and not false or NULL."""
    import pyarrow.compute as pc

    values = evaluated(condition, column)
    if not pa.types.is_boolean(values.type):
        raise NotEvaluated("not a condition")
    if isinstance(values, pa.Scalar):
        return pa.repeat(pa.scalar(bool(values.as_py())), rows)
    return pc.fill_null(values, False)


class _Evaluation:
    def __init__(self, column: ColumnValues) -> None:
        import pyarrow.compute as pc

        self.column = column
        self.pc = pc

    def of(self, expression: Expression) -> Values:
        match expression:
            case Ref(column=column):
                values = self.column(column)
                if values is None:
                    raise NotEvaluated(column.name)
                return values.cast(pa.float64()) if pa.types.is_decimal(values.type) else values
            case Call(function=name, arguments=arguments, deterministic=True) if name in _FUNCTIONS:
                return _FUNCTIONS[name](self, arguments)
            case Case(branches=branches, otherwise=otherwise):
                return self._case(branches, otherwise)
            case Cast(operand=operand, type=target) if value_of(expression) is UNKNOWN:
                return _cast(self.of(operand), target)
            case Template(pieces=(opening, _), operands=(operand,)) if opening.lower().startswith("extract("):
                part = opening[len("extract(") :].split()[0].lower()
                return _FUNCTIONS[part](self, (operand,))
            case _:
                value = value_of(expression)
                if value is UNKNOWN:
                    raise NotEvaluated(type(expression).__name__)
                return _scalar(value)

    def together(self, parts: Sequence[Expression]) -> list[Values]:
        """Values that can be compared with each other."""
        return _alike([self.of(part) for part in parts])

    def _case(self, branches: Sequence[tuple[Expression, Expression]], otherwise: Expression | None) -> Values:
        values = self.together([*(value for _, value in branches), otherwise or Literal(None, None)])
        result = values[-1]
        for (condition, _), value in reversed(list(zip(branches, values[:-1], strict=True))):
            result = self.pc.if_else(self.pc.fill_null(self.of(condition), False), value, result)
        return result

    # --- functions

    def compare(self, how: str) -> Callable[[Sequence[Expression]], Values]:
        return lambda parts: self.pc.call_function(how, self.together(parts))

    def null_safe(self, parts: Sequence[Expression]) -> Values:
        one, other = self.together(parts)
        both_null = self.pc.and_(self.pc.is_null(one), self.pc.is_null(other))
        return self.pc.or_(both_null, self.pc.fill_null(self.pc.equal(one, other), False))

    def all(self, parts: Sequence[Expression]) -> Values:
        return self._folded(self.pc.and_kleene, parts)

    def any(self, parts: Sequence[Expression]) -> Values:
        return self._folded(self.pc.or_kleene, parts)

    def _folded(self, how: Callable[[Values, Values], Values], parts: Sequence[Expression]) -> Values:
        first, *rest = (self.of(part) for part in parts)
        for each in rest:
            first = how(first, each)
        return first

    def is_in(self, parts: Sequence[Expression]) -> Values:
        subject, *listed = parts
        values = self.of(subject)
        constants = [value_of(each) for each in listed]
        if any(value is UNKNOWN for value in constants):
            raise NotEvaluated("in")
        alike = [_alike([values, _scalar(value)])[1].as_py() for value in constants if value is not None]
        return self.pc.is_in(values, value_set=pa.array(alike, values.type))

    def between(self, parts: Sequence[Expression]) -> Values:
        subject, low, high = parts
        above = self.compare("greater_equal")((subject, low))
        return self.pc.and_kleene(above, self.compare("less_equal")((subject, high)))

    def like(self, parts: Sequence[Expression], ignore_case: bool = False) -> Values:
        pattern = value_of(parts[1])
        if len(parts) > 2 or not isinstance(pattern, str):
            raise NotEvaluated("like")
        return self.pc.match_like(self.of(parts[0]), pattern, ignore_case=ignore_case)

    def arithmetic(self, how: str) -> Callable[[Sequence[Expression]], Values]:
        def computed(parts: Sequence[Expression]) -> Values:
            one, other = (self.of(part) for part in parts)
            if pa.types.is_date(one.type) and how in ("add", "subtract"):
                days = one.cast(pa.int32()), other.cast(pa.int32())
                moved = self.pc.call_function(how, list(days))
                return moved if pa.types.is_date(other.type) else moved.cast(pa.date32())
            return self.pc.call_function(how, [one.cast(pa.float64()), other.cast(pa.float64())])

        return computed

    def divided(self, parts: Sequence[Expression]) -> Values:
        one, other = (self.of(part).cast(pa.float64()) for part in parts)
        other = self.pc.if_else(self.pc.equal(other, 0.0), pa.scalar(None, pa.float64()), other)
        return self.pc.divide(one, other)

    def coalesced(self, parts: Sequence[Expression]) -> Values:
        return self.pc.coalesce(*self.together(parts))

    def substring(self, parts: Sequence[Expression]) -> Values:
        start, length = value_of(parts[1]), value_of(parts[2]) if len(parts) > 2 else None
        if not isinstance(start, int) or start < 0 or (length is not None and not isinstance(length, int)):
            raise NotEvaluated("substring")
        first = max(0, start - 1)
        return self.pc.utf8_slice_codeunits(self.of(parts[0]), first, None if length is None else first + length)

    def beginning(self, parts: Sequence[Expression]) -> Values:
        return self.substring((parts[0], Literal(1, None), parts[1]))

    def chosen(self, parts: Sequence[Expression]) -> Values:
        return self._case([(parts[0], parts[1])], parts[2])

    def truth(self, parts: Sequence[Expression]) -> Values:
        return self.pc.fill_null(self.of(parts[0]), False)

    def falsehood(self, parts: Sequence[Expression]) -> Values:
        return self.pc.fill_null(self.pc.invert(self.of(parts[0])), False)

    def unary(self, how: str) -> Callable[[Sequence[Expression]], Values]:
        return lambda parts: self.pc.call_function(how, [self.of(parts[0])])

    def unequal(self, parts: Sequence[Expression]) -> Values:
        return self.pc.not_equal(*self.together(parts))


_Function = Callable[[_Evaluation, Sequence[Expression]], Values]


def _named(method: Callable[[_Evaluation, str], Callable[[Sequence[Expression]], Values]], how: str) -> _Function:
    return lambda evaluation, parts: method(evaluation, how)(parts)


_FUNCTIONS: dict[str, _Function] = {
    "=": _named(_Evaluation.compare, "equal"),
    "<": _named(_Evaluation.compare, "less"),
    "<=": _named(_Evaluation.compare, "less_equal"),
    ">": _named(_Evaluation.compare, "greater"),
    ">=": _named(_Evaluation.compare, "greater_equal"),
    "<>": _Evaluation.unequal,
    "<=>": _Evaluation.null_safe,
    "and": _Evaluation.all,
    "or": _Evaluation.any,
    "not": _named(_Evaluation.unary, "invert"),
    "isnull": _named(_Evaluation.unary, "is_null"),
    "isnotnull": _named(_Evaluation.unary, "is_valid"),
    "is true": _Evaluation.truth,
    "is false": _Evaluation.falsehood,
    "in": _Evaluation.is_in,
    "between": _Evaluation.between,
    "like": _Evaluation.like,
    "ilike": lambda evaluation, parts: evaluation.like(parts, ignore_case=True),
    "+": _named(_Evaluation.arithmetic, "add"),
    "-": _named(_Evaluation.arithmetic, "subtract"),
    "*": _named(_Evaluation.arithmetic, "multiply"),
    "/": _Evaluation.divided,
    "negative": _named(_Evaluation.unary, "negate"),
    "abs": _named(_Evaluation.unary, "abs"),
    "coalesce": _Evaluation.coalesced,
    "if": _Evaluation.chosen,
    "substring": _Evaluation.substring,
    "substr": _Evaluation.substring,
    "left": _Evaluation.beginning,
    "upper": _named(_Evaluation.unary, "utf8_upper"),
    "lower": _named(_Evaluation.unary, "utf8_lower"),
    "length": _named(_Evaluation.unary, "utf8_length"),
    "year": _named(_Evaluation.unary, "year"),
    "month": _named(_Evaluation.unary, "month"),
    "day": _named(_Evaluation.unary, "day"),
}


def _scalar(value: Any) -> pa.Scalar:
    scalar = pa.scalar(value)
    return scalar.cast(pa.float64()) if pa.types.is_decimal(scalar.type) else scalar


def _alike(values: Sequence[Values]) -> list[Values]:
    """The same values in types that can be compared: constants take the type of the first column among them."""
    example = next((each for each in values if not isinstance(each, pa.Scalar)), values[0])
    return [_as(each, example.type) if each.type != example.type else each for each in values]


def _as(values: Values, type: pa.DataType) -> Values:
    t = pa.types
    if t.is_null(values.type):
        return values.cast(type)
    if isinstance(values, pa.Scalar):
        if (t.is_date(type) or t.is_timestamp(type)) and not t.is_temporal(values.type):
            value = converted(values.as_py(), _example(type))
            if value is UNKNOWN:
                raise NotEvaluated("a date")
            return pa.scalar(value, type)
        if t.is_date(type) and t.is_timestamp(values.type):
            return values
        if t.is_string(values.type) != t.is_string(type):
            return pa.scalar(float(values.as_py())) if t.is_string(values.type) else pa.scalar(str(values.as_py()))
        if t.is_timestamp(type):
            return pa.scalar(converted(values.as_py(), _example(type)), type)
    return values


def _example(type: pa.DataType) -> Any:
    if pa.types.is_date(type):
        return datetime.date(2000, 1, 1)
    return datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC if type.tz else None)


def _cast(values: Values, type: pa.DataType) -> Values:
    if values.type == type:
        return values
    t = pa.types
    if t.is_decimal(type):
        return values.cast(pa.float64())
    if t.is_string(values.type) and t.is_date(type):
        return values.cast(pa.timestamp("us")).cast(type)
    return values.cast(type, safe=False)
