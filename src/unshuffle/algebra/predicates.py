"""Reading conditions: their conjuncts, the equalities a join can use, and what they say of columns.

A condition in a filter or a join keeps a row only when it is true, not when it is NULL. So `a = b` promises that neither
is NULL, and `a = 5` that a is 5. What cannot be read is left out, never guessed: a fact too few costs a shuffle, a fact
too many costs a wrong row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from unshuffle.algebra.expressions import (
    Call,
    Cast,
    Expression,
    Literal,
    Ref,
    WindowCall,
    columns_of,
    connect,
    walk,
)
from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.types import common_type
from unshuffle.properties import JoinKey, Predicate, interchangeable

COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
# Calls that are NULL as soon as one argument is.
_PASS_NULL_ON = COMPARISONS | frozenset(
    (
        "+",
        "-",
        "*",
        "/",
        "%",
        "div",
        "not",
        "like",
        "rlike",
        "between",
        "substring",
        "upper",
        "lower",
        "negative",
        "abs",
    )
)


def conjuncts(condition: Expression | None) -> tuple[Expression, ...]:
    """The conditions that must all be true."""
    match condition:
        case None:
            return ()
        case Call("and", arguments):
            return tuple(part for each in arguments for part in conjuncts(each))
        case Literal(True):
            return ()
        case _:
            return (condition,)


def conjunction(parts: Iterable[Expression]) -> Expression | None:
    """All of the conditions as one; None where there is none. A condition that is there twice is tested once, but for one
    like `rand() < 0.5`, which is another condition each time."""
    seen: set[Expression] = set()
    kept: list[Expression] = []
    for each in parts:
        if each not in seen or not is_deterministic(each):
            kept.append(each)
        seen.add(each)
    return connect("and", kept) if kept else None


def is_deterministic(expression: Expression) -> bool:
    return all(getattr(part, "deterministic", True) for part in walk(expression))


def depends_on_inputs_only(expression: Expression) -> bool:
    """Does it give equal results for inputs that GROUP BY calls equal? Then it is a function of its columns.

    1 / x tells -0.0 from 0.0, which are one value to GROUP BY, so nothing computed from a floating-point number is; nor
    from a type that we do not know, or that may hold such a number inside.
    """
    if not is_deterministic(expression) or any(isinstance(part, WindowCall) for part in walk(expression)):
        return False
    return all(has_one_form(column.type) for column in columns_of(expression))


def has_one_form(type: DataType) -> bool:
    """Are values that GROUP BY calls equal the same to look at? Zeros have signs."""
    return type is not None and not pa.types.is_floating(type) and not pa.types.is_nested(type)


def not_null_if_true(condition: Expression) -> frozenset[Column]:
    """Columns that are not NULL in any row for which the condition is true."""
    match condition:
        case Call("and", parts):
            return frozenset[Column]().union(*map(not_null_if_true, parts))
        case Call("or", parts):
            return frozenset.intersection(*map(not_null_if_true, parts))
        case Call("isnotnull", (operand,)):
            return _null_makes_null(operand)
        case Call("not", (Call("isnull", (operand,)),)):
            return _null_makes_null(operand)
        case Call("in", (operand, *_)):
            return _null_makes_null(operand)
        case Call(function=name) if name in _PASS_NULL_ON:
            return _null_makes_null(condition)
        case Ref(column=column):
            return frozenset((column,))
        case _:
            return frozenset()


def _null_makes_null(expression: Expression) -> frozenset[Column]:
    """Columns that make the expression NULL when they are NULL."""
    match expression:
        case Ref(column=column):
            return frozenset((column,))
        case Cast(operand=operand):
            return _null_makes_null(operand)
        case Call(function=name, arguments=arguments) if name in _PASS_NULL_ON:
            return frozenset[Column]().union(*map(_null_makes_null, arguments))
        case _:
            return frozenset()


def constant_of(conjunct: Expression) -> tuple[Column, Literal] | None:
    """The column and the literal of `column = literal`, compared as the column's own type."""
    match conjunct:
        case Call("=", (Ref(column=column), Literal() as literal)) | Call(
            "=", (Literal() as literal, Ref(column=column))
        ):
            if literal.value is not None and common_type(column.type, literal.type) == column.type:
                return column, literal
    return None


def predicate_of(condition: Expression | None) -> Predicate:
    """What a condition that is true says of columns."""
    equal, null_safe, constants, nulls = [], [], [], []
    solid: set[Column] = set()
    for part in conjuncts(condition):
        solid |= not_null_if_true(part)
        match part:
            case Call("=", (Ref(column=one), Ref(column=other))):
                equal.append((one, other))
            case Call("<=>", (Ref(column=one), Ref(column=other))):
                null_safe.append((one, other))
            case Call("isnull", (Ref(column=column),)):
                nulls.append(column)
            case _:
                found = constant_of(part)
                # The value is kept as written only where it is one of the column's own type: 5 and 5.0 are one number.
                if found is not None and interchangeable(found[0].type, found[1].type):
                    constants.append((found[0], found[1].value))
    return Predicate(tuple(equal), tuple(null_safe), tuple(constants), tuple(nulls), tuple(sorted(solid, key=_id)))


def fixed_columns(condition: Expression | None) -> Iterator[Column]:
    """Columns that have one value wherever the condition is true, whichever it is."""
    for part in conjuncts(condition):
        found = constant_of(part)
        if found is not None:
            yield found[0]


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """A join's condition taken apart: equalities between a column of each side, and the rest."""

    keys: tuple[JoinKey, ...]
    rest: Expression | None


def join_condition(condition: Expression | None, left: Iterable[Column], right: Iterable[Column]) -> JoinCondition:
    one, other = frozenset(left), frozenset(right)
    keys: list[JoinKey] = []
    rest: list[Expression] = []
    for part in conjuncts(condition):
        match part:
            case Call("=" | "<=>" as name, (Ref(column=a), Ref(column=b))) if a in one and b in other:
                keys.append(JoinKey((a, b), common_type(a.type, b.type), name == "<=>"))
            case Call("=" | "<=>" as name, (Ref(column=b), Ref(column=a))) if a in one and b in other:
                keys.append(JoinKey((a, b), common_type(a.type, b.type), name == "<=>"))
            case _:
                rest.append(part)
    return JoinCondition(tuple(dict.fromkeys(keys)), conjunction(rest))


def _id(column: Column) -> int:
    return column.id
