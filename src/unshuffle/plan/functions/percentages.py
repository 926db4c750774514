"""The percentages of an exact percentile."""

from __future__ import annotations

import pyarrow as pa

from unshuffle.catalog.types import DOUBLE, is_numeric
from unshuffle.plan.expressions import AggregateCall, Call, Cast, Expression, Literal
from unshuffle.plan.predicates import is_deterministic


def percentages_of(call: AggregateCall) -> tuple[Expression, ...] | None:
    """The percentages of an exact percentile of numbers, as doubles. None for any other aggregate."""
    if call.within or not call.arguments or not is_deterministic(call):
        return None
    match call.function, call.arguments[1:]:
        case "median", () if call.type == DOUBLE:
            return (Literal(0.5, DOUBLE),)
        case "percentile", (Literal() | Cast() as one,) if call.type == DOUBLE:
            percentages: tuple[Expression, ...] = (one,)
        case "percentile", (Call("array", (_, *_) as several),) if call.type == pa.list_(DOUBLE):
            percentages = several
        case _:
            return None
    if not all(map(_is_number, percentages)):
        return None
    return tuple(each if each.type == DOUBLE else Cast(each, DOUBLE) for each in percentages)


def _is_number(expression: Expression) -> bool:
    """Is it a numeric literal, possibly cast (`0.5D`)?"""
    if expression.type is None or not is_numeric(expression.type):
        return False
    if isinstance(expression, Cast):
        return _is_number(expression.operand)
    return isinstance(expression, Literal) and expression.value is not None
