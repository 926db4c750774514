"""Adjacent projections become one, projections that change nothing are removed, and limits move below projections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from unshuffle.catalog.schema import Column
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.plan.expressions import Expression, Lambda, Literal, Ref, operands, walk
from unshuffle.plan.logical import Limit, Plan, Project
from unshuffle.plan.movable_conditions import correlation_columns, definitions, substitute
from unshuffle.plan.predicates import is_deterministic


@on(Project)
def drop_identity_project(plan: Plan, context: Rewriting) -> Plan | None:
    """A projection that yields its input's columns unchanged and in order does nothing.

    Unsound for another order: set operations and readers of a shared rowset match columns by position.
    """
    match plan:
        case Project(child, outputs) if plan.columns == child.columns and all(e == Ref(c) for c, e in outputs):
            return child
    return None


@on(Project)
def merge_projects(plan: Plan, context: Rewriting) -> Plan | None:
    """Expressions over the columns of a projection can be computed from the projection's input.

    Unsound if a column is not deterministic: each use would evaluate it again. Not if that would compute something twice, or
    for each element of a lambda's array, nor if a correlated subquery reads a computed column.
    """
    match plan:
        case Project(Project(child) as lower, outputs):
            made = definitions(lower)
            used = Counter(column for _, expression in outputs for column in _uses(expression) if column in made)
            taken = {column for _, expression in outputs for column in correlation_columns(expression)}
            if not taken & set(made) and all(_may_move(made[column], times) for column, times in used.items()):
                return Project(child, tuple((column, substitute(e, made)) for column, e in outputs))
    return None


@on(Limit)
def limit_below_project(plan: Plan, context: Rewriting) -> Plan | None:
    """A projection computes each row from one row and preserves their order, so the limit can come first. It is then next
    to the sort below the projection, and the two become a top-n.

    Unsound if the projection is not deterministic: rand(seed) depends on the rows that are there.
    """
    match plan:
        case Limit(Project(child, outputs) as project) if all(is_deterministic(e) for _, e in outputs):
            return replace(project, child=replace(plan, child=child))
    return None


def _may_move(expression: Expression, times: int) -> bool:
    if not is_deterministic(expression):
        return False
    return times == 1 or isinstance(expression, Ref | Literal)


def _uses(expression: Expression) -> Iterator[Column]:
    """The columns of an expression, each as often as it would be computed. In a lambda that is many times; twice will do."""
    match expression:
        case Ref(column=column):
            yield column
        case Lambda(body=body):
            inside = [part.column for part in walk(body) if isinstance(part, Ref)]
            yield from (*inside, *inside)
        case _:
            for part in operands(expression):
                yield from _uses(part)
