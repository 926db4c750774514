"""The statistics of an expression, from those of the columns that it reads.

A function cannot produce more distinct values than its arguments have. For a few monotone functions (a cast between numbers,
the year of a date, a constant added) the minimum and the maximum follow as well.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from math import inf
from typing import Any

import pyarrow as pa

from unshuffle.cardinality.literal_values import UNKNOWN, count_between, value_of
from unshuffle.cardinality.relation_estimate import Estimate, product_of_values
from unshuffle.catalog.statistics.table_statistics import UNKNOWN_COLUMN, ColumnStatistics
from unshuffle.plan.expressions import Call, Case, Cast, Expression, Literal, Ref, Template, columns_of

_BOOLEAN = pa.bool_()
_NUMBERS = (int, float, Decimal)


def expression_statistics(expression: Expression, relation: Estimate) -> ColumnStatistics:
    """The statistics of an expression over a relation's columns."""
    match expression:
        case Ref(column=column):
            return relation.columns.get(column, UNKNOWN_COLUMN)
        case Literal(value=value):
            return _constant(value)
        case Cast(operand=operand, type=type):
            return _cast(expression_statistics(operand, relation), operand.type, type)
        case Case(branches=branches, otherwise=otherwise):
            return _choice([value for _, value in branches], otherwise, relation)
        case Call(function="if", arguments=(_, then, otherwise)):
            return _choice([then], otherwise, relation)
        case Call(function="+" | "-" as sign, arguments=(left, right)):
            return _shifted(expression, sign, left, right, relation)
        case Call(function="%" | "pmod", arguments=(_, Literal(value=int(divisor)))) if divisor:
            return _remainder(expression, abs(divisor), relation)
        case Call(function="coalesce", arguments=(first, *rest)):
            known = expression_statistics(first, relation)
            return _bounded(expression, relation, nulls=0.0 if rest else known.null_fraction)
        case Call(function="substring" | "substr", arguments=(text, Literal(value=1 | 0), Literal(value=int(length)))):
            return _beginning(expression_statistics(text, relation), length)
        case Call(function="left", arguments=(text, Literal(value=int(length)))):
            return _beginning(expression_statistics(text, relation), length)
        case Call(function=name, arguments=(operand,)) if name in _PARTS:
            return _part(expression_statistics(operand, relation), _PARTS[name])
        case Template(pieces=(opening, _), operands=(operand,)) if opening.lower().startswith("extract("):
            unit = opening[len("extract(") :].split()[0].lower()
            if unit in _PARTS:
                return _part(expression_statistics(operand, relation), _PARTS[unit])
        case _:
            pass
    value = value_of(expression)
    return _constant(value) if value is not UNKNOWN else _bounded(expression, relation)


def _constant(value: Any) -> ColumnStatistics:
    if value is None:
        return ColumnStatistics(0.0, 1.0)
    width = float(len(value)) if isinstance(value, str | bytes) else None
    return ColumnStatistics(1.0, 0.0, value, value, width, ((value, 1.0),))


def _bounded(expression: Expression, relation: Estimate, nulls: float | None = None) -> ColumnStatistics:
    columns = sorted(columns_of(expression), key=lambda column: column.id)
    if not columns:
        return UNKNOWN_COLUMN
    if expression.type == _BOOLEAN:
        return ColumnStatistics(2.0)
    counts, solid = [], 1.0
    for column in columns:
        known = relation.columns.get(column)
        if known is None or known.distinct is None:
            return UNKNOWN_COLUMN
        counts.append(max(1.0, known.distinct))
        solid *= 1.0 - known.null_fraction
    return ColumnStatistics(
        min(product_of_values(counts), max(1.0, relation.rows)), 1.0 - solid if nulls is None else nulls
    )


def _remainder(expression: Call, divisor: int, relation: Estimate) -> ColumnStatistics:
    """A remainder has few values, also of a number of which nothing is known. That of a negative number is negative for %."""
    known, number = _bounded(expression, relation), expression_statistics(expression.arguments[0], relation)
    is_positive = expression.function == "pmod" or (isinstance(number.low, _NUMBERS) and number.low >= 0)
    values = float(divisor if is_positive else 2 * divisor - 1)
    return ColumnStatistics(values if known.distinct is None else min(known.distinct, values), known.null_fraction)


def _choice(values: list[Expression], otherwise: Expression | None, relation: Estimate) -> ColumnStatistics:
    """The result of CASE: at most as many distinct values as all branches have."""
    distinct = 0.0
    for value in (*values, *((otherwise,) if otherwise is not None else ())):
        known = expression_statistics(value, relation)
        if known.distinct is None:
            return UNKNOWN_COLUMN
        distinct += known.distinct
    return ColumnStatistics(max(1.0, distinct))


def _cast(known: ColumnStatistics, source: pa.DataType | None, target: pa.DataType) -> ColumnStatistics:
    if source is None:
        return ColumnStatistics(known.distinct, known.null_fraction)
    t = pa.types
    numbers = all(t.is_integer(one) or t.is_floating(one) or t.is_decimal(one) for one in (source, target))
    if source == target or (numbers and not (t.is_integer(target) and not t.is_integer(source))):
        return ColumnStatistics(
            known.distinct, known.null_fraction, known.low, known.high, None, known.common, known.histogram
        )
    if t.is_timestamp(source) and t.is_date(target):
        return _part(known, lambda instant: instant.date())
    return ColumnStatistics(known.distinct, known.null_fraction)


def _part(known: ColumnStatistics, part: Callable[[Any], Any]) -> ColumnStatistics:
    """A part of a date or time that keeps the order."""
    if not isinstance(known.low, datetime.date) or not isinstance(known.high, datetime.date):
        return ColumnStatistics(known.distinct, known.null_fraction)
    try:
        low, high = part(known.low), part(known.high)
    except (TypeError, AttributeError):
        return ColumnStatistics(known.distinct, known.null_fraction)
    count = count_between(low, high)
    counts = [count for count in (count, known.distinct) if count is not None]
    return ColumnStatistics(min(counts) if counts else None, known.null_fraction, low, high)


def _beginning(known: ColumnStatistics, length: int) -> ColumnStatistics:
    """The first characters of a text. The histogram's bounds are a sample of them: where they repeat, the sample shows
    nearly all there are; where they do not, as many as the texts. Without one, as many as can be between the ends."""
    if not isinstance(known.low, str) or not isinstance(known.high, str) or length < 1:
        return ColumnStatistics(known.distinct, known.null_fraction, width=float(max(1, length)))
    distinct = known.distinct
    common: dict[str, float] = {}
    if known.lists_all_values:
        for value, share in known.common:
            common[value[:length]] = common.get(value[:length], 0.0) + share
        distinct = float(len(common))
    elif known.histogram is not None:
        found = Counter(bound[:length] for bound in known.histogram.bounds)
        if len(found) <= len(known.histogram.bounds) * 0.6:
            solid = (1.0 - known.null_fraction) / len(known.histogram.bounds)
            common = {value: count * solid for value, count in found.items()}
            distinct = min(known.distinct or inf, float(len(found)))
    else:
        distinct = min(known.distinct or inf, _texts_between(known.low[:length], known.high[:length]))
    shares = tuple(sorted(common.items(), key=lambda pair: -pair[1]))
    low, high = known.low[:length], known.high[:length]
    return ColumnStatistics(distinct, known.null_fraction, low, high, float(length), shares)


def _texts_between(low: str, high: str) -> float:
    """The number of possible texts of that length from one to the other. Where both have a digit, characters are assumed to
    be digits, elsewhere letters of one case."""
    pairs = list(zip(low, high, strict=False))
    difference = next((index for index, (one, other) in enumerate(pairs) if one != other), None)
    if difference is None:
        return 1.0
    first, after = pairs[difference], pairs[difference + 1 :]
    count = abs(ord(first[1]) - ord(first[0])) + 1.0
    for one, other in after:
        count *= 10.0 if one.isdigit() and other.isdigit() else 26.0
    return count


def _year(day: Any) -> Any:
    return day.year


def _day(instant: Any) -> Any:
    return instant.date() if isinstance(instant, datetime.datetime) else instant


_PARTS: dict[str, Callable[[Any], Any]] = {"year": _year, "years": _year, "to_date": _day, "date": _day}


def _shifted(
    expression: Expression, sign: str, left: Expression, right: Expression, relation: Estimate
) -> ColumnStatistics:
    """A number plus or minus a constant."""
    by = value_of(right)
    known = expression_statistics(left, relation)
    is_number = isinstance(by, _NUMBERS) and isinstance(known.low, _NUMBERS) and isinstance(known.high, _NUMBERS)
    if not is_number:
        return _bounded(expression, relation)
    is_integer = isinstance(by, int) and isinstance(known.low, int)
    shift = by if is_integer else float(by)
    low, high = (value if is_integer else float(value) for value in (known.low, known.high))
    if sign == "-":
        shift = -shift
    return ColumnStatistics(known.distinct, known.null_fraction, low + shift, high + shift)
