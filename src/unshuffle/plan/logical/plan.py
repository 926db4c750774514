"""`Plan`, the union of all logical operators, and functions over whole plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Expression, Ref, Subquery, columns_of
from unshuffle.plan.expressions import walk as parts
from unshuffle.plan.logical import leaves, optimizer_nodes, relational, shared, user_defined

Plan = (
    leaves.Scan
    | leaves.TableScan
    | leaves.Values
    | relational.Project
    | relational.Filter
    | relational.GroupBy
    | relational.PartialGroupBy
    | relational.FinalGroupBy
    | relational.GroupingSets
    | relational.Expand
    | relational.Distinct
    | relational.Window
    | relational.Sort
    | relational.Limit
    | relational.PartialTopN
    | relational.Join
    | relational.SetOperation
    | user_defined.Process
    | user_defined.Reduce
    | user_defined.Combine
    | shared.Foreign
    | shared.Shared
    | shared.Reference
    | optimizer_nodes.GroupRef
    | optimizer_nodes.MultiJoin
    | optimizer_nodes.MultiOutput
)


def expressions_of(plan: Plan) -> tuple[Expression, ...]:
    """The expressions that an operator evaluates itself, its key columns among them."""
    return _EXPRESSIONS.get(type(plan), _no_expressions)(plan)


def _no_expressions(plan: Plan) -> tuple[Expression, ...]:
    return ()


def _refs(*columns: Column) -> tuple[Expression, ...]:
    return tuple(map(Ref, columns))


_EXPRESSIONS: dict[type, Callable[[Any], tuple[Expression, ...]]] = {
    leaves.Values: lambda plan: tuple(value for row in plan.rows for value in row),
    relational.Project: lambda plan: tuple(expression for _, expression in plan.outputs),
    relational.Filter: lambda plan: (plan.predicate,),
    relational.GroupBy: lambda plan: (*_refs(*plan.keys), *(call for _, call in plan.aggregates)),
    relational.PartialGroupBy: lambda plan: (*_refs(*plan.keys), *(call for _, call in plan.states)),
    relational.FinalGroupBy: lambda plan: _refs(*plan.keys, *plan.states),
    relational.GroupingSets: lambda plan: (
        *_refs(*(key for _, key in plan.keys)),
        *(call for _, call in plan.aggregates),
    ),
    relational.Expand: lambda plan: (
        *_refs(*(key for _, key in plan.keys)),
        *((plan.repeated,) if plan.repeated is not None else ()),
    ),
    relational.Window: lambda plan: tuple(call for _, call in plan.calls),
    relational.Sort: lambda plan: tuple(key.expression for key in plan.order),
    relational.PartialTopN: lambda plan: tuple(key.expression for key in plan.order),
    relational.Join: lambda plan: (plan.condition,) if plan.condition is not None else (),
}


def subqueries_of(plan: Plan) -> list[Plan]:
    """The plans of the subqueries in an operator's own expressions."""
    return [
        part.plan for expression in expressions_of(plan) for part in parts(expression) if isinstance(part, Subquery)
    ]


def has_subqueries(plan: Plan) -> bool:
    return any(map(subqueries_of, walk(plan)))


def walk(plan: Plan) -> Iterator[Plan]:
    """A plan's operators, top down. A shared rowset comes once. The plans of subqueries are included."""
    seen: set[int] = set()

    def visit(node: Plan) -> Iterator[Plan]:
        if isinstance(node, shared.Shared):
            if id(node) in seen:
                return
            seen.add(id(node))
        yield node
        for below in (*node.children, *subqueries_of(node)):
            yield from visit(below)

    return visit(plan)


def outer_columns(plan: Plan) -> frozenset[Column]:
    """The columns that a plan reads but no operator in it yields: the correlation columns of a subquery.

    A shared rowset reads nothing from outside, and its result is visible only as the columns of a reference. Its own columns
    do not count: they may be those of another reference, in the enclosing query."""
    made: set[Column] = set()
    read: set[Column] = set()
    pending: list[Plan] = [plan]
    while pending:
        node = pending.pop()
        made.update(node.columns)
        if not isinstance(node, shared.Reference):
            pending.extend(node.children)
        for expression in expressions_of(node):
            read |= columns_of(expression)
        pending.extend(subqueries_of(node))
    return frozenset(read - made)
