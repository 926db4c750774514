"""Semi- and anti-joins are filters, and go down like them: to the input of a join whose rows they decide on.

(customer join orders) semi join big on o_orderkey = b       customer join (orders semi join big on o_orderkey = b)
"""

from __future__ import annotations

from dataclasses import replace

from unshuffle.algebra.expressions import Expression, Ref
from unshuffle.algebra.logical import Join, Plan, Project
from unshuffle.algebra.predicates import conjuncts, is_deterministic
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import KEEPS_LEFT, KEEPS_RIGHT, conjunction, definitions, moved_by, substitute
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import on


@on(Join)
def push_semi_join_into_join(plan: Plan, context: Rewriting) -> Plan | None:
    """Whether a row has a match is asked of the columns of one input: it may be asked before the join.

    Unsound for the NULL-extended side of an outer join: a row without a match there would come out with NULLs. Not past
    another semi- or anti-join either, with which it could change places for ever.
    """
    if not isinstance(plan, Join) or plan.kind not in (JoinKind.SEMI, JoinKind.ANTI) or not isinstance(plan.left, Join):
        return None
    below = plan.left
    read = _read_of_left(plan)
    if not read or below.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return None
    if below.kind in KEEPS_LEFT and read <= set(below.left.columns):
        moved = replace(below, left=_sunk(replace(plan, left=below.left, kept=None), context), kept=None)
    elif below.kind in KEEPS_RIGHT and read <= set(below.right.columns):
        moved = replace(below, right=_sunk(replace(plan, left=below.right, kept=None), context), kept=None)
    else:
        return None
    return moved if moved.columns == plan.columns else replace(moved, kept=plan.columns)


def _sunk(plan: Plan, context: Rewriting) -> Plan:
    return push_semi_join_into_join(plan, context) or plan


@on(Join)
def push_semi_join_through_project(plan: Plan, context: Rewriting) -> Plan | None:
    """A projection makes each row from one row: the rows may be chosen before.

    Only where the condition reads columns that the projection passes on, or else a join would be on expressions; and not
    if it makes random numbers, which are drawn for the rows there are.
    """
    match plan:
        case Join(JoinKind.SEMI | JoinKind.ANTI, Project(Join() as child, outputs) as project, _, condition):
            made = {column: e for column, e in definitions(project).items() if column in _read_of_left(plan)}
            if condition is None or not all(isinstance(e, Ref) for e in made.values()):
                return None
            if not all(is_deterministic(e) for _, e in outputs) or moved_by(condition) is None:
                return None
            semi = _sunk(replace(plan, left=child, condition=substitute(condition, made), kept=None), context)
            return Project(semi, tuple(each for each in outputs if each[0] in plan.columns))
    return None


def _read_of_left(plan: Join) -> frozenset[Column]:
    """The columns of the left input that the condition reads; none if it must stay where it is."""
    parts: list[Expression] = list(conjuncts(plan.condition))
    condition = conjunction(parts)
    read = None if condition is None else moved_by(condition)
    return frozenset() if read is None else read & frozenset(plan.left.columns)


RULES = (push_semi_join_into_join, push_semi_join_through_project)
