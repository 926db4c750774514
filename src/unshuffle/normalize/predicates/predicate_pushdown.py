"""Filters move down to the scans, or as far as they can without changing the result. `join_predicate_pushdown` has the rules
for joins.

A rule here takes a filter over one operator and moves it, or those of its conjuncts that may move, below the operator.
Applied on the way down (`traversal.descend`), one pass moves a filter as far as it goes. Conjuncts keep their order within a
filter, because an earlier one may protect a later one from an error. Like Spark, we still move a filter past other
operators.

Conjuncts that are not deterministic stay, because they would be evaluated for other rows; so do those that read a correlated
subquery. No rule moves a filter below a Limit, which would then keep other rows, or into a shared rowset, whose other readers
need the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unshuffle.catalog.schema import Column
from unshuffle.normalize.predicates.implied_predicates import holds
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.plan.expressions import Expression, Ref
from unshuffle.plan.logical import (
    Distinct,
    Expand,
    Filter,
    GroupBy,
    GroupingSets,
    Plan,
    Process,
    Project,
    Reduce,
    SetOperation,
    Sort,
    Window,
)
from unshuffle.plan.movable_conditions import (
    definitions,
    filtered,
    input_names,
    movable_columns,
    respects_equality,
    split_movable,
    substitute,
)
from unshuffle.plan.predicates import conjunction, conjuncts, is_deterministic, not_null_if_true


@on(Filter)
def merge_filters(plan: Plan, context: Rewriting) -> Plan | None:
    """Two adjacent filters are one filter. The lower filter's conjuncts come first, as they did.

    Unsound if the lower filter is not deterministic: the upper filter's conjuncts would move past it.
    """
    match plan:
        case Filter(Filter(child, first), second) if is_deterministic(first):
            return filtered(child, (*conjuncts(first), *conjuncts(second)))
    return None


@on(Filter)
def push_through_project(plan: Plan, context: Rewriting) -> Plan | None:
    """A projection computes each row from one row, so a filter over it can test the expressions below it.

    Unsound if the projection is not deterministic: rand(seed) gives a row another value if other rows are gone.
    """
    match plan:
        case Filter(Project(child, outputs) as project, predicate) if all(is_deterministic(e) for _, e in outputs):
            made = definitions(project)
            down, stay = split_movable(predicate, lambda _, read: read <= set(project.columns))
            if down:
                below = filtered(child, (substitute(each, made) for each in down))
                return filtered(replace(project, child=below), stay)
    return None


@on(Filter)
def push_through_group_by(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition on grouping columns keeps or drops whole groups, so it can be applied to their rows.

    Unsound for a GROUP BY without keys, which has one row even if its input is empty, and for a condition that tells equal
    values apart, such as -0.0 and 0.0.
    """
    match plan:
        case Filter(GroupBy(child, keys) as group, predicate) if keys:
            down, stay = split_movable(predicate, lambda each, read: read <= set(keys) and respects_equality(each))
            if down:
                return filtered(replace(group, child=filtered(child, down)), stay)
        case Filter(Distinct(child), predicate):
            down, stay = split_movable(
                predicate, lambda each, read: read <= set(child.columns) and respects_equality(each)
            )
            if down:
                return filtered(Distinct(filtered(child, down)), stay)
    return None


@on(Filter)
def push_through_grouping_sets(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition on columns that every grouping set has moves below, as for GROUP BY.

    Unsound if a set lacks one of the columns: it is NULL above, and has a value below.
    """
    match plan:
        case Filter(GroupingSets(child, keys, sets) as group, predicate) if sets:
            in_every_set = set(sets[0]).intersection(*sets)
            made = {out: Ref(column) for out, column in keys if column in in_every_set}
            down, stay = split_movable(
                predicate, lambda each, read: bool(read) and read <= set(made) and respects_equality(each)
            )
            if down:
                below = filtered(child, (substitute(each, made) for each in down))
                return filtered(replace(group, child=below), stay)
    return None


@on(Filter)
def drop_rejected_grouping_sets(plan: Plan, context: Rewriting) -> Plan | None:
    """A grouping set without a column that the filter requires not to be NULL contributes no rows.

    One set must remain: GROUPING SETS without any set has another meaning.
    """
    match plan:
        case Filter(GroupingSets(keys=keys, sets=sets) as group, predicate):
            not_null = not_null_if_true(predicate)
            required = {column for out, column in keys if out in not_null}
            kept = tuple(one for one in sets if required <= set(one))
            if kept and len(kept) < len(sets):
                return replace(plan, child=replace(group, sets=kept))
    return None


@on(Filter)
def push_through_expand(plan: Plan, context: Rewriting) -> Plan | None:
    """All copies of a row have its original columns, so a condition on these moves below. A condition on the keys of the
    grouping sets is copied below if each set either has all these keys, or lacks one whose NULL makes the condition not
    true. It also stays above, unless every set has the keys.

    Unsound if the condition can be true for a key that is left out (`k is null`): the set without it needs all rows.
    """
    match plan:
        case Filter(Expand(child, keys, sets) as expand, predicate):
            sources = dict(keys)
            down, rest = split_movable(predicate, lambda _, read: read <= set(child.columns))
            stay: list[Expression] = []
            below: list[Expression] = list(down)
            for part in rest:
                read = movable_columns(part)
                if read is None or not read <= set(sources) or not respects_equality(part):
                    stay.append(part)
                    continue
                left_out = [{key for key in read if sources[key] not in one} for one in sets]
                if any(left_out):
                    stay.append(part)
                if all(not keys or keys & not_null_if_true(part) for keys in left_out):
                    below.append(substitute(part, {key: Ref(sources[key]) for key in read}))
            new = [each for each in below if not holds(child, each)]
            if new or len(stay) < len(conjuncts(predicate)):
                return filtered(replace(expand, child=filtered(child, new)), stay)
    return None


@on(Filter)
def push_through_window(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition on columns that partition every window keeps or drops whole partitions.

    Unsound on any other column: the window functions of the remaining rows would miss the dropped rows.
    """
    match plan:
        case Filter(Window(child, calls) as window, predicate):
            shared = set(child.columns).intersection(
                *({part.column for part in call.partition if isinstance(part, Ref)} for _, call in calls)
            )
            down, stay = split_movable(
                predicate, lambda each, read: bool(read) and read <= shared and respects_equality(each)
            )
            if down:
                return filtered(replace(window, child=filtered(child, down)), stay)
    return None


@on(Filter)
def push_through_sort(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter preserves the order of its rows.

    Unsound for a Limit over the sort, which would keep other rows.
    """
    match plan:
        case Filter(Sort(child) as sort, predicate):
            down, stay = split_movable(predicate, lambda _, read: read <= set(child.columns))
            if down:
                return filtered(replace(sort, child=filtered(child, down)), stay)
    return None


@on(Filter)
def push_through_set_operation(plan: Plan, context: Rewriting) -> Plan | None:
    """Every row of the result equals a row of an input, column by column, so the filter moves to each input.

    Unsound where only Spark knows an input's type: the condition would be evaluated in another type than the result's.
    """
    match plan:
        case Filter(SetOperation() as operation, predicate):
            names = [input_names(operation, place) for place in range(len(operation.inputs))]
            down, stay = split_movable(
                predicate,
                lambda each, read: read <= set(operation.columns) and (operation.all or respects_equality(each)),
            )
            if not down:
                return None
            inputs: list[Plan] = []
            for child, instead in zip(operation.inputs, names, strict=True):
                if instead is None:
                    return None
                inputs.append(filtered(child, (substitute(each, instead) for each in down)))
            return filtered(replace(operation, inputs=tuple(inputs)), stay)
    return None


@on(Filter)
def push_through_process(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition on columns that a processor declares to pass on unchanged from its input row moves below it.

    Unsound for columns that it computes.
    """
    match plan:
        case Filter(Process(readonly=readonly) as process, predicate):
            return _below_user_code(process, readonly, predicate)
    return None


@on(Filter)
def push_through_reduce(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition on ON columns that a reducer passes on keeps or drops whole groups.

    Unsound for other columns that it passes on: the remaining groups would miss rows.
    """
    match plan:
        case Filter(Reduce(keys=keys, readonly=readonly) as reduce, predicate):
            return _below_user_code(reduce, [pair for pair in readonly if pair[1] in keys], predicate)
    return None


def _below_user_code(
    plan: Process | Reduce, readonly: Sequence[tuple[Column, Column]], predicate: Expression
) -> Plan | None:
    made = {out: Ref(column) for out, column in readonly if column.type is not None and out.type == column.type}
    down, stay = split_movable(
        predicate, lambda each, read: bool(read) and read <= set(made) and respects_equality(each)
    )
    if not down:
        return None
    below = filtered(plan.child, (substitute(each, made) for each in down))
    return filtered(replace(plan, child=below), stay)


@on(Filter)
def drop_true_conjuncts(plan: Plan, context: Rewriting) -> Plan | None:
    """Conjuncts that are literally true, or repeated, are dropped; a filter without conjuncts goes.

    A conjunct that is not deterministic is kept each time: every evaluation gives another result.
    """
    match plan:
        case Filter(child, predicate):
            parts = conjuncts(predicate)
            condition = conjunction(parts)
            if condition is None:
                return child
            if condition != predicate:
                return Filter(child, condition)
    return None
