"""What the rules about filters share: which conditions may move, and what they become on the other side of an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from unshuffle.algebra.expressions import (
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
    connect,
    map_operands,
    operands,
    walk,
)
from unshuffle.algebra.logical import Filter, Plan, Project, SetOperation
from unshuffle.algebra.predicates import (
    COMPARISONS,
    conjuncts,
    depends_on_inputs_only,
    is_deterministic,
)
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column

Renaming = Mapping[Column, Expression]

# Where rows of the left (right) input that match nothing are gone: its ON conjuncts may be its filter.
FILTERS_LEFT = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)
FILTERS_RIGHT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
# Where each row of the result holds a row of the left (right) input as it was.
KEEPS_LEFT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
KEEPS_RIGHT = (JoinKind.INNER, JoinKind.RIGHT)

_LIKE_COMPARISONS = COMPARISONS | frozenset(("<=>", "in", "between", "isnull", "isnotnull", "not", "and", "or"))


def substitute(expression: Expression, instead: Renaming) -> Expression:
    """The expression with others in place of columns. It must not take one of them into a subquery."""
    match expression:
        case Ref(column=column):
            return instead.get(column, expression)
        case Literal():
            return expression
        case _:
            return map_operands(expression, lambda part: substitute(part, instead))


def moved_by(condition: Expression) -> frozenset[Column] | None:
    """The columns that a condition reads, if it may be evaluated elsewhere, on other rows than it was written for. None if
    it gives another result each time, or reads a correlated subquery, whose plan cannot be rewritten from outside."""
    found: set[Column] = set()
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        match part:
            case Ref(column=column):
                found.add(column)
            case Literal():
                pass
            case Call(deterministic=False) | AggregateCall(deterministic=False) | Opaque(deterministic=False):
                return None
            case ScalarSubquery(outer=outer) | Exists(outer=outer) | InSubquery(outer=outer) if outer:
                return None
            case _:
                waiting.extend(operands(part))
    return frozenset(found)


def is_movable(condition: Expression) -> bool:
    return moved_by(condition) is not None


def taken_by_subqueries(expression: Expression) -> frozenset[Column]:
    """The columns that plans inside the expression read from outside themselves."""
    inner = (part.outer for part in walk(expression) if isinstance(part, ScalarSubquery | Exists | InSubquery))
    return frozenset[Column]().union(*inner)


def respects_equality(condition: Expression) -> bool:
    """Does it give the same result for values that GROUP BY calls equal, -0.0 and 0.0 for one? Comparisons do, and
    whatever reads no floating-point number."""
    if depends_on_inputs_only(condition):
        return True
    return all(
        isinstance(part, Ref | Literal) or (isinstance(part, Call) and part.function in _LIKE_COMPARISONS)
        for part in walk(condition)
    )


def conjunction(conditions: Iterable[Expression]) -> Expression | None:
    """All of the conditions as one, each once, unless it is drawn anew each time; None where there is none."""
    wanted: list[Expression] = []
    for each in conditions:
        if each not in wanted or not is_deterministic(each):
            wanted.append(each)
    return connect("and", wanted) if wanted else None


def parted(
    condition: Expression, goes: Callable[[Expression, frozenset[Column]], bool]
) -> tuple[list[Expression], list[Expression]]:
    """The conjuncts that may move and of which `goes` is true, given also the columns they read, and the others."""
    moving: list[Expression] = []
    staying: list[Expression] = []
    for part in conjuncts(condition):
        read = moved_by(part)
        (moving if read is not None and goes(part, read) else staying).append(part)
    return moving, staying


def filtered(plan: Plan, conditions: Iterable[Expression]) -> Plan:
    """The plan's rows for which the conditions hold; conditions that a filter on top of the plan has are not repeated."""
    wanted = list(conditions)
    if isinstance(plan, Filter) and is_deterministic(plan.predicate):
        there = conjuncts(plan.predicate)
        new = [each for each in wanted if each not in there]
        together = conjunction((*there, *new))
        return plan if not new or together is None else replace(plan, predicate=together)
    condition = conjunction(wanted)
    return plan if condition is None else Filter(plan, condition)


def definitions(project: Project) -> Renaming:
    return {column: expression for column, expression in project.outputs if expression != Ref(column)}


def input_names(plan: SetOperation, place: int) -> Renaming | None:
    """Each output column as an expression over one input. None where the input's own type is not known to us."""
    names: dict[Column, Expression] = {}
    for out, column in zip(plan.columns, plan.inputs[place].columns, strict=True):
        if out.type is None or column.type is None:
            return None
        names[out] = Ref(column) if out.type == column.type else Cast(Ref(column), out.type)
    return names
