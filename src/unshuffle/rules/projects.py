"""Projections: those in a row become one, those that change nothing go, and limits come before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from unshuffle.algebra.expressions import (
    Expression,
    Lambda,
    Literal,
    Ref,
    operands,
    walk,
)
from unshuffle.algebra.logical import Limit, Plan, Project
from unshuffle.algebra.predicates import is_deterministic
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import definitions, substitute, taken_by_subqueries
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import on


@on(Project)
def drop_identity_project(plan: Plan, context: Rewriting) -> Plan | None:
    """A projection that yields its input's columns, each as it is and in their order, does nothing.

    In another order it does something: set operations and uses of a shared rowset match columns by position.
    """
    match plan:
        case Project(child, outputs) if plan.columns == child.columns and all(e == Ref(c) for c, e in outputs):
            return child
    return None


@on(Project)
def merge_projects(plan: Plan, context: Rewriting) -> Plan | None:
    """An expression over columns that a projection makes is one over what they are made of.

    Not if that would compute something twice, or for every element that a lambda goes through; nor if it is not
    deterministic, as each place would draw its own; nor inside the plan of a correlated subquery.
    """
    match plan:
        case Project(Project(child) as lower, outputs):
            made = definitions(lower)
            used = Counter(column for _, expression in outputs for column in _uses(expression) if column in made)
            taken = {column for _, expression in outputs for column in taken_by_subqueries(expression)}
            if not taken & set(made) and all(_may_move(made[column], times) for column, times in used.items()):
                return Project(child, tuple((column, substitute(e, made)) for column, e in outputs))
    return None


@on(Limit)
def limit_below_project(plan: Plan, context: Rewriting) -> Plan | None:
    """A projection makes each row from one row and keeps their order: it need only see the rows that are wanted, and the
    sort beneath it meets the limit.

    Not if it draws numbers from a seed, which depend on the rows that are there.
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
    """The columns of an expression, each as often as it would be computed: in a lambda, twice for many times."""
    match expression:
        case Ref(column=column):
            yield column
        case Lambda(body=body):
            inside = [part.column for part in walk(body) if isinstance(part, Ref)]
            yield from (*inside, *inside)
        case _:
            for part in operands(expression):
                yield from _uses(part)


RULES = (drop_identity_project, merge_projects, limit_below_project)
