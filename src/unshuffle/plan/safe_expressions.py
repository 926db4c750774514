"""Expressions that never fail, whatever row they are computed for. Others may be safe only for the rows of their branch:
`100 / x` where `x <> 0`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from unshuffle.plan.expressions import Call, Case, Cast, Expression, Literal, Ref, walk

_NEVER_FAIL = frozenset(
    ("substring", "upper", "lower", "trim", "ltrim", "rtrim", "concat", "||", "coalesce", "year", "month", "dayofmonth",
     "quarter", "length", "isnull", "isnotnull", "=", "<=>", "<>", "<", "<=", ">", ">=", "and", "or", "not")
)  # fmt: skip


def never_fails(expression: Expression) -> bool:
    def safe(part: Expression) -> bool:
        match part:
            case Ref() | Literal() | Case():
                return True
            case Call(function=name):
                return name in _NEVER_FAIL
            case Cast(operand=operand, type=type):
                return part.safe or type == pa.string() or _widens(operand.type, type)
            case _:
                return False

    return all(map(safe, walk(expression)))


def shared_conjuncts(conditions: Sequence[Sequence[Expression]]) -> tuple[Expression, ...]:
    """The conjuncts that are in all conditions, and can be evaluated before the others. A conjunct that may fail was written
    for the rows that satisfy those before it, so in some condition all of these must be shared as well."""
    shared: list[Expression] = []
    for each in conditions[0]:
        if each in shared or not all(each in condition for condition in conditions):
            continue
        if never_fails(each) or any(_before(each, condition) <= set(shared) for condition in conditions):
            shared.append(each)
    return tuple(shared)


def _before(conjunct: Expression, condition: Sequence[Expression]) -> set[Expression]:
    return set(condition[: list(condition).index(conjunct)])


def _widens(old: pa.DataType | None, new: pa.DataType) -> bool:
    if old is None or not pa.types.is_signed_integer(old):
        return False
    return bool(pa.types.is_signed_integer(new) and new.bit_width >= old.bit_width) or bool(pa.types.is_float64(new))
