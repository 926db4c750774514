"""Moving conditions: which of them may be evaluated elsewhere, and their form on the other side of an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import (
    AggregateCall,
    Call,
    Cast,
    Exists,
    Expression,
    InSubquery,
    Literal,
    Opaque,
    Ref,
    ScalarSubquery,
    map_operands,
    operands,
    walk,
)
from unshuffle.plan.functions.scalars import RESPECT_EQUALITY
from unshuffle.plan.logical import Filter, Plan, Project, SetOperation
from unshuffle.plan.predicates import conjunction, conjuncts, depends_on_inputs_only, is_deterministic

Renaming = Mapping[Column, Expression]

# Joins that drop unmatched rows of the left (right) input: an ON conjunct on that input alone may become its filter.
FILTERS_LEFT = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)
FILTERS_RIGHT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
# Joins whose every output row contains an unchanged row of the left (right) input.
KEEPS_LEFT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
KEEPS_RIGHT = (JoinKind.INNER, JoinKind.RIGHT)


def substitute(expression: Expression, instead: Renaming) -> Expression:
    """The expression with columns replaced. None of them may be a correlation column of a subquery."""
    match expression:
        case Ref(column=column):
            return instead.get(column, expression)
        case Literal():
            return expression
        case _:
            return map_operands(expression, lambda part: substitute(part, instead))


def movable_columns(condition: Expression) -> frozenset[Column] | None:
    """The columns that a condition reads, if it may be evaluated elsewhere, on other rows. None if it is not deterministic or
    has a correlated subquery, whose plan cannot be rewritten from outside."""
    columns: set[Column] = set()
    pending = [condition]
    while pending:
        part = pending.pop()
        match part:
            case Ref(column=column):
                columns.add(column)
            case Literal():
                pass
            case Call(deterministic=False) | AggregateCall(deterministic=False) | Opaque(deterministic=False):
                return None
            case ScalarSubquery(outer=outer) | Exists(outer=outer) | InSubquery(outer=outer) if outer:
                return None
            case _:
                pending.extend(operands(part))
    return frozenset(columns)


def is_movable(condition: Expression) -> bool:
    return movable_columns(condition) is not None


def correlation_columns(expression: Expression) -> frozenset[Column]:
    """The correlation columns of the subqueries in an expression."""
    inner = (part.outer for part in walk(expression) if isinstance(part, ScalarSubquery | Exists | InSubquery))
    return frozenset[Column]().union(*inner)


def respects_equality(condition: Expression) -> bool:
    """Does the condition have the same result for values that GROUP BY treats as equal, such as -0.0 and 0.0? Comparisons do,
    and so does any condition that reads no floating-point number."""
    if depends_on_inputs_only(condition):
        return True
    return all(
        isinstance(part, Ref | Literal) or (isinstance(part, Call) and part.function in RESPECT_EQUALITY)
        for part in walk(condition)
    )


def split_movable(
    condition: Expression, goes: Callable[[Expression, frozenset[Column]], bool]
) -> tuple[list[Expression], list[Expression]]:
    """The movable conjuncts that satisfy `goes`, which also gets the columns they read, and the others."""
    moving: list[Expression] = []
    staying: list[Expression] = []
    for part in conjuncts(condition):
        read = movable_columns(part)
        (moving if read is not None and goes(part, read) else staying).append(part)
    return moving, staying


def filtered(plan: Plan, conditions: Iterable[Expression]) -> Plan:
    """The plan below a filter with the conditions. A filter on top of the plan is extended, without duplicates."""
    added = list(conditions)
    if isinstance(plan, Filter) and is_deterministic(plan.predicate):
        there = conjuncts(plan.predicate)
        new = [each for each in added if each not in there]
        together = conjunction((*there, *new))
        return plan if not new or together is None else replace(plan, predicate=together)
    condition = conjunction(added)
    return plan if condition is None else Filter(plan, condition)


def definitions(project: Project) -> Renaming:
    return {column: expression for column, expression in project.outputs if expression != Ref(column)}


def input_names(plan: SetOperation, place: int) -> Renaming | None:
    """Each output column as an expression over one input. None if a type is unknown."""
    names: dict[Column, Expression] = {}
    for out, column in zip(plan.columns, plan.inputs[place].columns, strict=True):
        if out.type is None or column.type is None:
            return None
        names[out] = Ref(column) if out.type == column.type else Cast(Ref(column), out.type)
    return names
