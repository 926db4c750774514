"""Filters go down: to the scans, or as far as they can without changing a row. Joins have a file of their own, `push_join`.

A rule here takes a filter over one operator and puts it, or those of its conjuncts that may go, below. Applied on the way
down (`traverse.descend`), one pass takes a filter as far as it goes. Conjuncts keep their order within a filter, because
what is written first may protect what comes after from an error; like Spark, we let a filter pass another operator all
the same.

What stays above: conjuncts that are not deterministic, for they would be drawn for other rows, and those that read a
correlated subquery. No rule passes a Limit, which keeps other rows once a filter goes below; nor a shared rowset, whose
other uses want their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unshuffle.algebra.expressions import Expression, Ref
from unshuffle.algebra.logical import (
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
from unshuffle.algebra.predicates import conjuncts, is_deterministic, not_null_if_true
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import (
    conjunction,
    definitions,
    filtered,
    input_names,
    moved_by,
    parted,
    respects_equality,
    substitute,
)
from unshuffle.rules.known import holds
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import on


@on(Filter)
def merge_filters(plan: Plan, context: Rewriting) -> Plan | None:
    """Two filters in a row are one; the lower one's conjuncts come first, as they did.

    Not over one that is not deterministic: the upper filter's conjuncts would then pass it on their way down.
    """
    match plan:
        case Filter(Filter(child, first), second) if is_deterministic(first):
            return filtered(child, (*conjuncts(first), *conjuncts(second)))
    return None


@on(Filter)
def push_through_project(plan: Plan, context: Rewriting) -> Plan | None:
    """A projection makes each row from one row, so its rows may be chosen before, by what their columns are made of.

    Not if it makes a random number: that would be drawn for fewer rows, and from a seed the rows left get others.
    """
    match plan:
        case Filter(Project(child, outputs) as project, predicate) if all(is_deterministic(e) for _, e in outputs):
            made = definitions(project)
            down, stay = parted(predicate, lambda _, read: read <= set(project.columns))
            if down:
                below = filtered(child, (substitute(each, made) for each in down))
                return filtered(replace(project, child=below), stay)
    return None


@on(Filter)
def push_through_group_by(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition on grouping columns takes or leaves whole groups, so their rows need not be grouped.

    Not below a GROUP BY of nothing, which yields its one row even if no row is left to go in.
    """
    match plan:
        case Filter(GroupBy(child, keys) as group, predicate) if keys:
            down, stay = parted(predicate, lambda each, read: read <= set(keys) and respects_equality(each))
            if down:
                return filtered(replace(group, child=filtered(child, down)), stay)
        case Filter(Distinct(child), predicate):
            down, stay = parted(predicate, lambda each, read: read <= set(child.columns) and respects_equality(each))
            if down:
                return filtered(Distinct(filtered(child, down)), stay)
    return None


@on(Filter)
def push_through_grouping_sets(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition on columns that every grouping set has goes below, as with GROUP BY.

    Not if some set lacks one of the columns: there it is NULL above, and has a value below.
    """
    match plan:
        case Filter(GroupingSets(child, keys, sets) as group, predicate) if sets:
            everywhere = set(sets[0]).intersection(*sets)
            made = {out: Ref(column) for out, column in keys if column in everywhere}
            down, stay = parted(
                predicate, lambda each, read: bool(read) and read <= set(made) and respects_equality(each)
            )
            if down:
                below = filtered(child, (substitute(each, made) for each in down))
                return filtered(replace(group, child=below), stay)
    return None


@on(Filter)
def drop_rejected_grouping_sets(plan: Plan, context: Rewriting) -> Plan | None:
    """A grouping set that leaves out a column which the filter above wants not to be NULL yields nothing."""
    match plan:
        case Filter(GroupingSets(keys=keys, sets=sets) as group, predicate):
            solid = not_null_if_true(predicate)
            wanted = {column for out, column in keys if out in solid}
            kept = tuple(one for one in sets if wanted <= set(one))
            if kept and len(kept) < len(sets):
                return replace(plan, child=replace(group, sets=kept))
    return None


@on(Filter)
def push_through_expand(plan: Plan, context: Rewriting) -> Plan | None:
    """Copies of a row agree on the columns that it had, so a condition on those is asked of the row. One on keys as the
    sets have them is asked of the row too, if in each set either all these keys are there, or one that is NULL there makes
    the condition not true; then it must still be asked of the copies, unless every set has the keys.

    Not if it can be true of a key that is left out (`k is null`): a set without it needs all rows.
    """
    match plan:
        case Filter(Expand(child, keys, sets) as expand, predicate):
            sources = dict(keys)
            down, rest = parted(predicate, lambda _, read: read <= set(child.columns))
            stay: list[Expression] = []
            below: list[Expression] = list(down)
            for part in rest:
                read = moved_by(part)
                if read is None or not read <= set(sources) or not respects_equality(part):
                    stay.append(part)
                    continue
                left_out = [{key for key in read if sources[key] not in one} for one in sets]
                if any(left_out):
                    stay.append(part)
                if all(not keys or keys & not_null_if_true(part) for keys in left_out):
                    below.append(substitute(part, {key: Ref(sources[key]) for key in read}))
            asked = [each for each in below if not holds(child, each)]
            if asked or len(stay) < len(conjuncts(predicate)):
                return filtered(replace(expand, child=filtered(child, asked)), stay)
    return None


@on(Filter)
def push_through_window(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition on columns that every window is partitioned by takes or leaves whole partitions.

    Not one on any other column: the windows of the rows that stay would miss the rows that went.
    """
    match plan:
        case Filter(Window(child, calls) as window, predicate):
            shared = set(child.columns).intersection(
                *({part.column for part in call.partition if isinstance(part, Ref)} for _, call in calls)
            )
            down, stay = parted(predicate, lambda each, read: bool(read) and read <= shared and respects_equality(each))
            if down:
                return filtered(replace(window, child=filtered(child, down)), stay)
    return None


@on(Filter)
def push_through_sort(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter keeps the order of the rows that it keeps. (A Limit must stay where it is: see above.)"""
    match plan:
        case Filter(Sort(child) as sort, predicate):
            down, stay = parted(predicate, lambda _, read: read <= set(child.columns))
            if down:
                return filtered(replace(sort, child=filtered(child, down)), stay)
    return None


@on(Filter)
def push_through_set_operation(plan: Plan, context: Rewriting) -> Plan | None:
    """A row of the result is equal, column by column, to a row of one input or of both: filter each under its own names.

    Not where an input's type is only known to Spark: the condition would be read at another type than the result has.
    """
    match plan:
        case Filter(SetOperation() as operation, predicate):
            names = [input_names(operation, place) for place in range(len(operation.inputs))]
            down, stay = parted(
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
    """What a processor promises to repeat from the input row it looks at can be asked of that row.

    Not what it computes, which only it knows.
    """
    match plan:
        case Filter(Process(readonly=readonly) as process, predicate):
            return _below_user_code(process, readonly, predicate)
    return None


@on(Filter)
def push_through_reduce(plan: Plan, context: Rewriting) -> Plan | None:
    """A condition on repeated ON columns takes or leaves whole groups.

    Not on other repeated columns: the groups that stay would miss rows.
    """
    match plan:
        case Filter(Reduce(keys=keys, readonly=readonly) as reduce, predicate):
            return _below_user_code(reduce, [pair for pair in readonly if pair[1] in keys], predicate)
    return None


def _below_user_code(
    plan: Process | Reduce, readonly: Sequence[tuple[Column, Column]], predicate: Expression
) -> Plan | None:
    made = {out: Ref(column) for out, column in readonly if column.type is not None and out.type == column.type}
    down, stay = parted(predicate, lambda each, read: bool(read) and read <= set(made) and respects_equality(each))
    if not down:
        return None
    below = filtered(plan.child, (substitute(each, made) for each in down))
    return filtered(replace(plan, child=below), stay)


@on(Filter)
def drop_true_conjuncts(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter that says nothing, or says it twice, says it no more."""
    match plan:
        case Filter(child, predicate):
            parts = conjuncts(predicate)
            condition = conjunction(parts)
            if condition is None:
                return child
            if condition != predicate:
                return Filter(child, condition)
    return None


RULES = (
    drop_true_conjuncts,
    merge_filters,
    push_through_project,
    push_through_group_by,
    drop_rejected_grouping_sets,
    push_through_grouping_sets,
    push_through_expand,
    push_through_window,
    push_through_sort,
    push_through_set_operation,
    push_through_process,
    push_through_reduce,
)
