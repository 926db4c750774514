"""Analysis of conditions: their conjuncts, the equalities that a join can use, and the facts they imply.

A filter or join keeps a row only if its condition is true, not if it is NULL. So `a = b` implies that neither is NULL, and
`a = 5` that a is 5. A condition that is not understood implies nothing: a missing fact costs a shuffle, a wrong one costs
wrong rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.type_coercion import common_type
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Call, Case, Cast, Expression, Literal, Ref, WindowCall, columns_of, connect, walk
from unshuffle.plan.functions.scalars import NULL_IF_ANY_NULL
from unshuffle.properties import JoinKey, Predicate, interchangeable


def conjuncts(condition: Expression | None) -> tuple[Expression, ...]:
    """The parts of a condition that must all be true."""
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
    """The conditions connected by `and`; None if there are none. A duplicate is dropped unless it is not deterministic:
    `rand() < 0.5` is another condition each time."""
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
    """Does the expression have equal results for inputs that GROUP BY treats as equal? Its columns then determine it.

    1 / x distinguishes -0.0 from 0.0, which are one value to GROUP BY. So nothing that is computed from a floating-point
    number qualifies, nor from an unknown type or one that may contain such a number. A value that is only passed on does.
    """
    if not is_deterministic(expression) or any(isinstance(part, WindowCall) for part in walk(expression)):
        return False
    return all(has_one_form(column.type) for column in _computed_from(expression))


def _computed_from(expression: Expression) -> frozenset[Column]:
    """The columns of the expression, without those whose value may be the result."""
    match expression:
        case Ref():
            return frozenset()
        case Call("coalesce", arguments):
            return frozenset[Column]().union(*map(_computed_from, arguments))
        case Case(branches=branches, otherwise=otherwise):
            conditions = (columns_of(condition) for condition, _ in branches)
            values = (_computed_from(value) for value in (*(v for _, v in branches), otherwise) if value is not None)
            return frozenset[Column]().union(*conditions, *values)
        case _:
            return columns_of(expression)


def has_one_form(type: DataType) -> bool:
    """Are values that GROUP BY treats as equal identical? Floating-point zeros have signs."""
    return type is not None and not pa.types.is_floating(type) and not pa.types.is_nested(type)


def true_if_true(condition: Expression) -> Expression:
    """A condition that is true in the same rows, without the coalesce that makes it false where it is NULL."""
    match condition:
        case Call("coalesce", (inner, Literal(value=False))):
            return inner
        case _:
            return condition


def not_null_if_true(condition: Expression) -> frozenset[Column]:
    """The columns that are not NULL in any row for which the condition is true."""
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
        case Call(function=name) if name in NULL_IF_ANY_NULL:
            return _null_makes_null(condition)
        case Ref(column=column):
            return frozenset((column,))
        case _:
            return frozenset()


def _null_makes_null(expression: Expression) -> frozenset[Column]:
    """The columns that make the expression NULL if they are NULL."""
    match expression:
        case Ref(column=column):
            return frozenset((column,))
        case Cast(operand=operand):
            return _null_makes_null(operand)
        case Call(function=name, arguments=arguments) if name in NULL_IF_ANY_NULL:
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
    """The facts about columns that a true condition implies."""
    equal, null_safe, constants, nulls = [], [], [], []
    not_null: set[Column] = set()
    for part in conjuncts(condition):
        not_null |= not_null_if_true(part)
        match part:
            case Call("=", (Ref(column=one), Ref(column=other))):
                equal.append((one, other))
            case Call("<=>", (Ref(column=one), Ref(column=other))):
                null_safe.append((one, other))
            case Call("isnull", (Ref(column=column),)):
                nulls.append(column)
            case _:
                constant = constant_of(part)
                # Only a value of the column's own type is kept: 5 and 5.0 are one number but not one value.
                if constant is not None and interchangeable(constant[0].type, constant[1].type):
                    constants.append((constant[0], constant[1].value))
    return Predicate(tuple(equal), tuple(null_safe), tuple(constants), tuple(nulls), tuple(sorted(not_null, key=_id)))


def fixed_columns(condition: Expression | None) -> Iterator[Column]:
    """The columns that have a single value in all rows for which the condition is true."""
    for part in conjuncts(condition):
        constant = constant_of(part)
        if constant is not None:
            yield constant[0]


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """A join condition, split into equalities between a column of each side and the rest."""

    keys: tuple[JoinKey, ...]
    rest: Expression | None


def join_condition(condition: Expression | None, left: Iterable[Column], right: Iterable[Column]) -> JoinCondition:
    """An equality at a type that we do not know is part of the rest: only Spark can compare such values."""
    one, other = frozenset(left), frozenset(right)
    keys: list[JoinKey] = []
    rest: list[Expression] = []
    for part in conjuncts(condition):
        key = _join_key(part, one, other)
        if key is None or key.type is None:
            rest.append(part)
        else:
            keys.append(key)
    return JoinCondition(tuple(dict.fromkeys(keys)), conjunction(rest))


def _join_key(part: Expression, left: frozenset[Column], right: frozenset[Column]) -> JoinKey | None:
    match part:
        case Call("=" | "<=>" as name, (Ref(column=a), Ref(column=b))) if a in left and b in right:
            return JoinKey((a, b), common_type(a.type, b.type), name == "<=>")
        case Call("=" | "<=>" as name, (Ref(column=b), Ref(column=a))) if a in left and b in right:
            return JoinKey((a, b), common_type(a.type, b.type), name == "<=>")
        case _:
            return None


def _id(column: Column) -> int:
    return column.id
