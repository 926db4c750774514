"""Which conditions the rows of a plan are known to meet, because a filter or a join somewhere in it sees to that.

What is inferred is put on top of an input and pushed down from there, so whether it has been inferred before is not to be
seen on top. `holds` follows a condition down the way it was pushed; `conditions_on` brings up what holds of one column.
"""

from __future__ import annotations

from collections.abc import Iterator

from unshuffle.algebra.expressions import Call, Expression, Literal, Ref, columns_of
from unshuffle.algebra.logical import (
    Distinct,
    Expand,
    Filter,
    GroupBy,
    GroupingSets,
    Join,
    Limit,
    Plan,
    Process,
    Project,
    Reduce,
    Reference,
    SetOperation,
    Shared,
    Sort,
    Values,
    Window,
)
from unshuffle.algebra.predicates import conjuncts
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import BOOLEAN
from unshuffle.rules.conditions import (
    KEEPS_LEFT,
    KEEPS_RIGHT,
    definitions,
    input_names,
    is_movable,
    respects_equality,
    substitute,
)
from unshuffle.rules.truth import is_always_true


def holds(plan: Plan, condition: Expression) -> bool:
    """Is the condition true of every row, as far as it is written in the plan?"""
    if is_always_true(condition):
        return True
    read = columns_of(condition)
    match plan:
        case Filter(child, predicate):
            return condition in conjuncts(predicate) or holds(child, condition)
        case Project(child):
            return holds(child, substitute(condition, definitions(plan)))
        case GroupBy(child, by):
            return read <= set(by) and respects_equality(condition) and holds(child, condition)
        case Distinct(child):
            return respects_equality(condition) and holds(child, condition)
        case Sort(child) | Limit(child) | Window(child) | Shared(child=child):
            return read <= set(child.columns) and holds(child, condition)
        case Expand(child, keys, sets):
            everywhere = {out: Ref(column) for out, column in keys if all(column in one for one in sets)}
            return read <= {*child.columns, *everywhere} and holds(child, substitute(condition, everywhere))
        case GroupingSets(child, keys, sets):
            everywhere = {out: Ref(column) for out, column in keys if all(column in one for one in sets)}
            return read <= set(everywhere) and holds(child, substitute(condition, everywhere))
        case Join(kind, left, right, on):
            if kind in (JoinKind.INNER, JoinKind.SEMI) and condition in conjuncts(on):
                return True
            if kind in KEEPS_LEFT and read <= set(left.columns):
                return holds(left, condition)
            return kind in KEEPS_RIGHT and read <= set(right.columns) and holds(right, condition)
        case SetOperation(inputs=inputs):
            names = [input_names(plan, place) for place in range(len(inputs))]
            pairs = zip(inputs, names, strict=True)
            return all(instead is not None and holds(each, substitute(condition, instead)) for each, instead in pairs)
        case Process(child, readonly=pairs) | Reduce(child, readonly=pairs):
            # What a reducer repeats besides its keys may come from several rows.
            sources = plan.keys if isinstance(plan, Reduce) else child.columns
            repeated = {out: Ref(column) for out, column in pairs if column in sources}
            return read <= set(repeated) and holds(child, substitute(condition, repeated))
        case Reference(rowset, columns):
            originals = dict(zip(columns, map(Ref, rowset.columns), strict=True))
            return holds(rowset, substitute(condition, originals))
        case Values(rows=rows):
            return not rows
        case _:
            return False


def conditions_on(plan: Plan, column: Column) -> Iterator[Expression]:
    """Conditions that read this column alone and are true of every row of the plan."""
    match plan:
        case Filter(child, predicate):
            only = frozenset((column,))
            yield from (each for each in conjuncts(predicate) if columns_of(each) == only and is_movable(each))
            yield from conditions_on(child, column)
        case Project(child, outputs):
            expression = next(made for out, made in outputs if out == column)
            if isinstance(expression, Ref):
                yield from _renamed(child, expression.column, column)
            elif isinstance(expression, Literal) and expression.value is not None:
                yield Call("=", (Ref(column), expression), BOOLEAN)
        case GroupBy(child) | Sort(child) | Limit(child) | Distinct(child) | Window(child) | Expand(child):
            if column in child.columns:
                yield from conditions_on(child, column)
        case Shared(child=child):
            yield from conditions_on(child, column)
        case Join(kind, left, right):
            if kind in KEEPS_LEFT and column in left.columns:
                yield from conditions_on(left, column)
            elif kind in KEEPS_RIGHT and column in right.columns:
                yield from conditions_on(right, column)
        case SetOperation(inputs=inputs, columns=columns):
            place = columns.index(column)
            sides = [each.columns[place] for each in inputs]
            if all(side.type == column.type for side in sides):
                found = [list(_renamed(each, side, column)) for each, side in zip(inputs, sides, strict=True)]
                yield from (each for each in found[0] if all(each in other for other in found[1:]))
        case Reference(rowset, columns):
            yield from _renamed(rowset, rowset.columns[columns.index(column)], column)
        case _:
            return


def _renamed(plan: Plan, column: Column, name: Column) -> Iterator[Expression]:
    for condition in conditions_on(plan, column):
        yield substitute(condition, {column: Ref(name)})
