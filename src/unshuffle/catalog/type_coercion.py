"""The type that Spark gives an expression of two types.

The rules are those of ANSI mode, Spark 4's default (`AnsiTypeCoercion` and `DecimalPrecisionTypeCoercion` in Catalyst). A
test compares every answer with Spark's analyzer. An unknown type (None) makes everything computed from it unknown. The type
of an expression that Spark rejects is also None, because the error is Spark's to report.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    INTEGER_DIGITS,
    MAX_PRECISION,
    NUMERIC_PRECEDENCE,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    YEAR_MONTH,
    is_array,
    is_decimal,
    is_instant,
    is_integer,
    is_interval,
    is_numeric,
)

# --- common types


def common_type(a: DataType, b: DataType) -> DataType:
    """The type of `coalesce`, CASE, UNION, IN and comparisons over two types. None if they have no common type."""
    if a is None or b is None:
        return None
    if a == b or b == VOID:
        return a
    if a == VOID:
        return b
    if STRING in (a, b):
        return _common_with_string(b if a == STRING else a)
    if is_numeric(a) and is_numeric(b):
        return _common_number(a, b)
    if is_instant(a) and is_instant(b):
        return TIMESTAMP if TIMESTAMP in (a, b) else TIMESTAMP_NTZ
    return _common_nested(a, b)


def _common_with_string(other: pa.DataType) -> DataType:
    """ANSI mode casts the string to the other type, and to the widest type of its family for numbers."""
    if is_integer(other):
        return BIGINT
    if is_numeric(other):
        return DOUBLE
    return other if other in (BOOLEAN, BINARY, TIME) or is_instant(other) else None


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if is_decimal(a) or is_decimal(b):
        if not (x := as_decimal(a)) or not (y := as_decimal(b)):
            return DOUBLE
        scale = max(x.scale, y.scale)
        precision = max(x.precision - x.scale, y.precision - y.scale) + scale
        excess = max(0, precision - MAX_PRECISION)  # fractional digits are dropped before integral ones
        return pa.decimal128(min(precision, MAX_PRECISION), max(0, scale - excess))
    wider = max(a, b, key=NUMERIC_PRECEDENCE.index)
    # A float cannot hold every int, so their common type is double.
    return DOUBLE if wider == FLOAT else wider


def _common_nested(a: pa.DataType, b: pa.DataType) -> DataType:
    if is_array(a) and is_array(b):
        element = common_type(a.value_type, b.value_type)
        return None if element is None else pa.list_(element)
    if pa.types.is_map(a) and pa.types.is_map(b):
        key, value = common_type(a.key_type, b.key_type), common_type(a.item_type, b.item_type)
        return None if key is None or value is None else pa.map_(key, value)
    if pa.types.is_struct(a) and pa.types.is_struct(b) and _field_names(a) == _field_names(b):
        types = [common_type(x.type, y.type) for x, y in zip(a, b, strict=True)]
        if all(type is not None for type in types):
            return pa.struct([pa.field(x.name, type) for x, type in zip(a, types, strict=True)])
    return None


def _field_names(struct: pa.DataType) -> list[str]:
    return [field.name.lower() for field in struct]


# --- arithmetic


def arithmetic_type(operator: str, a: DataType, b: DataType) -> DataType:
    """The type of `a operator b` for + - * / % and div (any case); None where unknown or where Spark rejects it.

    An integer *literal* next to a decimal has the decimal type of its digits: pass `literal_type(value)` for it.
    """
    if a is None or b is None:
        return None
    match operator.lower():
        case "+":
            return _shifted(a, b) or _shifted(b, a) or _interval_sum(a, b) or _numeric("+", a, b)
        case "-":
            return _elapsed(a, b) or _shifted(a, b, is_minus=True) or _interval_sum(a, b) or _numeric("-", a, b)
        case "*":
            return _scaled(a, b) or _scaled(b, a) or _numeric("*", a, b)
        case "/":
            return _scaled(a, b) or _quotient(a, b)
        case "%":
            return _numeric("%", a, b)
        case "div":
            return _integral_quotient(a, b)
    return None


def literal_type(value: int) -> pa.DataType:
    """The decimal type of an integer literal next to a decimal: `2 * price` multiplies by a decimal(1,0)."""
    return pa.decimal128(len(str(abs(value))), 0)


def as_decimal(type: pa.DataType) -> pa.DataType | None:
    """The decimal type that holds every value of a type; None for a float or a double."""
    if is_decimal(type):
        return type
    return pa.decimal128(INTEGER_DIGITS[type], 0) if type in INTEGER_DIGITS else None


def bounded_decimal(precision: int, scale: int) -> pa.DataType:
    """A result type within 38 digits, as `spark.sql.decimalOperations.allowPrecisionLoss` (default true) has it.

    Fractional digits are dropped, down to six, before integral ones.
    """
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - (precision - scale), min(scale, 6)))


def _add(p: int, s: int, q: int, t: int) -> tuple[int, int]:
    return max(p - s, q - t) + max(s, t) + 1, max(s, t)


def _multiply(p: int, s: int, q: int, t: int) -> tuple[int, int]:
    return p + q + 1, s + t


def _divide(p: int, s: int, q: int, t: int) -> tuple[int, int]:
    scale = max(6, s + q + 1)
    return p - s + t + scale, scale


def _modulo(p: int, s: int, q: int, t: int) -> tuple[int, int]:
    return min(p - s, q - t) + max(s, t), max(s, t)


_DECIMAL_RULES: dict[str, Callable[[int, int, int, int], tuple[int, int]]] = {
    "+": _add,
    "-": _add,
    "*": _multiply,
    "/": _divide,
    "%": _modulo,
}


def _numeric(operator: str, a: pa.DataType, b: pa.DataType) -> DataType:
    a, b = (b if a == VOID else a), (a if b == VOID else b)
    if a == VOID:
        return DOUBLE
    if a == b == STRING or not all(is_numeric(type) or type == STRING for type in (a, b)):
        return None
    if (is_decimal(a) or is_decimal(b)) and (x := as_decimal(a)) and (y := as_decimal(b)):
        return bounded_decimal(*_DECIMAL_RULES[operator](x.precision, x.scale, y.precision, y.scale))
    return common_type(a, b)


def _quotient(a: pa.DataType, b: pa.DataType) -> DataType:
    # NULL / decimal is a double, but decimal / NULL a decimal: Catalyst casts the left NULL first.
    if a == VOID and is_decimal(b):
        return DOUBLE
    type = _numeric("/", a, b)
    return type if is_decimal(type) or type is None else DOUBLE


def _integral_quotient(a: pa.DataType, b: pa.DataType) -> DataType:
    kinds = {"interval" if is_interval(type) else "number" for type in (a, b) if type != VOID}
    if kinds == {"interval"}:
        return BIGINT if VOID in (a, b) or a == b else None
    is_exact = all(is_integer(type) or is_decimal(type) or type in (VOID, STRING) for type in (a, b))
    is_text = STRING in (a, b) and not (is_integer(a) or is_integer(b))
    return BIGINT if is_exact and not is_text else None


def _shifted(a: pa.DataType, by: pa.DataType, is_minus: bool = False) -> DataType:
    """The type of a date, timestamp or time plus or minus an interval or a number of days."""
    if a == DATE:
        if by == YEAR_MONTH or (is_integer(by) and by != BIGINT):
            return DATE
        # NULL counts as an interval when added, as a date when subtracted. The type of a date plus a day-time
        # interval depends on the interval's fields: a date for whole days, else a timestamp.
        return TIMESTAMP if by == VOID and not is_minus else None
    if a in (TIMESTAMP, TIMESTAMP_NTZ):
        return a if is_interval(by) or (by == VOID and not is_minus) else None
    if a == TIME:
        return a if by == DAY_TIME or (by == VOID and not is_minus) else None
    if a == STRING and by == DAY_TIME:
        return STRING
    return None


def _elapsed(a: pa.DataType, b: pa.DataType) -> DataType:
    """The time between two dates, timestamps or times; NULL and strings count as the other's type."""
    if not all(is_instant(type) or type in (TIME, STRING, VOID) for type in (a, b)):
        return None
    instants = {type for type in (a, b) if type not in (STRING, VOID)}
    return DAY_TIME if instants and (TIME not in instants or instants == {TIME}) else None


def _interval_sum(a: pa.DataType, b: pa.DataType) -> DataType:
    return common_type(a, b) if is_interval(a) or is_interval(b) else None


def _scaled(interval: pa.DataType, factor: pa.DataType) -> DataType:
    can_scale = is_interval(interval) and (is_numeric(factor) or factor in (STRING, VOID))
    return interval if can_scale else None
