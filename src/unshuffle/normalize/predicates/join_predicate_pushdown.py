"""Predicates and joins: conditions move to the input they read, comma joins get the conditions that connect them, and outer
joins whose NULL-extended rows are all rejected, or all that is kept, become inner or anti-joins.

Where a condition may move (L, R: to the left, the right input; ON: it stays in the join's condition; above: it stays in a
filter over the join):

| join  | ON, of L | ON, of R | filter above, of L | of R             | of both          |
|-------|----------|----------|--------------------|------------------|------------------|
| inner | L        | R        | L                  | R                | ON               |
| left  | ON       | R        | L                  | above            | above            |
| right | L        | ON       | above              | R                | above            |
| full  | ON       | ON       | above              | above            | above            |
| semi  | L        | R        | L                  |                  |                  |
| anti  | ON       | R        | L                  |                  |                  |

A condition in the ON of a left join decides which rows match, not which rows of L are in the result: pushed to L, it would
drop rows that the join preserves. A filter above a left join on columns of R also sees the NULLs of rows without a match. If
it rejects them, the join is an inner join, and the first line of the table applies.
"""

from __future__ import annotations

from dataclasses import replace

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import BOOLEAN
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.plan.expressions import Call, Expression, Literal, Ref
from unshuffle.plan.logical import Distinct, Filter, GroupBy, Join, Plan, Project, SetOperation, Sort, walk
from unshuffle.plan.movable_conditions import (
    FILTERS_LEFT,
    FILTERS_RIGHT,
    KEEPS_LEFT,
    KEEPS_RIGHT,
    filtered,
    movable_columns,
    split_movable,
)
from unshuffle.plan.predicates import conjunction, conjuncts, not_null_if_true

Columns = frozenset[Column]


def has_outer_joins(plan: Plan) -> bool:
    return any(isinstance(node, Join) and (node.kind.extends_left or node.kind.extends_right) for node in walk(plan))


@on(Filter)
def push_through_join(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter on columns of a side that the join does not NULL-extend moves to that side. Over an inner join, the
    filter's conjuncts become part of the join's condition.

    Unsound for the NULL-extended side of an outer join: a row whose match is filtered away would get NULLs instead.
    """
    if not (isinstance(plan, Filter) and isinstance(plan.child, Join)):
        return None
    join = plan.child
    left, right = _sides(join)
    if join.kind is JoinKind.INNER:
        down, stay = split_movable(plan.predicate, lambda _, read: read <= left | right)
        if not down:
            return None
        return filtered(replace(join, condition=conjunction((*conjuncts(join.condition), *down))), stay)
    to_left: list[Expression] = []
    to_right: list[Expression] = []
    if join.kind in KEEPS_LEFT:
        to_left, stay = split_movable(plan.predicate, lambda _, read: read <= left)
    elif join.kind in KEEPS_RIGHT:
        to_right, stay = split_movable(plan.predicate, lambda _, read: read <= right)
    if not to_left and not to_right:
        return None
    return filtered(replace(join, left=filtered(join.left, to_left), right=filtered(join.right, to_right)), stay)


@on(Join)
def push_join_condition(plan: Plan, context: Rewriting) -> Plan | None:
    """A conjunct of the join's condition that reads one side only filters that side, if the join drops its rows without a
    match.

    Unsound for the side that an outer or anti-join preserves: the row is in the result whether it matches or not.
    """
    if not isinstance(plan, Join) or plan.condition is None:
        return None
    left, right = _sides(plan)
    to_left: list[Expression] = []
    to_right: list[Expression] = []
    stay: list[Expression] = []
    parts = conjuncts(plan.condition)
    for part in parts:
        read = movable_columns(part)
        if read is None:
            stay.append(part)
        elif plan.kind in FILTERS_LEFT and read <= left:
            to_left.append(part)
        elif plan.kind in FILTERS_RIGHT and read <= right:
            to_right.append(part)
        else:
            stay.append(part)
    condition = conjunction(stay)
    if condition == plan.condition:
        return None
    return replace(plan, left=filtered(plan.left, to_left), right=filtered(plan.right, to_right), condition=condition)


@on(Filter, Join)
def simplify_outer_joins(plan: Plan, context: Rewriting) -> Plan | None:
    """An outer join becomes an inner join (a full join a left or right join) if every NULL-extended row is rejected above, by
    a filter or by the condition of a join that drops it.

    Unsound if the condition can be true for a NULL (`b is null`, `coalesce(b, 0) = 0`), and across a Limit, which counts the
    rows that are rejected above.
    """
    match plan:
        case Filter(child, predicate):
            below = reject_nulls(child, not_null_if_true(predicate))
            return None if below is child else replace(plan, child=below)
        case Join(kind=kind, left=left, right=right, condition=condition) if condition is not None:
            not_null = not_null_if_true(condition)
            new_left = reject_nulls(left, not_null) if kind in FILTERS_LEFT else left
            new_right = reject_nulls(right, not_null) if kind in FILTERS_RIGHT else right
            if new_left is not left or new_right is not right:
                return replace(plan, left=new_left, right=new_right)
    return None


@on(Filter)
def null_test_as_anti_join(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter for NULL in a column of the NULL-extended side that no match has NULL keeps the rows without a match: an
    anti-join, with NULL for the other side's columns.

    Unsound if a matching row may have a NULL there.
    """
    if not (isinstance(plan, Filter) and isinstance(plan.child, Join) and plan.child.kind is JoinKind.LEFT):
        return None
    join = plan.child
    there = frozenset(join.right.columns)
    if join.condition is None or any(column.type is None for column in join.columns if column in there):
        return None
    never = (not_null_if_true(join.condition) | context.facts(join.right).never_null) & there
    parts = conjuncts(plan.predicate)
    tests = [
        part for part in parts if isinstance(part, Call) and part.function == "isnull" and _tests_one_of(part, never)
    ]
    if not tests:
        return None
    unmatched = Join(JoinKind.ANTI, join.left, join.right, join.condition)
    outputs = tuple((c, Literal(None, c.type) if c in there else Ref(c)) for c in join.columns)
    return filtered(Project(unmatched, outputs), [part for part in parts if part not in tests])


def _tests_one_of(null_test: Call, never_null: Columns) -> bool:
    (tested,) = null_test.arguments
    return isinstance(tested, Ref) and tested.column in never_null


def reject_nulls(plan: Plan, columns: Columns) -> Plan:
    """The plan with simpler joins, given that rows with a NULL in one of `columns` are rejected above it."""
    columns &= frozenset(plan.columns)
    if not columns:
        return plan
    match plan:
        case Join():
            return _reject_in_join(plan, columns)
        case Filter(child) | Sort(child) | Distinct(child):
            return _over(plan, reject_nulls(child, columns))
        case GroupBy(child, keys):
            return _over(plan, reject_nulls(child, columns & frozenset(keys)))
        case Project(child, outputs):
            made_of = (_not_null_if_not_null(expression) for column, expression in outputs if column in columns)
            return _over(plan, reject_nulls(child, frozenset[Column]().union(*made_of)))
        case SetOperation(inputs=inputs):
            places = [place for place, column in enumerate(plan.columns) if column in columns]
            changed = tuple(reject_nulls(each, frozenset(each.columns[place] for place in places)) for each in inputs)
            same = all(new is old for new, old in zip(changed, inputs, strict=True))
            return plan if same else replace(plan, inputs=changed)
        case _:
            return plan


def _reject_in_join(plan: Join, columns: Columns) -> Plan:
    sides = _sides(plan)
    rejects_left, rejects_right = (bool(columns & side) for side in sides)
    kind = plan.kind
    match kind:
        case JoinKind.LEFT if rejects_right:
            kind = JoinKind.INNER
        case JoinKind.RIGHT if rejects_left:
            kind = JoinKind.INNER
        case JoinKind.FULL if rejects_left and rejects_right:
            kind = JoinKind.INNER
        case JoinKind.FULL if rejects_left:
            kind = JoinKind.LEFT
        case JoinKind.FULL if rejects_right:
            kind = JoinKind.RIGHT
    left = reject_nulls(plan.left, columns) if kind in KEEPS_LEFT else plan.left
    right = reject_nulls(plan.right, columns) if kind in KEEPS_RIGHT else plan.right
    if kind is plan.kind and left is plan.left and right is plan.right:
        return plan
    changed = replace(plan, kind=kind, left=left, right=right)
    if plan.kept is None:
        return changed
    # Fewer columns are nullable now, also among those kept.
    made = {column: column for column in changed.made}
    return replace(changed, kept=tuple(made[column] for column in plan.kept))


def _over(plan: Filter | Sort | Distinct | GroupBy | Project, child: Plan) -> Plan:
    return plan if child is plan.child else replace(plan, child=child)


def _not_null_if_not_null(expression: Expression) -> Columns:
    """Columns that are not NULL where the expression is not NULL."""
    if isinstance(expression, Ref):
        return frozenset((expression.column,))
    return not_null_if_true(Call("isnotnull", (expression,), BOOLEAN))


def _sides(join: Join) -> tuple[Columns, Columns]:
    return frozenset(join.left.columns), frozenset(join.right.columns)
