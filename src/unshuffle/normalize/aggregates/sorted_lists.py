"""Collected lists of numbers sorted as primitive arrays.

    array_sort(collect_list(x))   =   sort_array(collect_list(x))

`array_sort` evaluates a comparison expression for pairs of boxed values. `sort_array` sorts a primitive array. They differ in
the position of NULLs, and a collected list has none.
"""

from __future__ import annotations

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.expressions import Call, Expression, Ref, map_operands
from unshuffle.plan.logical import GroupBy, Plan, Project


def sort_collected_numbers(plan: Plan, context: Rewriting) -> Plan | None:
    """Both sort in the same order if no comparison is given and no element is NULL.

    Unsound for floating-point numbers: a primitive sort puts -0.0 before 0.0."""
    if not isinstance(plan, Project) or not isinstance(plan.child, GroupBy):
        return None
    collected = {
        column
        for column, call in plan.child.aggregates
        if call.facts.result == "list" and not call.within and _are_whole_numbers(column.type)
    }
    if not collected:
        return None
    outputs = tuple((column, _sorted(expression, collected)) for column, expression in plan.outputs)
    return Project(plan.child, outputs) if outputs != plan.outputs else None


def _sorted(expression: Expression, collected: set[Column]) -> Expression:
    match expression:
        case Call("array_sort", (Ref(column=column),)) if column in collected:
            return Call("sort_array", expression.arguments, expression.type)
    return map_operands(expression, lambda each: _sorted(each, collected))


def _are_whole_numbers(type: DataType) -> bool:
    if type is None or not pa.types.is_list(type):
        return False
    return bool(pa.types.is_integer(type.value_type) or pa.types.is_date(type.value_type))
