"""Conditions that are decided before any row is seen.

In a filter or a join NULL counts as false, so there are two questions: is it true whatever the row, and is it never true?
Only what surely means the same in Spark is decided: literals of one type that Python and Spark compare alike, which
floating-point numbers are not among.
"""

from __future__ import annotations

import datetime
import decimal
import operator
from collections.abc import Callable
from typing import Any

from unshuffle.algebra.expressions import Call, Expression, Literal
from unshuffle.properties import interchangeable

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<=>": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ORDERED_ALIKE = (int, decimal.Decimal, datetime.date)
_EQUAL_ALIKE = (*_ORDERED_ALIKE, str, bool, bytes)


def is_always_true(condition: Expression) -> bool:
    match condition:
        case Literal(value):
            return value is True
        case Call("and", parts):
            return all(map(is_always_true, parts))
        case Call("or", parts):
            return any(map(is_always_true, parts))
        case Call("isnull", (Literal(value),)):
            return value is None
        case Call("isnotnull", (Literal(value),)):
            return value is not None
        case Call(name, (Literal() as left, Literal() as right)) if name in _COMPARE:
            return _compared(name, left, right) is True
        case _:
            return False


def is_never_true(condition: Expression) -> bool:
    """False or NULL, whatever the row."""
    match condition:
        case Literal(value):
            return value is None or value is False
        case Call("and", parts):
            return any(map(is_never_true, parts))
        case Call("or", parts):
            return all(map(is_never_true, parts))
        case Call("not", (part,)):
            return is_always_true(part)
        case Call("isnull", (Literal(value),)):
            return value is not None
        case Call("isnotnull", (Literal(value),)):
            return value is None
        case Call(name, (left, right)) if name in _COMPARE:
            if isinstance(left, Literal) and isinstance(right, Literal):
                return _compared(name, left, right) is False
            return name != "<=>" and any(isinstance(side, Literal) and side.value is None for side in (left, right))
        case _:
            return False


def _compared(name: str, left: Literal, right: Literal) -> bool | None:
    """What the comparison gives in a filter; None where that is left to Spark."""
    if left.value is None or right.value is None:
        return left.value is right.value if name == "<=>" else False
    alike = _EQUAL_ALIKE if name in ("=", "<=>", "<>") else _ORDERED_ALIKE
    if type(left.value) is not type(right.value) or not isinstance(left.value, alike):
        return None
    if not interchangeable(left.type, right.type):
        return None
    return _COMPARE[name](left.value, right.value)
