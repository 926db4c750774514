"""Filters and joins: conditions go to the side they read, comma joins get the conditions that connect them, and an outer
join whose invented NULLs are not wanted, or are all that is wanted, is none.

Which way a condition on one side's columns may go (L, R: the left, the right input; ON: it stays in the join's condition;
above: it stays in a filter over the join):

| join  | ON, of L | ON, of R | filter above, of L | of R             | of both          |
|-------|----------|----------|--------------------|------------------|------------------|
| inner | L        | R        | L                  | R                | ON               |
| left  | ON       | R        | L                  | above            | above            |
| right | L        | ON       | above              | R                | above            |
| full  | ON       | ON       | above              | above            | above            |
| semi  | L        | R        | L                  |                  |                  |
| anti  | ON       | R        | L                  |                  |                  |

A condition in the ON of a left join decides which rows match, not which rows of L come out: below, in L, it would throw
rows away that the join keeps. A filter above a left join on R also sees the NULLs that the join invented; if it rejects
those, the join is an inner one, and the first line of the table holds.
"""

from __future__ import annotations

from dataclasses import replace

from unshuffle.algebra.expressions import Call, Expression, Literal, Ref
from unshuffle.algebra.logical import Distinct, Filter, GroupBy, Join, Plan, Project, SetOperation, Sort, walk
from unshuffle.algebra.predicates import conjuncts, not_null_if_true
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import BOOLEAN
from unshuffle.rules.conditions import (
    FILTERS_LEFT,
    FILTERS_RIGHT,
    KEEPS_LEFT,
    KEEPS_RIGHT,
    conjunction,
    filtered,
    moved_by,
    parted,
)
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import on

Columns = frozenset[Column]


def has_outer_joins(plan: Plan) -> bool:
    return any(isinstance(node, Join) and (node.kind.extends_left or node.kind.extends_right) for node in walk(plan))


@on(Filter)
def push_through_join(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter on columns of a side whose rows come out as they went in goes to that side; over an inner join, whatever
    is left of it becomes part of the join's condition.

    Unsound for the NULL-extended side of an outer join: a row whose match is filtered away comes out with NULLs.
    """
    if not (isinstance(plan, Filter) and isinstance(plan.child, Join)):
        return None
    join = plan.child
    left, right = _sides(join)
    if join.kind is JoinKind.INNER:
        down, stay = parted(plan.predicate, lambda _, read: read <= left | right)
        if not down:
            return None
        return filtered(replace(join, condition=conjunction((*conjuncts(join.condition), *down))), stay)
    to_left: list[Expression] = []
    to_right: list[Expression] = []
    if join.kind in KEEPS_LEFT:
        to_left, stay = parted(plan.predicate, lambda _, read: read <= left)
    elif join.kind in KEEPS_RIGHT:
        to_right, stay = parted(plan.predicate, lambda _, read: read <= right)
    if not to_left and not to_right:
        return None
    return filtered(replace(join, left=filtered(join.left, to_left), right=filtered(join.right, to_right)), stay)


@on(Join)
def push_join_condition(plan: Plan, context: Rewriting) -> Plan | None:
    """A conjunct of the join's condition that reads one side only filters that side, if rows of it that match nothing do
    not come out.

    Not on the side that an outer or anti join keeps: there it decides on matches, and the row comes out either way.
    """
    if not isinstance(plan, Join) or plan.condition is None:
        return None
    left, right = _sides(plan)
    to_left: list[Expression] = []
    to_right: list[Expression] = []
    stay: list[Expression] = []
    parts = conjuncts(plan.condition)
    for part in parts:
        read = moved_by(part)
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
    """An outer join becomes an inner (a full one a left or right) join if every row with invented NULLs is rejected above:
    by a filter, or by a join that such a row matches nothing in.

    Not if the condition can be true for a NULL (`b is null`, `coalesce(b, 0) = 0`), nor across a Limit, which counts the
    rows that will be rejected.
    """
    match plan:
        case Filter(child, predicate):
            below = reject_nulls(child, not_null_if_true(predicate))
            return None if below is child else replace(plan, child=below)
        case Join(kind=kind, left=left, right=right, condition=condition) if condition is not None:
            solid = not_null_if_true(condition)
            new_left = reject_nulls(left, solid) if kind in FILTERS_LEFT else left
            new_right = reject_nulls(right, solid) if kind in FILTERS_RIGHT else right
            if new_left is not left or new_right is not right:
                return replace(plan, left=new_left, right=new_right)
    return None


@on(Filter)
def null_test_as_anti_join(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter that wants a column of the extended side to be NULL, which no match has so, wants the rows without a match:
    an anti join has them, and the other side's columns are NULL.

    Not if a match may have it NULL: if the join's condition can be true of a NULL there.
    """
    if not (isinstance(plan, Filter) and isinstance(plan.child, Join) and plan.child.kind is JoinKind.LEFT):
        return None
    join = plan.child
    there = frozenset(join.right.columns)
    if join.condition is None or any(column.type is None for column in join.columns if column in there):
        return None
    never = (not_null_if_true(join.condition) | context.facts(join.right).never_null) & there
    parts = conjuncts(plan.predicate)
    tests = [part for part in parts if isinstance(part, Call) and part.function == "isnull" and _solid_in(part, never)]
    if not tests:
        return None
    unmatched = Join(JoinKind.ANTI, join.left, join.right, join.condition)
    outputs = tuple((c, Literal(None, c.type) if c in there else Ref(c)) for c in join.columns)
    return filtered(Project(unmatched, outputs), [part for part in parts if part not in tests])


def _solid_in(null_test: Call, never_null: Columns) -> bool:
    (tested,) = null_test.arguments
    return isinstance(tested, Ref) and tested.column in never_null


def reject_nulls(plan: Plan, columns: Columns) -> Plan:
    """The plan simplified, given that rows with a NULL in one of `columns` are thrown away above it."""
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
            made_of = (_solid(expression) for column, expression in outputs if column in columns)
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
    hit_left, hit_right = (bool(columns & side) for side in sides)
    kind = plan.kind
    match kind:
        case JoinKind.LEFT if hit_right:
            kind = JoinKind.INNER
        case JoinKind.RIGHT if hit_left:
            kind = JoinKind.INNER
        case JoinKind.FULL if hit_left and hit_right:
            kind = JoinKind.INNER
        case JoinKind.FULL if hit_left:
            kind = JoinKind.LEFT
        case JoinKind.FULL if hit_right:
            kind = JoinKind.RIGHT
    left = reject_nulls(plan.left, columns) if kind in KEEPS_LEFT else plan.left
    right = reject_nulls(plan.right, columns) if kind in KEEPS_RIGHT else plan.right
    if kind is plan.kind and left is plan.left and right is plan.right:
        return plan
    changed = replace(plan, kind=kind, left=left, right=right)
    if plan.kept is None:
        return changed
    # Fewer columns may be NULL now, and the columns that are kept say so.
    made = {column: column for column in changed.made}
    return replace(changed, kept=tuple(made[column] for column in plan.kept))


def _over(plan: Filter | Sort | Distinct | GroupBy | Project, child: Plan) -> Plan:
    return plan if child is plan.child else replace(plan, child=child)


def _solid(expression: Expression) -> Columns:
    """Columns that cannot be NULL where the expression is not."""
    if isinstance(expression, Ref):
        return frozenset((expression.column,))
    return not_null_if_true(Call("isnotnull", (expression,), BOOLEAN))


def _sides(join: Join) -> tuple[Columns, Columns]:
    return frozenset(join.left.columns), frozenset(join.right.columns)


OUTER = (simplify_outer_joins, null_test_as_anti_join)  # only where there is an outer join
RULES = (*OUTER, push_through_join, push_join_condition)
