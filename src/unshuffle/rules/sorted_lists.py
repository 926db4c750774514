"""Lists of collected numbers sorted by their bits.

    array_sort(collect_list(x))   =   sort_array(collect_list(x))

`array_sort` calls a comparison for each pair of objects, written as an expression. `sort_array` sorts numbers as an array of
numbers. They differ in where NULLs go, of which a collected list has none.
"""

from __future__ import annotations

import pyarrow as pa

from unshuffle.algebra.expressions import Call, Expression, Ref, map_operands
from unshuffle.algebra.logical import GroupBy, Plan, Project
from unshuffle.catalog.schema import Column, DataType
from unshuffle.rules.rewriting import Rewriting

_COLLECT = frozenset(("collect_list", "collect_set", "array_agg"))


def sort_collected_numbers(plan: Plan, context: Rewriting) -> Plan | None:
    """Not with a comparison of the user's. Not of floating-point numbers, among which a sort by bits puts -0.0 before 0.0."""
    if not isinstance(plan, Project) or not isinstance(plan.child, GroupBy):
        return None
    collected = {
        column
        for column, call in plan.child.aggregates
        if call.function in _COLLECT and not call.within and _are_whole_numbers(column.type)
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


RULES = (sort_collected_numbers,)
