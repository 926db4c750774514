"""Empty inputs, and what the operators above them become.

A rowset that is known to be empty is a `Values` without rows. Its columns have types, so it is made only where we know every
type exactly as Spark does.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.plan.expressions import Cast, Expression, Literal, Ref
from unshuffle.plan.logical import (
    Distinct,
    Expand,
    Filter,
    GroupBy,
    Join,
    Limit,
    Plan,
    Project,
    SetKind,
    SetOperation,
    Sort,
    Values,
    Window,
)


def empty(columns: Sequence[Column]) -> Values | None:
    """No rows with these columns; None where we do not know a type exactly as Spark does."""
    if not columns or not all(map(_has_exact_type, columns)):
        return None
    return Values((), tuple(columns))


def _has_exact_type(column: Column) -> bool:
    type = column.type
    # Our types do not record the fields of an interval, nor everything about nested values.
    return type is not None and not (
        pa.types.is_nested(type) or pa.types.is_duration(type) or pa.types.is_interval(type) or pa.types.is_null(type)
    )


def is_empty(plan: Plan) -> bool:
    return isinstance(plan, Values) and not plan.rows


@on(Filter, Project, Sort, Limit, Window, Distinct, Expand, GroupBy)
def drop_empty_input(plan: Plan, context: Rewriting) -> Plan | None:
    """An operator over an empty input is empty.

    Unsound for a GROUP BY without keys, which has one row, and for user-defined operators, which may produce rows.
    """
    match plan:
        case (
            Filter(child)
            | Project(child)
            | Sort(child)
            | Limit(child)
            | Window(child)
            | Distinct(child)
            | Expand(child)
        ):
            return empty(plan.columns) if is_empty(child) else None
        case GroupBy(child, keys) if keys and is_empty(child):
            return empty(plan.columns)
    return None


@on(Join)
def drop_join_with_empty(plan: Plan, context: Rewriting) -> Plan | None:
    """An inner or semi-join with an empty input is empty. An outer join with an empty preserved input is empty, too; with an
    empty other input, it has the preserved rows, extended with NULLs. An anti-join with nothing is its left input.

    A full outer join preserves both inputs, and so is empty only if both are.
    """
    if not isinstance(plan, Join) or not (is_empty(plan.left) or is_empty(plan.right)):
        return None
    no_left, no_right = is_empty(plan.left), is_empty(plan.right)
    match plan.kind:
        case JoinKind.INNER | JoinKind.SEMI:
            return empty(plan.columns)
        case JoinKind.ANTI:
            return empty(plan.columns) if no_left else _extended(plan, plan.left)
        case JoinKind.LEFT:
            return empty(plan.columns) if no_left else _extended(plan, plan.left)
        case JoinKind.RIGHT:
            return empty(plan.columns) if no_right else _extended(plan, plan.right)
        case JoinKind.FULL:
            if no_left and no_right:
                return empty(plan.columns)
            return _extended(plan, plan.right if no_left else plan.left)


def _extended(join: Join, side: Plan) -> Plan:
    """The rows of one side, with NULL for the columns of the other. Their types are known: the other side is a Values."""
    there = frozenset(side.columns)
    outputs: list[tuple[Column, Expression]] = [
        (column, Ref(column) if column in there else Literal(None, column.type)) for column in join.columns
    ]
    return Project(side, tuple(outputs))


@on(SetOperation)
def drop_empty_unions(plan: Plan, context: Rewriting) -> Plan | None:
    """An empty input adds nothing to UNION ALL.

    A single remaining input must have the union's types. It is cast to them; the union stays if a type is unknown.
    """
    match plan:
        case SetOperation(SetKind.UNION, True, inputs, columns) if any(map(is_empty, inputs)):
            left = [each for each in inputs if not is_empty(each)]
            if not left:
                return empty(columns)
            if len(left) == 1:
                return _renamed(left[0], columns)
            types_stay = all(c.type == d.type for each in left for c, d in zip(each.columns, columns, strict=True))
            return SetOperation(plan.kind, plan.all, tuple(left), columns) if types_stay else None
    return None


def _renamed(plan: Plan, columns: Sequence[Column]) -> Plan | None:
    outputs: list[tuple[Column, Expression]] = []
    for column, source in zip(columns, plan.columns, strict=True):
        if column.type is None or source.type is None:
            return None
        outputs.append((column, Ref(source) if column.type == source.type else Cast(Ref(source), column.type)))
    return Project(plan, tuple(outputs))
