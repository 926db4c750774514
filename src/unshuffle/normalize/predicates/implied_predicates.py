"""Which conditions every row of a plan is known to satisfy, because a filter or a join somewhere in the plan enforces them.

An inferred condition is put on top of an input and then pushed down, so a later pass cannot find it on top again. `holds`
follows a condition down the way it was pushed. `conditions_on` collects the conditions on one column from below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import BOOLEAN
from unshuffle.normalize.predicates.constant_conditions import is_always_true
from unshuffle.plan.expressions import Call, Expression, Literal, Ref, columns_of
from unshuffle.plan.logical import (
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
from unshuffle.plan.movable_conditions import (
    KEEPS_LEFT,
    KEEPS_RIGHT,
    definitions,
    input_names,
    is_movable,
    respects_equality,
    substitute,
)
from unshuffle.plan.predicates import conjuncts


def holds(plan: Plan, condition: Expression) -> bool:
    """Does the plan enforce the condition for every row? Operators without an entry in the table enforce nothing."""
    if is_always_true(condition):
        return True
    rule = _HOLDS.get(type(plan))
    return rule is not None and rule(plan, condition)


def _below_filter(plan: Filter, condition: Expression) -> bool:
    return condition in conjuncts(plan.predicate) or holds(plan.child, condition)


def _below_project(plan: Project, condition: Expression) -> bool:
    return holds(plan.child, substitute(condition, definitions(plan)))


def _below_group_by(plan: GroupBy, condition: Expression) -> bool:
    by_keys = columns_of(condition) <= set(plan.keys)
    return by_keys and respects_equality(condition) and holds(plan.child, condition)


def _below_distinct(plan: Distinct, condition: Expression) -> bool:
    return respects_equality(condition) and holds(plan.child, condition)


def _below_same_columns(plan: Sort | Limit | Window | Shared, condition: Expression) -> bool:
    return columns_of(condition) <= set(plan.child.columns) and holds(plan.child, condition)


def _below_expand(plan: Expand, condition: Expression) -> bool:
    present = _present_in_all_sets(plan)
    return columns_of(condition) <= {*plan.child.columns, *present} and holds(
        plan.child, substitute(condition, present)
    )


def _below_grouping_sets(plan: GroupingSets, condition: Expression) -> bool:
    present = _present_in_all_sets(plan)
    return columns_of(condition) <= set(present) and holds(plan.child, substitute(condition, present))


def _present_in_all_sets(plan: Expand | GroupingSets) -> dict[Column, Expression]:
    """The keys that no grouping set leaves out: the only ones that are never replaced by NULL."""
    return {out: Ref(column) for out, column in plan.keys if all(column in one for one in plan.sets)}


def _below_join(plan: Join, condition: Expression) -> bool:
    read = columns_of(condition)
    if plan.kind in (JoinKind.INNER, JoinKind.SEMI) and condition in conjuncts(plan.condition):
        return True
    if plan.kind in KEEPS_LEFT and read <= set(plan.left.columns):
        return holds(plan.left, condition)
    return plan.kind in KEEPS_RIGHT and read <= set(plan.right.columns) and holds(plan.right, condition)


def _below_set_operation(plan: SetOperation, condition: Expression) -> bool:
    names = [input_names(plan, place) for place in range(len(plan.inputs))]
    pairs = zip(plan.inputs, names, strict=True)
    return all(instead is not None and holds(each, substitute(condition, instead)) for each, instead in pairs)


def _below_user_code(plan: Process | Reduce, condition: Expression) -> bool:
    # A reducer may take repeated columns other than its keys from several rows.
    sources = plan.keys if isinstance(plan, Reduce) else plan.child.columns
    repeated = {out: Ref(column) for out, column in plan.readonly if column in sources}
    return columns_of(condition) <= set(repeated) and holds(plan.child, substitute(condition, repeated))


def _below_reference(plan: Reference, condition: Expression) -> bool:
    originals = dict(zip(plan.columns, map(Ref, plan.rowset.columns), strict=True))
    return holds(plan.rowset, substitute(condition, originals))


def _of_no_rows(plan: Values, condition: Expression) -> bool:
    return not plan.rows


_HOLDS: dict[type, Callable[[Any, Expression], bool]] = {
    Filter: _below_filter,
    Project: _below_project,
    GroupBy: _below_group_by,
    Distinct: _below_distinct,
    Sort: _below_same_columns,
    Limit: _below_same_columns,
    Window: _below_same_columns,
    Shared: _below_same_columns,
    Expand: _below_expand,
    GroupingSets: _below_grouping_sets,
    Join: _below_join,
    SetOperation: _below_set_operation,
    Process: _below_user_code,
    Reduce: _below_user_code,
    Reference: _below_reference,
    Values: _of_no_rows,
}


def conditions_on(plan: Plan, column: Column) -> Iterator[Expression]:
    """Conditions that read this column alone and that every row of the plan satisfies."""
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
        case GroupBy() | Sort() | Limit() | Distinct() | Window() | Expand() | Shared():
            if column in plan.child.columns:
                yield from conditions_on(plan.child, column)
        case Join(kind, left, right):
            if kind in KEEPS_LEFT and column in left.columns:
                yield from conditions_on(left, column)
            elif kind in KEEPS_RIGHT and column in right.columns:
                yield from conditions_on(right, column)
        case SetOperation():
            yield from _in_all_inputs(plan, column)
        case Reference(rowset, columns):
            yield from _renamed(rowset, rowset.columns[columns.index(column)], column)
        case _:
            return


def _in_all_inputs(plan: SetOperation, column: Column) -> Iterator[Expression]:
    place = plan.columns.index(column)
    sources = [each.columns[place] for each in plan.inputs]
    if all(source.type == column.type for source in sources):
        first, *others = (
            list(_renamed(each, source, column)) for each, source in zip(plan.inputs, sources, strict=True)
        )
        yield from (each for each in first if all(each in other for other in others))


def _renamed(plan: Plan, column: Column, name: Column) -> Iterator[Expression]:
    for condition in conditions_on(plan, column):
        yield substitute(condition, {column: Ref(name)})
