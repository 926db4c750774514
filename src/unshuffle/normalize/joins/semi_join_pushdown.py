"""Semi- and anti-joins are filters and move down like them, to the input of a join whose columns they read.

(customer join orders) semi join big on o_orderkey = b       customer join (orders semi join big on o_orderkey = b)
"""

from __future__ import annotations

from dataclasses import replace

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.plan.expressions import Expression, Ref
from unshuffle.plan.logical import Join, Plan, Project
from unshuffle.plan.movable_conditions import KEEPS_LEFT, KEEPS_RIGHT, definitions, movable_columns, substitute
from unshuffle.plan.predicates import conjunction, conjuncts, is_deterministic


@on(Join)
def push_semi_join_into_join(plan: Plan, context: Rewriting) -> Plan | None:
    """A semi- or anti-join that reads columns of one input of a join below it can be applied to that input.

    Unsound for the NULL-extended side of an outer join: a row without a match there would appear with NULLs. Not past another
    semi- or anti-join: the two could change places forever.
    """
    if not isinstance(plan, Join) or plan.kind not in (JoinKind.SEMI, JoinKind.ANTI) or not isinstance(plan.left, Join):
        return None
    below = plan.left
    read = _read_of_left(plan)
    if not read or below.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return None
    if below.kind in KEEPS_LEFT and read <= set(below.left.columns):
        moved = replace(below, left=_pushed(replace(plan, left=below.left, kept=None), context), kept=None)
    elif below.kind in KEEPS_RIGHT and read <= set(below.right.columns):
        moved = replace(below, right=_pushed(replace(plan, left=below.right, kept=None), context), kept=None)
    else:
        return None
    return moved if moved.columns == plan.columns else replace(moved, kept=plan.columns)


def _pushed(plan: Plan, context: Rewriting) -> Plan:
    return push_semi_join_into_join(plan, context) or plan


@on(Join)
def push_semi_join_through_project(plan: Plan, context: Rewriting) -> Plan | None:
    """A projection computes each row from one row, so a semi- or anti-join over it can come first.

    Unsound if the projection is not deterministic: rand(seed) depends on the rows that are there. Not if the condition reads
    computed columns: the join would compare expressions.
    """
    match plan:
        case Join(JoinKind.SEMI | JoinKind.ANTI, Project(Join() as child, outputs) as project, _, condition):
            made = {column: e for column, e in definitions(project).items() if column in _read_of_left(plan)}
            if condition is None or not all(isinstance(e, Ref) for e in made.values()):
                return None
            if not all(is_deterministic(e) for _, e in outputs) or movable_columns(condition) is None:
                return None
            semi = _pushed(replace(plan, left=child, condition=substitute(condition, made), kept=None), context)
            return Project(semi, tuple(each for each in outputs if each[0] in plan.columns))
    return None


def _read_of_left(plan: Join) -> frozenset[Column]:
    """The columns of the left input that the condition reads; none if the condition must not move."""
    parts: list[Expression] = list(conjuncts(plan.condition))
    condition = conjunction(parts)
    read = None if condition is None else movable_columns(condition)
    return frozenset() if read is None else read & frozenset(plan.left.columns)
