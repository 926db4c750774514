"""Operators that do nothing, given the keys, dependencies, constants and never-NULL columns of their input.

Grouping by a key gives one row per group. Sorting by a column that earlier sort columns determine changes nothing. A
condition that constraints decide is true for all rows or for none. `joins.eliminate_joins` has the rules for joins,
`predicates.empty_inputs` those for empty inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.types import BIGINT, BOOLEAN, DOUBLE
from unshuffle.normalize.predicates.constant_conditions import (
    asks_for_facts,
    constant_value,
    is_always_true,
    is_false_by,
    is_never_true,
    is_true_by,
)
from unshuffle.normalize.predicates.empty_inputs import empty
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.plan.expressions import AggregateCall, Call, Case, Cast, Expression, Literal, Ref, connect
from unshuffle.plan.logical import Distinct, Filter, GroupBy, Limit, Plan, Project, Sort
from unshuffle.plan.predicates import conjunction, conjuncts, is_deterministic, not_null_if_true
from unshuffle.properties.facts.equality import ConstantValue

# --- groups of one row


@on(GroupBy)
def group_by_of_unique(plan: Plan, context: Rewriting) -> Plan | None:
    """If no two rows agree on the grouping columns, each row is a group, and an aggregate is an expression: sum(x) is x,
    count(*) is 1.

    Unsound for floating-point keys, in which GROUP BY turns -0.0 into 0.0, and without keys, where an empty input has a
    group too. Not if an aggregate has no exact expression.
    """
    if not isinstance(plan, GroupBy) or not plan.keys or any(_has_two_zeros(key.type) for key in plan.keys):
        return None
    values = [(column, _of_one_row(call)) for column, call in plan.aggregates]
    if any(value is None for _, value in values) or not context.facts(plan.child).unique(plan.keys):
        return None
    made = tuple((column, value) for column, value in values if value is not None)
    return Project(plan.child, (*((key, Ref(key)) for key in plan.keys), *made))


@on(Distinct)
def distinct_of_unique(plan: Plan, context: Rewriting) -> Plan | None:
    """Rows with a key are distinct already. Unsound for floating-point columns, as for GROUP BY."""
    match plan:
        case Distinct(child) if not any(_has_two_zeros(column.type) for column in child.columns):
            return child if context.facts(child).unique(child.columns) else None
    return None


def _has_two_zeros(type: DataType) -> bool:
    return type is None or pa.types.is_floating(type) or pa.types.is_nested(type)


def _of_one_row(call: AggregateCall) -> Expression | None:
    """The result of an aggregate over one row; None if we have no exact expression for it."""
    if call.type is None or call.within or not call.deterministic:
        return None
    match call.facts.over_one_row, call.arguments:
        case "count", arguments:
            counted = [Call("isnotnull", (each,), BOOLEAN) for each in arguments if not isinstance(each, Literal)]
            if any(isinstance(each, Literal) and each.value is None for each in arguments):
                return None
            conditions = [*counted, *((call.where,) if call.where is not None else ())]
            one, none = Literal(1, BIGINT), Literal(0, BIGINT)
            return Case(((connect("and", conditions), one),), none, BIGINT) if conditions else one
        case (("sum" | "mean"), (argument,)) if _is_exact(argument.type, call):
            return _where(call, argument if argument.type == call.type else Cast(argument, call.type))
        case "value", (argument,) if argument.type == call.type:
            return _where(call, argument)
        case _:
            return None


def _is_exact(type: DataType, call: AggregateCall) -> bool:
    """Does a cast to the result's type give exactly the sum, or the mean, of one number?"""
    if type is None or call.type is None:
        return False
    if call.facts.over_one_row == "mean" and pa.types.is_signed_integer(type):
        return bool(call.type == DOUBLE)
    if pa.types.is_decimal(type) and pa.types.is_decimal(call.type):
        digits = call.type.precision - call.type.scale
        return bool(call.type.scale >= type.scale and digits >= type.precision - type.scale)
    return bool(pa.types.is_signed_integer(type) and pa.types.is_signed_integer(call.type))


def _where(call: AggregateCall, value: Expression) -> Expression:
    return value if call.where is None else Case(((call.where, value),), None, call.type)


# --- order and number of rows


@on(Sort)
def shorten_sort(plan: Plan, context: Rewriting) -> Plan | None:
    """A sort column that the columns before it determine is constant where they tie, so it never decides. A constant never
    decides, and a single row needs no sort.

    Unsound for dependencies that hold only for rows without NULLs.
    """
    if not isinstance(plan, Sort):
        return None
    facts = context.facts(plan.child)
    if facts.unique(()):
        return plan.child
    before: list[Column] = []
    kept = []
    for key in plan.order:
        if isinstance(key.expression, Ref):
            if facts.determines(before, (key.expression.column,)):
                continue
            before.append(key.expression.column)
        kept.append(key)
    if len(kept) == len(plan.order):
        return None
    return replace(plan, order=tuple(kept)) if kept else plan.child


@on(Limit)
def drop_limit(plan: Plan, context: Rewriting) -> Plan | None:
    """A Limit of at least one over at most one row does nothing, a Limit of 0 leaves nothing, two Limits are the smaller one.

    Unsound with an OFFSET, which may skip the only row.
    """
    match plan:
        case Limit(child, count, 0) if count is None or (count >= 1 and context.facts(child).unique(())):
            return child
        case Limit(child, 0):
            return empty(child.columns)
        case Limit(Limit(child, lower, 0), upper, 0) if lower is not None and upper is not None:
            return Limit(child, min(lower, upper))
    return None


# --- conditions that are decided


@on(Filter)
def simplify_reflexive(plan: Plan, context: Rewriting) -> Plan | None:
    """An expression equals itself unless it is NULL, so a = a is `a is not null`. NaN equals itself in Spark.

    Unsound if it is not deterministic: rand() = rand() compares two numbers.
    """
    match plan:
        case Filter(child, predicate):
            parts = conjuncts(predicate)
            simpler = [_not_reflexive(each) for each in parts]
            if any(new is not old for new, old in zip(simpler, parts, strict=True)):
                return Filter(child, connect("and", simpler))
    return None


def _not_reflexive(condition: Expression) -> Expression:
    match condition:
        case Call("=" | "<=" | ">=" | "<=>" | "<>" | "<" | ">" as name, (left, right)) if left == right:
            if not is_deterministic(left):
                return condition
            if name in ("=", "<=", ">="):
                return Call("isnotnull", (left,), BOOLEAN)
            return Literal(name == "<=>", BOOLEAN)
        case _:
            return condition


@on(Filter)
def decide_filter(plan: Plan, context: Rewriting) -> Plan | None:
    """A conjunct that is true for every row is dropped. A conjunct that is true for no row leaves no row.

    A condition that may be NULL must not be replaced under a NOT: NULL is not true, and its negation is not true either.
    """
    if not isinstance(plan, Filter):
        return None
    parts = conjuncts(plan.predicate)
    undecided = [each for each in parts if not is_always_true(each)]
    if any(map(is_never_true, undecided)) or _contradict(undecided):
        return empty(plan.columns)
    facts_matter = [each for each in undecided if asks_for_facts(each)]
    if facts_matter:
        facts = context.facts(plan.child)
        if any(is_false_by(each, facts) for each in facts_matter):
            return empty(plan.columns)
        undecided = [each for each in undecided if each not in facts_matter or not is_true_by(each, facts)]
    if len(undecided) == len(parts):
        return None
    condition = conjunction(undecided)
    return plan.child if condition is None else replace(plan, predicate=condition)


def _contradict(conditions: Sequence[Expression]) -> bool:
    """a = 5 and a = 6; a is null and a > 6: are the conditions never true together?"""
    fixed: dict[Column, ConstantValue] = {}
    for condition in conditions:
        found = constant_value(condition)
        if found is not None and fixed.setdefault(found[0], found[1]).differs_from(found[1]):
            return True
    nulls = [part.arguments[0] for part in conditions if isinstance(part, Call) and part.function == "isnull"]
    return bool(nulls) and any(Ref(column) in nulls for part in conditions for column in not_null_if_true(part))
