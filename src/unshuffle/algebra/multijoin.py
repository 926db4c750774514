"""Inner joins of many inputs as one operator, so that their order is a choice and not how the query was written.

`gather` replaces every maximal tree of inner joins by a `MultiJoin`: inputs, the classes of columns that its equalities
make equal, and the conditions that are left. A class joins any two inputs that have a column in it, also where the query
only says so through a third (a = b and b = c let a and c be joined first).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from unshuffle.algebra.expressions import Call, Expression, Ref, columns_of
from unshuffle.algebra.logical import Filter, Join, Plan
from unshuffle.algebra.predicates import conjuncts
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.properties import interchangeable


@dataclass(frozen=True, slots=True)
class MultiJoin:
    """Every combination of rows that meets the conditions and agrees on each class; no value in a class is NULL. With a
    `beam`, only so many ways to split it in two are tried, the most promising."""

    inputs: tuple[Plan, ...]
    classes: tuple[tuple[Column, ...], ...]
    conditions: tuple[Expression, ...]
    columns: tuple[Column, ...]
    beam: int | None = None

    @property
    def children(self) -> tuple[Plan, ...]:
        return self.inputs


def gathered(plan: Join) -> MultiJoin | None:
    """The tree of inner joins that has this one at its top, if it joins more than two inputs. An input may be such a tree."""
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
            # It looks at one input, or at none: it is a filter.
            place = places[0] if places else 0
            inputs[place] = Filter(inputs[place], each)
    classes = _classes(equalities)
    for place, one in enumerate(inputs):
        inputs[place] = _agreeing(one, classes)
    return MultiJoin(tuple(inputs), classes, tuple(rest), plan.columns)


def _agreeing(plan: Plan, classes: Sequence[Sequence[Column]]) -> Plan:
    """An input with two columns in one class must agree on them before it is joined: a = x and b = x is a = b, and the
    join will look at one of the two only."""
    for members in classes:
        mine = [column for column in members if column in plan.columns]
        for other in mine[1:]:
            plan = Filter(plan, Call("=", (Ref(mine[0]), Ref(other)), pa.bool_()))
    return plan


def _collect(plan: Plan | MultiJoin, inputs: list[Plan], conditions: list[Expression]) -> None:
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
    """Only columns of interchangeable types are a class: 1 = '1' and 1 = '01' do not make '1' = '01'."""
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
