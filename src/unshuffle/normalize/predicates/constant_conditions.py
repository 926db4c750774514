"""Conditions with a result that is known before any row is read: from literals, or from facts about the rows.

A filter or a join treats NULL as false, so there are two questions: is a condition true for every row, and is it true for no
row? Only comparisons on which Python and Spark agree are decided: literals of one type, and no floating-point numbers.
"""

from __future__ import annotations

import datetime
import decimal
import operator
from collections.abc import Callable
from typing import Any

from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Call, Expression, Literal, Ref
from unshuffle.plan.predicates import constant_of
from unshuffle.properties import Dependencies, interchangeable
from unshuffle.properties.facts.equality import ConstantValue

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<=>": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Python types that Spark orders, and compares for equality, in the same way.
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
    """Is it false or NULL for every row?"""
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
    """The result of a comparison in a filter; None where only Spark can decide."""
    if left.value is None or right.value is None:
        return left.value is right.value if name == "<=>" else False
    alike = _EQUAL_ALIKE if name in ("=", "<=>", "<>") else _ORDERED_ALIKE
    if type(left.value) is not type(right.value) or not isinstance(left.value, alike):
        return None
    if not interchangeable(left.type, right.type):
        return None
    return _COMPARE[name](left.value, right.value)


# --- decided by facts


def constant_value(condition: Expression) -> tuple[Column, ConstantValue] | None:
    """The column and the value of `column = literal`, if both have one type."""
    found = constant_of(condition)
    if found is None or not interchangeable(found[0].type, found[1].type):
        return None
    return found[0], ConstantValue(found[1].value)


def asks_for_facts(condition: Expression) -> bool:
    """Can facts decide it?"""
    match condition:
        case Call("isnull" | "isnotnull", (Ref(),)):
            return True
        case Call("=" | "<=>", (Ref(), Ref())):
            return True
        case _:
            return constant_value(condition) is not None


def is_true_by(condition: Expression, facts: Dependencies) -> bool:
    """Is it true for every row, by these facts?"""
    match condition:
        case Call("isnotnull", (Ref(column=column),)):
            return column in facts.never_null
        case Call("isnull", (Ref(column=column),)):
            known = facts.constant(column)
            return known is not None and known.value is None
        case Call("=" | "<=>" as name, (Ref(column=one), Ref(column=other))):
            return facts.equal(one, other) and (name == "<=>" or one in facts.never_null)
        case _:
            found = constant_value(condition)
            known = facts.constant(found[0]) if found is not None else None
            return found is not None and known is not None and known.same_as(found[1])


def is_false_by(condition: Expression, facts: Dependencies) -> bool:
    """Is it true for no row, by these facts?"""
    match condition:
        case Call("isnull", (Ref(column=column),)):
            return column in facts.never_null
        case Call("isnotnull", (Ref(column=column),)):
            known = facts.constant(column)
            return known is not None and known.value is None
        case _:
            found = constant_value(condition)
            known = facts.constant(found[0]) if found is not None else None
            return found is not None and known is not None and known.differs_from(found[1])
