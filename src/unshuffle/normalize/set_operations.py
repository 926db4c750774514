"""DISTINCT and set operations in terms of GROUP BY, UNION ALL and joins, whose layouts the search can reason about.

INTERSECT ALL and EXCEPT ALL count duplicates. They have no such form here and are left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.normalize.projections.computed_columns import only
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.expressions import Call, Cast, Expression, Ref, connect
from unshuffle.plan.logical import Distinct, GroupBy, Join, Plan, Project, SetKind, SetOperation
from unshuffle.properties import interchangeable


def distinct_as_group_by(plan: Plan, context: Rewriting) -> Plan | None:
    """Distinct rows are the groups by all columns. Unsound without columns: a GROUP BY without keys always has a row."""
    match plan:
        case Distinct(child) if child.columns:
            return GroupBy(child, child.columns, ())
    return None


def flatten_unions(plan: Plan, context: Rewriting) -> Plan | None:
    """Nested UNION ALLs are one UNION ALL.

    Unsound if their types differ: a value that is cast twice, through another type, may change.
    """
    if not _is_union_all(plan) or not any(_is_union_all(each) for each in plan.children):
        return None
    assert isinstance(plan, SetOperation)
    return _flat(plan)


def _is_union_all(plan: Plan) -> bool:
    return isinstance(plan, SetOperation) and plan.kind is SetKind.UNION and plan.all


def _flat(plan: SetOperation) -> SetOperation | None:
    inputs = [part for each in plan.inputs for part in _parts(each, plan.columns)]
    return SetOperation(plan.kind, plan.all, tuple(inputs), plan.columns) if len(inputs) > len(plan.inputs) else None


def _parts(plan: Plan, columns: tuple[Column, ...]) -> Iterator[Plan]:
    if not isinstance(plan, SetOperation) or not _is_union_all(plan):
        yield plan
        return
    every = (plan, *plan.inputs)
    if all(interchangeable(a.type, b.type) for each in every for a, b in zip(each.columns, columns, strict=True)):
        for each in plan.inputs:
            yield from _parts(each, columns)
    else:
        yield plan


def union_as_group_by(plan: Plan, context: Rewriting) -> Plan | None:
    """UNION is the distinct rows of UNION ALL. A DISTINCT of an input is then redundant.

    Unsound for rows without columns, as for DISTINCT.
    """
    match plan:
        case SetOperation(SetKind.UNION, False, inputs, columns) if columns:
            everything = SetOperation(SetKind.UNION, True, tuple(map(_with_duplicates, inputs)), columns)
            return GroupBy(_flat(everything) or everything, columns, ())
    return None


def _with_duplicates(plan: Plan) -> Plan:
    match plan:
        case Distinct(child):
            return child
        case GroupBy(child, keys, ()) if keys:
            return only(child, keys)
        case _:
            return plan


def intersect_as_semi_join(plan: Plan, context: Rewriting) -> Plan | None:
    """INTERSECT has the distinct rows of the left input that are also in the right input; NULL equals NULL.

    Not if a type is unknown: both inputs are compared in their common type.
    """
    return _filtered_by(plan, SetKind.INTERSECT, JoinKind.SEMI, context)


def except_as_anti_join(plan: Plan, context: Rewriting) -> Plan | None:
    """EXCEPT has the distinct rows of the left input that are not in the right input. Otherwise as for INTERSECT."""
    return _filtered_by(plan, SetKind.EXCEPT, JoinKind.ANTI, context)


def _filtered_by(plan: Plan, set_kind: SetKind, kind: JoinKind, context: Rewriting) -> Plan | None:
    if not isinstance(plan, SetOperation) or plan.kind is not set_kind or plan.all or not plan.columns:
        return None
    left, right = plan.inputs
    others = tuple(context.numbers.like(column) for column in plan.columns)
    one, other = _as(left, plan.columns), _as(right, others)
    if one is None or other is None:
        return None
    same = [Call("<=>", (Ref(a), Ref(b)), pa.bool_()) for a, b in zip(plan.columns, others, strict=True)]
    return Join(kind, GroupBy(one, plan.columns, ()), other, connect("and", same))


def _as(plan: Plan, columns: tuple[Column, ...]) -> Plan | None:
    """The plan with other columns, cast to their types; None if a type is unknown."""
    outputs: list[tuple[Column, Expression]] = []
    for new, old in zip(columns, plan.columns, strict=True):
        if new.type is None or old.type is None:
            return None
        outputs.append((new, Ref(old) if new.type == old.type else Cast(Ref(old), new.type)))
    return Project(plan, tuple(outputs))
