"""Trees of inner joins as one operator, so that the join order does not depend on how the query is written.

`gathered` turns a maximal tree of inner joins into a `MultiJoin`: its inputs, the equivalence classes of its equality
conditions, and the remaining conditions. Two inputs with columns in one class can be joined, even if the query implies that
equality only through a third column: `a = b and b = c` allow joining a and c first.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Call, Expression, Ref, columns_of
from unshuffle.plan.logical import Filter, Join, MultiJoin, Plan
from unshuffle.plan.predicates import conjuncts
from unshuffle.properties import interchangeable


def gathered(plan: Join) -> MultiJoin | None:
    """The tree of inner joins with this join at its root, if it has more than two inputs."""
    inputs: list[Plan] = []
    conditions: list[Expression] = []
    _collect(plan, inputs, conditions)
    if len(inputs) < 3:
        return None
    equalities = [each for each in conditions if _joins_columns(each)]
    rest = []
    for each in dict.fromkeys(each for each in conditions if not _joins_columns(each)):
        read = columns_of(each)
        places = [place for place, one in enumerate(inputs) if not read.isdisjoint(one.columns)]
        if len(places) > 1:
            rest.append(each)
        else:
            # It reads one input, or none: it is a filter.
            place = places[0] if places else 0
            inputs[place] = Filter(inputs[place], each)
    classes = _classes(equalities)
    for place, one in enumerate(inputs):
        inputs[place] = _agreeing(one, classes)
    return MultiJoin(tuple(inputs), classes, tuple(rest), plan.columns)


def _agreeing(plan: Plan, classes: Sequence[Sequence[Column]]) -> Plan:
    """An input with two columns in one class is filtered on their equality: `a = x and b = x` imply `a = b`, and the join
    compares only one of the two."""
    for members in classes:
        mine = [column for column in members if column in plan.columns]
        for other in mine[1:]:
            plan = Filter(plan, Call("=", (Ref(mine[0]), Ref(other)), pa.bool_()))
    return plan


def _collect(plan: Plan, inputs: list[Plan], conditions: list[Expression]) -> None:
    if isinstance(plan, Join) and plan.kind is JoinKind.INNER:
        _collect(plan.left, inputs, conditions)
        _collect(plan.right, inputs, conditions)
        conditions.extend(conjuncts(plan.condition))
    elif isinstance(plan, MultiJoin):
        inputs.extend(plan.inputs)
        for first, *others in plan.classes:
            conditions.extend(Call("=", (Ref(first), Ref(other)), pa.bool_()) for other in others)
        conditions.extend(plan.conditions)
    else:
        inputs.append(plan)


def _joins_columns(condition: Expression) -> bool:
    """Only columns of interchangeable types form a class: 1 = '1' and 1 = '01' do not imply '1' = '01'."""
    match condition:
        case Call("=", (Ref(column=one), Ref(column=other))):
            return one != other and interchangeable(one.type, other.type)
        case _:
            return False


def _classes(equalities: Sequence[Expression]) -> tuple[tuple[Column, ...], ...]:
    classes: list[set[Column]] = []
    for each in equalities:
        match each:
            case Call(arguments=(Ref(column=one), Ref(column=other))):
                touched = [known for known in classes if one in known or other in known]
                classes = [known for known in classes if known not in touched]
                classes.append({one, other}.union(*touched))
            case _:
                pass
    ordered = [tuple(sorted(each, key=lambda c: c.id)) for each in classes]
    return tuple(sorted(ordered, key=lambda each: each[0].id))
